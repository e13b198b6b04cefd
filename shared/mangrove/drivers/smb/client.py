"""A share of an SMB server over one connection: blocking calls, each one request and its answer.

The messages are packed by this package instead of smbclient: a file is looked up, checked for the exact name and closed
in one compound request, and a storage has a session of its own.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from smbprotocol import Dialects
from smbprotocol.connection import Request
from smbprotocol.exceptions import SMBException, SMBResponseException
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotSupported, StorageProblem
from mangrove.drivers.base import BLOCK
from mangrove.drivers.part_names import has_part
from mangrove.drivers.smb import messages
from mangrove.drivers.smb.connection import ANSWER_TIMEOUT_SECONDS, CONNECT_TIMEOUT_SECONDS, SmbConnection
from mangrove.drivers.smb.errors import OVERLOADED, refuse_name
from mangrove.drivers.smb.messages import Access, Disposition, FileStatus, Sharing, SmbMessage
from mangrove.drivers.smb.options import ShareAddress

REQUESTED_CREDITS = 384  # a block of 1 MiB needs 16, and 8 callers send a block each
MAX_NAME_LISTING_BYTES = 1 << 16  # of a listing for one name
OVERLOADED_RETRY_SECONDS = 0.2
DISK_ANSWER_TIMEOUT_SECONDS = 600.0  # for requests that make the server write or copy many bytes
logging.getLogger("smbprotocol").setLevel(logging.CRITICAL)  # callers report the failures
_REFUSED = re.compile(
    r"""[\x00-\x1f"*:<>?|\\/]|[. ]$|^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(\.|$)""",
    re.IGNORECASE,
)
MAX_NAME_UNITS = 255  # UTF-16 units


def is_valid_name(name: str) -> bool:
    """True if a server stores a name unchanged; some names would lose a trailing dot."""
    return _REFUSED.search(name) is None and len(name.encode("utf-16-le")) <= 2 * MAX_NAME_UNITS


class StorageRoot:
    """The folder of a share that is the root of a storage."""

    def __init__(self, path: TreePath) -> None:
        self.path = path
        self.depth = sum(map(bool, path.split("/")))

    def find(self, path: TreePath) -> str:
        """Return the name of a path on the server, relative to the share. Raise EntryNotFound if it cannot exist."""
        if has_part(path) or not all(map(is_valid_name, path.split("/"))):
            raise EntryNotFound
        return self._join(path)

    def make(self, path: TreePath) -> str:
        """Return the name of a new path on the server. Raise StorageProblem for a name that the server cannot store."""
        for name in str(path).split("/"):
            if not is_valid_name(name):
                raise refuse_name(name)
        return self._join(path)

    def _join(self, path: TreePath) -> str:
        return str(self.path / str(path)).strip("/").replace("/", "\\")


class OpenHandle:
    """A handle, and the status of the file when it was opened."""

    __slots__ = ("handle", "status")

    def __init__(self, handle: bytes, status: FileStatus) -> None:
        self.handle = handle
        self.status = status


