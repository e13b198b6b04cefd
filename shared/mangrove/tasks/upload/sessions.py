"""Sessions of uploads in parts: their record, the parts that are there, and what is dropped with them.

The parts of a session are stored where the file belongs, when clients can send to that storage directly; else they are
put together in staging, and a task carries the file on. Which parts are there the storage itself says, where it can
list them; else each has a receipt in the records. The intent is recorded before anything is begun.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
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
)
from mangrove.drivers.base import Driver, Entry, StoredPart, Upload
from mangrove.identity.rights import Caller
from mangrove.records.store.base import RecordConflict
from mangrove.records.tasks import model as task_records
from mangrove.records.tasks import uploads as records
from mangrove.records.tasks.uploads import Receipt, UploadSession
from mangrove.tasks.core import partials, staging
from mangrove.tasks.core.specs import PartialFile, StoredModel
from mangrove.tree import mounts
from mangrove.tree.mounts import select_mount

SESSION_SECONDS = 14 * 24 * 3600.0  # in which an upload can be gone on with
RECORD_SECONDS = 2 * SESSION_SECONDS  # after which the table forgets what could not be dropped
PAGE = 100  # sessions that are looked at together
BEING_COMPLETED = "the upload is being completed"
SHOWN_SECONDS = 24 * 3600.0  # that a session which has ended is still shown


class SessionState(StrEnum):
    """COMPLETING: the client has sent all; whoever asks to complete goes on with that."""

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
    """`path`: what was asked for, absolute; `target`: where it goes, in the storage `storage_id`. `modified` in seconds
    since the epoch. `identity`: what tells one file from another of the same size, "" for nothing.

    `stage`: the task that carries the file on from staging, "" when the parts are stored where it belongs; `is_opened`:
    that task is, or is going to be, in the queue. `etag`: what the finished file has. `error`: why it failed.
    """

    version: Literal[1] = 1
    path: str
    target: str
    storage_id: int
    size: int
    modified: float
    mime: str
    overwrite: bool
    identity: str
    hashes: dict[str, str]
    partial: PartialFile
    stage: str = ""
    is_opened: bool = False
    etag: str = ""
    error: str = ""


class Session:
    """One session, as it was read or saved last."""

    def __init__(self, record: UploadSession) -> None:
        self._read(record)

    def _read(self, record: UploadSession) -> None:
        self._record = record
        self.facts = SessionFacts.load(record.spec)
        self.state = SessionState(record.state)

    @classmethod
    def make(cls, owner: int, facts: SessionFacts) -> Session:
        """A new one, that is not saved yet."""
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
        """Bytes of the part `number` (from 1); 0 for one that does not belong to the file."""
        return max(0, min(self.chunk_size, self.facts.size - (number - 1) * self.chunk_size)) if number > 0 else 0

    def explain_end(self) -> str:
        """Return the reason why it takes no more chunks."""
        if self.state is SessionState.COMPLETING:
            return BEING_COMPLETED
        return f"upload failed ({self.state}): {self.facts.error or 'it takes no more chunks'}"

    def make_upload(self, *, overwrite: bool = True, durable: bool = False) -> Upload:
        """What is known of the file."""
        facts = self.facts
        return Upload(facts.size, facts.modified, facts.mime, overwrite, durable)

    async def save(self, state: SessionState | None = None) -> None:
        """Store it; RecordConflict when another request changed it meanwhile."""
        record = replace(self._record, state=state or self.state, spec=self.facts.dump())
        self._record = await asyncio.to_thread(records.save, record)
        self.state = SessionState(self._record.state)

    async def reload(self) -> None:
        """Read it anew; ResourceNotFound."""
        try:
            self._read(await asyncio.to_thread(records.get, self.id))
        except RecordNotFound:
            raise ResourceNotFound("multipart upload session not found") from None

    async def open_storage(self) -> tuple[Driver, TreePath]:
        """Where the parts are; StorageProblem where that storage is no more."""
        if self.facts.stage:
            return await staging.driver(), TreePath(self.facts.partial.path)
        mount, _ = select_mount(await mounts.ready(), TreePath(self.facts.target))
        if mount.storage.id != self.facts.storage_id:
            raise StorageProblem("another storage is mounted there by now")
        return await mount.get_driver(), TreePath(self.facts.partial.path)

    async def begin_parts(self) -> None:
        """Begin the file where its parts are stored, and save the token; what an earlier attempt began is dropped."""
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
        """The parts that are there and have the right size, by number; EntryNotFound when the storage lost the
        upload."""
        driver, path = await self.open_storage()
        partial = self.facts.partial
        if not partial.token:
            await self.begin_parts()
        if driver.capabilities.direct_uploads:
            found = await driver.list_parts(path, partial.token)
        elif partials.is_torn(partial, driver):
            await asyncio.to_thread(records.delete_receipts, self.id)
            await self.begin_parts()
            found = []
        else:
            receipts = await asyncio.to_thread(records.list_receipts, self.id)
            found = [StoredPart(one.number, one.size, one.text) for one in receipts]
        return [part for part in found if part.size == self.get_size_of(part.number)]

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
        """The finished file, where the parts were; None when it is not there, or is another one."""
        driver, path = await self.open_storage()
        try:
            found = await driver.stat(path)
        except EntryNotFound:
            return None
        is_same = bool(self.facts.stage) or (self.facts.etag != "" and found.etag == self.facts.etag)
        return found if is_same and found.size == self.facts.size else None

    async def fail(self, reason: str) -> None:
        """End it for good, unless another request has."""
        while self.state.is_open:
            self.facts.error = reason
            try:
                await self.save(SessionState.FAILED)
            except RecordConflict:
                await self.reload()
            else:
                await self.drop()

    async def drop(self) -> bool:
        """Drop the parts, and what is staged of a file that no task carries on; whether that could be done."""
        if self.is_completed or self.facts.is_opened:
            return True
        is_dropped = await partials.try_abort(self.facts.partial)
        if self.facts.stage:
            await staging.clear(self.facts.stage)
        return is_dropped


async def load(caller: Caller, id: str) -> Session:
    """A session of the caller; ResourceNotFound, or AccessDenied for somebody else's."""
    try:
        session = Session(await asyncio.to_thread(records.get, id))
    except RecordNotFound:
        raise ResourceNotFound("multipart upload session not found") from None
    if session.owner != caller.user.id:
        raise AccessDenied("multipart upload session belongs to another user")
    if session.created < time.time() - SESSION_SECONDS:
        raise ResourceNotFound("multipart upload session not found")
    return session


