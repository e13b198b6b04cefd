"""Uploads in parts, and uploads of whole files that a client sends to the storage directly; see docs/guides/uploads.md.

A session is a record: it can be continued after a restart, and from another device. Parts arrive in any order, and a
part that is sent again replaces the earlier one.
"""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from typing import NamedTuple

from mangrove.configuration.values import Settings
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.http import find_client
from mangrove.core.limits import MIN_CHUNK_BYTES, limits
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    AccessDenied,
    BadRequest,
    EntryExists,
    EntryNotFound,
    NameConflict,
    NotSupported,
    RelativePath,
    TooLarge,
)
from mangrove.core.runtime import CacheKind
from mangrove.drivers.base import SignedRequest, StoredPart, Upload, make_parts_key
from mangrove.identity.rights import Caller, Right
from mangrove.tasks.core import partials, queue, staging
from mangrove.tasks.core.model import PartialFile
from mangrove.tasks.upload.sessions import Session, SessionFacts, SessionState, find_open
from mangrove.tree import access as tree_access
from mangrove.tree.access import PathAccess
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal, uploads
from mangrove.tree.operations.journal import Touched
from mangrove.tree.sharing import uploads as shared_uploads
from mangrove.tree.sharing import visits

MAX_CHUNKS = 10_000
MIB = 1 << 20
MIN_CHUNK_SIZE, MIN_DIRECT_CHUNK_SIZE = MIB, 5 * MIB  # bytes; S3 accepts smaller parts only as the last one
MAX_CHUNK_SIZE, MAX_DIRECT_CHUNK_SIZE = 64 * MIB, 5 << 30  # a chunk that passes through this service is in memory
KNOWN_PARTS: CacheKind[str, dict[int, int]] = CacheKind("parts of uploads", 100)  # sizes, by session and number
MAX_PUT_BYTES = 5 << 30  # of an object that one request can store


async def _add_known_part(session: Session, number: int) -> Sequence[StoredPart]:
    """Return the parts of a session, by number, after another one was stored.

    The result may lack parts that other processes have stored since this one last listed them.
    """
    sizes = KNOWN_PARTS.open().get(session.id)
    if sizes is None:
        sizes = {part.number: part.size for part in await session.list_parts()}
        KNOWN_PARTS.open().put(session.id, sizes)
    sizes[number] = session.get_size_of(number)
    return [StoredPart(number, sizes[number], "") for number in sorted(sizes)]


@dataclass(frozen=True, slots=True)
class NewUpload:
    """A file that a client is going to upload."""

    upload: Upload
    overwrite: bool
    hashes: Mapping[str, str]
    """In hex, by the name of the algorithm."""
    identity: str
    """A client's identifier that distinguishes the file from others of the same path and size."""
    chunk_size: int | None = None
    """Bytes that the client prefers; None for any size."""


class UploadProgress(NamedTuple):
    """A session, and the parts that are stored."""

    session: Session
    parts: Sequence[StoredPart]
    is_direct: bool
    """The client should send parts to the storage directly."""


def require_enabled(settings: Settings) -> None:
    """Raise AccessDenied if a setting disables uploads in parts."""
    if not settings.multipart_enabled:
        raise AccessDenied("multipart upload is disabled")


async def begin(access: PathAccess, new: NewUpload) -> tuple[UploadProgress, bool]:
    """Return a session for a file, and True if it existed before. Everything that can be refused is refused here."""
    await uploads.refuse_form(access)
    if access.share is not None:
        return await _begin_shared(access, replace(new, overwrite=False)), False
    target, storage_path = await uploads.prepare(access, new.overwrite)
    for session in await find_open(access.caller, access.path, new.upload.size or 0):
        if (
            new.identity
            and session.facts.identity == new.identity
            and session.facts.storage_id == _get_id(storage_path)
        ):
            return await _resume(session, new), True
    session = await _make_session(access, target, storage_path, new)
    await session.save()
    await session.begin_parts()
    return await look(session), False


async def _begin_shared(access: PathAccess, new: NewUpload) -> UploadProgress:
    """Return a new session of a visitor, who resumes it by its id."""
    access = await shared_uploads.choose_target(access, new.upload.size or 0)
    session = await _make_session(access, *await uploads.prepare(access, new.overwrite), new)
    await session.begin_shared(find_client(access.caller.source))
    try:
        await session.save()
    except BaseException:
        await asyncio.shield(session.end_shared())
        raise
    await session.begin_parts()
    return await look(session)


