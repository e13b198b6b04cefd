"""A large transfer in the cloud, shared among workers: each copies the rows of one chunk of the list, and what came of
it is taken over in their order.

A worker holds nothing of the task. How far it came is in staging, so that the next one goes on with that; what two of
them do at once they do twice, as after a death.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from mangrove.core.platform import platform
from mangrove.core.problems import StorageProblem
from mangrove.tasks.core import manifest, partials
from mangrove.tasks.core.manifest import Manifest, ManifestLost
from mangrove.tasks.core.specs import ManifestEntry
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES, Run
from mangrove.tasks.transfer.declaration import TransferCursor, TransferSpec

LEAST_ROWS = 20_000  # left to be copied that are worth it
MOST_PARTS = 200  # that are handed out at once: the machine's input has 256 KiB
TRIES = 3  # of parts of which nothing came
LOST = "a part of the entries was not copied"

TransferRun: TypeAlias = Run[TransferSpec, TransferCursor]


def open_failed(run: TransferRun, cursor: TransferCursor) -> Manifest[ManifestEntry]:
    """The list of what a part could not copy, or, where `cursor` is the task's, all of it."""
    if cursor.part is None:
        return manifest.open_entries(run.task.id, cursor.round + 1, cursor.failed_count, cursor.only_entry)
    name = _make_name("failed", cursor, cursor.part)
    return Manifest(run.task.id, name, cursor.failed_count, ManifestEntry._make)


def _make_name(word: str, cursor: TransferCursor, number: int) -> str:
    """The name of what a part keeps; the next run of a task begins its parts anew."""
    return f"{word}-{cursor.attempt}-{cursor.round}-{number}"


def is_to_be_shared(run: TransferRun) -> bool:
    """Whether so much is left that several workers are to copy it."""
    return is_shared() and run.cursor.entry_count - run.cursor.position > LEAST_ROWS


def is_shared() -> bool:
    """Whether there are several workers: one machine has one process."""
    return not platform().single_task_process


def hand_out(run: TransferRun) -> None:
    """Have workers copy what is next."""
    cursor = run.cursor
    first = cursor.position // manifest.CHUNK
    cursor.handed = min(cursor.entry_count, (first + MOST_PARTS) * manifest.CHUNK) - cursor.position


def describe_parts(run: TransferRun) -> dict[str, Any]:
    """What the machine is to know: `shared`, and the input of the state Part for each chunk that is handed out."""
    cursor = run.cursor
    numbers = [] if run.task.done else _list_parts(cursor)
    return {
        "shared": bool(numbers),
        "parts": [{"tid": run.task.id, "round": cursor.round, "part": number} for number in numbers],
    }


def _list_parts(cursor: TransferCursor) -> list[int]:
    if not cursor.handed:
        return []
    return list(range(cursor.position // manifest.CHUNK, (cursor.position + cursor.handed - 1) // manifest.CHUNK + 1))


def _open_progress(task_id: str, cursor: TransferCursor, number: int, count: int) -> Manifest[dict[str, Any]]:
    """The list whose only row is how far a part came."""
    return Manifest(task_id, _make_name("part", cursor, number), count, dict)


async def find_progress(task_id: str, cursor: TransferCursor, number: int) -> TransferCursor | None:
    """How far a part of a task with this cursor came; None when it has not begun."""
    try:
        (found,) = await _open_progress(task_id, cursor, number, 1).read_rows(0)
    except ManifestLost:
        return None
    return TransferCursor.load(found)


async def store_progress(task_id: str, cursor: TransferCursor) -> None:
    """Write down how far a part came."""
    assert cursor.part is not None
    rows = _open_progress(task_id, cursor, cursor.part, 0)
    await rows.append(cursor.dump())
    await rows.flush()


async def take_over(run: TransferRun) -> None:
    """Count what the workers have copied, up to the first of them that has not come to its end; StorageProblem when
    that is nothing, again and again."""
    cursor = run.cursor
    failed, start = open_failed(run, cursor), cursor.position
    for number in _list_parts(cursor):
        part = await find_progress(run.task.id, cursor, number)
        if part is None or part.position < part.entry_count:
            break
        await _append(open_failed(run, part), failed)
        cursor.bytes_done += part.bytes_done
        cursor.errors = (cursor.errors + part.errors)[:MAX_NAMED_FAILURES]
        cursor.has_receipts = cursor.has_receipts or part.has_receipts
        cursor.position = part.entry_count
    await failed.flush()
    cursor.failed_count = failed.count
    cursor.handed = 0
    cursor.tries = 0 if cursor.position > start else cursor.tries + 1
    run.show_progress(cursor.bytes_done)
    await run.save()
    if cursor.tries >= TRIES:
        raise StorageProblem(LOST)


async def _append(source: Manifest[ManifestEntry], target: Manifest[ManifestEntry]) -> None:
    start = 0
    while rows := await source.read_rows(start):
        start += len(rows)
        for row in rows:
            await target.append(row)


async def abandon_parts(run: TransferRun) -> None:
    """Drop the files that workers have begun to store and will not finish."""
    cursor = run.cursor
    for number in _list_parts(cursor):
        part = await find_progress(run.task.id, cursor, number)
        if part is None:
            continue
        cursor.has_receipts = cursor.has_receipts or part.has_receipts
        if part.partial is not None:
            cursor.partial = part.partial
            await partials.abandon_partial(run)
    cursor.handed = 0
