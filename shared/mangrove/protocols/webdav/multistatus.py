"""The answers of PROPFIND: made while they are sent, a folder at a time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from mangrove.core.problems import NotFound, NotSupported, Problem, StorageProblem
from mangrove.drivers.base import Capacity, Entry
from mangrove.protocols.webdav.errors import XML_HEAD, DavProblem
from mangrove.protocols.webdav.headers import INFINITY
from mangrove.protocols.webdav.properties import Renderer, Resource, count_names
from mangrove.records.files import locks, properties
from mangrove.records.files.locks import Lock
from mangrove.records.files.properties import Values
from mangrove.tree import mounts
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries
from mangrove.tree.mounts import Mount

HEAD = XML_HEAD + b'<D:multistatus xmlns:D="DAV:">\n'
TAIL = b"</D:multistatus>\n"
SAFE = "/~!$()*+,;=:@-._"  # of what an address may hold, but for what XML takes for its own
_PLAIN = re.compile(r"[A-Za-z0-9/~!$()*+,;=:@._-]*")
ENTRIES_PER_BATCH = 500  # whose answers are made together
PIECE_CHARACTERS = 64 << 10  # after which what is made of an answer is sent


def quote_name(name: str) -> str:
    """A name as it stands in an address."""
    return name if _PLAIN.fullmatch(name) else quote(name, safe=SAFE, errors="replace")


def make_href(prefix: str, path: str, is_dir: bool) -> str:
    """The address of a path below the caller's base path; a folder's ends with a slash."""
    return prefix + quote(path, safe=SAFE) + ("/" if is_dir and path != "/" else "")


async def propfind(access: PathAccess, prefix: str, depth: str, renderer: Renderer) -> AsyncIterator[bytes]:
    """The pieces of the answer, after the first look at what is there: NotFound, NotReadable.

    `prefix`: the address of the caller's root, without a slash at its end.
    """
    entry = await entries.stat(access)
    walk = _Walk(prefix, renderer, str(access.path.below(access.base)), access)
    own = await walk.make_own(entry)
    if depth == "0" or not entry.is_dir:
        return _enclose(own, None)
    if depth == INFINITY and not access.settings.webdav_infinite_depth:
        raise DavProblem(403, "Depth: infinity is switched off here, ask folder by folder", "propfind-finite-depth")
    below = walk.iterate(access, depth == INFINITY)
    first = await anext(below, "")  # what cannot be listed is an answer of its own
    return _enclose(own + first, below)


async def _enclose(first: str, rest: AsyncIterator[str] | None) -> AsyncIterator[bytes]:
    yield HEAD + first.encode(errors="replace")
    if rest is not None:
        async for piece in rest:
            yield piece.encode(errors="replace")
    yield TAIL


@dataclass(frozen=True, slots=True)
class _Folder:
    """What is known of a folder's entries together: where they are kept, their properties where these are few, and the
    locks on them; `has_validators`: whether the listing is what tells whether a file changed."""

    mount: Mount | None
    access: PathAccess
    dead: Mapping[str, Values] | None
    covering: Sequence[Lock]
    own: Mapping[str, Sequence[Lock]]
    has_validators: bool


@dataclass(frozen=True, slots=True)
class _Walk:
    prefix: str
    renderer: Renderer
    root: str
    access: PathAccess

    async def make_own(self, entry: Entry) -> str:
        """The answer of what was asked for itself."""
        access, renderer = self.access, self.renderer
        href = make_href(self.prefix, self.root, entry.is_dir)
        named = entry._replace(name=access.path.name if self.root != "/" else "")
        found = await asyncio.to_thread(locks.find_covering, access.path) if renderer.needs_locks else ()
        space = await find_space(access) if renderer.needs_space else None
        dead = await find_dead(access) if renderer.needs_dead else {}
        return renderer.render(Resource(href, named, count_names(access.path), dead, found, space))

    async def iterate(self, access: PathAccess, is_deep: bool) -> AsyncIterator[str]:
        """The answers of all that is in a folder; `is_deep`: and in the folders in it."""
        folder = await self._open(access)
        below = str(access.path.below(access.base))
        start = make_href(self.prefix, below, True) if below != "/" else self.prefix + "/"
        batch: list[Entry] = []
        folders: list[str] = []
        async for entry in entries.iterate(access):
            batch.append(entry)
            if entry.is_dir and is_deep and not entry.is_link:
                folders.append(entry.name)
            if len(batch) == (ENTRIES_PER_BATCH if folder.dead is not None else properties.ENTRIES_PER_READ):
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
                except (NotFound, NotSupported):
                    pass  # gone meanwhile, or no folder any more

    async def _open(self, access: PathAccess) -> _Folder:
        renderer = self.renderer
        mount: Mount | None = None
        dead: dict[str, Values] | None = {}
        try:
            mount, inner = access.find_mount()
        except StorageProblem:
            pass  # the folder only leads to mounts
        if mount is not None and renderer.needs_dead:
            dead = await asyncio.to_thread(properties.find_in, mount.storage.id, inner)
        covering: Sequence[Lock] = ()
        own: dict[str, list[Lock]] = {}
        if renderer.needs_locks:
            above = await asyncio.to_thread(locks.find_covering, access.path)
            covering = [lock for lock in above if lock.is_deep]
            for lock in await asyncio.to_thread(locks.find_below, access.path):
                own.setdefault(lock.path, []).append(lock)
        driver = None if mount is None else mount.driver
        has_validators = driver is None or not driver.config.direct_lookup
        return _Folder(mount, access, dead, covering, own, has_validators)

    async def _render(self, folder: _Folder, start: str, batch: Sequence[Entry]) -> AsyncIterator[str]:
        """Yield the answers of a batch of entries, in pieces of about PIECE_CHARACTERS."""
        dead = folder.dead
        if dead is None and folder.mount is not None:
            inner = folder.access.find_mount()[1]
            names = [entry.name for entry in batch]
            dead = await asyncio.to_thread(properties.get_many, folder.mount.storage.id, inner, names)
        path = "" if folder.access.path == "/" else str(folder.access.path)
        depth = count_names(folder.access.path) + 1
        nothing: Values = {}
        pieces: list[str] = []
        size = 0
        for entry in batch:
            href = f"{start}{quote_name(entry.name)}{'/' if entry.is_dir else ''}"
            held = folder.own.get(f"{path}/{entry.name}", ()) if folder.own else ()
            own = dead.get(entry.name, nothing) if dead else nothing
            held = [*folder.covering, *held] if folder.covering else held
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


async def find_dead(access: PathAccess) -> Values:
    """What clients keep beside an entry; nothing for what no storage holds."""
    try:
        mount, inner = access.find_mount()
    except StorageProblem:
        return {}
    return await asyncio.to_thread(properties.get, mount.storage.id, inner)


async def find_space(access: PathAccess) -> Capacity | None:
    """How full the storage is, where the caller may know."""
    if access.caller.is_guest or access.settings.hide_storage_details:
        return None
    try:
        return await mounts.get_capacity(access.find_mount()[0])
    except Problem:
        return None
