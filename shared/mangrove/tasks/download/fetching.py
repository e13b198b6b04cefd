"""Fetches a file for the tool SimpleHttp into staging, part by part, and enqueues the transfer of downloaded files from
staging to their folder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeAlias

from mangrove import configuration
from mangrove.configuration import throttle
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import split_chunks, stream
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryNotFound, StorageProblem, Unreachable
from mangrove.drivers.base import Driver, Upload, make_parts_key
from mangrove.tasks.core import files, queue, staging
from mangrove.tasks.core.file_copy import MAX_PARTS, is_save_due
from mangrove.tasks.core.model import PartialFile
from mangrove.tasks.core.partials import PartReceipts, drop_partial, find_receipts, is_torn
from mangrove.tasks.core.staging import StagedPath
from mangrove.tasks.core.steps import Run
from mangrove.tasks.download.declaration import DownloadCursor, DownloadSpec
from mangrove.tools import registry

if TYPE_CHECKING:
    from mangrove.tools.http import FetchResponse


from mangrove.drivers.base import list_all
from mangrove.identity.rights import Right
from mangrove.tasks.core import authorization, model
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tools.registry import SIMPLE_HTTP

IN_FLIGHT_BYTES = 16 << 20
MIB = 1 << 20

DownloadRun: TypeAlias = Run[DownloadSpec, DownloadCursor]


def get_url(run: DownloadRun) -> str:
    """Return the URL of the file that is being fetched."""
    return run.cursor.url or run.spec.url


def get_stage(run: DownloadRun) -> str:
    """Return the name in staging of the files of this run; of a list, of the present group of files."""
    stage = queue.get_stage(run.task)
    return f"{stage}.{run.cursor.group}" if run.spec.count else stage


async def fetch_on(run: DownloadRun) -> bool:
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


async def _fetch(run: DownloadRun) -> bool:
    """Fetch until the end of the step, if the server supports ranges, otherwise until the end of the file.

    Return True if there is more.
    """
    from mangrove.tools import http  # it needs httpx, which takes long to import: other steps fetch nothing

    settings = (await configuration.get()).settings
    policy, max_size = registry.make_address_policy(settings), settings.offline_download_max_size
    if run.cursor.partial is not None and is_torn(run.cursor.partial, await staging.driver()):
        await drop_partial(run)
    partial, receipts = await _find_parts(run)
    offset = len(receipts) * partial.length if partial is not None and receipts is not None else 0
    if partial is not None and receipts is not None and offset > partial.size:  # the last part is shorter
        return await _finish(run, await staging.driver(), partial, receipts)
    validator = partial.validator if partial is not None else ""
    async with http.fetch(get_url(run), policy, offset, validator) as answer:
        limit_size(answer.size or 0, max_size)
        if not answer.offset and partial is not None:
            await drop_partial(run)
            partial = None
        if not run.spec.count:
            run.view.total_bytes = answer.size or 0
        length = partial.length if partial is not None else _plan_length(answer.size)
        pieces = split_chunks(throttle.limit_server_download(answer.iter_blocks()), length)
        first = await anext(pieces, b"")
        limit_size(len(first), max_size)
        if partial is None and len(first) < length:
            name = f"{staging.BODY}/{answer.name}"
            await staging.store(get_stage(run), name, stream(first), make_upload(len(first)))
            pass_checkpoint("download.whole")
            return await _complete(run)
        return await _store(run, answer, length, first, pieces, max_size)


def _plan_length(size: int | None) -> int:
    """Return the bytes of a part of a file of this size. Two parts are in memory at a time."""
    return IN_FLIGHT_BYTES if size is None else max(IN_FLIGHT_BYTES // 2, -(-size // MAX_PARTS))


def limit_size(size: int, max_size: int) -> None:
    """Raise StorageProblem for a file of more than `max_size` bytes; 0 means any size."""
    if max_size and size > max_size:
        raise StorageProblem(f"the file exceeds the limit of {max_size // MIB} MiB")


async def _store(
    run: DownloadRun, answer: FetchResponse, length: int, first: bytes, pieces: AsyncIterator[bytes], max_size: int
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
            limit_size(partial.size, max_size)
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
    if not run.spec.count:
        run.show_progress(partial.size)
    await run.save()


async def _wait_in_step(run: DownloadRun, fetching: asyncio.Future[bytes], answer: FetchResponse) -> bool:
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
        await storage.finish(path, partial.token, receipts.list(), make_upload(partial.size))
    except EntryNotFound:
        if await files.find(StagedPath(await staging.driver(), path)) is None:
            raise
    pass_checkpoint("download.finished")
    run.cursor.partial = None
    return await _complete(run)


async def _complete(run: DownloadRun) -> bool:
    """Make the files durable, and save that they are complete, before a transfer moves them away."""
    await staging.sync(staging.get_path(get_stage(run), staging.BODY))
    run.cursor.complete = True
    await run.save()
    return False


async def _begin_parts(run: DownloadRun, storage: Driver, answer: FetchResponse, length: int) -> PartialFile:
    """Return the partial file of the cursor, started in staging. The intent is saved before, the token after."""
    if run.cursor.partial is not None and not run.cursor.partial.token:
        await drop_partial(run)
    if run.cursor.partial is not None:
        return run.cursor.partial
    path = staging.get_path(get_stage(run), staging.BODY) / answer.name
    validator = answer.validator if answer.resumable else ""
    key, boot = make_parts_key(), platform().read_boot_id()
    partial = PartialFile(path=path, key=key, length=length, validator=validator, boot=boot)
    run.cursor.partial = partial
    await staging.make_folder(path.parent)
    await run.save()
    pass_checkpoint("download.intended")
    partial.token = await storage.begin(path, make_upload(None), partial.key)
    pass_checkpoint("download.started")
    await run.save()
    return partial


def make_upload(size: int | None) -> Upload:
    return Upload(size, time.time())


async def resolve_target(run: DownloadRun) -> authorization.TargetAccess:
    """Return the folder of the download. Raise AccessDenied if the owner may not download into it any more."""
    caller = await authorization.authorize_caller(run.task, Right.OFFLINE_DOWNLOAD)
    return await authorization.resolve_target(caller, run.spec.target_dir, "")


async def chain_transfer(run: DownloadRun, policy: str) -> None:
    """Enqueue the transfer of the result: a single entry under its name, several into the folder itself."""
    target = await resolve_target(run)
    if await asyncio.to_thread(queue.resume_chained, get_stage(run)):
        return  # by a worker that died before it could save that; the transfer may have removed the files
    body = staging.get_path(get_stage(run), staging.BODY)
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
    await asyncio.to_thread(queue.chain, "offline_download_transfer", run.task, get_stage(run), name, spec, size)
    pass_checkpoint("download.chained")
