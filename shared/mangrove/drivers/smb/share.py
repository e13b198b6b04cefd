"""A share of a server over one connection: blocking calls, each one request and its answer."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from smbprotocol import Dialects
from smbprotocol.connection import Request
from smbprotocol.exceptions import SMBException, SMBResponseException
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

from mangrove.core.problems import EntryNotFound, NotSupported, StorageProblem
from mangrove.drivers.base import BLOCK
from mangrove.drivers.smb import messages
from mangrove.drivers.smb.errors import NO_ROOM
from mangrove.drivers.smb.link import ANSWER_SECONDS, OPEN_SECONDS, Link
from mangrove.drivers.smb.messages import Access, Disposition, Message, Sharing, Status
from mangrove.drivers.smb.names import is_possible
from mangrove.drivers.smb.options import Target

CREDITS = 384  # asked for: a block of a mebibyte takes 16, and 8 callers have one on its way each
PAGE = 1 << 16  # bytes of a listing that has one name
NO_ROOM_SECONDS = 0.2
LONG_SECONDS = 600.0  # for an answer to what lets the server write or copy much
logging.getLogger("smbprotocol").setLevel(logging.CRITICAL)  # what fails is said to who called


class Opened:
    """A handle and what the server said about the file when it was opened."""

    __slots__ = ("handle", "status")

    def __init__(self, handle: bytes, status: Status) -> None:
        self.handle = handle
        self.status = status


class Share:
    """Signed in with a session of its own, which is never shared with another storage."""

    def __init__(self, target: Target, depth: int = 0) -> None:
        self._depth = depth  # folders of the share above the storage's root
        self._target = target
        self._link = Link(target.host, target.port)
        self._session = 0
        self._tree = 0
        self.block = BLOCK  # bytes that one request reads or writes at most
        self.transact = BLOCK  # bytes that one request lists at most

    @property
    def is_open(self) -> bool:
        """Whether it is fit for use, as far as is known here."""
        return self._tree != 0 and not self._link.is_ended

    def connect(self) -> None:
        """Connect, sign in and connect to the share; the connection is closed if any of it fails. A server that has no
        room for it at the moment is asked once more."""
        try:
            self._try_to_connect()
        except SMBResponseException as error:
            if error.status not in NO_ROOM:
                raise
            time.sleep(NO_ROOM_SECONDS)
            self._link = Link(self._target.host, self._target.port)
            self._try_to_connect()

    def _try_to_connect(self) -> None:
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        self._link.connect(timeout=OPEN_SECONDS)
        if self._link.dialect < Dialects.SMB_2_1_0:
            raise NotSupported("the server speaks no SMB of version 2.1 or later")
        target = self._target
        session = Session(self._link, target.username, target.password, require_encryption=False, auth_protocol="ntlm")
        session.connect()
        tree = TreeConnect(session, target.unc)
        tree.connect()
        tree.is_dfs_share = False  # paths are the share's own: nothing is followed to another server
        self._session, self._tree = session.session_id, tree.tree_connect_id
        self._link.echo(sid=self._session, timeout=OPEN_SECONDS, credit_request=CREDITS)
        self.block = min(BLOCK, self._link.max_read_size, self._link.max_write_size)
        self.transact = self._link.max_transact_size
        self._link.answer_seconds = ANSWER_SECONDS

    def echo(self) -> None:
        self._link.echo(sid=self._session, timeout=OPEN_SECONDS)

    def close(self) -> None:
        """Close the connection, and with it all that is open on it; never waits for the server."""
        self._tree = 0
        self._link.end()

    def __del__(self) -> None:
        self._link.end()  # its thread would hold it until the server ends it

    def call(self, message: Message, seconds: float | None = None) -> bytes:
        """The body of the answer to a request."""
        return self.take(self.ask(message), seconds)

    def ask(self, message: Message) -> Request:
        """Send a request, whose answer has to be taken."""
        return self._link.send(message, self._session, self._tree)

    def take(self, request: Request, seconds: float | None = None) -> bytes:
        """The body of the answer."""
        body: bytes = self._link.receive(request, timeout=seconds)["data"].get_value()
        return body

    def call_all(self, chain: Sequence[Message]) -> list[bytes | SMBResponseException]:
        """The answers to requests that go together: one that opens a file, and what is done with it."""
        answers: list[bytes | SMBResponseException] = []
        for request in self._link.send_compound(chain, self._session, self._tree, related=True):
            try:
                answers.append(self._link.receive(request)["data"].get_value())
            except SMBResponseException as error:
                answers.append(error)
        if isinstance(answers[0], SMBResponseException):
            raise answers[0]
        return answers

    def get_status(self, name: str, options: int = 0) -> Status:
        """The status of a file or folder; EntryNotFound when its folder lists it by another name."""
        answers = self._ask_name(name, options)
        self._check_name(name, answers[1], direct=False)
        return messages.parse_created(expect(answers[0]))[1]

    def _ask_name(self, name: str, options: int = 0) -> list[bytes | SMBResponseException]:
        """What opening answers, and what the stored name."""
        message = messages.create(name, Access.ATTRIBUTES, options=options)
        return self.call_all([message, messages.query_name(messages.THIS), messages.close()])

    def open(
        self,
        name: str,
        access: int,
        *,
        options: int = 0,
        sharing: int = Sharing.ALL,
        disposition: int = Disposition.OPEN,
        direct: bool = False,
    ) -> Opened:
        """A handle, which has to be closed; EntryNotFound as for `get_status`. `direct`: StorageProblem for what lies
        behind a link of the server."""
        message = messages.create(
            name, access | Access.ATTRIBUTES, options=options, sharing=sharing, disposition=disposition
        )
        answers = self.call_all([message, messages.query_name(messages.THIS)])
        opened = Opened(*messages.parse_created(expect(answers[0])))
        try:
            self._check_name(name, answers[1], direct)
        except BaseException:
            with suppress(SMBException):
                if disposition == Disposition.CREATE and access & Access.DELETE:
                    self.call(messages.set_deleted(opened.handle))  # it came into a folder that nobody named
            self.close_handle(opened)
            raise
        return opened

    def _check_name(self, name: str, answer: bytes | SMBResponseException, direct: bool) -> None:
        """EntryNotFound unless every folder on the way lists the next one by the name in the path: the server takes
        other letters and short names too, and what holds for a path must not be got around so.

        Of most files the stored name says so. It is another one behind a link that the server follows by itself: one
        within the storage's root is as good, unless `direct`.
        """
        stored = None
        if not isinstance(answer, SMBResponseException):
            stored = messages.parse_name(messages.parse_buffer(answer))
            if self._is_same(name, stored):
                return
        if not self._is_listed(name):
            raise EntryNotFound
        if stored is None:
            return
        if direct and not self._is_same(name, stored, is_stand_in=True):
            raise StorageProblem("this lies behind a link of the server: it is not removed or renamed there")
        home = _split("\\".join(_split(name)[: self._depth]))
        answer = self._ask_name("\\".join(home))[1]
        if not isinstance(answer, SMBResponseException):
            home = _split(messages.parse_name(messages.parse_buffer(answer)))
        if [part.casefold() for part in _split(stored)[: len(home)]] != [part.casefold() for part in home]:
            raise EntryNotFound

    def _is_same(self, name: str, stored: str, *, is_stand_in: bool = False) -> bool:
        """Whether a path below the storage's root is stored so; `is_stand_in`: or by names that SMB cannot hold, for
        which the server makes up others."""
        one, other = _split(name)[self._depth :], _split(stored)[self._depth :]
        if len(one) != len(other):
            return False
        return all(a == b or (is_stand_in and not is_possible(b)) for a, b in zip(one, other, strict=True))

    def is_behind_link(self, name: str) -> bool:
        """Whether a path is stored at another one: the server follows a link on the way."""
        answer = self._ask_name(name, messages.Options.REPARSE_POINT)[1]
        if isinstance(answer, SMBResponseException):
            return False
        return not self._is_same(name, messages.parse_name(messages.parse_buffer(answer)), is_stand_in=True)

    def _is_listed(self, name: str) -> bool:
        """Whether every folder from the storage's root on lists the next name of a path exactly so."""
        parts = _split(name)
        for depth in range(self._depth, len(parts)):
            folder = messages.create("\\".join(parts[:depth]), Access.READ, options=messages.Options.DIRECTORY)
            query = messages.query_directory(messages.THIS, PAGE, parts[depth])
            answer = self.call_all([folder, query, messages.close()])[1]
            if isinstance(answer, SMBResponseException):
                return False
            found, _ = messages.parse_entries(messages.parse_buffer(answer), 0, PAGE)
            if parts[depth] not in [entry for entry, _ in found]:
                return False
        return True

    def close_handle(self, opened: Opened) -> None:
        """Close a handle; where the connection has ended, it is closed already."""
        with suppress(SMBException, OSError):
            self.call(messages.close(opened.handle))

    @contextmanager
    def opened(
        self,
        name: str,
        access: int,
        *,
        options: int = 0,
        sharing: int = Sharing.ALL,
        disposition: int = Disposition.OPEN,
        direct: bool = False,
    ) -> Iterator[Opened]:
        """A handle for as long as the block lasts."""
        opened = self.open(name, access, options=options, sharing=sharing, disposition=disposition, direct=direct)
        try:
            yield opened
        finally:
            self.close_handle(opened)

    def read(self, opened: Opened, offset: int, length: int) -> bytes:
        """At most `length` bytes, and no more than a block; none at the end of the file."""
        try:
            return messages.parse_read(self.call(messages.read(opened.handle, offset, min(length, self.block))))
        except SMBResponseException as error:
            if error.status != messages.END_OF_FILE:
                raise
            return b""

    def write(self, opened: Opened, offset: int, content: bytes) -> None:
        """Write all of it, in as many requests as the server takes."""
        view = memoryview(content)
        while view:
            done = messages.parse_written(self.call(messages.write(opened.handle, offset, view[: self.block])))
            if done <= 0:
                raise SMBException("it wrote nothing")
            view, offset = view[done:], offset + done

    def flush(self, opened: Opened) -> None:
        """Have the server store what was written so that it survives a power cut."""
        self.call(messages.flush(opened.handle), LONG_SECONDS)

    def get_space(self, name: str) -> tuple[int, int]:
        """Bytes in total and free."""
        with self.opened(name, 0, options=messages.Options.DIRECTORY) as opened:
            return messages.parse_space(messages.parse_buffer(self.call(messages.query_space(opened.handle))))


def _split(name: str) -> list[str]:
    return [part for part in name.split("\\") if part]


def expect(answer: bytes | SMBResponseException) -> bytes:
    """An answer that has to be there."""
    if isinstance(answer, SMBResponseException):
        raise answer
    return answer
