"""Copy small files in groups: one call reads a group, its names are locked together, and one listing tells which of
them are taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial

from mangrove.configuration import throttle
from mangrove.core import metering
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import stream
from mangrove.core.concurrency import gather_all, gather_bounded
from mangrove.core.problems import (
    AccessDenied,
    BadRequest,
    EntryChanged,
    EntryExists,
    EntryNotFound,
    InUse,
    Problem,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import Upload, WholeFile
from mangrove.drivers.taken import find_taken
from mangrove.tasks.core.file_copy import Copied
from mangrove.tasks.core.files import lock_names
from mangrove.tasks.core.model import ManifestEntry, SourceVersion
from mangrove.tasks.core.verification import StoredCopy
from mangrove.tasks.transfer.step import TransferStep
from mangrove.tree.mounts import StoragePath

MAX_GROUP_FILES = 64
MAX_GROUP_BYTES = 8 << 20  # in memory
GROUP_CONCURRENCY = 2  # a group is read and looked up while another is sent
CHANGED = "the source changed since the task began"

Result = Copied | Problem


async def store_files(step: TransferStep, rows: Sequence[ManifestEntry]) -> list[Result]:
    """Copy small files. Return a result for each.

    EntryExists means that a file has to be copied singly: a file is there, the time is over, or these storages cannot
    read and write in groups.
    """
    results: list[Result] = [EntryExists() for _ in rows]
    source, target = step.route.source.driver, step.target.driver
    if source.capabilities.read_whole and target.capabilities.write and target.capabilities.list_page:
        groups = [partial(_store_group, step, group, results) for group in _split(rows)]
        await gather_bounded(groups, GROUP_CONCURRENCY)
    return results


def _split(rows: Sequence[ManifestEntry]) -> list[dict[int, ManifestEntry]]:
    """Return groups of rows, each by its index."""
    groups: list[dict[int, ManifestEntry]] = [{}]
    size = 0
    for index, row in enumerate(rows):
        size += row.size or 0
        if groups[-1] and (size > MAX_GROUP_BYTES or len(groups[-1]) == MAX_GROUP_FILES):
            groups.append({})
            size = row.size or 0
        groups[-1][index] = row
    return groups


async def _store_group(step: TransferStep, rows: Mapping[int, ManifestEntry], results: list[Result]) -> None:
    if not step.run.has_time():
        return
    files = await _read(step, rows, results)
    targets = {index: step.route.find_target(rows[index].path) for index in files}
    await throttle.wait_for_copy(sum(len(file.content) for file in files.values()))
    try:
        async with lock_names(list(targets.values())):
            taken = await _find_taken(step, targets)
            free = [index for index in files if index not in taken]
            works = [partial(_store, step, targets[index], files[index], index, results) for index in free]
            await gather_all(step.limiter.copy(step.run, work) for work in works)
    except InUse:
        pass  # another change holds one of the names; the files are stored one by one


async def _read(
    step: TransferStep, rows: Mapping[int, ManifestEntry], results: list[Result]
) -> Mapping[int, WholeFile]:
    """Read the files that may be stored and have not changed since they were planned."""
    source = step.route.source
    allowed: list[int] = []
    for index, row in rows.items():
        refusal = step.route.find_refusal(row.path)
        if refusal is None:
            allowed.append(index)
        else:
            results[index] = refusal
    requests = [(source.path / rows[index].path, rows[index].to_entry()) for index in allowed]
    files: dict[int, WholeFile] = {}
    for index, file in zip(allowed, await source.driver.read_whole(requests), strict=True):
        if isinstance(file, WholeFile):
            files[index] = file
        elif isinstance(file, Unreachable):
            raise file
        elif not (isinstance(file, EntryNotFound) and step.is_move):  # a worker that died may have moved it
            results[index] = EntryChanged(CHANGED) if isinstance(file, EntryChanged) else file
    return files


async def _find_taken(step: TransferStep, targets: Mapping[int, StoragePath]) -> set[int]:
    """Return which targets exist.

    If a storage would replace a file, its names are read again after they were locked.
    """
    driver = step.target.driver
    if step.mode.overwrite:
        return set()
    if await driver.can_refuse_existing():
        return {index for index, target in targets.items() if await step.listing.find(target) is not None}
    taken = await find_taken(driver, [target.path for target in targets.values()])
    return {index for index, target in targets.items() if target.path in taken}


async def _store(step: TransferStep, target: StoragePath, file: WholeFile, index: int, results: list[Result]) -> None:
    driver, mode, version = target.driver, step.mode, file.describe()
    upload = Upload(version.size, version.modified, overwrite=mode.overwrite, durable=mode.durable, is_free=True)
    try:
        entry = await driver.write(target.path, stream(file.content), upload)
    except Unreachable:
        raise
    except EntryExists:
        return  # it was stored there meanwhile
    except (StorageProblem, BadRequest, AccessDenied) as problem:
        results[index] = problem
        return
    pass_checkpoint("copy.whole")
    metering.get_meter().add(len(file.content))
    step.run.begin_item(target.path.name)
    step.run.end_item()
    md5 = hashlib.md5(file.content, usedforsecurity=False).hexdigest() if mode.verify else ""
    results[index] = Copied(version, StoredCopy(SourceVersion.of(entry), version.size, md5=md5))
