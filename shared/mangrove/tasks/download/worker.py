"""The machine that downloads a file: Begin asks the tool, Poll looks how far it is, Settle cleans up.

What arrives waits in staging; a transfer goes on with it. SimpleHttp is this service itself: its Poll fetches, part
by part, and continues where it was cut off when the server can.
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
from mangrove.tasks.core import authorization, kinds, queue, staging
from mangrove.tasks.core.endpoints import Endpoint
from mangrove.tasks.core.file_copy import MOST_PARTS, is_due
from mangrove.tasks.core.kinds import DELETE_NEVER, DELETE_POLICIES, State
from mangrove.tasks.core.partials import PartReceipts, drop_partial, drop_receipts, find_receipts, is_torn
from mangrove.tasks.core.specs import PartialFile
from mangrove.tasks.core.steps import Run
from mangrove.tasks.download.declaration import DownloadCursor, DownloadSpec
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tools import http, registry
from mangrove.tools.base import Status, Tool
from mangrove.tools.registry import SIMPLE_HTTP

STEP_SECONDS = 60.0  # that one machine fetches before it asks anew: every step is a request
PART = 16 << 20  # bytes of a file that are under way at once
PATIENCE = 5  # calls in a row that a tool may fail to answer
MIN_POLL_INTERVAL_SECONDS = 3  # between two calls
MIB = 1 << 20

DownloadRun: TypeAlias = Run[DownloadSpec, DownloadCursor]


async def begin(run: DownloadRun) -> bool:
    """Give the address to its tool."""
    await _resolve_target(run)
    if run.cursor.attempt != run.task.attempt:
        run.cursor = DownloadCursor(attempt=run.task.attempt, started=time.time())
    if run.spec.tool != SIMPLE_HTTP:
        await _give_to_tool(run)
    return True


async def _give_to_tool(run: DownloadRun) -> None:
    """Let the tool begin, or go on with what it began for another process."""
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
    """See how far it is, or fetch on; when the file is there, open its transfer."""
    await _resolve_target(run)
    if run.spec.tool != SIMPLE_HTTP:
        return await _poll_tool(run)
    if not run.cursor.complete and await _fetch_on(run):
        return True
    await _chain_transfer(run, run.spec.delete_policy)
    return False


async def _fetch_on(run: DownloadRun) -> bool:
    """Fetch on. A connection that broke after it brought something is made again at once, however often."""
    before = _count_parts(run)
    try:
        return await _fetch(run)
    except Unreachable:
        if _count_parts(run) <= before:
            raise
        return True


def _count_parts(run: DownloadRun) -> int:
    """Return the number of parts of the file that are stored."""
    return run.cursor.partial.receipt_count if run.cursor.partial is not None else 0


def _get_stage(run: DownloadRun) -> str:
    """The name under which this run keeps what arrives."""
    return queue.get_stage(run.task)


async def _resolve_target(run: DownloadRun) -> authorization.Target:
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
        if cursor.missed > PATIENCE:
            raise StorageProblem(f"failed to get status of {run.task.id}, retried {PATIENCE} times") from problem
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
    """Look again; the longer it takes, the less often, so that a cloud execution's history lasts for weeks."""
    elapsed = int(time.time() - run.cursor.started)
    run.wait = min(max(MIN_POLL_INTERVAL_SECONDS, elapsed // 20), platform().max_poll_interval_seconds)
    return True


async def _finish_tool(run: DownloadRun, tool: Tool, status: Status) -> bool:
    """Every byte is there. While the tool still gives the files to others, they stay where they are."""
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
    """Open the transfer of what has arrived: one entry by its name, several into the folder itself."""
    target = await _resolve_target(run)
    if await asyncio.to_thread(queue.resume_chained, run.task):
        return  # by a worker that died before it could say so; what arrived may be gone by now
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
    name = kinds.format_staged_name(TreePath("/") / (single or staging.BODY), target.mount.path, target.endpoint.path)
    size = sum(entry.size or 0 for entry in arrived)
    if run.spec.tool != SIMPLE_HTTP:
        run.view.status = "offline download completed, maybe transferring"
    await asyncio.to_thread(queue.chain, "offline_download_transfer", run.task, name, spec, size)
    pass_checkpoint("download.chained")


async def _fetch(run: DownloadRun) -> bool:
    """Fetch with SimpleHttp until the end of the step, when the server lets us continue; whether there is more."""
    settings = (await configuration.get()).settings
    allowed, most = registry.make_address_policy(settings), settings.offline_download_max_size
    if run.cursor.partial is not None and is_torn(run.cursor.partial, await staging.driver()):
        await drop_partial(run)
    partial, receipts = await _find_parts(run)
    offset = len(receipts) * partial.length if partial is not None and receipts is not None else 0
    if partial is not None and receipts is not None and offset > partial.size:  # the last part is shorter
        return await _finish(run, await _get_storage(), partial, receipts)
    validator = partial.validator if partial is not None else ""
    async with http.fetch(run.spec.url, allowed, offset, validator) as answer:
        _limit_size(answer.size or 0, most)
        if not answer.offset and partial is not None:
            await drop_partial(run)
            partial = None
        run.view.total_bytes = answer.size or 0
        length = partial.length if partial is not None else _plan_length(answer.size)
        pieces = split_chunks(throttle.limit_server_download(answer.iter_blocks()), length)
        first = await anext(pieces, b"")
        _limit_size(len(first), most)
        if partial is None and len(first) < length:
            name = f"{staging.BODY}/{answer.name}"
            await staging.store(_get_stage(run), name, stream(first), _make_upload(len(first)))
            pass_checkpoint("download.whole")
            return await _complete(run)
        return await _store(run, answer, length, first, pieces, most)


def _plan_length(size: int | None) -> int:
    """Bytes of a part of a file of this size: two are under way at once."""
    return PART if size is None else max(PART // 2, -(-size // MOST_PARTS))


def _limit_size(size: int, most: int) -> None:
    """Refuse a file of more than `most` bytes; 0 is no limit."""
    if most and size > most:
        raise StorageProblem(f"the file has more than the {most // MIB} MiB that are allowed")


async def _store(
    run: DownloadRun, answer: http.FetchResponse, length: int, first: bytes, pieces: AsyncIterator[bytes], most: int
) -> bool:
    """Store what arrives as parts, the next one fetched while one is stored; whether there is more."""
    storage = await _get_storage()
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
            if is_due(saved):
                await _save(run, partial, receipts)
                saved = time.monotonic()
            _limit_size(partial.size, most)
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
    """Write down what is stored; nothing else is told of."""
    await receipts.save()
    run.show_progress(partial.size)
    await run.save()


async def _wait_in_step(run: DownloadRun, fetching: asyncio.Future[bytes], answer: http.FetchResponse) -> bool:
    """Wait for what is fetched next, but from a server that goes on later no longer than the step; whether it is
    there, and the step goes on."""
    await asyncio.wait([fetching], timeout=run.seconds_left if answer.resumable else None)
    return fetching.done() and (not fetching.result() or not answer.resumable or run.has_time())


async def _find_parts(run: DownloadRun) -> tuple[PartialFile | None, PartReceipts | None]:
    """The file that was begun and its receipts; it is dropped where some of those are lost."""
    partial = run.cursor.partial
    receipts = await find_receipts(run, partial) if partial is not None else None
    if partial is not None and receipts is None:
        await drop_partial(run)
    return run.cursor.partial, receipts


async def _get_storage() -> Driver:
    storage = await staging.driver()
    return storage


async def _finish(run: DownloadRun, storage: Driver, partial: PartialFile, receipts: PartReceipts) -> bool:
    """Make one file of all parts, where a worker that died has not done so."""
    path = TreePath(partial.path)
    try:
        await storage.finish(path, partial.token, receipts.list(), _make_upload(partial.size))
    except EntryNotFound:
        if await Endpoint(await staging.driver(), path).find() is None:
            raise
    pass_checkpoint("download.finished")
    run.cursor.partial = None
    return await _complete(run)


async def _complete(run: DownloadRun) -> bool:
    """Save that every byte is here, and stays, before it is taken away."""
    await staging.sync(staging.get_path(_get_stage(run), staging.BODY))
    run.cursor.complete = True
    await run.save()
    return False


async def _begin_parts(run: DownloadRun, storage: Driver, answer: http.FetchResponse, length: int) -> PartialFile:
    """The partial file of the record, begun in staging; its intent is saved before, its token after."""
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
    """End what the tool still does, and drop what no transfer goes on with."""
    shared, succeeded = run.cursor.shared, state is State.SUCCEEDED
    await run.write_kept()
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
        pass  # the tool is gone; it forgets by itself
