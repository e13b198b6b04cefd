"""A large transfer in the cloud, shared among workers: each copies the rows of one chunk of the list, and reports how
far it came. The reports are taken over in the order of the chunks."""

from __future__ import annotations

from typing import Any, TypeAlias

from mangrove.core.problems import StorageProblem, UnreadableTask
from mangrove.tasks.core import manifest, partials, sharing
from mangrove.tasks.core.manifest import Manifest
from mangrove.tasks.core.specs import ManifestEntry
from mangrove.tasks.core.steps import MAX_NAMED_FAILURES, Run
from mangrove.tasks.transfer.declaration import TransferCursor, TransferSpec

LEAST_ROWS = 20_000  # left to be copied that are worth it
MOST_PARTS = 200  # that are handed out at once: the machine's input has 256 KiB
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
    return sharing.is_shared() and run.cursor.entry_count - run.cursor.position > LEAST_ROWS


def hand_out(run: TransferRun) -> None:
    """Have workers copy what is next."""
    cursor = run.cursor
    first = cursor.position // manifest.CHUNK
    cursor.handed = min(cursor.entry_count, (first + MOST_PARTS) * manifest.CHUNK) - cursor.position


def describe_parts(run: TransferRun) -> dict[str, Any]:
    """What the machine is to know: `shared`, and the input of the state Part for each chunk that is handed out."""
    return sharing.describe(run, "shared", run.cursor.round, _list_parts(run.cursor))


def _list_parts(cursor: TransferCursor) -> list[int]:
    if not cursor.handed:
        return []
    return list(range(cursor.position // manifest.CHUNK, (cursor.position + cursor.handed - 1) // manifest.CHUNK + 1))


async def find_progress(task_id: str, cursor: TransferCursor, number: int) -> TransferCursor | None:
    """Return how far a part of a task with this cursor came. None if it has not begun, or its report is of another
    version."""
    report = await sharing.find_report(task_id, _make_name("part", cursor, number))
    try:
        return TransferCursor.load(report) if report is not None else None
    except UnreadableTask:
        return None


async def store_progress(task_id: str, cursor: TransferCursor) -> None:
    """Write down how far a part came."""
    assert cursor.part is not None
    await sharing.store_report(task_id, _make_name("part", cursor, cursor.part), cursor.dump())


async def take_over(run: TransferRun) -> None:
    """Count what the workers have copied, up to the first of them that has not come to its end; StorageProblem when
    that is nothing, again and again."""
    cursor = run.cursor
    failed, start = open_failed(run, cursor), cursor.position
    for number in _list_parts(cursor):
        part = await find_progress(run.task.id, cursor, number)
        if part is None or part.position < part.entry_count:
            break
        await sharing.append_rows(open_failed(run, part), 0, failed)
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
    if cursor.tries >= sharing.MAX_FRUITLESS_ROUNDS:
        raise StorageProblem(LOST)


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
