"""Copy small files in groups: each group is read and stored in few calls, as far as the storages can. Its names are
locked together, and one listing tells which of them are taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
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
from mangrove.drivers.base import Entry, NewFile, Upload, WholeFile
from mangrove.drivers.taken import find_taken
from mangrove.tasks.core import files as task_files
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
    can_look_up = step.is_direct or target.capabilities.list_page
    if target.capabilities.write and can_look_up and (source.capabilities.read_whole or _stores_groups(step)):
        groups = [partial(_store_group, step, group, results) for group in _split(rows)]
        await gather_bounded(groups, GROUP_CONCURRENCY)
    return results


def _stores_groups(step: TransferStep) -> bool:
    """True if one call stores a group. It looks for taken names by itself."""
    return step.is_direct and step.target.driver.capabilities.write_whole


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
    targets = {index: step.route.find_target(row.path) for index, row in rows.items()}
    if step.is_direct and not step.mode.overwrite:
        taken = {index for index, target in targets.items() if await step.listing.find(target) is not None}
        rows = {index: row for index, row in rows.items() if index not in taken}
    files = await _read(step, rows, results)
    await throttle.wait_for_copy(sum(len(file.content) for file in files.values()))
    if _stores_groups(step):
        await _store_together(step, targets, files, results)
        return
    try:
        async with lock_names([targets[index] for index in files]):
            free = files if step.is_direct or step.mode.overwrite else await _find_free(step, targets, files)
            works = [partial(_store, step, targets[index], files[index], index, results) for index in free]
            await gather_all(step.limiter.copy(step.run, work) for work in works)
    except InUse:
        pass  # another change holds one of the names; the files are stored one by one


async def _find_free(
    step: TransferStep, targets: Mapping[int, StoragePath], indexes: Collection[int]
) -> Collection[int]:
    """Return those whose names are free, now that they are locked."""
    taken = await find_taken(step.target.driver, [targets[index].path for index in indexes])
    return [index for index in indexes if targets[index].path not in taken]


async def _read(
    step: TransferStep, rows: Mapping[int, ManifestEntry], results: list[Result]
) -> Mapping[int, WholeFile]:
    """Read the files that may be stored and have not changed since they were planned."""
    source = step.route.source
    allowed: list[int] = []
    for index, row in rows.items():
        refusal = await step.route.find_refusal(row.path)
        if refusal is None:
            allowed.append(index)
        else:
            results[index] = refusal
    if source.driver.capabilities.read_whole:
        requests = [(source.path / rows[index].path, rows[index].to_entry()) for index in allowed]
        contents: Sequence[WholeFile | StorageProblem | None] = await source.driver.read_whole(requests)
    else:
        contents = await gather_all(_read_alone(step, rows[index]) for index in allowed)
    files: dict[int, WholeFile] = {}
    for index, file in zip(allowed, contents, strict=True):
        if file is None:
            continue  # there was no time for it
        if isinstance(file, WholeFile):
            files[index] = file
        elif isinstance(file, Unreachable):
            raise file
        elif not (isinstance(file, EntryNotFound) and step.is_move):  # a worker that died may have moved it
            results[index] = EntryChanged(CHANGED) if isinstance(file, EntryChanged) else file
    return files


async def _read_alone(step: TransferStep, row: ManifestEntry) -> WholeFile | StorageProblem | None:
    """Read a file when its turn comes. Return None if there is no time left for it."""
    results: list[WholeFile | StorageProblem] = []
    source = step.route.source.child(row.path)

    async def read() -> None:
        try:
            content = await task_files.read_range(source, 0, row.size, row.to_entry()) if row.size else b""
            entry = await source.driver.stat(source.path)
        except StorageProblem as problem:
            results.append(problem)
            return
        is_same = row.version.matches(entry) and len(content) == entry.size
        results.append(WholeFile(content, lambda: entry) if is_same else EntryChanged())

    await step.limiter.copy(step.run, read)
    return results[0] if results else None


def _make_upload(step: TransferStep, version: Entry) -> Upload:
    mode = step.mode
    return Upload(version.size, version.modified, overwrite=mode.overwrite, durable=mode.durable, is_free=True)


async def _store_together(
    step: TransferStep, targets: Mapping[int, StoragePath], files: Mapping[int, WholeFile], results: list[Result]
) -> None:
    """Store a group in one call. The storage refuses the names that are taken."""
    versions = {index: file.describe() for index, file in files.items()}
    new_files = [
        NewFile(targets[index].path, file.content, _make_upload(step, versions[index])) for index, file in files.items()
    ]
    for index, stored in zip(files, await step.target.driver.write_whole(new_files), strict=True):
        if isinstance(stored, Unreachable):
            raise stored
        if isinstance(stored, StorageProblem):
            results[index] = stored
        else:
            results[index] = _count_stored(step, versions[index], files[index], stored)
    pass_checkpoint("copy.whole")


async def _store(step: TransferStep, target: StoragePath, file: WholeFile, index: int, results: list[Result]) -> None:
    version = file.describe()
    try:
        entry = await target.driver.write(target.path, stream(file.content), _make_upload(step, version))
    except Unreachable:
        raise
    except EntryExists:
        return  # it was stored there meanwhile
    except (StorageProblem, BadRequest, AccessDenied) as problem:
        results[index] = problem
        return
    pass_checkpoint("copy.whole")
    results[index] = _count_stored(step, version, file, entry)


def _count_stored(step: TransferStep, version: Entry, file: WholeFile, stored: Entry) -> Copied:
    """Show a file as stored, and return the copy."""
    metering.get_meter().add(len(file.content))
    step.run.begin_item(stored.name)
    step.run.end_item()
    md5 = hashlib.md5(file.content, usedforsecurity=False).hexdigest() if step.mode.verify else ""
    return Copied(version, StoredCopy(SourceVersion.of(stored), version.size, md5=md5))
