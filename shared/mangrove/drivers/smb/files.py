"""Open files of a share, and listings of its folders, over several calls."""

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
from mangrove.drivers.smb.client import OpenHandle, Share
from mangrove.drivers.smb.messages import Access, CreateOptions, FileStatus, to_seconds
from mangrove.drivers.threads import StorageThreads

LISTING_PAGE_BYTES = 1 << 20  # in one request
LISTING_BATCH_ENTRIES = 1000


def make_entry(name: str, status: FileStatus) -> Entry:
    """Return the entry of a file or folder."""
    created, modified, changed, size, attributes, number, _ = status
    times = to_seconds(modified), to_seconds(created)
    if attributes & messages.DIRECTORY:
        return Entry(name, 0, times[0], True, times[1])
    # Equal only for the same file with the same bytes. It does not contain the time of creation, which Samba invents
    # for files that were not made through it, and changes.
    etag = f"{number:x}-{modified:x}-{changed:x}-{size:x}"
    return Entry(name, size, times[0], False, times[1], None, False, etag)


class RemoteFile:
    """An open file, closed in a thread of its storage with its last reference, since a generator may never be iterated.

    It is closed after its last call has ended, including a cancelled one: a request for a closed handle is answered as
    if the server had lost all handles.
    """

    def __init__(self, share: Share, opened: OpenHandle, threads: StorageThreads) -> None:
        self.share = share
        self.opened = opened
        self._threads = threads
        self._in_use = threading.Lock()
        self._is_closed = False

    @property
    def status(self) -> FileStatus:
        return self.opened.status

    @contextmanager
    def use(self, share: Share) -> Iterator[OpenHandle]:
        """Take the handle; one call uses it at a time.

        Raise Unreachable on another connection than the file's: written bytes may be lost, and so is the state of a
        listing.
        """
        with self._in_use:
            if share is not self.share or self._is_closed:
                raise Unreachable("the connection to the SMB server was lost")
            yield self.opened

    def close(self, before: Callable[[], object] = bool) -> None:
        """Close the file later, after the present call and after `before`."""
        if not self._is_closed:
            self._is_closed = True
            if self.share.is_open:
                with suppress(RuntimeError):  # the process ends and cannot start a thread
                    self._threads.run_later(_close, self._in_use, before, self.share, self.opened)

    def __del__(self) -> None:
        self.close()

    def close_now(self) -> None:
        """Close the file in this thread, which is the one that uses it."""
        if not self._is_closed:
            self._is_closed = True
            self.share.close_handle(self.opened)

    def write(self, share: Share, offset: int, content: bytes) -> None:
        """Write bytes at `offset`."""
        with self.use(share) as opened:
            share.write(opened, offset, content)


def _close(in_use: threading.Lock, before: Callable[[], object], share: Share, opened: OpenHandle) -> None:
    with in_use:
        before()
        share.close_handle(opened)


class FileReader:
    """A file that is read. After a lost connection it is opened again if it is unchanged."""

    def __init__(self, share: Share, name: str, threads: StorageThreads, if_match: Entry | None) -> None:
        self._name = name
        self._threads = threads
        self._file = self._open(share)
        self._entry = make_entry("", self._file.status)
        refuse_changed(self._entry, if_match)

    def _open(self, share: Share) -> RemoteFile:
        return RemoteFile(share, share.open(self._name, Access.READ, options=CreateOptions.FILE), self._threads)

    def read(self, share: Share, offset: int, length: int) -> bytes:
        if share is not self._file.share:
            self._file = self._open(share)
            refuse_changed(make_entry("", self._file.status), self._entry)
        with self._file.use(share) as opened:
            return share.read(opened, offset, length)

    def close(self) -> None:
        self._file.close()


class FolderQuery:
    """The entries of a folder in batches; the next page is requested while one is read."""

    def __init__(self, share: Share, name: str, threads: StorageThreads) -> None:
        self._file = RemoteFile(share, share.open(name, Access.READ, options=CreateOptions.DIRECTORY), threads)
        self._query = messages.query_directory(self._file.opened.handle, min(LISTING_PAGE_BYTES, share.max_listing))
        self._request: Request | None = None
        self._page = b""
        self._at = -1

    def read_batch(self, share: Share) -> Sequence[tuple[str, FileStatus]]:
        """Return the next entries; none at the end."""
        entries: Sequence[tuple[str, FileStatus]] = ()
        with self._file.use(share):
            while not entries and (self._at >= 0 or self._read_page(share)):
                entries, self._at = messages.parse_entries(self._page, self._at, LISTING_BATCH_ENTRIES)
        return entries

    def _read_page(self, share: Share) -> bool:
        """Receive the next page and request the one after it. Return False at the end."""
        request, self._request = self._request or share.send(self._query), None
        try:
            self._page, self._at = messages.parse_buffer(share.receive(request)), 0
        except NoMoreFiles:
            return False
        self._request = share.send(self._query)
        return True

    def close(self) -> None:
        self._file.close(self._drop_page)

    def _drop_page(self) -> None:
        request, self._request = self._request, None
        if request is not None:
            with suppress(SMBException, OSError):  # an answer that is not received stays in the connection
                self._file.share.receive(request)


def make_entries(files: Sequence[tuple[str, FileStatus]]) -> list[Entry]:
    """Return the entries of a listing without unfinished files and links, which this service does not follow."""
    return [make_entry(name, status) for name, status in files if not (is_part(name) or status.is_link)]
