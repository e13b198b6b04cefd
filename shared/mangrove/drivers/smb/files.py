"""Open files of a share and listings of its folders, which last longer than one call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from smbprotocol.connection import Request
from smbprotocol.exceptions import NoMoreFiles, SMBException

from mangrove.core.problems import Unreachable
from mangrove.drivers.base import Entry
from mangrove.drivers.part_names import is_part
from mangrove.drivers.refusals import refuse_changed
from mangrove.drivers.smb import messages
from mangrove.drivers.smb.messages import Access, Options, Status, to_seconds
from mangrove.drivers.smb.share import Opened, Share
from mangrove.drivers.threads import StorageThreads

PAGE = 1 << 20  # bytes of a listing that one request asks for
BATCH = 1000  # entries


def make_entry(name: str, status: Status) -> Entry:
    created, modified, changed, size, attributes, number, _ = status
    times = to_seconds(modified), to_seconds(created)
    if attributes & messages.DIRECTORY:
        return Entry(name, 0, times[0], True, times[1])
    # Equal only while it is the same file with the same bytes. Not of the time of its creation, which Samba makes up
    # for files that came there by other ways, and changes.
    etag = f"{number:x}-{modified:x}-{changed:x}-{size:x}"
    return Entry(name, size, times[0], False, times[1], None, False, etag)


class RemoteFile:
    """An open file, closed with its last reference, in a thread of its storage: a generator that is never iterated
    runs no `finally`.

    It is closed when nobody uses it: a call that was cancelled still runs to its end, and a server that is asked about
    a handle which was closed meanwhile seems to have lost them all.
    """

    def __init__(self, share: Share, opened: Opened, threads: StorageThreads) -> None:
        self.share = share
        self.opened = opened
        self._threads = threads
        self._turn = threading.Lock()
        self._is_closed = False

    @property
    def status(self) -> Status:
        return self.opened.status

    @contextmanager
    def use(self, share: Share) -> Iterator[Opened]:
        """The handle, for one who uses it at a time. Unreachable when this is not the connection on which the file was
        opened: what was written then may be lost, and where a listing stood is not known."""
        with self._turn:
            if share is not self.share or self._is_closed:
                raise Unreachable("the connection to the SMB server was lost")
            yield self.opened

    def close(self, before: Callable[[], object] = bool) -> None:
        """Close it later, after `before`, when who uses it has done so."""
        if not self._is_closed:
            self._is_closed = True
            if self.share.is_open:
                try:
                    self._threads.run_later(_close, self._turn, before, self.share, self.opened)
                except RuntimeError:
                    pass  # the process ends, and starts no thread any more

    def __del__(self) -> None:
        self.close()

    def close_now(self) -> None:
        """Close it in this thread, which is the one that uses it."""
        if not self._is_closed:
            self._is_closed = True
            self.share.close_handle(self.opened)

    def write(self, share: Share, offset: int, content: bytes) -> None:
        with self.use(share) as opened:
            share.write(opened, offset, content)


def _close(turn: threading.Lock, before: Callable[[], object], share: Share, opened: Opened) -> None:
    with turn:
        before()
        share.close_handle(opened)


class Reader:
    """A file that is read: opened again, if it is still the same, after its connection was lost."""

    def __init__(self, share: Share, name: str, threads: StorageThreads, if_match: Entry | None) -> None:
        self._name = name
        self._threads = threads
        self._file = self._open(share)
        self._entry = make_entry("", self._file.status)
        refuse_changed(self._entry, if_match)

    def _open(self, share: Share) -> RemoteFile:
        return RemoteFile(share, share.open(self._name, Access.READ, options=Options.FILE), self._threads)

    def read(self, share: Share, offset: int, length: int) -> bytes:
        if share is not self._file.share:
            self._file = self._open(share)
            refuse_changed(make_entry("", self._file.status), self._entry)
        with self._file.use(share) as opened:
            return share.read(opened, offset, length)

    def close(self) -> None:
        self._file.close()


class FolderScan:
    """The entries of a folder, a batch at a time; the server finds the next page while one is taken."""

    def __init__(self, share: Share, name: str, threads: StorageThreads) -> None:
        self._file = RemoteFile(share, share.open(name, Access.READ, options=Options.DIRECTORY), threads)
        self._question = messages.query_directory(self._file.opened.handle, min(PAGE, share.transact))
        self._asked: Request | None = None
        self._page = b""
        self._at = -1

    def read_batch(self, share: Share) -> Sequence[tuple[str, Status]]:
        """Some entries; none at the end."""
        found: Sequence[tuple[str, Status]] = ()
        with self._file.use(share):
            while not found and (self._at >= 0 or self._turn_page(share)):
                found, self._at = messages.parse_entries(self._page, self._at, BATCH)
        return found

    def _turn_page(self, share: Share) -> bool:
        """Whether there was a further page."""
        asked, self._asked = self._asked or share.ask(self._question), None
        try:
            self._page, self._at = messages.parse_buffer(share.take(asked)), 0
        except NoMoreFiles:
            return False
        self._asked = share.ask(self._question)
        return True

    def close(self) -> None:
        self._file.close(self._drop_page)

    def _drop_page(self) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            with suppress(SMBException, OSError):  # or the connection keeps the page
                self._file.share.take(asked)


def show(found: Sequence[tuple[str, Status]]) -> list[Entry]:
    """What a listing shows: neither unfinished files nor links, which this service does not follow."""
    return [make_entry(name, status) for name, status in found if not (is_part(name) or status.is_link)]
