"""Fetches the URLs of a list: small files together, large ones in parts, and one transfer for each group of files.

A URL that fails is recorded, and the others continue.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial

from mangrove import configuration
from mangrove.configuration import throttle
from mangrove.core.chunked import split_chunks, stream
from mangrove.core.concurrency import gather_bounded
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, RecordsUnavailable, Unreachable
from mangrove.tasks.core import queue, staging
from mangrove.tasks.core.leases import Superseded
from mangrove.tasks.core.model import ManifestEntry
from mangrove.tasks.core.partials import drop_partial
from mangrove.tasks.core.requested import RequestedRows, continue_rows
from mangrove.tasks.core.steps import SAVE_INTERVAL_SECONDS, Cancelled
from mangrove.tasks.download.declaration import DownloadCursor
from mangrove.tasks.download.fetching import DownloadRun, chain_transfer, fetch_on, get_stage, limit_size, make_upload
from mangrove.tools import registry

MAX_SMALL_BYTES = 4 << 20  # of a file that is fetched together with others
SMALL_CONCURRENCY = 8  # files; so many of them are in memory
SMALL_SECONDS = 30.0  # after which a file is fetched in parts
MAX_GROUP_ROWS = 96  # URLs whose files one transfer stores
FETCH_ATTEMPTS = 3  # of a URL whose server does not answer
FETCH_RETRY_SECONDS = 1.0  # before the second attempt, doubled for the next
TASK_PROBLEMS = (Cancelled, Superseded, RecordsUnavailable)  # they are not of one URL


class _LargeFile(Exception):
    """A file has to be fetched in parts."""


def begin_list(run: DownloadRun) -> None:
    """Start a run over the list, with the URLs that are left or that failed."""
    rows = continue_rows(run.cursor.rows, run.spec.count)
    run.cursor = DownloadCursor(
        attempt=run.task.attempt, started=time.time(), rows=rows, group_start=rows.position,
        group_failures=rows.failed_count,
    )  # fmt: skip


async def fetch_list(run: DownloadRun) -> bool:
    """Fetch the next URLs. True if there are more."""
    _repeat_group_after_boot(run)
    rows = RequestedRows(run.task.id, run.cursor.rows)
    try:
        return await _fetch_rows(run, rows)
    finally:
        await rows.flush()  # the cursor counts the rows that failed


async def _fetch_rows(run: DownloadRun, rows: RequestedRows) -> bool:
    saved = time.monotonic()
    while True:
        if await _fetch_large_rows(run, rows):
            return True
        if rows.is_over or run.cursor.rows.position - run.cursor.group_start >= MAX_GROUP_ROWS:
            await _end_group(run, rows)
        if rows.is_over:
            break
        await _fetch_small_rows(run, rows)
        if time.monotonic() - saved > SAVE_INTERVAL_SECONDS:
            await _save(run, rows)
            saved = time.monotonic()
        if not run.has_time():
            return True
    rows.raise_failures()
    return False


def _repeat_group_after_boot(run: DownloadRun) -> None:
    """Fetch the files of the present group again if the computer has started since: they may have lost their bytes."""
    boot = platform().read_boot_id()
    if run.cursor.boot not in ("", boot):
        repeat_group(run)
    run.cursor.boot = boot


def repeat_group(run: DownloadRun) -> None:
    """Return to the first URL of the present group, whose files no transfer has."""
    cursor = run.cursor
    cursor.rows.position, cursor.rows.failed_count = cursor.group_start, cursor.group_failures
    cursor.large_rows, cursor.group_files, cursor.url, cursor.complete = [], 0, "", False


async def _save(run: DownloadRun, rows: RequestedRows) -> None:
    await rows.flush()
    run.view.progress = round(rows.progress.position / rows.progress.row_count * 100, 4)
    await run.save()


async def _end_group(run: DownloadRun, rows: RequestedRows) -> None:
    """Enqueue the transfer of the files of the group, once: the position is saved before."""
    cursor = run.cursor
    if cursor.group_files:
        await _save(run, rows)
        await staging.sync(staging.get_path(get_stage(run), staging.BODY))
        await chain_transfer(run, run.spec.delete_policy)
    cursor.group += 1
    cursor.group_files, cursor.group_start = 0, cursor.rows.position
    cursor.group_failures = cursor.rows.failed_count
    await _save(run, rows)


async def _fetch_small_rows(run: DownloadRun, rows: RequestedRows) -> None:
    """Fetch the next URLs together. Those of large files are remembered."""
    cursor = run.cursor
    batch = await rows.read(cursor.rows.position, SMALL_CONCURRENCY)
    results = await gather_bounded([partial(_fetch_small, run, row) for row in batch], SMALL_CONCURRENCY)
    for index, (row, result) in enumerate(zip(batch, results, strict=True)):
        if result is None:
            cursor.group_files += 1
        elif isinstance(result, Problem):
            await rows.add_failure(row, result)
        else:
            cursor.large_rows = [*cursor.large_rows, cursor.rows.position + index]
    cursor.rows.position += len(batch)


async def _fetch_small(run: DownloadRun, row: ManifestEntry) -> Problem | _LargeFile | None:
    """Fetch a file completely. Return the reason if that fails, or that it has to be fetched in parts."""
    for attempt in range(FETCH_ATTEMPTS):
        try:
            async with asyncio.timeout(SMALL_SECONDS):
                await _store_small(run, row.path)
            return None
        except Unreachable as problem:
            if attempt == FETCH_ATTEMPTS - 1:
                return problem
            await asyncio.sleep(FETCH_RETRY_SECONDS * 2**attempt)
        except RecordsUnavailable:
            raise
        except Problem as problem:
            return problem
        except (_LargeFile, TimeoutError):
            return _LargeFile()
    return None


async def _store_small(run: DownloadRun, url: str) -> None:
    from mangrove.tools import http  # it needs httpx, which takes long to import

    settings = (await configuration.get()).settings
    max_size = settings.offline_download_max_size
    async with http.fetch(url, registry.make_address_policy(settings), 0, "") as answer:
        limit_size(answer.size or 0, max_size)
        if (answer.size or 0) > MAX_SMALL_BYTES:
            raise _LargeFile
        pieces = split_chunks(throttle.limit_server_download(answer.iter_blocks()), MAX_SMALL_BYTES + 1)
        content = await anext(pieces, b"")
        limit_size(len(content), max_size)
        if len(content) > MAX_SMALL_BYTES:
            raise _LargeFile
        name = f"{staging.BODY}/{answer.name}"
        await staging.store(get_stage(run), name, stream(content), make_upload(len(content)))


async def _fetch_large_rows(run: DownloadRun, rows: RequestedRows) -> bool:
    """Fetch the large files one by one, in parts. True if there is more."""
    cursor = run.cursor
    while cursor.large_rows:
        (row,) = await rows.read(cursor.large_rows[0], 1)
        cursor.url = row.path
        try:
            if not cursor.complete and await fetch_on(run):
                return True
            cursor.group_files += 1
        except TASK_PROBLEMS:
            raise
        except Problem as problem:
            await drop_partial(run)
            await rows.add_failure(row, problem)
        cursor.large_rows, cursor.url, cursor.complete = cursor.large_rows[1:], "", False
        await _save(run, rows)
        if cursor.large_rows and not run.has_time():
            return True
    return False


async def clean_list(run: DownloadRun, *, is_final: bool) -> None:
    """Remove staged files that no transfer has, and return to their URLs. `is_final`: no retry needs the list."""
    if await asyncio.to_thread(queue.find_chained, get_stage(run)) is None:
        await staging.clear(get_stage(run))
        repeat_group(run)
    if is_final:
        await staging.clear(run.task.id)
