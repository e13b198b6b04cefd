"""The end of an upload in parts: the file is assembled from its parts, or the parts are dropped.

A client may request the completion several times, also concurrently: the storage makes a single file, and a single task
transfers it. The next request continues after a killed process.
"""

from __future__ import annotations

import asyncio
import hashlib

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.deadlines import TASK_REQUEST_MARGIN_SECONDS, get_remaining
from mangrove.core.limits import limits
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import BadRequest, ChunkInFlight, EntryExists, EntryNotFound, NameConflict
from mangrove.drivers.base import Upload
from mangrove.identity.rights import Caller
from mangrove.records.store.base import RecordConflict
from mangrove.records.tasks.model import Task
from mangrove.tasks.core import files, model, queue
from mangrove.tasks.core.queue import TaskRequest
from mangrove.tasks.core.staging import StagedPath
from mangrove.tasks.transfer.declaration import TransferSpec
from mangrove.tasks.upload.multipart import UploadProgress, authorize, look
from mangrove.tasks.upload.sessions import Session, SessionState, find_task
from mangrove.tree.access import PathAccess
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal, name_locks, uploads
from mangrove.tree.sharing import uploads as shared_uploads
from mangrove.tree.sharing.problems import ShareLimitReached

MAX_ATTEMPTS = 5  # to save a session that another request changes
MAX_NAMED_CHUNKS = 10  # missing chunks in a message
HASHED_BLOCK_BYTES = 1 << 20


async def complete(caller: Caller, session: Session, password: str) -> Task | None:
    """Assemble the file from its chunks. Return the task that transfers it, None if it is complete.

    It is safe to repeat.
    """
    if session.is_completed:
        return await asyncio.to_thread(find_task, session)
    if not session.state.is_open:
        raise BadRequest(session.explain_end())
    if limits().chunks.has(session.id):
        raise ChunkInFlight
    access = await authorize(caller, session, password)
    await _mark_completing(session)
    await _count(access, session)
    if session.is_completed:
        return await asyncio.to_thread(find_task, session)
    if session.facts.stage:
        return await _complete_staged(access, session)
    await _complete_direct(access, session)
    return None


async def _count(access: PathAccess, session: Session) -> None:
    """Count a file of a visitor for the limits of the share link, once. Fail the session if it takes no more."""
    if not session.facts.share or session.facts.is_counted or not session.state.is_open:
        return
    try:
        await shared_uploads.reserve(access, session.facts.size)
    except ShareLimitReached as problem:
        await session.fail(problem.message)
        raise
    session.facts.is_counted = True
    try:
        await session.save()
    except RecordConflict:
        await shared_uploads.release(access, session.facts.size)
        raise


async def _mark_completing(session: Session) -> None:
    """Save that all chunks are stored. Raise BadRequest with the numbers of missing chunks."""
    for _ in range(MAX_ATTEMPTS):
        if session.state is not SessionState.RECEIVING:
            break
        progress = await look(session)
        if not session.state.is_open:
            break
        _check_complete(progress)
        driver, _ = await session.open_storage()
        if driver.capabilities.direct_uploads:
            session.facts.etag = driver.predict_etag([part.receipt for part in progress.parts])
        try:
            await session.save(SessionState.COMPLETING)
        except RecordConflict:
            await session.reload()
    if session.state not in (SessionState.COMPLETING, SessionState.COMPLETED):
        raise BadRequest(session.explain_end())


def _check_complete(progress: UploadProgress) -> None:
    session = progress.session
    stored = {part.number for part in progress.parts}
    missing = [number - 1 for number in range(1, session.chunk_count + 1) if number not in stored]
    if missing:
        received = sum(part.size for part in progress.parts)
        named = ", ".join(map(str, missing[:MAX_NAMED_CHUNKS])) + (", …" if len(missing) > MAX_NAMED_CHUNKS else "")
        raise BadRequest(
            f"cannot complete: {received} of {session.facts.size} bytes received, chunks that are missing or have "
            f"another size: {named}"
        )


async def _prepare(access: PathAccess, session: Session) -> tuple[PathAccess, StoragePath]:
    """Return the present target of the file. Raise NameConflict if the file would get another name."""
    prepared, storage_path = await uploads.prepare(access, session.facts.overwrite)
    if prepared.path != access.path:
        raise NameConflict
    return prepared, storage_path


async def _complete_direct(access: PathAccess, session: Session) -> None:
    if await session.find_stored() is not None:  # an earlier request did it, and could not save that
        driver, path = await session.open_storage()
        await driver.abort(path, session.facts.partial.token)  # they are of a file that replaced an equal file
    else:
        access, storage_path = await _prepare(access, session)
        replaceable = session.facts.overwrite and access.parent.may_replace(access)
        upload = session.make_upload(overwrite=replaceable, durable=access.tree.settings.is_durable)
        try:
            async with journal.add(storage_path), name_locks.lock_name(storage_path, overwrite=replaceable):
                await finish_despite_cancel(_finish(session, upload))
        except EntryExists:
            if await session.find_stored() is None:
                raise NameConflict from None
    await _mark_completed(session)


