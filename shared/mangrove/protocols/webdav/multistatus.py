"""The answers of PROPFIND. They are made while they are sent, one folder at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from mangrove.core.problems import EntryNotFound, NotSupported, Problem, StorageProblem
from mangrove.drivers.base import Capacity, Entry
from mangrove.protocols.webdav.errors import XML_HEAD, DavProblem
from mangrove.protocols.webdav.headers import INFINITY, make_href, quote_name
from mangrove.protocols.webdav.locking import Holders, PathLock, find_covering, find_on_entries, may_change
from mangrove.protocols.webdav.properties import Renderer, Resource, ShownLock, count_names
from mangrove.records import webdav_properties
from mangrove.records.webdav_properties import Values
from mangrove.tree import mounts
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries
from mangrove.tree.mounts import Mount

HEAD = XML_HEAD + b'<D:multistatus xmlns:D="DAV:">\n'
TAIL = b"</D:multistatus>\n"
ENTRIES_PER_BATCH = 500  # whose answers are made together
PIECE_CHARACTERS = 64 << 10  # after which the answer so far is sent


async def propfind(access: PathAccess, prefix: str, depth: str, renderer: Renderer) -> bytes | AsyncIterator[bytes]:
    """Return the answer for an entry itself, or else its pieces after the first read of the entry. Raise EntryNotFound
    or NotReadable.

    `prefix`: the address of the caller's root, without a trailing slash.
    """
    entry = await entries.stat(access)
    walk = _TreeWalk(prefix, renderer, str(access.path.below(access.base)), access)
    own = await walk.make_own(entry)
    if depth == "0" or not entry.is_dir:
        return HEAD + own.encode(errors="replace") + TAIL
    if depth == INFINITY and not access.tree.settings.webdav_infinite_depth:
        raise DavProblem(403, "Depth: infinity is switched off here, ask folder by folder", "propfind-finite-depth")
    below = walk.iterate(access, depth == INFINITY)
    first = await anext(below, "")  # a folder that cannot be listed gets an answer of its own
    return _enclose(own + first, below)


async def _enclose(first: str, rest: AsyncIterator[str]) -> AsyncIterator[bytes]:
    yield HEAD + first.encode(errors="replace")
    async for piece in rest:
        yield piece.encode(errors="replace")
    yield TAIL


@dataclass(frozen=True, slots=True)
class _FolderLock:
    """A lock of infinite depth on a folder or above it, as it applies to the folder's entries."""

    shown: ShownLock
    access: PathAccess  # access of the lock's user to the folder

    def binds_at(self, name: str) -> bool:
        """True if the lock's user may change the entry."""
        return may_change(self.access.child(name))


@dataclass(frozen=True, slots=True)
class _FolderValues:
    """The locks and properties of all entries of a folder, read together."""

    mount: Mount | None  # the storage that holds them
    access: PathAccess
    dead: Mapping[str, Values] | None  # their stored properties; None if there are too many to read together
    covering: Sequence[_FolderLock]
    own: Mapping[str, Sequence[PathLock]]  # the locks on each of them
    has_validators: bool  # the listing has the best validator of a file

    def find_locks(self, name: str) -> Sequence[ShownLock]:
        """Return the locks that apply to an entry."""
        if not self.covering and not self.own:
            return ()
        covering = [lock.shown for lock in self.covering if lock.binds_at(name)]
        return covering + [ShownLock(held.lock, 0) for held in self.own.get(name, ())]


