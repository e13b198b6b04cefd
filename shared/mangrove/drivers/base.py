"""What a driver promises: three required verbs, optional powers, and an options model that is its form.

A driver sees paths inside its storage (`/` is the storage's root), never mount paths, users or tables. Every
verb is async; whatever blocks goes to a thread inside the driver. Failures are the five words of
`mangrove.problems.StorageProblem`, translated in one context manager per driver.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, get_args, get_origin, runtime_checkable

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from mangrove.paths import TreePath
from mangrove.problems import BadRequest

ROOT = TreePath("/")
BLOCK = 1 << 20  # bytes: the unit in which drivers read and write


class Entry(NamedTuple):
    """One file or folder of a listing. Times are seconds since the epoch (0.0: unknown), sizes bytes."""

    name: str
    size: int
    modified: float
    is_dir: bool
    created: float = 0.0  # 0.0: same as modified
    hashes: Mapping[str, str] | None = None  # md5, sha1, sha256 in lower-case hex
    thumb: bool = False  # the driver can make a thumbnail of it
    etag: str = ""  # the storage's own strong validator, without quotes; "" when it has none
    provider: str = ""  # where the bytes really come from, when not this driver
    url: str = ""  # a public address of the bytes that needs no link call
    link: bool = False  # stands elsewhere too: what walks a tree to change it does not enter it


@dataclass(frozen=True, slots=True)
class Link:
    """An address from which a browser fetches the bytes without us. `lifetime` in seconds, None: for ever."""

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

    `new`: a file that has come to stand there meanwhile shall stay, Exists is raised; a wish, not every storage can.
    """

    size: int | None
    modified: float
    mime: str = "application/octet-stream"
    new: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """The `config` object of a driver's template, plus `check_status`: refuse every verb while start-up failed."""

    local_sort: bool = True
    only_proxy: bool = False
    no_cache: bool = False
    no_upload: bool = False
    need_ms: bool = False
    default_root: str = ""
    alert: str = ""
    only_local: bool = False
    only_indices: bool = False
    prefer_proxy: bool = False
    proxy_range: bool = False
    check_status: bool = False
    direct_lookup: bool = False  # `stat` is its own question, not a look into the parent's listing


def option(default: Any = None, *, help: str = "", required: bool = False, type: str = "", secret: bool = False) -> Any:
    """A driver option: `default` None shows as `""`; `type` overrides the one derived from the annotation."""
    from pydantic import Field

    extra = {"help": help, "required": required, "type": type, "secret": secret, "default": default}
    return Field(default=default, json_schema_extra=extra)


class Options(BaseModel):
    """Base of every driver's options; the field order is the form's order.

    Missing keys take the type's zero value, not the form's default; unknown keys are dropped. A field's
    annotation is `str`, `int`, `bool` or a `Literal` of strings (`select`).
    """

    model_config = ConfigDict(extra="ignore", strict=True)

    @classmethod
    def parse(cls, addition: str) -> Options:
        """The options in the JSON text `addition`; BadRequest names the option that does not fit."""
        try:
            values = json.loads(addition or "{}")
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"addition is not valid JSON: {error}") from None
        if not isinstance(values, dict):
            raise BadRequest("addition is not a JSON object")
        zero = {name: _zero(spec) for name, spec in cls.model_fields.items()}
        known = {name: values[name] for name in zero if values.get(name) is not None}
        try:
            return cls.model_validate(zero | known)
        except ValidationError as error:
            first = error.errors()[0]
            raise BadRequest(f"option {'.'.join(map(str, first['loc']))}: {first['msg']}") from None

    @classmethod
    def items(cls) -> list[dict[str, Any]]:
        """The option descriptors: `{name, type, default, options, required, help}` each."""
        return [_descriptor(name, spec) for name, spec in cls.model_fields.items()]

    @classmethod
    def secrets(cls) -> frozenset[str]:
        """Names of the options that must never be logged."""
        return frozenset(name for name, spec in cls.model_fields.items() if _extra(spec)["secret"])


def _extra(spec: FieldInfo) -> dict[str, Any]:
    blank = {"help": "", "required": False, "type": "", "secret": False, "default": None}
    return blank | (spec.json_schema_extra if isinstance(spec.json_schema_extra, dict) else {})


def _choices(spec: FieldInfo) -> tuple[str, ...]:
    return tuple(part for part in get_args(spec.annotation) if part) if get_origin(spec.annotation) is Literal else ()


def _zero(spec: FieldInfo) -> Any:
    if spec.annotation is bool:
        return False
    return 0 if spec.annotation is int else ""


def _descriptor(name: str, spec: FieldInfo) -> dict[str, Any]:
    extra = _extra(spec)
    choices = _choices(spec)
    kind = (
        "select" if choices else "bool" if spec.annotation is bool else "number" if spec.annotation is int else "string"
    )
    default = extra["default"]
    text = "" if default is None else json.dumps(default) if isinstance(default, bool | int) else str(default)
    return {
        "name": name,
        "type": extra["type"] or kind,
        "default": text,
        "options": ",".join(choices),
        "required": extra["required"],
        "help": extra["help"],
    }


class Opener(Protocol):
    """How Alias and Crypt reach other parts of the tree; given to them, never imported."""

    async def holder(self, path: TreePath) -> tuple[Driver, TreePath]:
        """The running driver that holds `path` and the path inside it; StorageProblem when none does."""
        ...

    def folders(self, path: TreePath) -> Sequence[str]:
        """Names of the folders right below `path` that lead to mounts."""
        ...


@dataclass(frozen=True, slots=True)
class Mounting:
    """What a driver is told about its place: the record's `modified` time (seconds), the opener, and how to store
    changed options (`keep`)."""

    mount_path: TreePath = ROOT
    modified: float = 0.0
    opener: Opener | None = None
    keep: Callable[[Options], Awaitable[None]] | None = None


