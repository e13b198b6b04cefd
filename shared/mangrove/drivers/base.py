"""What a driver promises: three required verbs, optional powers, and an options model that is its form.

A driver sees paths inside its storage (`/` is the storage's root), never mount paths, users or tables. Every
verb is async; what blocks runs in a thread inside the driver. Failures are StorageProblem and its subclasses,
translated in one context manager per driver, `translate_errors`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from secrets import token_hex
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.ahead import Ahead
from mangrove.drivers.driver_config import DriverConfig as DriverConfig
from mangrove.drivers.power import Power

if TYPE_CHECKING:  # who only looks at files needs no models of options, which take long to import
    from mangrove.drivers.options import Options

ROOT = TreePath("/")
DEEPEST_REDIRECT = 8  # storages that lead to storages
BLOCK = 1 << 20  # bytes: the unit in which drivers read and write


class Entry(NamedTuple):
    """One file or folder of a listing. Times are seconds since the epoch (0.0: unknown).

    `size`: bytes; None for a file whose size is unknown, and only then. A folder has 0 or the sum of what it holds.
    """

    name: str
    size: int | None
    modified: float
    is_dir: bool
    created: float = 0.0  # 0.0: same as modified
    hashes: Mapping[str, str] | None = None  # md5, sha1, sha256 in lower-case hex
    thumb: bool = False  # the driver can make a thumbnail of it
    etag: str = ""  # the storage's own strong validator, without quotes; "" when it has none
    provider: str = ""  # where the bytes really come from, when not this driver
    url: str = ""  # a public address of the bytes that needs no link call
    is_link: bool = False  # a link: a walk that changes the tree does not enter it


@dataclass(frozen=True, slots=True)
class Link:
    """An address from which a browser fetches the bytes directly. `lifetime` in seconds, None: unlimited."""

    url: str
    headers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    lifetime: float | None = None


@dataclass(frozen=True, slots=True)
class Capacity:
    """Bytes of the storage."""

    total: int
    free: int

    @property
    def used(self) -> int:
        return self.total - self.free


@dataclass(frozen=True, slots=True)
class Upload:
    """What is known of a body before it is read. `size` in bytes or None; `modified` seconds since the epoch.

    `overwrite`: whether a file at the target may be replaced; else EntryExists, whatever appears there meanwhile (see
    `Driver.can_refuse_existing`). `is_free`: the caller has seen that nothing has the name, and keeps others from it
    where the storage does not, so that the driver need not look. `durable`: what is answered survives a power cut.
    `ahead`: all of the body as the storage has it (`WritesAhead`); the body has the bytes unless it `is_taken`.
    """

    size: int | None
    modified: float
    mime: str = "application/octet-stream"
    overwrite: bool = True
    durable: bool = False
    ahead: Ahead | None = None
    is_free: bool = False


class Resolver(Protocol):
    """How a driver reaches other parts of the tree; passed in its context, never imported."""

    async def resolve(self, path: TreePath) -> tuple[Driver, TreePath]:
        """The running driver that holds `path` and the path inside it; StorageProblem when none does."""
        ...

    def folders(self, path: TreePath) -> Sequence[str]:
        """Names of the folders right below `path` that lead to mounts."""
        ...


class SharedState(Protocol):
    """A text that all processes of a service share for one storage; it is no option."""

    async def read(self) -> str:
        """Return the text, "" at first."""
        ...

    async def replace(self, old: str, new: str) -> bool:
        """Replace the text if it is still `old`; True if it was."""
        ...


class LocalState:
    """The state of a driver that no other process runs."""

    def __init__(self) -> None:
        self._text = ""

    async def read(self) -> str:
        """Return the text."""
        return self._text

    async def replace(self, old: str, new: str) -> bool:
        """Replace the text if it is still `old`; True if it was."""
        if self._text == old:
            self._text = new
            return True
        return False


@dataclass(frozen=True, slots=True)
class DriverContext:
    """What a driver needs to know of its mount: its path, the `modified` time of its record (seconds since the epoch),
    the resolver of other paths, how to store changed options; `report_status`: how to say what is wrong with a storage
    that goes on serving ("": nothing, after all); `proxy_range` of its record: whether what passes through
    the service is fetched in ranges of its own; `char_mapping`: what stands for text that a name of the storage may
    hold and a path cannot; `storage_id` of its record; `state`: what the processes share of it."""

    mount_path: TreePath = ROOT
    modified: float = 0.0
    resolver: Resolver | None = None
    report_status: Callable[[str], Awaitable[None]] | None = None
    save_options: Callable[[Options], Awaitable[None]] | None = None
    proxy_range: bool = False
    char_mapping: Mapping[str, str] = field(default_factory=dict)
    storage_id: int = 0
    state: SharedState = field(default_factory=LocalState)


class Driver(ABC):
    """One mounted storage. Subclasses set `name`, `Options` and `config`."""

    name: ClassVar[str]
    Options: ClassVar[type[Options]]
    config: ClassVar[DriverConfig]
    maps_names: ClassVar[bool] = False  # it shows names as `DriverContext.char_mapping` says, or as other storages do

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
        """Whether `overwrite=False` is decided by the storage in one step with the change; else a check goes before it,
        and the caller has to keep others from the name."""
        return False

    async def proves_writes(self) -> bool:
        """Whether what was stored is known to be what was sent: compared with a checksum on its way, or kept on this
        machine. Else only reading it again tells."""
        return False

    async def proves_reads(self) -> bool:
        """Whether every range that is read is known to be what is stored: its bytes do not leave this machine."""
        return False

    @abstractmethod
    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        """The entries of a folder in batches, in the driver's own order; EntryNotFound, or NotAFolder."""

    @abstractmethod
    async def stat(self, path: TreePath) -> Entry:
        """One entry; EntryNotFound when there is none. The root's name is ""."""

    @abstractmethod
    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        """Open a file, then stream `length` bytes from `offset` in blocks of at most BLOCK bytes.

        `if_match`: what `stat` or a listing showed; EntryChanged when the file opened here is another one, as far as
        the storage can tell. Opening fails here, not at the first block. Closing the iterator early frees what it
        holds.
        """


