"""The machine that downloads files: Begin calls the tool, Poll reads its progress, Settle cleans up.

The files are stored in staging, and a transfer continues with them. The tool SimpleHttp is part of this service: its
Poll fetches the file part by part, and continues after an interruption if the server supports that.
"""

from __future__ import annotations

import asyncio
import time

from mangrove import configuration
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.platform import platform
from mangrove.core.problems import Problem, StorageProblem, Unreachable
from mangrove.tasks.core import queue, staging
from mangrove.tasks.core.model import DELETE_NEVER, DELETE_POLICIES, State
from mangrove.tasks.core.partials import drop_partial, drop_receipts
from mangrove.tasks.download.declaration import DownloadCursor
from mangrove.tasks.download.fetching import (
    DownloadRun,
    chain_transfer,
    fetch_on,
    get_stage,
    limit_size,
    resolve_target,
)
from mangrove.tasks.download.listed import begin_list, clean_list, fetch_list
from mangrove.tools import registry
from mangrove.tools.base import DownloadStatus, DownloadTool
from mangrove.tools.registry import SIMPLE_HTTP

STEP_SECONDS = 60.0  # in the standalone service; long, since every step is a request to the server
MAX_MISSED_CALLS = 5  # consecutive calls that a tool may leave unanswered
MIN_POLL_INTERVAL_SECONDS = 3


async def begin(run: DownloadRun) -> bool:
    """Pass the URL to its tool, or start the list."""
    await resolve_target(run)
    if run.spec.count:
        if run.cursor.attempt != run.task.attempt:
            begin_list(run)
        return True
    if run.cursor.attempt != run.task.attempt:
        run.cursor = DownloadCursor(attempt=run.task.attempt, started=time.time())
    if run.spec.tool != SIMPLE_HTTP:
        await _give_to_tool(run)
    return True


async def _give_to_tool(run: DownloadRun) -> None:
    """Start the download in the tool, or continue the one that was started for another process."""
    tool = await _get_tool(run.spec.tool)
    folder = await asyncio.to_thread(staging.make_shared_folder, get_stage(run), staging.BODY)
    url, key, token = run.spec.url, f"{run.task.id}-{run.task.attempt}", run.cursor.token
    if token is None:
        registry.require_offered(run.spec.tool, configuration.cached().settings)
        run.cursor.token = await tool.add(url, folder, key)
        pass_checkpoint("download.submitted")
    else:
        run.cursor.token = await tool.resume(token, url, folder, key)


async def poll(run: DownloadRun) -> bool:
    """Read the progress of the tool, or fetch more. Enqueue the transfer when all files are complete."""
    await resolve_target(run)
    if run.spec.count:
        return await fetch_list(run)
    if run.spec.tool != SIMPLE_HTTP:
        return await _poll_tool(run)
    if not run.cursor.complete and await fetch_on(run):
        return True
    await chain_transfer(run, run.spec.delete_policy)
    return False


async def _get_tool(name: str) -> DownloadTool:
    return registry.make_tool(name, (await configuration.get()).settings)


async def _poll_tool(run: DownloadRun) -> bool:
    cursor, name = run.cursor, run.spec.tool
    tool = await _get_tool(name)
    try:
        status = await tool.get_status(cursor.token or "")
    except Unreachable as problem:
        cursor.missed += 1
        if cursor.missed > MAX_MISSED_CALLS:
            raise StorageProblem(
                f"failed to get status of {run.task.id}, retried {MAX_MISSED_CALLS} times"
            ) from problem
        return _wait(run)
    cursor.missed, cursor.token = 0, status.token
    if status.error:
        raise StorageProblem(f"[{name}]: {status.error}")
    limit_size(max(status.total, status.downloaded), configuration.cached().settings.offline_download_max_size)
    run.view.status, run.view.total_bytes = status.text, status.total
    run.show_progress(status.downloaded)
    if not status.done:
        return _wait(run)
    return await _finish_tool(run, tool, status)


def _wait(run: DownloadRun) -> bool:
    """Poll again later. The interval grows, so that the history of a cloud execution lasts for weeks."""
    elapsed = int(time.time() - run.cursor.started)
    run.wait = min(max(MIN_POLL_INTERVAL_SECONDS, elapsed // 20), platform().max_poll_interval_seconds)
    return True


async def _finish_tool(run: DownloadRun, tool: DownloadTool, status: DownloadStatus) -> bool:
    """Enqueue the transfer of complete files. They stay in place while the tool still uploads them to others."""
    cursor = run.cursor
    if status.seeds_forever:
        await staging.pin(get_stage(run))
    shared = status.seeding or status.seeds_forever or cursor.shared
    await staging.sync(staging.get_path(get_stage(run), staging.BODY))
    await chain_transfer(run, DELETE_NEVER if shared else run.spec.delete_policy)
    if status.seeding:
        cursor.shared = True
        run.view.status = "offline download completed, waiting for seeding"
        return _wait(run)
    if cursor.shared:
        chained = await asyncio.to_thread(queue.find_chained, get_stage(run))
        if chained is not None and not chained.done:
            return _wait(run)
    await tool.remove_completed(cursor.token or "")
    return False


async def clean(run: DownloadRun, state: State) -> None:
    """End the work of the tool, and remove files from staging that no transfer needs."""
    shared, succeeded = run.cursor.shared, state is State.SUCCEEDED
    await run.flush()
    if run.cursor.partial is not None:
        await drop_partial(run)
    await drop_receipts(run)
    if run.spec.count:
        await clean_list(run, is_final=succeeded or run.task.removed)
        return
    if not succeeded or run.task.removed:
        await _stop_tool(run)
    if succeeded and not shared:
        return  # the transfer removes what is staged
    chained = await asyncio.to_thread(queue.find_chained, get_stage(run))
    if succeeded:
        policy = DELETE_POLICIES.get(run.spec.delete_policy, ())
        needed = chained is not None and chained.view.state not in policy
    else:
        needed = chained is not None and not shared
    if not needed:
        await staging.clear(get_stage(run))


async def _stop_tool(run: DownloadRun) -> None:
    if run.cursor.token is None:
        return
    try:
        await (await _get_tool(run.spec.tool)).remove(run.cursor.token)
    except Problem:
        pass  # the tool does not answer; it forgets the download after a while