async def find_open(caller: Caller, path: TreePath, size: int) -> list[Session]:
    """The sessions of a user for a path and a size that are not over, the newest first. Guests are many people: theirs
    are found by their id alone."""
    if caller.is_guest:
        return []
    found = await asyncio.to_thread(records.find, records.make_file_key(caller.user.id, path, size))
    sessions = [Session(record) for record in found if record.created >= time.time() - SESSION_SECONDS]
    return [session for session in sessions if session.state.is_open]


async def sweep_sessions() -> set[str]:
    """Drop what was abandoned: sessions that are too old, and those of users and storages that are no more. The tasks
    that the others are going to open."""
    now, site = time.time(), await configuration.get()
    storages = {storage.id for storage in site.storages}
    kept: set[str] = set()
    rows = records.scan()
    while batch := await asyncio.to_thread(lambda: list(islice(rows, PAGE))):
        for record in batch:
            try:
                session = Session(record)
            except Problem:
                continue  # of another version: the table forgets it
            has_ended = not session.state.is_open and session.created < now - SHOWN_SECONDS
            is_lost = session.facts.storage_id not in storages or await users.find_by_id(session.owner) is None
            if has_ended or is_lost or session.created < now - SESSION_SECONDS:
                await _remove(session)
            else:
                kept.add(session.facts.stage)
    return kept


async def _remove(session: Session) -> None:
    """Drop a session; one that another request goes on with stays, and so does one whose storage does not answer."""
    try:
        if session.state.is_open:
            await session.save(SessionState.ABORTED)
        if await session.drop():
            await asyncio.to_thread(records.delete, session.id)
    except RecordConflict:
        pass  # the next sweep looks at it again


def find_task(session: Session) -> task_records.Task | None:
    """The task that carries the file on; None when there is none, or no more."""
    if not session.facts.is_opened:
        return None
    try:
        return task_records.get(session.facts.stage)
    except RecordNotFound:
        return None
