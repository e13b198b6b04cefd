"""Small files that are read whole and stored: a group of them is read by one call, its names are held by one, and one
listing tells which of them are taken."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial

from mangrove.configuration import throttle
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import stream
from mangrove.core.concurrency import gather_bounded
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
from mangrove.drivers.base import Entry, Upload, WholeFile
from mangrove.drivers.taken import find_taken
from mangrove.tasks.core.endpoints import Endpoint, hold_names
from mangrove.tasks.core.file_copy import Copied, gather_all
from mangrove.tasks.core.specs import ManifestEntry, SourceVersion
from mangrove.tasks.core.verification import Stored
from mangrove.tasks.transfer.step import TransferStep

GROUP = 64  # files whose names are held together
GROUP_BYTES = 8 << 20  # of them, in memory
GROUPS_AT_ONCE = 2  # one is read and looked up while the other is sent
CHANGED = "the source changed since the task began"

Result = Copied | Problem


async def store_files(work: TransferStep, rows: Sequence[ManifestEntry]) -> list[Result]:
    """What became of small files; EntryExists for those that are to be looked at one by one: something is there, the
    time is over, or these two storages have no such powers."""
    results: list[Result] = [EntryExists() for _ in rows]
    source, target = work.route.source.driver, work.target.driver
    if source.capabilities.read_whole and target.capabilities.write and target.capabilities.list_page:
        groups = [partial(_store_group, work, group, results) for group in _split(rows)]
        await gather_bounded(groups, GROUPS_AT_ONCE)
    return results


def _split(rows: Sequence[ManifestEntry]) -> list[dict[int, ManifestEntry]]:
    """Groups of rows, each by its place."""
    groups: list[dict[int, ManifestEntry]] = [{}]
    size = 0
    for index, row in enumerate(rows):
        size += row.size or 0
        if groups[-1] and (size > GROUP_BYTES or len(groups[-1]) == GROUP):
            groups.append({})
            size = row.size or 0
        groups[-1][index] = row
    return groups


async def _store_group(work: TransferStep, rows: Mapping[int, ManifestEntry], results: list[Result]) -> None:
    if not work.run.has_time():
        return
    files = await _read(work, rows, results)
    targets = {index: work.route.find_target(rows[index].path) for index in files}
    await throttle.wait_for_copy(sum(len(file.content) for file in files.values()))
    try:
        async with hold_names(list(targets.values())):
            taken = await _find_taken(work, targets)
            free = [index for index in files if index not in taken]
            works = [partial(_store, work, targets[index], files[index], index, results) for index in free]
            await gather_all(work.lanes.copy(work.run, one) for one in works)
    except InUse:
        pass  # one of the names is; the others are stored one by one


async def _read(
    work: TransferStep, rows: Mapping[int, ManifestEntry], results: list[Result]
) -> Mapping[int, WholeFile]:
    """The files that may be stored and still are what was planned."""
    source = work.route.source
    allowed: list[int] = []
    for index, row in rows.items():
        refusal = work.route.find_refusal(row.path)
        if refusal is None:
            allowed.append(index)
        else:
            results[index] = refusal
    shown = [((source / row.path).path, _make_entry(row)) for row in map(rows.__getitem__, allowed)]
    files: dict[int, WholeFile] = {}
    for index, file in zip(allowed, await source.driver.read_whole(shown), strict=True):
        if isinstance(file, WholeFile):
            files[index] = file
        elif isinstance(file, Unreachable):
            raise file
        elif not (isinstance(file, EntryNotFound) and work.is_move):  # a worker that died may have moved it
            results[index] = EntryChanged(CHANGED) if isinstance(file, EntryChanged) else file
    return files


def _make_entry(row: ManifestEntry) -> Entry:
    return Entry(row.path, row.size, row.modified, False, etag=row.etag)


async def _find_taken(work: TransferStep, targets: Mapping[int, Endpoint]) -> set[int]:
    """Where something is. Asked anew where the storage would replace it: others may have been at the names until
    they were held."""
    driver = work.target.driver
    if work.mode.overwrite:
        return set()
    if await driver.can_refuse_existing():
        return {index for index, target in targets.items() if await work.listing.find(target) is not None}
    found = await find_taken(driver, [target.path for target in targets.values()])
    return {index for index, target in targets.items() if target.path in found}


async def _store(work: TransferStep, target: Endpoint, file: WholeFile, index: int, results: list[Result]) -> None:
    driver, mode, version = target.driver, work.mode, file.entry
    upload = Upload(version.size, version.modified, overwrite=mode.overwrite, durable=mode.durable, is_free=True)
    try:
        entry = await driver.write(target.path, stream(file.content), upload)
    except Unreachable:
        raise
    except EntryExists:
        return  # it came there just now
    except (StorageProblem, BadRequest, AccessDenied) as problem:
        results[index] = problem
        return
    pass_checkpoint("copy.whole")
    md5 = hashlib.md5(file.content, usedforsecurity=False).hexdigest() if mode.verify else ""
    results[index] = Copied(version, Stored(SourceVersion.of(entry), version.size, md5=md5))