@runtime_checkable
class Writes(Power, Protocol):
    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        """Store the whole body at `path`, replacing a file there atomically; its folder exists.

        When `body` raises or the call is cancelled, nothing is left behind and an old file is untouched. A body
        shorter or longer than `upload.size` is refused the same way (BadRequest). Holds at most a few blocks.
        """
        ...


@runtime_checkable
class MakesDirectories(Power, Protocol):
    async def makedirs(self, path: TreePath) -> None:
        """Make a folder and its missing parents; no error if it is there. EntryExists when a file is in the way."""
        ...


@runtime_checkable
class Renames(Power, Protocol):
    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        """Give a file or folder another name in the same folder. EntryExists when something has it and `overwrite` is
        false, or a folder is concerned; else a file of that name is replaced."""
        ...


@runtime_checkable
class Moves(Power, Protocol):
    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        """Move a file or folder to `target` (its full new path) inside this storage; EntryExists as for `rename`.
        NotSupported: needs a task."""
        ...


@runtime_checkable
class Copies(Power, Protocol):
    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        """Copy a file or folder to `target` by the storage itself; EntryExists as for `rename`, `durable` as in Upload.
        NotSupported: needs a task."""
        ...


@runtime_checkable
class Removes(Power, Protocol):
    async def remove(self, path: TreePath) -> None:
        """Remove a file, or a folder with all it holds; no error if it is not there."""
        ...


@runtime_checkable
class RemovesUnchanged(Power, Protocol):
    async def remove_unchanged(self, path: TreePath, entry: Entry) -> None:
        """Remove a file that is still what `stat` answered before; no error if it is not there.

        EntryChanged, and what is there stays, when it is another file by now: decided in one step with the removal.
        """
        ...


@runtime_checkable
class Syncs(Power, Protocol):
    """A storage whose files are not all durable when they are there: without `durable`, or a part without `finish`."""

    async def sync(self, path: TreePath) -> None:
        """Make a file, or a folder with all it holds, survive a power cut; EntryNotFound."""
        ...


@runtime_checkable
class Parts(Power, Protocol):
    """A file that is stored part by part, over any time and by any process; it is not visible until `finish`."""

    async def begin(self, path: TreePath, upload: Upload, key: str) -> str:
        """Begin a file whose folder exists; a token for the other calls, fit for a record.

        `key` (of `make_parts_key`, recorded before this call) names the attempt for `abort_by_key`. NotSupported, and
        nothing is begun, where this server takes a file in one go only.
        """
        ...

    async def abort_by_key(self, path: TreePath, key: str) -> None:
        """Abort what was begun under `key` by a process that ended before it recorded the token.

        Aborts only what the storage can prove to be of this attempt, which may be nothing; never another attempt.
        """
        ...

    async def write_part(self, path: TreePath, token: str, number: int, offset: int, content: bytes) -> str:
        """Store part `number` (from 1), which begins at `offset`; a receipt. Storing it again replaces it."""
        ...

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        """Make the file of all its parts atomically, replacing a file there. EntryNotFound: the token is not known."""
        ...

    async def abort(self, path: TreePath, token: str) -> None:
        """Drop the parts; no error if they are not there."""
        ...


