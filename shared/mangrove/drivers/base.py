"""The interface of a driver: three required operations, optional ones, and an options model that is its form.

A driver sees paths inside its storage (`/` is the storage's root), never mount paths, users or tables. Every
operation is async; blocking calls run in a thread inside the driver. Failures are StorageProblem and its subclasses,
translated in one context manager per driver, `translate_errors`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from secrets import token_hex
from typing import TYPE_CHECKING, Any, ClassVar

from mangrove.core.paths import TreePath
from mangrove.core.problems import NotSupported, StorageProblem
from mangrove.drivers.capabilities import Capabilities, DriverConfig
from mangrove.drivers.context import ROOT, DriverContext, Redirects, Resolver, SharedState
from mangrove.drivers.values import (
    Capacity,
    CopyRequest,
    EntriesPage,
    Entry,
    FolderBatch,
    Link,
    PageSource,
    SendableFile,
    SignedRequest,
    StagedFile,
    StoredPart,
    Upload,
    WholeFile,
)

if TYPE_CHECKING:  # code that only handles files needs no models of options, which take long to import
    from mangrove.drivers.options import Options

__all__ = [
    "BLOCK", "ROOT", "Capabilities", "Capacity", "CopyRequest", "Driver", "DriverConfig", "DriverContext",
    "EntriesPage", "Entry", "FolderBatch", "Link", "PageSource", "Redirects", "Resolver", "SendableFile",
    "SharedState", "SignedRequest", "StagedFile", "StoredPart", "Upload", "WholeFile", "get_sort_key", "list_all",
    "make_parts_key",
]  # fmt: skip

BLOCK = 1 << 20  # bytes: the unit in which drivers read and write


class Driver(ABC):
    """A mounted storage. Subclasses set `name`, `Options`, `config` and `capabilities`."""

    name: ClassVar[str]
    Options: ClassVar[type[Options]]
    config: ClassVar[DriverConfig]
    capabilities: Capabilities = Capabilities()
    maps_names: ClassVar[bool] = False
    """It shows names as `DriverContext.char_mapping` says, or as other storages do."""

    def __init__(self, options: Any, context: DriverContext) -> None:
        self.options = options
        self.context = context

    async def start(self) -> None:
        """Prepare for the first call; a Problem here becomes the storage's status text."""

    async def stop(self) -> None:
        """Release connections; never raises."""

    def get_unmapped(self) -> Driver:
        """Return the driver under the names that its storage has, where this one shows others."""
        return self

    async def can_refuse_existing(self) -> bool:
        """Return True if the storage decides on `overwrite=False` in one step with the change.

        Else a check goes before the change, and the caller has to keep others from the name.
        """
        return False

    async def proves_writes(self) -> bool:
        """Return True if the stored bytes are known to be those that were sent: a checksum was compared on the way, or
        they stay on this machine. Else only reading them again tells."""
        return False

    async def proves_reads(self) -> bool:
        """Return True if every range that is read is known to be as stored: its bytes do not leave this machine."""
        return False

    # Reading

    @abstractmethod
    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        """List a folder in batches, in the driver's own order; EntryNotFound, or NotAFolder."""

    @abstractmethod
    async def stat(self, path: TreePath) -> Entry:
        """Return one entry; EntryNotFound. The root's name is ""."""

    @abstractmethod
    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        """Open a file, then stream `length` bytes from `offset` in blocks of at most BLOCK bytes.

        `if_match`: an entry of `stat` or a listing; Changed when the file opened here is another one, as far as the
        storage can tell. Opening fails here, not at the first block. Closing the iterator early frees its resources.
        """

    async def list_page(self, path: TreePath, start: str = "", prefix: str = "") -> EntriesPage:
        """List one page of a folder, of a length that the storage chooses, in the order of `list`.

        `start`: the `next_start` of another page, however old; "" for the first page. `prefix`: only the names that
        begin so. EntryNotFound, or NotAFolder, where the first page shows that; not with a prefix.
        """
        raise NotSupported

    async def list_range(self, path: TreePath, after: str, most: int) -> EntriesPage:
        """List the first entries, at most `most`, whose `get_sort_key` is greater than `after`.

        Such a storage lists in that order, by code points. Empty where there is no such folder.
        """
        raise NotSupported

    async def find_paged(self, path: TreePath) -> PageSource | None:
        """Return the folder whose pages hold all that this one shows, in the same order; None if there is none.

        Never raises a StorageProblem: a listing tells it.
        """
        return PageSource(self, path) if self.capabilities.list_page else None

    def list_folders(self, paths: Sequence[TreePath]) -> AsyncIterator[Sequence[FolderBatch]]:
        """List many folders by one call, one after the other, each as `list` does."""
        raise NotSupported

    async def read_whole(self, files: Sequence[tuple[TreePath, Entry]]) -> Sequence[WholeFile | StorageProblem]:
        """Read many small files by one call: each whole, or the reason why not, in the order of `files`.

        A path comes with its entry of `stat` or a listing; Changed when the file is another one by now. All files are
        in memory at once: the caller bounds their size.
        """
        raise NotSupported

    async def open_file(self, path: TreePath, if_match: Entry | None = None) -> SendableFile:
        """Open a file that the kernel can send to a socket; errors as for `read`."""
        raise NotSupported

    async def link(self, path: TreePath) -> Link:
        """Return a direct address for the file. NotSupported if this file has none."""
        raise NotSupported

    async def make_thumbnail(self, path: TreePath) -> tuple[bytes, str]:
        """Return a small picture of the file and its MIME type."""
        raise NotSupported

    # Facts

    async def get_space(self) -> Capacity:
        """Return the size of the storage and its free space."""
        raise NotSupported

    async def get_change_token(self, path: TreePath) -> int:
        """Return a cheap number that changes when a name appears in or vanishes from the folder."""
        raise NotSupported

    async def get_checksums(self, path: TreePath) -> Mapping[str, str]:
        """Return algorithm → checksum of all bytes of a file, as far as known without reading the file."""
        raise NotSupported

    async def identify(self, path: TreePath) -> Set[str]:
        """Return names of the place that holds the file or folder, equal through every storage that reaches it."""
        raise NotSupported

    def find_others(self, path: TreePath) -> Sequence[TreePath]:
        """Return the paths of the tree that hold, or would hold, a folder of this storage.

        A storage with this operation holds nothing itself: a change in it is a change in other parts of the tree.
        """
        raise NotSupported

    def find_sources(self, target: TreePath, *, below: bool = False) -> Sequence[TreePath]:
        """Do as `Redirects.find_sources`."""
        raise NotSupported

    # Storing files

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        """Store the whole body at `path`, replacing a file there atomically; its folder exists.

        When `body` raises or the call is cancelled, nothing is left behind and an old file is untouched. A body
        shorter or longer than `upload.size` is refused the same way (BadRequest). Holds at most a few blocks.
        """
        raise NotSupported

    async def open_staged(self, path: TreePath) -> StagedFile:
        """Open a file without a name for `path`, whose folder exists; `write` commits it, passed as `Upload.staged`.

        NotSupported where it would have to have a name.
        """
        raise NotSupported

    async def put_url(self, path: TreePath, url: str) -> None:
        """Store a reference to `url` as the file `path`, replacing a file there; EntryExists for a folder."""
        raise NotSupported

    # Storing files in parts, over any time and by any process. The file is not visible until `finish`.

    async def begin(self, path: TreePath, upload: Upload, key: str) -> str:
        """Begin a file whose folder exists; return a token for the other calls, fit for a record.

        `key` (of `make_parts_key`, recorded before this call) names the attempt for `abort_by_key`. NotSupported, and
        nothing is begun, where this server only takes whole files.
        """
        raise NotSupported

    async def abort_by_key(self, path: TreePath, key: str) -> None:
        """Abort the attempt `key` of a process that ended before it recorded the token.

        Aborts only what the storage can prove to be of this attempt, which may be nothing; never another attempt.
        """
        raise NotSupported

    async def write_part(self, path: TreePath, token: str, number: int, offset: int, content: bytes) -> str:
        """Store part `number` (from 1), which begins at `offset`; return a receipt. A second call replaces the part."""
        raise NotSupported

    async def stream_part(
        self, path: TreePath, token: str, number: int, offset: int, body: AsyncIterator[bytes]
    ) -> str:
        """Do as `write_part`, but store the blocks as they come, so that the part is never in memory as a whole."""
        raise NotSupported

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        """Make the file of all its parts atomically, replacing a file there. EntryNotFound: the token is unknown."""
        raise NotSupported

    async def abort(self, path: TreePath, token: str) -> None:
        """Delete the parts; no error if they are not there."""
        raise NotSupported

    # Storing files, or their parts, by requests that clients send straight to the storage

    @property
    def offers_direct_uploads(self) -> bool:
        """True if clients may send to the storage directly: it has to answer browsers of other origins."""
        return False

    async def sign_upload(self, path: TreePath, upload: Upload) -> SignedRequest:
        """Sign the request that stores a whole file of exactly `upload.size` bytes; EntryExists."""
        raise NotSupported

    async def sign_part(self, path: TreePath, token: str, number: int, size: int, crc32: str) -> SignedRequest:
        """Sign the request that stores a part of exactly these bytes: `size`, and their CRC-32 as S3 writes it."""
        raise NotSupported

    async def list_parts(self, path: TreePath, token: str) -> Sequence[StoredPart]:
        """Return the parts that the storage has, by number; EntryNotFound: the token is unknown, or not known any
        more."""
        raise NotSupported

    def predict_etag(self, receipts: Sequence[str]) -> str:
        """Return the etag that a file of these parts gets; "" when that is not known."""
        return ""

    # Changing the tree

    async def makedirs(self, path: TreePath) -> None:
        """Make a folder and its missing parents; no error if it is there. EntryExists when a file is in the way."""
        raise NotSupported

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        """Give a file or folder another name in the same folder.

        EntryExists when the name is taken and `overwrite` is false, or a folder is concerned; else a file of that name
        is replaced.
        """
        raise NotSupported

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        """Move a file or folder to `target` (its full new path) inside this storage; EntryExists as for `rename`.
        NotSupported: needs a task."""
        raise NotSupported

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        """Copy a file or folder to `target` by the storage itself; EntryExists as for `rename`, `durable` as in
        Upload. NotSupported: needs a task."""
        raise NotSupported

    async def copy_from(self, source: Driver, files: Sequence[CopyRequest]) -> Sequence[StorageProblem | None] | None:
        """Copy many small files from another storage without reading them, each whole or not at all.

        Returns one result for each; EntryExists for a file that must not be replaced. None: not possible from `source`.
        """
        raise NotSupported

    def plan_part_copies(self, source: Driver) -> tuple[int, int]:
        """Return how many bytes of a file of `source` may be in flight at once, and in how many concurrent calls of
        `copy_part_from`; 0 bytes when that is not possible from `source`."""
        return 0, 0

    async def copy_part_from(
        self, source: Driver, path: TreePath, target: TreePath, token: str, number: int, offset: int, length: int
    ) -> str:
        """Do as `write_part`, with the bytes of the file `path` of `source`; return the receipt."""
        raise NotSupported

    async def remove(self, path: TreePath) -> None:
        """Remove a file, or a folder with its content; no error if it is not there."""
        raise NotSupported

    async def discard(self, path: TreePath) -> None:
        """Remove an entry for a user, who may want it back: as `remove`, unless a storage with a trash keeps it."""
        await self.remove(path)

    async def set_aside(self, path: TreePath, target: TreePath, *, keep: bool = False) -> bool:
        """Give an entry another path below `part_names.TRASH_FOLDER`, in a folder that is there, in one step with all
        it holds.

        With `keep` a file may have both paths until another one replaces it at the first; True if it has.
        EntryNotFound.
        """
        raise NotSupported

    async def remove_unchanged(self, path: TreePath, entry: Entry) -> None:
        """Remove a file that is still what `stat` answered before; no error if it is not there.

        Changed, and the file stays, when it is another one by now: decided in one step with the removal.
        """
        raise NotSupported

    async def remove_empty(self, path: TreePath) -> bool:
        """Remove a folder if it is empty, even of names that listings leave out; return True if it is gone."""
        raise NotSupported

    async def set_modified(self, path: TreePath, modified: float) -> None:
        """Give a file or folder another modification time, in seconds since the epoch; EntryNotFound."""
        raise NotSupported

    async def sync(self, path: TreePath) -> None:
        """Make a file, or a folder with its content, survive a power cut; EntryNotFound.

        Storages with this operation may lose files that were written without `durable`, and parts before `finish`.
        """
        raise NotSupported


def make_parts_key() -> str:
    """Return a unique name for one attempt to store a file in parts: seconds since the epoch, and a random part."""
    return f"{int(time.time())}-{token_hex(12)}"


def get_sort_key(entry: Entry) -> str:
    """Return the text that `Driver.list_range` sorts an entry by."""
    return f"{entry.name}/" if entry.is_dir else entry.name


async def list_all(driver: Driver, path: TreePath) -> list[Entry]:
    """Return all entries of a folder."""
    entries: list[Entry] = []
    async for batch in driver.list(path):
        entries.extend(batch)
    return entries
