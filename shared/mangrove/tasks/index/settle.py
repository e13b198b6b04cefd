"""The end of an index run: what was read is laid over the index, swapped as a whole, and its marks go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.paths import TreePath
from mangrove.records.files import index_marks
from mangrove.records.files.index_marks import Mark
from mangrove.search import writing
from mangrove.search.database import DamagedSegment
from mangrove.search.segments import Manifest
from mangrove.search.writing import Fresh
from mangrove.tasks.core import staging
from mangrove.tasks.core.kinds import State
from mangrove.tasks.index import progress as index_progress
from mangrove.tasks.index.lists import IndexRun, get_store, is_wanted, open_base, open_failed, open_marks, read_all


async def clean(run: IndexRun, state: State) -> None:
    """Swap the index, and drop what is needed no more."""
    await run.write_kept()
    storage_id, cursor = run.spec.storage_id, run.cursor
    if not (cursor.is_wanted and await is_wanted(storage_id)):
        run.task = replace(run.task, removed=True)  # with its record
    if run.task.removed or (run.spec.is_drop and state is State.SUCCEEDED):
        await get_store().drop(storage_id)
        await asyncio.to_thread(index_marks.delete_of, storage_id)
        cursor.indexed, cursor.finished = None, ""
    elif cursor.walked and state is not State.CANCELED:
        manifest = await _commit(run)
        cursor.indexed, cursor.finished = manifest.count, manifest.finished
        await _delete_marks(run)
        pass_checkpoint("index.unmarked")
    else:
        await get_store().discard(storage_id)
    await staging.clear(run.task.id)
    await asyncio.to_thread(index_progress.save, run, State.FAILED if run.view.error else state)


async def _commit(run: IndexRun) -> Manifest:
    """Make what was read the index, once: a worker that died after the swap did that."""
    present = await get_store().read_manifest(run.spec.storage_id)
    if present is not None and present.began == run.cursor.began:
        await get_store().discard(run.spec.storage_id)
        return present
    try:
        return await _swap(run)
    except DamagedSegment:
        base = await get_store().open(run.spec.storage_id)
        if base is not None:
            await get_store().drop_damaged(base)
        run.cursor.indexed = None
        raise


async def _swap(run: IndexRun) -> Manifest:
    storage_id, cursor, store = run.spec.storage_id, run.cursor, get_store()
    kept = await read_all(open_failed(run, cursor.failed_count)) if cursor.is_whole else None
    base = await store.open(storage_id) if kept is None or kept else None
    if kept is None and base is None:
        await open_base(run)
    folders, names = await _fetch(run, cursor.folder_files), await _fetch(run, cursor.files)
    folder_count = cursor.folder_count + cursor.shift - cursor.failed_count
    fresh = Fresh(folders, names, cursor.count, folder_count, cursor.shifts)
    work = store.make_work_folder(storage_id)
    name = f"{cursor.generation}-{token_hex(3)}"
    folded = await writing.fold_changes(base, work, name, fresh, kept)
    for file in folded.fresh:
        await store.store(storage_id, file)
    pass_checkpoint("index.folded")
    manifest = Manifest(
        names=folded.names, folders=folded.folders, count=folded.count, folder_count=folded.folder_count,
        began=cursor.began, finished=datetime.now(UTC).isoformat().replace("+00:00", "Z"),
    )  # fmt: skip
    await store.commit(storage_id, manifest)
    pass_checkpoint("index.swapped")
    return manifest


async def _fetch(run: IndexRun, names: Sequence[str]) -> list[Path]:
    return [await get_store().fetch(run.spec.storage_id, name) for name in names]


async def _delete_marks(run: IndexRun) -> None:
    """Delete the marks of what was read, as they were when the run began."""
    failed = {TreePath(path) for path in await read_all(open_failed(run, run.cursor.failed_count))}
    left: list[Mark] = []
    for mark in await read_all(open_marks(run, run.cursor.mark_count)):
        path = TreePath(mark.path)
        if not any(one == path or (mark.deep and one.within(path)) for one in failed):
            left.append(mark)
    await asyncio.to_thread(index_marks.delete, left)
