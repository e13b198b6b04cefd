"""The end of an index run: a new index is made of the changes and the names that were read.

It replaces the old one atomically.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.paths import TreePath
from mangrove.core.problems import SearchTooSlow
from mangrove.records import index_changes
from mangrove.records.index_changes import ChangeKind, IndexChange
from mangrove.search import folding
from mangrove.search.calls import DamagedSegment
from mangrove.search.folding import Folded, Fresh
from mangrove.search.segments import IndexManifest, Segments
from mangrove.tasks.core import staging
from mangrove.tasks.core.model import State
from mangrove.tasks.index.indexing import save_progress
from mangrove.tasks.index.lists import (
    IndexRun,
    RequestedRead,
    get_store,
    open_base,
    open_failed,
    open_reads,
    read_all,
    should_have_index,
)

MAX_CHANGES = 20_000  # of one storage that a failed run keeps


async def clean(run: IndexRun, state: State) -> None:
    """Replace the index, and remove files that are not needed any more."""
    await run.flush()
    storage_id, cursor = run.spec.storage_id, run.cursor
    if not (cursor.is_wanted and await should_have_index(storage_id)):
        run.task = replace(run.task, removed=True)  # together with its record
    if run.task.removed or (run.spec.is_drop and state is State.SUCCEEDED):
        await get_store().drop(storage_id)
        await asyncio.to_thread(index_changes.delete_of, storage_id)
        cursor.indexed, cursor.finished = None, ""
    elif cursor.walked and state is not State.CANCELED:
        manifest = await _commit(run)
        cursor.indexed, cursor.finished = manifest.count, manifest.finished
        await _delete_changes(run)
        pass_checkpoint("index.unmarked")
    else:
        await get_store().discard(storage_id)
        await asyncio.to_thread(_bound_changes, storage_id)
    await staging.clear(run.task.id)
    await asyncio.to_thread(save_progress, run, State.FAILED if run.view.error else state)


def _bound_changes(storage_id: int) -> None:
    """Replace too many changes by a single one that requires the whole storage to be read, if runs do not succeed."""
    if len(index_changes.read_of(storage_id)) > MAX_CHANGES:
        index_changes.delete_of(storage_id)
        index_changes.add(IndexChange(storage_id, ChangeKind.READ, "/", True))


async def _commit(run: IndexRun) -> IndexManifest:
    """Replace the index, unless a worker that died has done so."""
    present = await get_store().read_manifest(run.spec.storage_id)
    if present is not None and present.began == run.cursor.began and not present.partial:
        await get_store().discard(run.spec.storage_id)
        return present
    try:
        return await _swap(run)
    except DamagedSegment as damaged:
        base = await get_store().open(run.spec.storage_id)
        if base is not None:
            await get_store().drop_damaged(base, damaged.data)
        run.cursor.indexed = None
        raise


async def _swap(run: IndexRun) -> IndexManifest:
    storage_id, cursor, store = run.spec.storage_id, run.cursor, get_store()
    unread = await read_all(open_failed(run, cursor.failed_count)) if cursor.is_whole else None
    folded = await _merge(run, await _open_earlier(run), unread)
    for file in folded.fresh:
        await store.store(storage_id, file)
    pass_checkpoint("index.folded")
    manifest = IndexManifest(
        names=folded.names, folders=folded.folders, count=folded.count, folder_count=folded.folder_count,
        began=cursor.began, finished=datetime.now(UTC).isoformat().replace("+00:00", "Z"), merged=cursor.merged,
    )  # fmt: skip
    await store.commit(storage_id, manifest)
    pass_checkpoint("index.swapped")
    return manifest


async def _open_earlier(run: IndexRun) -> Segments | None:
    """Return the present index, None if a whole walk finds none, or an unfinished one."""
    if not run.cursor.is_whole:
        return await open_base(run)
    segments = await get_store().open(run.spec.storage_id)
    return None if segments is None or segments.manifest.partial else segments


async def _merge(run: IndexRun, earlier: Segments | None, unread: Sequence[str] | None) -> Folded:
    """Return the next index: the present one with the changes since, in which the names that were read replace the
    older ones.

    `unread`: the only folders of which the present names stay; None if those of all folders that were not read stay.
    """
    cursor, work = run.cursor, get_store().make_work_folder(run.spec.storage_id)
    name = f"{cursor.generation}-{token_hex(3)}"
    merged = None
    if earlier is not None:
        try:
            merged = await _merge_changes(run, earlier, work, f"{name}-merged")
        except SearchTooSlow:
            if unread is None or unread:
                raise
            earlier = None  # a whole walk does not need it: only the users who changed files are lost
    if earlier is not None and merged is not None:
        earlier = folding.open_folded(earlier, merged, work)
    if merged is not None and not cursor.files and not cursor.is_whole:
        return merged
    base = earlier if unread is None or unread else None
    folders, names = await _fetch(run, cursor.folder_files), await _fetch(run, cursor.files)
    folder_count = cursor.folder_count + cursor.shift - cursor.failed_count
    fresh = Fresh(folders, names, cursor.count, folder_count, cursor.shifts)
    folded = await folding.fold_changes(base, work, name, fresh, unread, earlier)
    older = merged.fresh if merged is not None else ()
    return replace(folded, fresh=(*folded.fresh, *(path for path in older if path.name in folded.files)))


async def _merge_changes(run: IndexRun, earlier: Segments, work: Path, name: str) -> Folded | None:
    """Return the earlier index with the changes since, None if there are none."""
    known, last = await asyncio.to_thread(index_changes.read_of, run.spec.storage_id), earlier.manifest.merged
    changes = [change for change in known if last < change.number <= run.cursor.merged]
    return await folding.merge_changes(earlier, work, name, changes) if changes else None


async def _fetch(run: IndexRun, names: Sequence[str]) -> list[Path]:
    return [await get_store().fetch(run.spec.storage_id, name) for name in names]


async def _delete_changes(run: IndexRun) -> None:
    """Delete the changes that the index has now.

    Request a read of folders that could not be read, or changed meanwhile.
    """
    cursor, storage_id = run.cursor, run.spec.storage_id
    failed = {TreePath(path) for path in await read_all(open_failed(run, cursor.failed_count))}
    reads = await read_all(open_reads(run, cursor.read_count))
    again = [(read.path, read.deep) for read in reads if any(_has_failed(read, path) for path in failed)]
    numbers = {read.number for read in reads}
    changes = await asyncio.to_thread(index_changes.read_of, storage_id)
    last_index = max((change.number for change in changes if change.kind is ChangeKind.INDEX), default="")
    merged = []
    for change in changes:
        if change.kind is ChangeKind.INDEX:
            is_merged = change.number < last_index
        elif change.kind in (ChangeKind.INTENT, ChangeKind.READ):
            is_merged = change.number in numbers
        else:
            is_merged = change.number <= cursor.merged
        if is_merged:
            merged.append(change.number)
        elif cursor.folder_count and change.kind in (ChangeKind.MOVE, ChangeKind.COPY):
            # it may have been read before, after, or in part
            again += [(change.path, True), (change.target, True)]
        elif change.removed:  # which also removes what was read below the name
            removed = [TreePath(change.path) / name for name in change.removed]
            again += [(read.path, read.deep) for read in reads if _is_removed(read, removed)]
    rows = [IndexChange(storage_id, ChangeKind.READ, path, deep) for path, deep in dict.fromkeys(again)]
    await asyncio.to_thread(index_changes.write, index_changes.number_changes(rows), merged)


def _is_removed(read: RequestedRead, removed: Sequence[TreePath]) -> bool:
    """True if a removal takes away what was read: the name itself, or something at or below it."""
    path = TreePath(read.path)
    return any(path.within(name) or name.parent == path or (read.deep and name.within(path)) for name in removed)


def _has_failed(read: RequestedRead, path: TreePath) -> bool:
    return path == read.path or (read.deep and path.within(TreePath(read.path)))