async def _finish(session: Session, upload: Upload) -> None:
    """Let the storage assemble the file, unless it has.

    If the parts are lost and the file is not there, fail the session and raise BadRequest.
    """
    driver, path = await session.open_storage()
    try:
        receipts = [part.receipt for part in await session.list_parts()]
        await driver.finish(path, session.facts.partial.token, receipts, upload)
    except EntryNotFound:
        if await session.find_stored() is not None:
            return
        await session.reload()
        if session.state is SessionState.COMPLETING:
            await session.fail("the parts stored so far are gone")
        if session.state is not SessionState.COMPLETED:
            raise BadRequest(session.explain_end()) from None


async def _mark_completed(session: Session) -> None:
    """Save that the file is complete, unless another request has."""
    for _ in range(MAX_ATTEMPTS):
        if session.is_completed:
            return
        try:
            await session.save(SessionState.COMPLETED)
        except RecordConflict:
            await session.reload()
    if session.state is not SessionState.COMPLETED:
        raise RecordConflict


async def _complete_staged(access: PathAccess, session: Session) -> Task | None:
    """Assemble the file in staging, and enqueue the task that transfers it: once, since the session has its id."""
    facts = session.facts
    if not facts.is_opened:
        access, _ = await _prepare(access, session)
        await finish_despite_cancel(_finish(session, session.make_upload(durable=access.tree.settings.is_durable)))
        await _verify_hashes(session)
        await _mark_opened(session)
    replaceable = facts.overwrite and access.parent.may_replace(access)
    task = await asyncio.to_thread(_enqueue, access, session, replaceable)
    await _mark_completed(session)
    return task


async def _mark_opened(session: Session) -> None:
    """Save that the file belongs to a task from now on. Raise BadRequest if the session has ended meanwhile."""
    for _ in range(MAX_ATTEMPTS):
        if session.facts.is_opened:
            return
        if not session.state.is_open:
            raise BadRequest(session.explain_end())
        session.facts.is_opened = True
        try:
            await session.save()
        except RecordConflict:
            await session.reload()


async def _verify_hashes(session: Session) -> None:
    """Compare the file with the hashes of the request, unless each part was verified, and compute its SHA-256 for the
    receipt of a visitor. A file that cannot be read in the time of the request has no SHA-256 in its receipt.
    """
    facts = session.facts
    hashes = facts.hashes if facts.share or platform().verifies_joined_uploads else {}
    if not hashes and not facts.share:
        return
    driver, path = await session.open_storage()
    digest = hashlib.sha256()
    try:
        async for block in uploads.verify_hashes(
            files.read_chunks(StagedPath(driver, path), HASHED_BLOCK_BYTES), hashes
        ):
            if facts.share:
                digest.update(block)
            await asyncio.sleep(0)
            if get_remaining() < TASK_REQUEST_MARGIN_SECONDS:
                return
    except BadRequest as problem:
        await session.fail(problem.message)
        raise
    facts.sha256 = digest.hexdigest() if facts.share else ""


def _enqueue(access: PathAccess, session: Session, overwrite: bool) -> Task | None:
    facts = session.facts
    target = TreePath(facts.target)
    spec = TransferSpec(source=facts.partial.path, target_dir=target.parent, name=target.name, overwrite=overwrite)
    mount, inner = access.find_mount()
    name = model.format_upload_name(target.name, mount.path, inner.parent)
    try:
        request = TaskRequest(name, spec, facts.size, "uploading", facts.stage)
        return queue.enqueue("upload", access.caller.user, request, access.caller.token_id)
    except RecordConflict:
        return find_task(session)


async def abort(caller: Caller, session: Session) -> None:
    """End an upload, and drop its parts. Raise BadRequest if it is completed.

    If a completion runs at the same time, the storage decides which of them wins.
    """
    for _ in range(MAX_ATTEMPTS):
        if session.is_completed or session.facts.is_opened:
            raise BadRequest("the upload is completed")
        if not session.state.is_open:
            return
        if session.state is SessionState.COMPLETING and not session.facts.stage:
            driver, path = await session.open_storage()
            await driver.abort(path, session.facts.partial.token)
            if await session.find_stored() is not None:
                await _mark_completed(session)
                continue
        try:
            await session.save(SessionState.ABORTED)
        except RecordConflict:
            await session.reload()
            continue
        await session.drop()
        return
    raise RecordConflict