async def _resume(session: Session, new: NewUpload) -> UploadProgress:
    if session.facts.overwrite != new.overwrite:
        session.facts.overwrite = new.overwrite
        await session.save()
    return await look(session)


def _get_id(storage_path: StoragePath) -> int:
    return storage_path.mount.storage.id


async def _make_session(access: PathAccess, target: PathAccess, storage_path: StoragePath, new: NewUpload) -> Session:
    size = new.upload.size or 0
    share = access.share
    is_direct = storage_path.driver.offers_direct_uploads and share is None  # its addresses would tell the path
    is_staged_directly = not is_direct and (await staging.driver()).offers_direct_uploads
    stage = "" if is_direct else queue.make_id()
    partial = PartialFile(
        path=staging.get_path(stage, staging.BODY) if stage else storage_path.path,
        key=make_parts_key(),
        length=plan_chunk_size(
            size, new.chunk_size, access.tree.settings.multipart_chunk_size, is_direct or is_staged_directly
        ),
        storage="" if stage else partials.remember_storage(storage_path.mount),
    )
    facts = SessionFacts(
        path=access.path if share is None else share.find_path(access.path),
        target=target.path, storage_id=_get_id(storage_path), size=size, modified=new.upload.modified,
        mime=new.upload.mime, overwrite=new.overwrite, identity=new.identity, hashes=dict(new.hashes),
        partial=partial, stage=stage, share="" if share is None else share.link.id,
        share_number=0 if share is None else share.link.number,
    )  # fmt: skip
    return Session.make(access.caller.user.id, facts)