@dataclass(frozen=True, slots=True)
class _TreeWalk:
    prefix: str
    renderer: Renderer
    root: str
    access: PathAccess

    async def make_own(self, entry: Entry) -> str:
        """Yield the answer of the requested entry itself."""
        access, renderer = self.access, self.renderer
        href = make_href(self.prefix, self.root, entry.is_dir)
        named = entry._replace(name=access.path.name if self.root != "/" else "")
        covering = await find_covering(access) if renderer.needs_locks else ()
        space = await find_space(access) if renderer.needs_space else None
        dead = await find_dead(access) if renderer.needs_dead else {}
        shown = [_show(held, 0) for held in covering]
        return renderer.render(Resource(href, named, count_names(self.root), dead, shown, space))

    async def iterate(self, access: PathAccess, is_deep: bool) -> AsyncIterator[str]:
        """Yield the answers of all entries in a folder; with `is_deep`, also of the folders in it."""
        folder = await self._open(access)
        below = str(access.path.below(access.base))
        start = make_href(self.prefix, below, True) if below != "/" else self.prefix + "/"
        batch: list[Entry] = []
        folders: list[str] = []
        async for entry in entries.iterate(access):
            batch.append(entry)
            if entry.is_dir and is_deep and not entry.is_link:
                folders.append(entry.name)
            if len(batch) == (ENTRIES_PER_BATCH if folder.dead is not None else webdav_properties.ENTRIES_PER_READ):
                async for piece in self._render(folder, start, batch):
                    yield piece
                batch = []
        async for piece in self._render(folder, start, batch):
            yield piece
        for name in folders:
            child = access.child(name)
            if child.may_read():
                try:
                    async for piece in self.iterate(child, True):
                        yield piece
                except (EntryNotFound, NotSupported):
                    pass  # removed meanwhile, or not a folder any more

    async def _open(self, access: PathAccess) -> _FolderValues:
        renderer = self.renderer
        mount: Mount | None = None
        dead: dict[str, Values] | None = {}
        try:
            mount, inner = access.find_mount()
        except StorageProblem:
            pass  # the folder only leads to mounts
        if mount is not None and renderer.needs_dead:
            dead = await asyncio.to_thread(webdav_properties.find_in, mount.storage.id, inner)
        covering = await _find_deep(access) if renderer.needs_locks else ()
        own = await find_on_entries(access) if renderer.needs_locks else {}
        driver = None if mount is None else mount.driver
        has_validators = driver is None or not driver.config.direct_lookup
        return _FolderValues(mount, access, dead, covering, own, has_validators)

    async def _render(self, folder: _FolderValues, start: str, batch: Sequence[Entry]) -> AsyncIterator[str]:
        """Yield the answers of a batch of entries, in pieces of about PIECE_CHARACTERS."""
        dead = folder.dead
        if dead is None and folder.mount is not None:
            inner = folder.access.find_mount()[1]
            names = [entry.name for entry in batch]
            dead = await asyncio.to_thread(webdav_properties.get_many, folder.mount.storage.id, inner, names)
        depth = count_names(str(folder.access.path.below(folder.access.base))) + 1
        nothing: Values = {}
        pieces: list[str] = []
        size = 0
        for entry in batch:
            href = f"{start}{quote_name(entry.name)}{'/' if entry.is_dir else ''}"
            own = dead.get(entry.name, nothing) if dead else nothing
            held = folder.find_locks(entry.name)
            resource = Resource(href, entry, depth, own, held, has_validator=folder.has_validators)
            pieces.append(self.renderer.render(resource))
            size += len(pieces[-1])
            if size >= PIECE_CHARACTERS:
                yield "".join(pieces)
                await asyncio.sleep(0)
                pieces, size = [], 0
        if pieces:
            yield "".join(pieces)
            await asyncio.sleep(0)


def _show(held: PathLock, names_below: int) -> ShownLock:
    """Return a lock as an answer shows it, for an entry `names_below` names below the locked path."""
    is_shown = held.path is not None
    return ShownLock(held.lock, count_names(held.rest) + names_below if is_shown else 0)


async def _find_deep(access: PathAccess) -> list[_FolderLock]:
    """Return the locks of infinite depth that apply in a folder."""
    holders = Holders(access)
    deep: list[_FolderLock] = []
    for held in await find_covering(access):
        holder = await holders.find_access(held.lock, held.rest) if held.lock.is_deep else None
        if holder is not None:
            deep.append(_FolderLock(_show(held, 1), holder))
    return deep


async def find_dead(access: PathAccess) -> Values:
    """Return the dead properties of an entry; none for an entry that no storage holds."""
    try:
        mount, inner = access.find_mount()
    except StorageProblem:
        return {}
    if webdav_properties.knows_none(mount.storage.id):
        return {}
    return await asyncio.to_thread(webdav_properties.get, mount.storage.id, inner)


async def find_space(access: PathAccess) -> Capacity | None:
    """Return the capacity of the storage, if the caller may see it."""
    if access.caller.is_guest or access.tree.settings.hide_storage_details:
        return None
    try:
        return await mounts.get_capacity(access.find_mount()[0])
    except Problem:
        return None
