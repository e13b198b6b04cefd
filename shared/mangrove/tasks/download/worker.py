"""The machine that downloads files: Begin calls the tool, Poll reads its progress, Settle cleans up.

The files are stored in staging, and a transfer continues with them. The tool SimpleHttp is part of this service: its
Poll fetches the file part by part, and continues after an interruption if the server supports that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TypeAlias

from mangrove import configuration
from mangrove.configuration import throttle
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import split_chunks, stream
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryNotFound, Problem, StorageProblem, Unreachable
from mangrove.drivers.base import Driver, Upload, list_all, make_parts_key
from mangrove.identity.rights import Right
from mangrove.tasks.core import authorization, files, model, queue, staging
from mangrove.tasks.core.file_copy import MAX_PARTS, is_save_due
from mangrove.tasks.core.model import DELETE_NEVER, DELETE_POLICIES, PartialFile, State
from mangrove.tasks.core.partials import PartReceipts, drop_partial, drop_receipts, find_receipts, is_torn
from mangrove.tasks.core.staging import StagedPath
from mangrove.tasks.core.steps import Run
from mangrove.tasks.download.declaration import DownloadCursor, DownloadSpec
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tools import http, registry
from mangrove.tools.base import Status, Tool
from mangrove.tools.registry import SIMPLE_HTTP

STEP_SECONDS = 60.0  # in the standalone service; long, since every step is a request to the server
IN_FLIGHT_BYTES = 16 << 20
MAX_MISSED_CALLS = 5  # consecutive calls that a tool may leave unanswered
MIN_POLL_INTERVAL_SECONDS = 3
MIB = 1 << 20

DownloadRun: TypeAlias = Run[DownloadSpec, DownloadCursor]


async def begin(run: DownloadRun) -> bool:
    """Pass the URL to its tool."""
    await _resolve_target(run)
    if run.cursor.attempt != run.task.attempt:
        run.cursor = DownloadCursor(attempt=run.task.attempt, started=time.time())
    if run.spec.tool != SIMPLE_HTTP:
        await _give_to_tool(run)
    return True


async def _give_to_tool(run: DownloadRun) -> None:
    """Start the download in the tool, or continue the one that was started for another process."""
    tool = await _get_tool(run.spec.tool)
    folder = await asyncio.to_thread(staging.make_shared_folder, _get_stage(run), staging.BODY)
    url, key, token = run.spec.url, f"{run.task.id}-{run.task.attempt}", run.cursor.token
    if token is None:
        registry.require_offered(run.spec.tool, configuration.cached().settings)
        run.cursor.token = await tool.add(url, folder, key)
        pass_checkpoint("download.submitted")
    else:
        run.cursor.token = await tool.resume(token, url, folder, key)


async def poll(run: DownloadRun) -> bool:
    """Read the progress of the tool, or fetch more. Enqueue the transfer when all files are complete."""
    await _resolve_target(run)
    if run.spec.tool != SIMPLE_HTTP:
        return await _poll_tool(run)
    if not run.cursor.complete and await _fetch_on(run):
        return True
    await _chain_transfer(run, run.spec.delete_policy)
    return False


async def _fetch_on(run: DownloadRun) -> bool:
    """Fetch more. If the connection breaks after it has delivered a part, connect again immediately, however often."""
    before = _count_parts(run)
    try:
        return await _fetch(run)
    except Unreachable:
        if _count_parts(run) <= before:
            raise
        return True


def _count_parts(run: DownloadRun) -> int:
    """Return the number of stored parts of the file."""
    return run.cursor.partial.receipt_count if run.cursor.partial is not None else 0


def _get_stage(run: DownloadRun) -> str:
    """Return the name in staging of the files of this run."""
    return queue.get_stage(run.task)


async def _resolve_target(run: DownloadRun) -> authorization.TargetAccess:
    caller = await authorization.authorize_caller(run.task, Right.OFFLINE_DOWNLOAD)
    return await authorization.resolve_target(caller, run.spec.target_dir, "")


async def _get_tool(name: str) -> Tool:
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
    _limit_size(max(status.total, status.downloaded), configuration.cached().settings.offline_download_max_size)
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


async def _finish_tool(run: DownloadRun, tool: Tool, status: Status) -> bool:
    """Enqueue the transfer of complete files. They stay in place while the tool still uploads them to others."""
    cursor = run.cursor
    if status.seeds_forever:
        await staging.pin(_get_stage(run))
    shared = status.seeding or status.seeds_forever or cursor.shared
    await staging.sync(staging.get_path(_get_stage(run), staging.BODY))
    await _chain_transfer(run, DELETE_NEVER if shared else run.spec.delete_policy)
    if status.seeding:
        cursor.shared = True
        run.view.status = "offline download completed, waiting for seeding"
        return _wait(run)
    if cursor.shared:
        chained = await asyncio.to_thread(queue.find_chained, run.task)
        if chained is not None and not chained.done:
            return _wait(run)
    await tool.remove_completed(cursor.token or "")
    return False


async def _chain_transfer(run: DownloadRun, policy: str) -> None:
    """Enqueue the transfer of the result: a single entry under its name, several into the folder itself."""
    target = await _resolve_target(run)
    if await asyncio.to_thread(queue.resume_chained, run.task):
        return  # by a worker that died before it could save that; the transfer may have removed the files
    body = staging.get_path(_get_stage(run), staging.BODY)
    arrived = await list_all(await staging.driver(), body)
    if not arrived:
        raise StorageProblem("nothing arrived")
    single = arrived[0].name if len(arrived) == 1 else ""
    spec = TransferSpec(
        source=body / single if single else body,
        target_dir=run.spec.target_dir,
        name=single,
        overwrite=True,
        delete_policy=policy,
    )
    name = model.format_staged_name(
        TreePath("/") / (single or staging.BODY), target.storage_path.mount.path, target.storage_path.path
    )
    size = sum(entry.size or 0 for entry in arrived)
    if run.spec.tool != SIMPLE_HTTP:
        run.view.status = "offline download completed, maybe transferring"
    await asyncio.to_thread(queue.chain, "offline_download_transfer", run.task, name, spec, size)
    pass_checkpoint("download.chained")


async def _fetch(run: DownloadRun) -> bool:
    """Fetch until the end of the step, if the server supports ranges, otherwise until the end of the file.

    Return True if there is more.
    """
    settings = (await configuration.get()).settings
    policy, max_size = registry.make_address_policy(settings), settings.offline_download_max_size
    if run.cursor.partial is not None and is_torn(run.cursor.partial, await staging.driver()):
        await drop_partial(run)
    partial, receipts = await _find_parts(run)
    offset = len(receipts) * partial.length if partial is not None and receipts is not None else 0
    if partial is not None and receipts is not None and offset > partial.size:  # the last part is shorter
        return await _finish(run, await staging.driver(), partial, receipts)
    validator = partial.validator if partial is not None else ""
    async with http.fetch(run.spec.url, policy, offset, validator) as answer:
        _limit_size(answer.size or 0, max_size)
        if not answer.offset and partial is not None:
            await drop_partial(run)
            partial = None
        run.view.total_bytes = answer.size or 0
        length = partial.length if partial is not None else _plan_length(answer.size)
        pieces = split_chunks(throttle.limit_server_download(answer.iter_blocks()), length)
        first = await anext(pieces, b"")
        _limit_size(len(first), max_size)
        if partial is None and len(first) < length:
            name = f"{staging.BODY}/{answer.name}"
            await staging.store(_get_stage(run), name, stream(first), _make_upload(len(first)))
            pass_checkpoint("download.whole")
            return await _complete(run)
        return await _store(run, answer, length, first, pieces, max_size)


def _plan_length(size: int | None) -> int:
    """Return the bytes of a part of a file of this size. Two parts are in memory at a time."""
    return IN_FLIGHT_BYTES if size is None else max(IN_FLIGHT_BYTES // 2, -(-size // MAX_PARTS))


def _limit_size(size: int, max_size: int) -> None:
    """Raise StorageProblem for a file of more than `max_size` bytes; 0 means any size."""
    if max_size and size > max_size:
        raise StorageProblem(f"the file exceeds the limit of {max_size // MIB} MiB")


async def _store(
    run: DownloadRun, answer: http.FetchResponse, length: int, first: bytes, pieces: AsyncIterator[bytes], max_size: int
) -> bool:
    """Store the file as parts, and fetch the next part while one is stored. True if there is more."""
    storage = await staging.driver()
    partial = await _begin_parts(run, storage, answer, length)
    receipts = await PartReceipts.load(run, partial)
    path, piece = TreePath(partial.path), first
    saved = time.monotonic()
    while piece:
        storing = asyncio.ensure_future(
            storage.write_part(path, partial.token, len(receipts) + 1, len(receipts) * length, piece)
        )
        fetching = asyncio.ensure_future(anext(pieces, b""))
        try:
            await asyncio.wait([storing])
            pass_checkpoint("download.part")
            await receipts.add(len(receipts), storing.result())
            partial.size += len(piece)
            if is_save_due(saved):
                await _save(run, partial, receipts)
                saved = time.monotonic()
            _limit_size(partial.size, max_size)
            is_over = not await _wait_in_step(run, fetching, answer)
        except BaseException:
            fetching.cancel()
            await asyncio.wait([storing, fetching])  # a part that arrives after all are dropped would stay for ever
            await receipts.save()
            raise
        if is_over:
            fetching.cancel()
            await asyncio.wait([fetching])
            await _save(run, partial, receipts)
            return True
        piece = fetching.result()
    await _save(run, partial, receipts)  # once the file is made of them, its parts are gone
    return await _finish(run, storage, partial, receipts)


async def _save(run: DownloadRun, partial: PartialFile, receipts: PartReceipts) -> None:
    """Save the stored parts as progress. A part that is still being fetched does not count."""
    await receipts.save()
    run.show_progress(partial.size)
    await run.save()


async def _wait_in_step(run: DownloadRun, fetching: asyncio.Future[bytes], answer: http.FetchResponse) -> bool:
    """Wait for the next part; if the server supports ranges, no longer than the step.

    Return True if the part is complete and the step continues.
    """
    await asyncio.wait([fetching], timeout=run.seconds_left if answer.resumable else None)
    return fetching.done() and (not fetching.result() or not answer.resumable or run.has_time())


async def _find_parts(run: DownloadRun) -> tuple[PartialFile | None, PartReceipts | None]:
    """Return the partial file and its receipts. A partial file whose receipts are lost is dropped."""
    partial = run.cursor.partial
    receipts = await find_receipts(run, partial) if partial is not None else None
    if partial is not None and receipts is None:
        await drop_partial(run)
    return run.cursor.partial, receipts


async def _finish(run: DownloadRun, storage: Driver, partial: PartialFile, receipts: PartReceipts) -> bool:
    """Assemble the file from its parts, unless a worker that died has done so."""
    path = TreePath(partial.path)
    try:
        await storage.finish(path, partial.token, receipts.list(), _make_upload(partial.size))
    except EntryNotFound:
        if await files.find(StagedPath(await staging.driver(), path)) is None:
            raise
    pass_checkpoint("download.finished")
    run.cursor.partial = None
    return await _complete(run)


async def _complete(run: DownloadRun) -> bool:
    """Make the files durable, and save that they are complete, before a transfer moves them away."""
    await staging.sync(staging.get_path(_get_stage(run), staging.BODY))
    run.cursor.complete = True
    await run.save()
    return False


async def _begin_parts(run: DownloadRun, storage: Driver, answer: http.FetchResponse, length: int) -> PartialFile:
    """Return the partial file of the cursor, started in staging. The intent is saved before, the token after."""
    if run.cursor.partial is not None and not run.cursor.partial.token:
        await drop_partial(run)
    if run.cursor.partial is not None:
        return run.cursor.partial
    path = staging.get_path(_get_stage(run), staging.BODY) / answer.name
    validator = answer.validator if answer.resumable else ""
    key, boot = make_parts_key(), platform().read_boot_id()
    partial = PartialFile(path=path, key=key, length=length, validator=validator, boot=boot)
    run.cursor.partial = partial
    await staging.make_folder(path.parent)
    await run.save()
    pass_checkpoint("download.intended")
    partial.token = await storage.begin(path, _make_upload(None), partial.key)
    pass_checkpoint("download.started")
    await run.save()
    return partial


def _make_upload(size: int | None) -> Upload:
    return Upload(size, time.time())


async def clean(run: DownloadRun, state: State) -> None:
    """End the work of the tool, and remove files from staging that no transfer needs."""
    shared, succeeded = run.cursor.shared, state is State.SUCCEEDED
    await run.flush()
    if run.cursor.partial is not None:
        await drop_partial(run)
    await drop_receipts(run)
    if not succeeded or run.task.removed:
        await _stop_tool(run)
    if succeeded and not shared:
        return  # the transfer removes what is staged
    chained = await asyncio.to_thread(queue.find_chained, run.task)
    if succeeded:
        policy = DELETE_POLICIES.get(run.spec.delete_policy, ())
        needed = chained is not None and chained.view.state not in policy
    else:
        needed = chained is not None and not shared
    if not needed:
        await staging.clear(_get_stage(run))


async def _stop_tool(run: DownloadRun) -> None:
    if run.cursor.token is None:
        return
    try:
        await (await _get_tool(run.spec.tool)).remove(run.cursor.token)
    except Problem:
        pass  # the tool does not answer; it forgets the download after a while