def plan_chunk_size(size: int, preferred: int | None, limit: int, is_direct: bool) -> int:
    """Return the size of a chunk in bytes: the preferred size within `limit`, or more if there were more than
    MAX_CHUNKS.

    Raise TooLarge if the storage does not accept files of that size.
    """
    least, most = (MIN_DIRECT_CHUNK_SIZE, MAX_DIRECT_CHUNK_SIZE) if is_direct else (MIN_CHUNK_SIZE, MAX_CHUNK_SIZE)
    limit = min(max(limit, least), most)
    length = max(least, min(preferred or limit, limit), -(-size // MAX_CHUNKS))
    if length > most:
        raise TooLarge(f"at most {most * MAX_CHUNKS} bytes can be uploaded in parts there")
    return length


async def look(session: Session) -> UploadProgress:
    """Return a session with its stored parts. A session whose parts are lost fails."""
    if not session.state.is_open:
        return UploadProgress(session, [], False)
    driver, _ = await session.open_storage()
    try:
        return UploadProgress(session, await session.list_parts(), driver.offers_direct_uploads)
    except EntryNotFound:
        if session.state is SessionState.RECEIVING:
            await session.fail("the parts stored so far are gone")
        return UploadProgress(session, [], driver.offers_direct_uploads)


async def find(access: PathAccess, size: int) -> UploadProgress | None:
    """Return the newest session of the caller for a path and a size that has not ended."""
    sessions = await find_open(access.caller, access.path, size)
    return await look(sessions[0]) if sessions else None


async def authorize(caller: Caller, session: Session, password: str) -> PathAccess:
    """Return the access to the target of the file. Raise AccessDenied if the caller can no longer write there."""
    if session.facts.share:
        access = await visits.find_upload(session.facts.share, TreePath(session.facts.target), caller.source)
        access.parent.require(Right.WRITE)
        return access
    path, base = TreePath(session.facts.target), caller.base
    if not path.within(base):
        raise RelativePath
    access = await tree_access.at(caller, path.below(base), password)
    access.parent.require(Right.WRITE)
    return access


def _require_receiving(session: Session) -> None:
    if session.state is not SessionState.RECEIVING:
        raise BadRequest(session.explain_end())


async def write_chunk(
    caller: Caller, session: Session, index: int, body: AsyncIterator[bytes], crc32: str
) -> UploadProgress:
    """Store the chunk `index` (from 0). Return the parts that are stored then, as far as this process knows.

    The body must have the size of the chunk and, unless `crc32` is "", that CRC-32. An upload that is being completed
    has all parts, and nothing is stored.
    """
    if session.state is SessionState.COMPLETING:
        return await _show_whole(caller, session)
    _require_receiving(session)
    number = index + 1
    size = session.get_size_of(number)
    if not size:
        raise BadRequest(f"there is no chunk {index}: the upload has {session.chunk_count}")
    if size > MAX_CHUNK_SIZE:
        raise TooLarge("chunks of this size do not pass through this service: get their addresses from multipart/sign")
    await authorize(caller, session, "")
    with limits().chunks.hold(session.id, number):
        async with limits().chunk_bytes.hold(name_sender(caller), max(size, MIN_CHUNK_BYTES)):
            content = await _receive(body, index, size)
            if crc32 and await asyncio.to_thread(format_crc32, content) != crc32:
                raise BadRequest(f"chunk {index} does not have the CRC-32 that was given")
            await finish_despite_cancel(session.write_part(number, content))
    driver, _ = await session.open_storage()
    return UploadProgress(session, await _add_known_part(session, number), driver.offers_direct_uploads)


def name_sender(caller: Caller) -> Hashable:
    """Return the key of a caller in the limit of chunks: the user, or the address of a guest or visitor."""
    return find_client(caller.source) if caller.is_guest else caller.user.id


async def _show_whole(caller: Caller, session: Session) -> UploadProgress:
    """Return the progress of a session whose chunks have all arrived."""
    await authorize(caller, session, "")
    numbers = range(1, session.chunk_count + 1)
    driver, _ = await session.open_storage()
    parts = [StoredPart(number, session.get_size_of(number), "") for number in numbers]
    return UploadProgress(session, parts, driver.offers_direct_uploads)


async def _receive(body: AsyncIterator[bytes], index: int, size: int) -> bytes:
    """Return the content of a chunk. BytesIO returns it without a second copy in memory."""
    received = BytesIO()
    async for block in body:
        received.write(block)
        if received.tell() > size:
            raise BadRequest(f"chunk {index} has more than its {size} bytes")
    if received.tell() != size:
        raise BadRequest(f"chunk {index} has {received.tell()} bytes instead of {size}")
    return received.getvalue()


def format_crc32(content: bytes) -> str:
    """Return a CRC-32 in the form of S3: four bytes, big-endian, in Base64."""
    return base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()


async def sign(caller: Caller, session: Session, chunks: Sequence[tuple[int, str]]) -> list[SignedRequest]:
    """Return the requests by which the client stores chunks itself. `chunks`: the index (from 0) and CRC-32 of each."""
    _require_receiving(session)
    await authorize(caller, session, "")
    driver, path = await session.open_storage()
    if not driver.offers_direct_uploads:
        raise NotSupported
    for index, crc32 in chunks:
        if not session.get_size_of(index + 1):
            raise BadRequest(f"there is no chunk {index}: the upload has {session.chunk_count}")
        _check_crc32(crc32, index)
    token = session.facts.partial.token
    return [
        await driver.sign_part(path, token, index + 1, session.get_size_of(index + 1), crc32) for index, crc32 in chunks
    ]


def _check_crc32(text: str, index: int) -> None:
    try:
        is_good = len(base64.b64decode(text, validate=True)) == 4
    except ValueError:
        is_good = False
    if not is_good:
        raise BadRequest(f"the CRC-32 of chunk {index} is not four bytes in Base64")


async def sign_upload(access: PathAccess, upload: Upload, overwrite: bool) -> SignedRequest:
    """Return the request with which the client stores a whole file at a path.

    This service does not notice when the client sends it. A listing shows the file as soon as the folder is read again.
    """
    access.parent.require(Right.WRITE)
    driver = (await access.locate("")).driver
    if not driver.offers_direct_uploads:
        raise NotSupported
    access, storage_path = await uploads.prepare(access, overwrite)
    if (upload.size or 0) > MAX_PUT_BYTES:
        raise TooLarge(f"one request stores at most {MAX_PUT_BYTES} bytes")
    replaceable = overwrite and access.parent.may_replace(access)
    change = journal.change_folders(Touched(storage_path.parent))
    change.read(storage_path.parent)  # a file that is stored later is found when the folder is read
    async with change:
        try:
            return await driver.sign_upload(storage_path.path, replace(upload, overwrite=replaceable))
        except EntryExists:
            raise NameConflict from None
