"""The interface of a driver: three required operations, optional ones, and an options model that is its form.

A driver has paths inside its storage (`/` is the storage's root), never mount paths, users or tables. Every operation
is async; blocking calls run in a thread inside the driver. Failures are StorageProblem and its subclasses, translated
in one context manager per driver, `translate_errors`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, ClassVar

from mangrove.core.paths import TreePath
from mangrove.core.problems import NotSupported, StorageProblem
from mangrove.drivers.capabilities import Capabilities, DriverProperties
from mangrove.drivers.context import ROOT, DriverContext, Redirects, Resolver, SharedState
from mangrove.drivers.values import (
    Capacity,
    CopyRequest,
    EntriesPage,
    Entry,
    FolderBatch,
    Link,
    NewFile,
    PageSource,
    SendableFile,
    SignedRequest,
    StagedFile,
    StoredPart,
    StoredVersion,
    Upload,
    WholeFile,
    get_sort_key,
    list_all,
    make_parts_key,
)

if TYPE_CHECKING:  # modules that only handle files need no models of options, whose import takes long
    from mangrove.drivers.options import Options

__all__ = [
    "BLOCK", "ROOT", "Capabilities", "Capacity", "CopyRequest", "Driver", "DriverContext", "DriverProperties",
    "EntriesPage", "Entry", "FolderBatch", "Link", "NewFile", "PageSource", "Redirects", "Resolver", "SendableFile",
    "SharedState", "SignedRequest", "StagedFile", "StoredPart", "StoredVersion", "Upload", "WholeFile",
    "get_sort_key", "list_all", "make_parts_key",
]  # fmt: skip

BLOCK = 1 << 20  # bytes: the unit in which drivers read and write


class Driver(ABC):
    """A mounted storage. Subclasses set `name`, `Options`, `config` and `capabilities`."""

    name: ClassVar[str]
    Options: ClassVar[type[Options]]
    config: ClassVar[DriverProperties]
    capabilities: Capabilities = Capabilities()
    maps_names: ClassVar[bool] = False
    """True if it shows names as `DriverContext.char_mapping` says, or as other storages do."""

    def __init__(self, options: Any, context: DriverContext) -> None:
        self.options = options
        self.context = context

    async def start(self) -> None:
        """Prepare for the first call. The message of a Problem becomes the storage's status."""

    async def stop(self) -> None:
        """Release connections; never raises."""

    def get_unmapped(self) -> Driver:
        """Return the driver with the storage's own names, if this one maps names."""
        return self

    def unwrap(self) -> Driver:
        """Return the driver of the storage itself, if this one wraps it under the same paths."""
        return self

    async def can_refuse_existing(self) -> bool:
        """True if the storage refuses a taken name atomically for `overwrite=False`.

        Otherwise the driver checks before the change, and the caller has to lock the name.
        """
        return False

    async def proves_writes(self) -> bool:
        """True if stored bytes are those that were sent, as a checksum or this machine proves. Others are read back."""
        return False

    async def proves_reads(self) -> bool:
        """True if every range that is read is proven to be as stored: its bytes do not leave this machine."""
        return False

    # Reading

    @abstractmethod
    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        """List a folder in batches, in the driver's own order. Raise EntryNotFound or NotAFolder."""

    @abstractmethod
    async def stat(self, path: TreePath) -> Entry:
        """Return one entry. Raise EntryNotFound. The root's name is ""."""

    async def stat_many(self, paths: Sequence[TreePath]) -> Sequence[Entry | StorageProblem]:
        """Return the entries of many paths in one call, or the problem of each that has none."""
        raise NotSupported

    @abstractmethod
    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        """Open a file, then stream `length` bytes from `offset` in blocks of at most BLOCK bytes.

        `if_match`: an entry of `stat` or a listing. Raise EntryChanged if another file is opened, as far as the storage
        can tell. A failure to open is raised here, not at the first block. Closing the iterator early releases its
        resources.
        """

    async def list_page(self, path: TreePath, start: str = "", prefix: str = "") -> EntriesPage:
        """List one page of a folder, in the order of `list`; the storage chooses its length.

        `start`: the `next_start` of another page, however old; "" for the first page. `prefix`: only names with this
        prefix. Raise EntryNotFound or NotAFolder if the first page shows that; not with a prefix.
        """
        raise NotSupported

    async def list_range(self, path: TreePath, after: str, most: int) -> EntriesPage:
        """List at most `most` entries whose `get_sort_key` is greater than `after`.

        Such a storage lists in that order, by code points. The result is empty if there is no such folder.
        """
        raise NotSupported

    async def find_paged(self, path: TreePath) -> PageSource | None:
        """Return the folder whose pages have the entries of this one in the same order; None if there is none.

        It never raises a StorageProblem; the listing does.
        """
        return PageSource(self, path) if self.capabilities.list_page else None

    def list_names(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        """List a folder as `list` does. Batches of `NamedEntries` lack sizes and times, for `read_details`."""
        raise NotSupported

    async def read_details(self, path: TreePath, names: Sequence[str]) -> Sequence[Entry | None]:
        """Return the entries of a folder with these names, as `list` does; None for each one that it would not list."""
        raise NotSupported

    def list_folders(self, paths: Sequence[TreePath]) -> AsyncIterator[Sequence[FolderBatch]]:
        """List many folders in one call, one after the other, each as `list` does."""
        raise NotSupported

    async def read_whole(self, files: Sequence[tuple[TreePath, Entry]]) -> Sequence[WholeFile | StorageProblem]:
        """Read many small files in one call: each completely, or the reason of its failure, in the order of `files`.

        Each path comes with its entry of `stat` or a listing; EntryChanged is the result if the file was replaced. All
        files are in memory together: the caller limits their size.
        """
        raise NotSupported

    async def open_file(self, path: TreePath, if_match: Entry | None = None) -> SendableFile:
        """Open a file that the kernel can send to a socket. It raises the errors of `read`."""
        raise NotSupported

    async def link(self, path: TreePath) -> Link:
        """Return a direct address of the file. Raise NotSupported if it has none."""
        raise NotSupported

    async def make_thumbnail(self, path: TreePath) -> tuple[bytes, str]:
        """Return a thumbnail of the file and its MIME type."""
        raise NotSupported

    # Facts

    async def get_space(self) -> Capacity:
        """Return the size of the storage and its free space."""
        raise NotSupported

    async def get_change_token(self, path: TreePath) -> int:
        """Return a cheap number that changes when a name appears in or disappears from the folder."""
        raise NotSupported

    async def get_checksums(self, path: TreePath) -> Mapping[str, str]:
        """Return the checksums of the whole file by algorithm, as far as they are known without reading it."""
        raise NotSupported

    async def identify(self, path: TreePath) -> Set[str]:
        """Return names of the server and path of the file or folder, equal through every storage that reaches it."""
        raise NotSupported

    def find_others(self, path: TreePath) -> Sequence[TreePath]:
        """Return the paths of the tree that contain, or would contain, a folder of this storage.

        A storage with this operation has no files of its own: a change in it is a change in other parts of the tree.
        """
        raise NotSupported

    def find_sources(self, target: TreePath, *, below: bool = False) -> Sequence[TreePath]:
        """Return the same as `Redirects.find_sources`."""
        raise NotSupported

    # Storing files

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        """Store the whole body at `path`, replacing a file there atomically. Its folder exists.

        If `body` raises or the call is cancelled, nothing is left behind and an old file is unchanged. A body shorter
        or longer than `upload.size` is refused in the same way (BadRequest). At most a few blocks are in memory.
        """
        raise NotSupported

    async def write_whole(self, files: Sequence[NewFile]) -> Sequence[Entry | StorageProblem]:
        """Store many small files in one call, each as `write` does. Return the entry or the problem of each."""
        raise NotSupported

    async def open_staged(self, path: TreePath) -> StagedFile:
        """Open a file without a name for `path`, whose folder exists. `write` commits it, passed as `Upload.staged`.

        Raise NotSupported if it needed a name.
        """
        raise NotSupported

    async def put_url(self, path: TreePath, url: str) -> None:
        """Store a reference to `url` as the file `path`, replacing a file there. Raise EntryExists for a folder."""
        raise NotSupported

    # Storing files in parts, over any time and by any process. The file is invisible until `finish`.

    async def begin(self, path: TreePath, upload: Upload, key: str) -> str:
        """Start a file whose folder exists. Return a token for the other calls, which can be stored in a record.

        `key` (of `make_parts_key`, recorded before this call) names the attempt for `abort_by_key`. Raise NotSupported,
        without a side effect, if this server accepts only whole files.
        """
        raise NotSupported

    async def abort_by_key(self, path: TreePath, key: str) -> None:
        """Abort the attempt `key` of a process that died before it recorded the token.

        It aborts only parts that the storage can attribute to this attempt, possibly none; never another attempt.
        """
        raise NotSupported

    async def write_part(self, path: TreePath, token: str, number: int, offset: int, content: bytes) -> str:
        """Store part `number` (from 1), which starts at `offset`. Return a receipt. A second call replaces the part."""
        raise NotSupported

    async def stream_part(
        self, path: TreePath, token: str, number: int, offset: int, body: AsyncIterator[bytes]
    ) -> str:
        """Store a part as `write_part`, block by block as the body arrives: it is never in memory as a whole."""
        raise NotSupported

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        """Assemble the file of its parts atomically, replacing one there. Raise EntryNotFound for an unknown token."""
        raise NotSupported

    async def abort(self, path: TreePath, token: str) -> None:
        """Delete the parts. Missing parts are ignored."""
        raise NotSupported

    # Storing files, or their parts, by requests that clients send directly to the storage

    @property
    def offers_direct_uploads(self) -> bool:
        """True if clients can send to the storage directly: it has to answer browsers of other origins."""
        return False

    async def sign_upload(self, path: TreePath, upload: Upload) -> SignedRequest:
        """Sign the request that stores a whole file of exactly `upload.size` bytes. Raise EntryExists."""
        raise NotSupported

    async def sign_part(self, path: TreePath, token: str, number: int, size: int, crc32: str) -> SignedRequest:
        """Sign the request that stores a part of exactly these bytes: `size`, and their CRC-32 in the form of S3."""
        raise NotSupported

    async def list_parts(self, path: TreePath, token: str) -> Sequence[StoredPart]:
        """Return the stored parts by number. Raise EntryNotFound if the token is unknown or has expired."""
        raise NotSupported

    def predict_etag(self, receipts: Sequence[str]) -> str:
        """Return the etag of the file that these parts would make; "" if it is unknown."""
        return ""

    # Changing the tree

    async def makedirs(self, path: TreePath) -> None:
        """Make a folder and its missing parents, as far as needed. Raise EntryExists if a file has one of the paths."""
        raise NotSupported

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> Entry | None:
        """Rename a file or folder within its folder, by default as a move. Return a file if that takes no other call.

        Raise EntryExists if the name is taken, unless a file replaces a file and `overwrite` is True.
        """
        return await self.move(path, target, overwrite=overwrite)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> Entry | None:
        """Move a file or folder to `target` (its full new path) inside this storage. Return as `rename`.

        Raise EntryExists as `rename`, NotSupported if it needs a task.
        """
        raise NotSupported

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        """Let the storage copy a file or folder to `target`.

        Raise EntryExists as `rename`, NotSupported if it needs a task. `durable` as in Upload.
        """
        raise NotSupported

    async def copy_from(self, source: Driver, files: Sequence[CopyRequest]) -> Sequence[StorageProblem | None] | None:
        """Copy many small files from another storage without reading them, each completely or not at all.

        Return one result per file, EntryExists where nothing must be replaced; None if `source` makes it impossible.
        """
        raise NotSupported

    def plan_part_copies(self, source: Driver) -> tuple[int, int]:
        """Return the maximum bytes in transit of a file of `source`, 0 for none, and of concurrent `copy_part_from`."""
        return 0, 0

    async def copy_part_from(
        self, source: Driver, path: TreePath, target: TreePath, token: str, number: int, offset: int, length: int
    ) -> str:
        """Store a part as `write_part`, with the bytes of the file `path` of `source`. Return the receipt."""
        raise NotSupported

    async def remove(self, path: TreePath) -> None:
        """Remove a file, or a folder with its content. A missing entry is ignored."""
        raise NotSupported

    async def discard(self, path: TreePath) -> None:
        """Remove an entry for a user, who may want to restore it. A storage with a trash keeps it."""
        await self.remove(path)

    async def set_aside(self, path: TreePath, target: TreePath, *, keep: bool = False) -> bool:
        """Give an entry another path below `part_names.TRASH_FOLDER`, in a folder that is there, in one step with all
        it holds.

        With `keep` a file may have both paths until another one replaces it at the first; True if it has. By default an
        entry is moved. Raise EntryNotFound.
        """
        await self.move(path, target, overwrite=False)
        return False

    async def set_many_aside(self, files: Sequence[tuple[TreePath, TreePath]]) -> Sequence[bool | StorageProblem]:
        """Give many files second paths, and make the folders of these. False for one that has to be set aside alone."""
        raise NotSupported

    async def has_versions(self) -> bool:
        """Return True if the storage keeps what is removed and replaced by itself."""
        return False

    async def list_versions(self, path: TreePath) -> Sequence[StoredVersion]:
        """Return the versions of a file, the newest first; none if it never was there."""
        raise NotSupported

    async def restore_version(self, path: TreePath, id: str) -> None:
        """Store a version once more as the present file. EntryNotFound."""
        raise NotSupported

    def view_version(self, path: TreePath, id: str) -> Driver:
        """Return the storage as it shows a version of a file instead of the present one, for `stat`, `read`, `link`."""
        raise NotSupported

    async def find_removed(self, path: TreePath, since: float) -> bool:
        """Return True if anything at a path or below was removed after a time, in seconds since the epoch."""
        raise NotSupported

    async def restore_removed(self, path: TreePath, target: TreePath, since: float) -> None:
        """Bring back, at `target`, what was at a path before its removal after `since`. EntryNotFound, EntryExists."""
        raise NotSupported

    async def purge_removed(self, path: TreePath, since: float) -> None:
        """Delete for good what `restore_removed` would bring back. OutOfTime in the middle."""
        raise NotSupported

    async def remove_unchanged(self, path: TreePath, entry: Entry) -> None:
        """Remove a file if it is still the one that `stat` returned. A missing file is ignored.

        Raise EntryChanged and keep the file if it was replaced; comparison and removal are atomic.
        """
        raise NotSupported

    async def remove_empty(self, path: TreePath) -> bool:
        """Remove a folder if it is empty, including names that listings leave out. Return True if it is removed."""
        raise NotSupported

    async def set_modified(self, path: TreePath, modified: float) -> Entry:
        """Set and return a file or folder with a time, in seconds since the epoch. Raise EntryNotFound."""
        raise NotSupported

    async def sync(self, path: TreePath) -> None:
        """Make a file, or a folder with its content, survive a power cut. Raise EntryNotFound.

        Storages with this operation may lose files that were written without `durable`, and parts before `finish`.
        """
        raise NotSupported
