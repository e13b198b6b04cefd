"""Sessions of uploads in parts: their records, their stored parts, and their removal.

If clients can send to the storage of the file directly, the parts are stored there. Otherwise they are joined in
staging, and a task transfers the file. A storage that can list parts tells which of them are stored; otherwise each
part has a receipt in the records. The intent is recorded before the storage is called.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import Literal

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import (
    AccessDenied,
    EntryNotFound,
    NotSupported,
    Problem,
    RecordNotFound,
    ResourceNotFound,
    StorageProblem,
    TooMany,
)
from mangrove.drivers.base import Driver, Entry, StoredPart, Upload
from mangrove.identity.rights import SHARE_VISITOR, Caller, GuestDisabled
from mangrove.records import open_uploads
from mangrove.records.store.base import RecordConflict
from mangrove.records.tasks import model as task_records
from mangrove.records.tasks import uploads as records
from mangrove.records.tasks.uploads import Receipt, UploadSession
from mangrove.tasks.core import partials, staging
from mangrove.tasks.core.model import PartialFile, StoredModel
from mangrove.tree import mounts
from mangrove.tree.mounts import select_mount

SESSION_SECONDS = 14 * 24 * 3600.0  # for which an upload can be continued
RECORD_SECONDS = 2 * SESSION_SECONDS  # after which the table deletes sessions whose parts could not be dropped
SWEEP_PAGE_SIZE = 100  # sessions
BEING_COMPLETED = "the upload is being completed"
OPEN_UPLOADS_REFUSAL = "too many uploads through this share link have begun and not ended, end one or try again later"
OPEN_RETRY_SECONDS = 600
ENDED_SESSION_SECONDS = 24 * 3600.0  # for which a session that has ended is still shown


class SessionState(StrEnum):
    """The state of a session. COMPLETING: all parts are sent; a request to complete it continues from there."""

    RECEIVING = "receiving"
    COMPLETING = "completing"
    COMPLETED = "completed"
    FAILED = "failed_permanent"
    ABORTED = "aborted"

    @property
    def is_open(self) -> bool:
        return self in (SessionState.RECEIVING, SessionState.COMPLETING)


@dataclass(kw_only=True)
class SessionFacts(StoredModel):
    """The file of a session, as it is in the records."""

    version: Literal[1] = 1
    path: str
    """The absolute path of the request."""
    target: str
    """The absolute path where the file is stored."""
    storage_id: int
    """The storage of `target`."""
    size: int
    modified: float
    """In seconds since the epoch."""
    mime: str
    overwrite: bool
    identity: str
    """Distinguishes the file from others of the same path and size; "" if the client did not send it."""
    hashes: dict[str, str]
    partial: PartialFile
    stage: str = ""
    """The id of the task that transfers the file from staging; "" if the parts are stored in the storage."""
    is_opened: bool = False
    """That task is enqueued, or about to be."""
    etag: str = ""
    """The ETag of the finished file."""
    error: str = ""
    """The reason why the session failed."""
    share: str = ""
    """The id of the share link through which a visitor sends the file; `path` is a path of the share then."""
    share_number: int = 0
    """The number of that share link."""
    sha256: str = ""
    """The SHA-256 of the finished file of a visitor, hexadecimal; "" if it was not computed."""
    is_counted: bool = False
    """The file counts for the limits of the share link."""


class Session:
    """A session as it was last read or saved."""

    def __init__(self, record: UploadSession) -> None:
        self._read(record)

    def _read(self, record: UploadSession) -> None:
        self._record = record
        self.facts = SessionFacts.load(record.spec)
        self.state = SessionState(record.state)

    @classmethod
    def make(cls, owner: int, facts: SessionFacts) -> Session:
        """Return a new session that is not saved yet."""
        id, now = records.make_id(records.make_file_key(owner, facts.path, facts.size)), time.time()
        return cls(UploadSession(id, owner, SessionState.RECEIVING, now, facts.dump(), now + RECORD_SECONDS))

    @property
    def id(self) -> str:
        return self._record.id

    @property
    def owner(self) -> int:
        return self._record.owner

    @property
    def created(self) -> float:
        return self._record.created

    @property
    def is_completed(self) -> bool:
        return self.state is SessionState.COMPLETED

    @property
    def chunk_size(self) -> int:
        return self.facts.partial.length

    @property
    def chunk_count(self) -> int:
        return -(-self.facts.size // self.chunk_size)

    def get_size_of(self, number: int) -> int:
        """Return the bytes of the part `number` (from 1); 0 for a part that does not belong to the file."""
        return max(0, min(self.chunk_size, self.facts.size - (number - 1) * self.chunk_size)) if number > 0 else 0

    def explain_end(self) -> str:
        """Return the reason why the session takes no more chunks."""
        if self.state is SessionState.COMPLETING:
            return BEING_COMPLETED
        return f"upload failed ({self.state}): {self.facts.error or 'it takes no more chunks'}"

    def make_upload(self, *, overwrite: bool = True, durable: bool = False) -> Upload:
        """Return the data of the file that are known."""
        facts = self.facts
        return Upload(facts.size, facts.modified, facts.mime, overwrite, durable)

    async def save(self, state: SessionState | None = None) -> None:
        """Store the session. Raise RecordConflict if another request has changed it meanwhile."""
        record = replace(self._record, state=state or self.state, spec=self.facts.dump())
        self._record = await asyncio.to_thread(records.save, record)
        self.state = SessionState(self._record.state)
        if not self.state.is_open:
            await self.end_shared()

    async def begin_shared(self, sender: str) -> None:
        """Count an upload of a visitor, from an address, before it is stored. Raise TooMany above a bound."""
        number = self.facts.share_number
        if not await asyncio.to_thread(open_uploads.begin, number, sender, self.id, SESSION_SECONDS, _find_open):
            raise TooMany(OPEN_UPLOADS_REFUSAL, retry_after=OPEN_RETRY_SECONDS)

    async def end_shared(self) -> None:
        """Forget an upload of a visitor that has ended."""
        if self.facts.share_number:
            await asyncio.to_thread(open_uploads.end, self.facts.share_number, self.id)

    async def reload(self) -> None:
        """Read the session again. Raise ResourceNotFound if it is gone."""
        try:
            self._read(await asyncio.to_thread(records.get, self.id))
        except RecordNotFound:
            raise ResourceNotFound("multipart upload session not found") from None

    async def open_storage(self) -> tuple[Driver, TreePath]:
        """Return the driver and path of the parts.

        Raise StorageProblem if that storage is not mounted there any more.
        """
        if self.facts.stage:
            return await staging.driver(), TreePath(self.facts.partial.path)
        mount, _ = select_mount(await mounts.ready(), TreePath(self.facts.target))
        if mount.storage.id != self.facts.storage_id:
            raise StorageProblem("another storage is mounted there now")
        return await mount.get_driver(), TreePath(self.facts.partial.path)

    async def begin_parts(self) -> None:
        """Start the file in the storage of its parts, and save the token. The file of an earlier attempt is dropped."""
        driver, path = await self.open_storage()
        if not driver.capabilities.parts:
            raise NotSupported
        partial = self.facts.partial
        if self.facts.stage:
            await staging.make_parent(path)
        await driver.abort_by_key(path, partial.key)
        partial.boot = platform().read_boot_id()
        partial.token = await driver.begin(path, self.make_upload(), partial.key)
        await self.save()

    async def list_parts(self) -> Sequence[StoredPart]:
        """Return the stored parts with the right size, by number. Raise EntryNotFound if the storage has lost the
        upload."""
        driver, path = await self.open_storage()
        partial = self.facts.partial
        if not partial.token:
            await self.begin_parts()
        if driver.capabilities.direct_uploads:
            parts = list(await driver.list_parts(path, partial.token))
        elif partials.is_torn(partial, driver):
            await asyncio.to_thread(records.delete_receipts, self.id)
            await self.begin_parts()
            parts = []
        else:
            receipts = await asyncio.to_thread(records.list_receipts, self.id)
            parts = [StoredPart(receipt.number, receipt.size, receipt.text) for receipt in receipts]
        return [part for part in parts if part.size == self.get_size_of(part.number)]

    async def write_part(self, number: int, content: bytes) -> None:
        """Store a part that passed through this service."""
        driver, path = await self.open_storage()
        token, offset = self.facts.partial.token, (number - 1) * self.chunk_size
        is_listed = driver.capabilities.direct_uploads
        if not is_listed:
            await asyncio.to_thread(records.delete_receipt, self.id, number)
        text = await driver.write_part(path, token, number, offset, content)
        if not is_listed:
            await asyncio.to_thread(records.put_receipt, self._record, Receipt(number, len(content), text))

    async def find_stored(self) -> Entry | None:
        """Return the finished file; None if there is none, or if another file has its path."""
        driver, path = await self.open_storage()
        try:
            entry = await driver.stat(path)
        except EntryNotFound:
            return None
        is_same = bool(self.facts.stage) or (self.facts.etag != "" and entry.etag == self.facts.etag)
        return entry if is_same and entry.size == self.facts.size else None

    async def fail(self, reason: str) -> None:
        """End the session for good, unless another request has ended it."""
        while self.state.is_open:
            self.facts.error = reason
            try:
                await self.save(SessionState.FAILED)
            except RecordConflict:
                await self.reload()
            else:
                await self.drop()

    async def drop(self) -> bool:
        """Drop the parts, and the staged file if no task transfers it. True if that succeeded."""
        if self.is_completed or self.facts.is_opened:
            return True
        is_dropped = await partials.try_abort(self.facts.partial)
        if self.facts.stage:
            await staging.clear(self.facts.stage)
        return is_dropped


def _find_open(ids: Collection[str]) -> list[str]:
    return [id for id in ids if _is_open(id)]


def _is_open(id: str) -> bool:
    try:
        return SessionState(records.get(id).state).is_open
    except RecordNotFound:
        return False


async def load(caller: Caller, id: str) -> Session:
    """Return a session of the caller, or one through a share link: its visitor has to know the id.

    Raise ResourceNotFound if there is none, AccessDenied if it belongs to another user.
    """
    try:
        session = Session(await asyncio.to_thread(records.get, id))
    except RecordNotFound:
        if caller.user.id == SHARE_VISITOR.id:
            raise GuestDisabled from None
        raise ResourceNotFound("multipart upload session not found") from None
    if session.facts.share and session.created >= time.time() - SESSION_SECONDS:
        return session
    if caller.user.id == SHARE_VISITOR.id:
        raise GuestDisabled
    is_outside = caller.scope is not None and not TreePath(session.facts.path).within(caller.base)
    if session.owner != caller.user.id or is_outside:
        raise AccessDenied("multipart upload session belongs to another user")
    if session.created < time.time() - SESSION_SECONDS:
        raise ResourceNotFound("multipart upload session not found")
    return session


async def find_open(caller: Caller, path: TreePath, size: int) -> list[Session]:
    """Return the unfinished sessions of a user for a path and a size, the newest first.

    A guest has to know the id of a session, since many people share that account.
    """
    if caller.is_guest:
        return []
    rows = await asyncio.to_thread(records.find, records.make_file_key(caller.user.id, path, size))
    sessions = [Session(record) for record in rows if record.created >= time.time() - SESSION_SECONDS]
    return [session for session in sessions if session.state.is_open]


async def sweep_sessions() -> set[str]:
    """Drop abandoned sessions: those that are too old, and those whose user or storage is gone. Return the ids of the
    tasks of the other sessions."""
    now = time.time()
    storages = {storage.id for storage in (await configuration.get()).storages}
    task_ids: set[str] = set()
    rows = records.scan()
    while batch := await asyncio.to_thread(lambda: list(islice(rows, SWEEP_PAGE_SIZE))):
        for record in batch:
            try:
                session = Session(record)
            except Problem:
                continue  # of another version: the table deletes it
            has_ended = not session.state.is_open and session.created < now - ENDED_SESSION_SECONDS
            is_lost = session.facts.storage_id not in storages or await users.find_by_id(session.owner) is None
            if has_ended or is_lost or session.created < now - SESSION_SECONDS:
                await _remove(session)
            else:
                task_ids.add(session.facts.stage)
    return task_ids


async def _remove(session: Session) -> None:
    """Drop a session, unless another request continues it or its storage does not answer."""
    try:
        if session.state.is_open:
            await session.save(SessionState.ABORTED)
        await session.end_shared()
        if await session.drop():
            await asyncio.to_thread(records.delete, session.id)
    except RecordConflict:
        pass  # the next sweep tries again


def find_task(session: Session) -> task_records.Task | None:
    """Return the task that transfers the file; None before it is enqueued, or after its removal."""
    if not session.facts.is_opened:
        return None
    try:
        return task_records.get(session.facts.stage)
    except RecordNotFound:
        return None