class Driver(ABC):
    """One mounted storage. Subclasses set `name`, `Options`, `config` and live in one module each."""

    name: ClassVar[str]
    Options: ClassVar[type[Options]]
    config: ClassVar[Config]

    def __init__(self, options: Any, mounting: Mounting) -> None:
        self.options = options
        self.mounting = mounting

    async def start(self) -> None:
        """Make ready; a Problem here becomes the storage's status text."""

    async def stop(self) -> None:
        """Give back connections; never raises."""

    @abstractmethod
    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        """The entries of a folder in batches, in the driver's own order; NotFound, or NotSupported("not a folder")."""

    @abstractmethod
    async def stat(self, path: TreePath) -> Entry:
        """One entry; NotFound when it is not there. The root's name is ""."""

    @abstractmethod
    async def read(self, path: TreePath, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Open a file, then stream `length` bytes from `offset` in blocks of at most BLOCK bytes.

        Opening fails here, not at the first block. Closing the iterator early frees what it holds.
        """


@runtime_checkable
class Writes(Protocol):
    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        """Store the whole body at `path`, replacing a file there at once; its folder exists.

        When `body` raises or the task is cancelled, nothing is left behind and an old file is untouched. A body
        shorter or longer than `upload.size` is refused the same way (BadRequest). Holds at most a few blocks.
        """
        ...


@runtime_checkable
class Makes(Protocol):
    async def make(self, path: TreePath) -> None:
        """Make a folder and its missing parents; fine if it is there. Exists when a file is in the way."""
        ...


@runtime_checkable
class Renames(Protocol):
    async def rename(self, path: TreePath, target: TreePath) -> None:
        """Give a file or folder another name in the same folder, replacing a file of that name."""
        ...


@runtime_checkable
class Moves(Protocol):
    async def move(self, path: TreePath, target: TreePath) -> None:
        """Move a file or folder to `target` (its full new path) inside this storage. NotSupported: needs a task."""
        ...


@runtime_checkable
class Copies(Protocol):
    async def copy(self, path: TreePath, target: TreePath) -> None:
        """Copy a file or folder to `target` inside the storage without our reading it. NotSupported: needs a task."""
        ...


@runtime_checkable
class Removes(Protocol):
    async def remove(self, path: TreePath) -> None:
        """Remove a file, or a folder with all it holds; fine if it is not there."""
        ...


@runtime_checkable
class RemovesEmpty(Protocol):
    async def remove_empty(self, path: TreePath) -> bool:
        """Remove a folder if nothing at all is in it, also nothing that lists leave out; whether it is gone."""
        ...


@runtime_checkable
class Links(Protocol):
    async def link(self, path: TreePath) -> Link:
        """A direct address for the file. NotSupported when there is none for this file."""
        ...


@runtime_checkable
class TakesUrls(Protocol):
    async def put_url(self, path: TreePath, url: str) -> None:
        """Store a reference to `url` as the file `path`."""
        ...


@runtime_checkable
class Thumbs(Protocol):
    async def thumb(self, path: TreePath) -> tuple[bytes, str]:
        """A small picture of the file and its MIME type."""
        ...


@runtime_checkable
class Space(Protocol):
    async def space(self) -> Capacity:
        """How full the storage is."""
        ...


@runtime_checkable
class Stamps(Protocol):
    async def stamp(self, path: TreePath) -> int:
        """A cheap number that changes when a name appears in or vanishes from the folder."""
        ...


async def entries(driver: Driver, path: TreePath) -> list[Entry]:
    """All entries of a folder."""
    found: list[Entry] = []
    async for batch in driver.list(path):
        found.extend(batch)
    return found


def common_items(config: Config) -> list[dict[str, Any]]:
    """The option descriptors every driver shares, as its `config` makes them (behaviour 8.5)."""
    cached = not config.no_cache
    proxy = [("webdav_policy", "select", "native_proxy", "use_proxy_url,native_proxy", True, "")]
    if not config.only_proxy:
        web, policy = ("true", "native_proxy") if config.prefer_proxy else ("", "302_redirect")
        choices = "302_redirect,use_proxy_url,native_proxy"
        proxy = [("web_proxy", "bool", web, "", False, ""), ("webdav_policy", "select", policy, choices, True, "")]
    if config.proxy_range and not config.only_proxy:
        proxy.append(("proxy_range", "bool", "", "", False, "Need to enable proxy"))
    rows: Iterable[tuple[str, str, str, str, bool, str] | None] = (
        ("mount_path", "string", "", "", True, "The path you want to mount to, it is unique and cannot be repeated"),
        ("order", "number", "", "", False, "use to sort"),
        ("remark", "text", "", "", False, ""),
        ("cache_expiration", "number", "30", "", True, "The cache expiration time for this storage")
        if cached
        else None,
        ("custom_cache_policies", "text", "", "", False, "The cache expiration rules for this storage")
        if cached
        else None,
        *proxy,
        ("down_proxy_url", "text", "", "", False, ""),
        ("disable_proxy_sign", "bool", "false", "", False, "Disable sign for Download proxy URL"),
        ("order_by", "select", "", "name,size,modified", False, "") if config.local_sort else None,
        ("order_direction", "select", "", "asc,desc", False, "") if config.local_sort else None,
        ("extract_folder", "select", "", "front,back", False, ""),
        ("disable_index", "bool", "false", "", True, ""),
        ("enable_sign", "bool", "false", "", True, ""),
    )
    keys = ("name", "type", "default", "options", "required", "help")
    return [dict(zip(keys, row, strict=True)) for row in rows if row]