class Share:
    """A share with a session of its own, which no other storage uses."""

    def __init__(self, target: ShareAddress, depth: int = 0) -> None:
        self._depth = depth  # folders of the share above the storage's root
        self._target = target
        self._connection = SmbConnection(target.host, target.port)
        self._session = 0
        self._tree = 0
        self.max_block = BLOCK  # bytes that a request reads or writes
        self.max_listing = BLOCK  # bytes that a request lists

    @property
    def is_open(self) -> bool:
        """True if the share can be used, as far as this side knows."""
        return self._tree != 0 and not self._connection.is_ended

    def connect(self) -> None:
        """Connect, sign in and open the share; close the connection after a failure.

        An overloaded server gets a second attempt.
        """
        try:
            self._try_to_connect()
        except SMBResponseException as error:
            if error.status not in OVERLOADED:
                raise
            time.sleep(OVERLOADED_RETRY_SECONDS)
            self._connection = SmbConnection(self._target.host, self._target.port)
            self._try_to_connect()

    def _try_to_connect(self) -> None:
        try:
            self._connect()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        self._connection.connect(timeout=CONNECT_TIMEOUT_SECONDS)
        if self._connection.dialect < Dialects.SMB_2_1_0:
            raise NotSupported("the server does not speak SMB 2.1 or later")
        target = self._target
        session = Session(
            self._connection, target.username, target.password, require_encryption=False, auth_protocol="ntlm"
        )
        session.connect()
        tree = TreeConnect(session, target.unc)
        tree.connect()
        tree.is_dfs_share = False  # paths are of this share: links to other servers are not followed
        self._session, self._tree = session.session_id, tree.tree_connect_id
        self._connection.echo(sid=self._session, timeout=CONNECT_TIMEOUT_SECONDS, credit_request=REQUESTED_CREDITS)
        self.max_block = min(BLOCK, self._connection.max_read_size, self._connection.max_write_size)
        self.max_listing = self._connection.max_transact_size
        self._connection.answer_timeout_seconds = ANSWER_TIMEOUT_SECONDS

    def echo(self) -> None:
        self._connection.echo(sid=self._session, timeout=CONNECT_TIMEOUT_SECONDS)

    def close(self) -> None:
        """Close the connection and all its handles without waiting for the server."""
        self._tree = 0
        self._connection.end()

    def __del__(self) -> None:
        self._connection.end()  # otherwise its thread keeps it until the server closes it

    def call(self, message: SmbMessage, seconds: float | None = None) -> bytes:
        """Send a request and return the body of the answer."""
        return self.receive(self.send(message), seconds)

    def send(self, message: SmbMessage) -> Request:
        """Send a request whose answer has to be received."""
        return self._connection.send(message, self._session, self._tree)

    def receive(self, request: Request, seconds: float | None = None) -> bytes:
        """Return the body of the answer to a request."""
        body: bytes = self._connection.receive(request, timeout=seconds)["data"].get_value()
        return body

    def call_all(self, chain: Sequence[SmbMessage]) -> list[bytes | SMBResponseException]:
        """Return the answers to a compound request: one that opens a file, and others that use it."""
        answers: list[bytes | SMBResponseException] = []
        for request in self._connection.send_compound(chain, self._session, self._tree, related=True):
            try:
                answers.append(self._connection.receive(request)["data"].get_value())
            except SMBResponseException as error:
                answers.append(error)
        if isinstance(answers[0], SMBResponseException):
            raise answers[0]
        return answers

    def get_status(self, name: str, options: int = 0) -> FileStatus:
        """Return the status of a file or folder. Raise EntryNotFound if its folder lists it under another name."""
        answers = self._query_name(name, options)
        self._check_name(name, answers[1], direct=False)
        return messages.parse_created(require(answers[0]))[1]

    def _query_name(self, name: str, options: int = 0) -> list[bytes | SMBResponseException]:
        """Return the answers to opening a file and to the query of its stored name."""
        message = messages.create(name, Access.ATTRIBUTES, options=options)
        return self.call_all([message, messages.query_name(messages.PREVIOUS_HANDLE), messages.close()])

    def open(
        self,
        name: str,
        access: int,
        *,
        options: int = 0,
        sharing: int = Sharing.ALL,
        disposition: int = Disposition.OPEN,
        direct: bool = False,
    ) -> OpenHandle:
        """Open a handle, which the caller has to close.

        Raise EntryNotFound as `get_status` and, with `direct`, StorageProblem for a file behind a link of the server.
        """
        message = messages.create(
            name, access | Access.ATTRIBUTES, options=options, sharing=sharing, disposition=disposition
        )
        answers = self.call_all([message, messages.query_name(messages.PREVIOUS_HANDLE)])
        opened = OpenHandle(*messages.parse_created(require(answers[0])))
        try:
            self._check_name(name, answers[1], direct)
        except BaseException:
            with suppress(SMBException):
                if disposition == Disposition.CREATE and access & Access.DELETE:
                    self.call(messages.set_deleted(opened.handle))  # it is in another folder than the path names
            self.close_handle(opened)
            raise
        return opened

    def _check_name(self, name: str, answer: bytes | SMBResponseException, direct: bool) -> None:
        """Raise EntryNotFound unless every folder of the path lists exactly the next name.

        The server also accepts names that differ in case and short names, which could bypass rules about a path. The
        stored name proves most paths. Behind a link that the server follows, the stored name differs: it may be
        anywhere within the storage's root, unless `direct`.
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
        answer = self._query_name("\\".join(home))[1]
        if not isinstance(answer, SMBResponseException):
            home = _split(messages.parse_name(messages.parse_buffer(answer)))
        if [part.casefold() for part in _split(stored)[: len(home)]] != [part.casefold() for part in home]:
            raise EntryNotFound

    def _is_same(self, name: str, stored: str, *, is_stand_in: bool = False) -> bool:
        """True if a path below the storage's root is stored by its own names.

        `is_stand_in`: also if the server replaces a stored name that SMB cannot represent.
        """
        parts, stored_parts = _split(name)[self._depth :], _split(stored)[self._depth :]
        if len(parts) != len(stored_parts):
            return False
        return all(a == b or (is_stand_in and not is_valid_name(b)) for a, b in zip(parts, stored_parts, strict=True))

    def is_behind_link(self, name: str) -> bool:
        """True if the server follows a link in the path."""
        answer = self._query_name(name, messages.CreateOptions.REPARSE_POINT)[1]
        if isinstance(answer, SMBResponseException):
            return False
        return not self._is_same(name, messages.parse_name(messages.parse_buffer(answer)), is_stand_in=True)

    def _is_listed(self, name: str) -> bool:
        """True if every folder from the storage's root on lists exactly the next name of a path."""
        parts = _split(name)
        for depth in range(self._depth, len(parts)):
            folder = messages.create("\\".join(parts[:depth]), Access.READ, options=messages.CreateOptions.DIRECTORY)
            query = messages.query_directory(messages.PREVIOUS_HANDLE, MAX_NAME_LISTING_BYTES, parts[depth])
            answer = self.call_all([folder, query, messages.close()])[1]
            if isinstance(answer, SMBResponseException):
                return False
            entries, _ = messages.parse_entries(messages.parse_buffer(answer), 0, MAX_NAME_LISTING_BYTES)
            if parts[depth] not in [entry for entry, _ in entries]:
                return False
        return True

    def close_handle(self, opened: OpenHandle) -> None:
        """Close a handle, which is closed already if the connection has ended."""
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
    ) -> Iterator[OpenHandle]:
        """Open a handle for the duration of the context."""
        opened = self.open(name, access, options=options, sharing=sharing, disposition=disposition, direct=direct)
        try:
            yield opened
        finally:
            self.close_handle(opened)

    def read(self, opened: OpenHandle, offset: int, length: int) -> bytes:
        """Return at most `length` bytes and at most a block; none at the end of the file."""
        try:
            return messages.parse_read(self.call(messages.read(opened.handle, offset, min(length, self.max_block))))
        except SMBResponseException as error:
            if error.status != messages.END_OF_FILE:
                raise
            return b""

    def write(self, opened: OpenHandle, offset: int, content: bytes) -> None:
        """Write all bytes, in as many requests as the server needs."""
        view = memoryview(content)
        while view:
            count = messages.parse_written(self.call(messages.write(opened.handle, offset, view[: self.max_block])))
            if count <= 0:
                raise SMBException("it wrote nothing")
            view, offset = view[count:], offset + count

    def flush(self, opened: OpenHandle) -> None:
        """Make the server store the written bytes so that they survive a power cut."""
        self.call(messages.flush(opened.handle), DISK_ANSWER_TIMEOUT_SECONDS)

    def get_space(self, name: str) -> tuple[int, int]:
        """Return the total and the free bytes."""
        with self.opened(name, 0, options=messages.CreateOptions.DIRECTORY) as opened:
            return messages.parse_space(messages.parse_buffer(self.call(messages.query_space(opened.handle))))


def _split(name: str) -> list[str]:
    return [part for part in name.split("\\") if part]


def require(answer: bytes | SMBResponseException) -> bytes:
    """Return an answer, or raise it if it is a failure."""
    if isinstance(answer, SMBResponseException):
        raise answer
    return answer
