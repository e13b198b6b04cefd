"""Archives looked into: their tree, one folder of it, the bytes of one file (behaviour 5.19)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from mangrove import archives
from mangrove.archives import Archive, Limits, Member
from mangrove.drivers.base import Driver, Entry
from mangrove.identity.rights import Right
from mangrove.paths import TreePath
from mangrove.problems import ArchiveTooLarge, BrokenArchive, Denied, NotFound, NotSupported, StorageProblem, TooMany
from mangrove.records.storages import Storage
from mangrove.site.values import Settings
from mangrove.tree import links, objects
from mangrove.tree.access import PathAccess, look
from mangrove.tree.browse import Slice
from mangrove.tree.downloads import Download
from mangrove.tree.listing import arranged
from mangrove.tree.mounts import Mount

LARGEST_TREE = 10_000  # entries that are sent at once; of larger archives clients ask one folder at a time
DEEPEST_TREE = 100  # folders in each other that are sent at once: what writes and reads JSON has a bound there
MIB = 20
LOOK_SECONDS = 60.0  # to list an archive or to find a file in it; what takes longer is a task's work
AT_ONCE = 2  # archives that one user looks into: each may need a quarter of a GiB, and a core
SENT_AT_ONCE = 16  # files of archives: who reads one slowly keeps its memory for as long
PATIENCE = 10.0  # seconds until a place among them is free
_places = asyncio.Semaphore(SENT_AT_ONCE)
_turns: WeakValueDictionary[int, asyncio.Semaphore] = WeakValueDictionary()  # by user


@dataclass(frozen=True, slots=True)
class Packed:
    """A file of a storage as the source of an archive."""

    driver: Driver
    path: TreePath
    size: int

    async def read(self, offset: int, length: int) -> bytes:
        blocks: Any = await self.driver.read(self.path, offset, length)
        async with aclosing(blocks):
            return b"".join([block async for block in blocks])


@dataclass(slots=True)
class Node:
    """A folder or file of the tree while it is built; folders keep their children by name."""

    entry: Entry
    children: dict[str, Node] = field(default_factory=dict)


def limits(settings: Settings) -> Limits:
    """What the settings let an archive hold."""
    return Limits(
        settings.number("archive_max_members"),
        settings.number("archive_max_size") << MIB,
        settings.number("archive_max_ratio"),
    )


async def meta(access: PathAccess, password: str, base: str) -> dict[str, Any]:
    """The answer of `fs/archive/meta`; `base` is the address clients reach us at."""
    driver, inner, mount = await _place(access)
    signed = links.signed(access.settings, access.rules, mount, access.path)
    found = {
        "comment": "",
        "encrypted": False,
        "content": None,
        "raw_url": f"{base}/ae{links.encoded(access.path)}",
        "sign": links.archive_signature(access.settings, access.path) if signed else "",
    }
    try:
        entry = await _file(driver, inner, mount)
        async with _turn(access), _in_time(), _opened(driver, inner, entry, access.settings, password) as archive:
            tree = await _tree(archive, entry.modified)
            found |= {"comment": archive.comment, "encrypted": archive.encrypted}
    except (StorageProblem, BrokenArchive) as problem:
        raise problem.with_prefix(f"failed to get {inner} archive met") from None
    if tree is not None:
        storage = mount.storage
        found["content"] = _rows(tree, access.settings.type_codes, storage)
        found["sort"] = {
            "order_by": storage.order_by,
            "order_direction": storage.order_direction,
            "extract_folder": storage.extract_folder,
        }
    return found


async def listing(access: PathAccess, password: str, inside: str, part: Slice) -> dict[str, Any]:
    """The answer of `fs/archive/list`: one folder of the archive."""
    folder = TreePath(inside)
    driver, inner, mount = await _place(access)
    try:
        entry = await _file(driver, inner, mount)
        async with _turn(access), _in_time(), _opened(driver, inner, entry, access.settings, password) as archive:
            found = await _folder(archive, folder, entry.modified)
    except (StorageProblem, BrokenArchive) as problem:
        repeated = f": {NotFound.text}" if isinstance(problem, NotFound) else ""
        raise type(problem)(f"failed to list archive [{inner}]{folder}: {problem.message}{repeated}") from None
    rows = arranged(found, mount.storage)
    start, stop = part.bounds(len(rows))
    codes = access.settings.type_codes
    return {"content": [objects.row(codes, one) for one in rows[start:stop]], "total": len(rows)}


class MemberStream:
    """The bytes of one member, `found`; to be closed."""

    def __init__(self, stream: AsyncGenerator[Member | bytes, None], found: Member, first: bytes) -> None:
        self.member = found
        self._stream = stream
        self._first = first

    def __aiter__(self) -> MemberStream:
        return self

    async def __anext__(self) -> bytes:
        if self._first:
            block, self._first = self._first, b""
            return block
        following = await anext(self._stream)
        assert isinstance(following, bytes)
        return following

    async def aclose(self) -> None:
        await self._stream.aclose()


async def member(file: Download, inside: str, password: str) -> MemberStream:
    """One file of an archive. Whatever shows before or in its first block is raised here; NotFound when it is none."""
    stream = _member(file, TreePath(inside)[1:], password)
    try:
        async with _in_time():
            found = await anext(stream, None)
            first = await anext(stream, b"")
    except (StorageProblem, BrokenArchive) as problem:
        raise problem.with_prefix("failed link") from None
    if not isinstance(found, Member) or not isinstance(first, bytes):
        raise NotFound(f"failed link: {NotFound.text}")
    return MemberStream(stream, found, first)


async def _member(file: Download, path: str, password: str) -> AsyncGenerator[Member | bytes, None]:
    """The member, then its blocks; nothing when there is none."""
    entry = await _file(file.driver, file.inner, file.mount)
    async with (
        _place_to_send(),
        _opened(file.driver, file.inner, entry, file.settings, password) as archive,
        aclosing(archive.contents(lambda _, one: one.path == path)) as contents,
    ):
        async for _, found, blocks in contents:
            yield found
            async for block in blocks:
                yield block
            return


async def _place(access: PathAccess) -> tuple[Driver, TreePath, Mount]:
    """Where the archive is, if the caller may look into archives and read here."""
    caller = access.caller
    if caller.declared_right is not Right.READ_ARCHIVES or not caller.has(Right.READ_ARCHIVES):
        raise Denied
    access.require_read()
    try:
        return await access.driver()
    except StorageProblem as problem:
        raise problem.with_prefix("failed get storage") from None


async def _file(driver: Driver, inner: TreePath, mount: Mount) -> Entry:
    entry = await look(driver, inner, mount)
    if entry.is_dir:
        raise NotSupported("not a file")
    if not archives.supported(inner.name):
        raise NotSupported("failed get archive tool: the obj does not have an extension.")
    return entry


def _turn(access: PathAccess) -> asyncio.Semaphore:
    """To be held while a user looks into an archive."""
    return _turns.setdefault(access.caller.user.id, asyncio.Semaphore(AT_ONCE))


@asynccontextmanager
async def _place_to_send() -> AsyncIterator[None]:
    try:
        await asyncio.wait_for(_places.acquire(), PATIENCE)
    except TimeoutError:
        raise TooMany("too many files of archives are sent at once, try again later") from None
    try:
        yield
    finally:
        _places.release()


@asynccontextmanager
async def _in_time() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            yield
    except TimeoutError:
        raise ArchiveTooLarge("the archive takes too long to be looked into") from None


@asynccontextmanager
async def _opened(
    driver: Driver, inner: TreePath, entry: Entry, settings: Settings, password: str
) -> AsyncIterator[Archive]:
    source = Packed(driver, inner, entry.size)
    encoding = settings["non_efs_zip_encoding"]
    async with archives.opened(inner.name, source, password, encoding, limits(settings)) as archive:
        yield archive


async def _tree(archive: Archive, modified: float) -> Node | None:
    """All that can be unpacked, with the folders above it; None when there is more than LARGEST_TREE of it, or it is
    deeper than DEEPEST_TREE."""
    root = Node(Entry("", 0, modified, True))
    count = 0
    async with aclosing(archive.members()) as members:
        async for one in members:
            if one.refused:
                continue
            node = root
            *above, name = one.path.split("/")
            if len(above) > DEEPEST_TREE:
                return None
            for part in above:
                if part not in node.children:
                    node.children[part] = Node(Entry(part, 0, modified, True))
                    count += 1
                node = node.children[part]
            known = node.children.get(name)
            node.children[name] = Node(_entry(name, one, modified), known.children if known else {})
            count += known is None
            if count > LARGEST_TREE:
                return None
    return root


def _entry(name: str, one: Member, modified: float) -> Entry:
    return Entry(name, max(one.size, 0), one.modified or modified, one.is_dir)


def _rows(folder: Node, codes: dict[str, int], storage: Storage) -> list[dict[str, Any]]:
    rows = []
    for entry in arranged([node.entry for node in folder.children.values()], storage):
        children = _rows(folder.children[entry.name], codes, storage) if entry.is_dir else []
        rows.append(objects.row(codes, entry) | {"children": children or None})
    return rows


async def _folder(archive: Archive, folder: TreePath, modified: float) -> list[Entry]:
    """The entries of one folder; NotFound when it is none."""
    prefix = "" if folder == "/" else f"{folder[1:]}/"
    found: dict[str, Entry] = {}
    there = not prefix
    async with aclosing(archive.members()) as members:
        async for one in members:
            if one.refused or not (one.path + "/").startswith(prefix):
                continue
            name, deeper, _ = one.path[len(prefix) :].partition("/")
            there = there or one.is_dir or bool(name)
            if not name:
                continue
            if deeper:
                found.setdefault(name, Entry(name, 0, modified, True))
            else:
                found[name] = _entry(name, one, modified)
    if not there:
        raise NotFound
    return list(found.values())