class CopyRequest(NamedTuple):
    """A small file of another storage to be copied: the size and time it must still have, and the etag if one is
    known; whether it may replace a file at `target`, and whether it is to survive a power cut."""

    source: TreePath
    target: TreePath
    size: int
    modified: float
    overwrite: bool
    etag: str = ""
    durable: bool = False


@runtime_checkable
class CopiesFrom(Power, Protocol):
    async def copy_from(self, source: Driver, files: Sequence[CopyRequest]) -> Sequence[StorageProblem | None] | None:
        """Copy many small files from another storage without reading them, each whole or not at all.

        One result for each; EntryExists for what must not be replaced. None: not possible from `source`.
        """
        ...

    def plan_part_copies(self, source: Driver) -> tuple[int, int]:
        """Bytes of a file of `source` to be in flight at once, and in how many concurrent calls of `copy_part_from`;
        0 bytes when that is not possible from `source`."""
        ...

    async def copy_part_from(
        self, source: Driver, path: TreePath, target: TreePath, token: str, number: int, offset: int, length: int
    ) -> str:
        """As `Parts.write_part`, with the bytes of the file `path` of `source`; the receipt."""
        ...


@runtime_checkable
class RemovesEmpty(Power, Protocol):
    async def remove_empty(self, path: TreePath) -> bool:
        """Remove a folder if it holds nothing at all, not even what listings leave out; whether it is gone."""
        ...


@runtime_checkable
class SetsTimes(Power, Protocol):
    async def set_modified(self, path: TreePath, modified: float) -> None:
        """Give a file or folder another modification time, in seconds since the epoch; EntryNotFound."""
        ...


@runtime_checkable
class Links(Power, Protocol):
    async def link(self, path: TreePath) -> Link:
        """A direct address for the file. NotSupported when there is none for this file."""
        ...


@runtime_checkable
class StoresUrls(Power, Protocol):
    async def put_url(self, path: TreePath, url: str) -> None:
        """Store a reference to `url` as the file `path`, replacing a file there; EntryExists for a folder."""
        ...


@runtime_checkable
class MakesThumbnails(Power, Protocol):
    async def make_thumbnail(self, path: TreePath) -> tuple[bytes, str]:
        """A small picture of the file and its MIME type."""
        ...


@runtime_checkable
class Space(Power, Protocol):
    async def get_space(self) -> Capacity:
        """How full the storage is."""
        ...


@runtime_checkable
class ChangeToken(Power, Protocol):
    async def get_change_token(self, path: TreePath) -> int:
        """A cheap number that changes when a name appears in or vanishes from the folder."""
        ...


@runtime_checkable
class SameFile(Power, Protocol):
    async def identify(self, path: TreePath) -> Set[str]:
        """Names of what holds the file or folder, equal through whichever storage it is reached."""
        ...


@runtime_checkable
class ShowsOthers(Power, Protocol):
    """A storage that holds nothing itself: what changes in it changes in other parts of the tree."""

    def find_others(self, path: TreePath) -> Sequence[TreePath]:
        """The paths of the tree that hold, or would hold, a folder of this storage."""
        ...

    def find_sources(self, target: TreePath, *, below: bool = False) -> Sequence[TreePath]:
        """As `Redirects.find_sources`."""
        ...


@runtime_checkable
class ReadsRedirects(Power, Protocol):
    """Options of a driver that shows other parts of the tree: the rules of those count, too."""

    def read_redirects(self) -> Redirects:
        """Which parts; in a thread, since there may be very many."""
        ...


class Redirects(Protocol):
    """Which parts of the tree a storage shows."""

    def find_targets(self, path: TreePath) -> Sequence[TreePath]:
        """The paths of the tree that a path of the storage stands for; none for one that stands for itself."""
        ...

    def find_sources(self, target: TreePath, *, below: bool = False) -> Sequence[TreePath]:
        """The paths of the storage at which a folder of the tree is shown; with `below` also those at which only
        something below it is."""
        ...


@runtime_checkable
class Checksums(Power, Protocol):
    async def get_checksums(self, path: TreePath) -> Mapping[str, str]:
        """Algorithm → checksum of all bytes of a file, as far as the storage has them without reading the file."""
        ...


def make_parts_key() -> str:
    """A unique name for one attempt to store a file in parts: seconds since the epoch, and a random part."""
    return f"{int(time.time())}-{token_hex(12)}"


async def list_all(driver: Driver, path: TreePath) -> list[Entry]:
    """All entries of a folder."""
    found: list[Entry] = []
    async for batch in driver.list(path):
        found.extend(batch)
    return found
