"""What is inside archives: their tree, one folder of it, the bytes of one file (behaviour 5.19)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mangrove import archives
from mangrove.archives import Archive, Limits, Member
from mangrove.configuration.values import Settings
from mangrove.core.limits import limits
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    AccessDenied,
    ArchiveTooLarge,
    BrokenArchive,
    EntryNotFound,
    NotAFile,
    NotSupported,
    StorageProblem,
)
from mangrove.drivers.base import Driver, Entry
from mangrove.identity.rights import Right
from mangrove.records.storages import Storage
from mangrove.tree.access import PathAccess, lookup
from mangrove.tree.listing.browse import Slice, get_content
from mangrove.tree.listing.folder import View
from mangrove.tree.listing.orders import Order, sort_entries
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import links, objects
from mangrove.tree.operations.downloads import Download
from mangrove.tree.operations.links import Purpose
from mangrove.tree.operations.objects import encode_rows

LARGEST_TREE = 10_000  # entries that are sent at once; of larger archives clients ask one folder at a time
DEEPEST_TREE = 100  # folders in each other that are sent at once: what writes and reads JSON has a bound there
LOOKUP_SECONDS = 60.0  # to list an archive or to find a file in it; what takes longer is a task's work


@dataclass(frozen=True, slots=True)
class Packed:
    """A file of a storage as the source of an archive."""

    driver: Driver
    path: TreePath
    size: int

    async def read(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset`, fewer only at the end."""
        blocks: Any = await self.driver.read(self.path, offset, length)
        async with aclosing(blocks):
            return b"".join([block async for block in blocks])


@dataclass(slots=True)
class Node:
    """A folder or file of the tree while it is built; folders keep their children by name."""

    entry: Entry
    children: dict[str, Node] = field(default_factory=dict)


def make_limits(settings: Settings) -> Limits:
    """What the settings let an archive hold."""
    return Limits(settings.archive_max_members, settings.archive_max_size, settings.archive_max_ratio)


async def get_meta(access: PathAccess, password: str, base: str, caller: str) -> dict[str, Any]:
    """The answer of `fs/archive/meta`; `base` is the address clients reach us at, `caller` who has the share."""
    storage_path = await _locate(access)
    must_sign = access.requires_signature()
    found = {
        "comment": "",
        "encrypted": False,
        "content": None,
        "raw_url": links.make_file_url(base, "/ae", access.path),
        "sign": links.make_signer(access.settings, access.caller.user.id, Purpose.ARCHIVE).sign(access.path)
        if must_sign
        else "",
    }
    try:
        entry = await _stat_archive(storage_path)
        async with _look_into(access, storage_path, entry, password, caller) as archive:
            tree = await _build_tree(archive, entry.modified)
            found |= {"comment": archive.comment, "encrypted": archive.encrypted}
    except (StorageProblem, BrokenArchive) as problem:
        raise problem.with_prefix(f"failed to get {storage_path.path} archive met") from None
    if tree is not None:
        storage = storage_path.mount.storage
        found["content"] = await _make_tree_rows(tree, access.settings.type_codes, storage)
        found["sort"] = {
            "order_by": storage.order_by,
            "order_direction": storage.order_direction,
            "extract_folder": storage.extract_folder,
        }
    return found


async def list_folder(access: PathAccess, password: str, inside: str, part: Slice, caller: str) -> dict[str, Any]:
    """The answer of `fs/archive/list`: one folder of the archive."""
    folder = TreePath(inside)
    storage_path = await _locate(access)
    try:
        entry = await _stat_archive(storage_path)
        async with _look_into(access, storage_path, entry, password, caller) as archive:
            found = await _read_folder(archive, folder, entry.modified)
    except (StorageProblem, BrokenArchive) as problem:
        repeated = f": {EntryNotFound.text}" if isinstance(problem, EntryNotFound) else ""
        raise type(problem)(
            f"failed to list archive [{storage_path.path}]{folder}: {problem.message}{repeated}"
        ) from None
    storage = storage_path.mount.storage
    rows = await sort_entries(found, part.find_order(storage) or Order.of(storage))
    codes = access.settings.type_codes
    view = View(rows, lambda entries: encode_rows(objects.make_row(codes, entry) for entry in entries))
    return {"content": await get_content(view, part.indices(len(rows))), "total": len(rows)}


class MemberStream:
    """The bytes of one member of an archive, which was `archive` when it was opened; to be closed."""

    def __init__(
        self, stream: AsyncGenerator[Member | bytes, None], archive: Entry, member: Member, first: bytes
    ) -> None:
        self.archive = archive
        self.member = member
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
        """Close the archive."""
        await self._stream.aclose()


async def open_member(file: Download, inside: str, password: str, caller: str) -> MemberStream:
    """One file of an archive; EntryNotFound when there is none. A failure up to its first block is raised here."""
    try:
        async with _limit_time():
            archive = await _stat_archive(file.storage_path)
            stream = _stream_member(file, archive, TreePath(inside)[1:], password, caller)
            found = await anext(stream, None)
            first = await anext(stream, b"")
    except (StorageProblem, BrokenArchive) as problem:
        raise problem.with_prefix("failed link") from None
    if not isinstance(found, Member) or not isinstance(first, bytes):
        raise EntryNotFound(f"failed link: {EntryNotFound.text}")
    return MemberStream(stream, archive, found, first)


async def _stream_member(
    file: Download, entry: Entry, path: str, password: str, caller: str
) -> AsyncGenerator[Member | bytes, None]:
    """The member, then its blocks; nothing when there is none."""
    async with (
        limits().archive_members.hold(caller),
        _open(file.storage_path, entry, file.settings, password) as archive,
        aclosing(archive.iter_contents(lambda _, member: member.path == path)) as contents,
    ):
        async for _, member, blocks in contents:
            yield member
            async for block in blocks:
                yield block
            return


async def _locate(access: PathAccess) -> StoragePath:
    """Where the archive is, if the caller may look into archives and read here."""
    caller = access.caller
    if caller.declared_right is not Right.READ_ARCHIVES or not caller.has(Right.READ_ARCHIVES):
        raise AccessDenied
    access.require_read()
    try:
        return await access.locate()
    except StorageProblem as problem:
        raise problem.with_prefix("failed get storage") from None


async def _stat_archive(storage_path: StoragePath) -> Entry:
    """The archive's entry; NotSupported for what is none, or when its size is not known: its end is read first."""
    entry = await lookup(storage_path)
    if entry.is_dir:
        raise NotAFile
    if not archives.is_supported(storage_path.path.name):
        raise NotSupported("failed get archive tool: the obj does not have an extension.")
    if entry.size is None:
        raise NotSupported("the size of the archive is not known")
    return entry


@asynccontextmanager
async def _limit_time() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            yield
    except TimeoutError:
        raise ArchiveTooLarge("the archive takes too long to be looked into") from None


@asynccontextmanager
async def _look_into(
    access: PathAccess, storage_path: StoragePath, entry: Entry, password: str, caller: str
) -> AsyncIterator[Archive]:
    """The archive, open for LOOKUP_SECONDS."""
    async with (
        limits().archive_lookups.hold(caller),
        _limit_time(),
        _open(storage_path, entry, access.settings, password) as archive,
    ):
        yield archive


@asynccontextmanager
async def _open(storage_path: StoragePath, entry: Entry, settings: Settings, password: str) -> AsyncIterator[Archive]:
    source = Packed(storage_path.driver, storage_path.path, entry.size or 0)
    encoding = settings.non_efs_zip_encoding
    async with archives.open_archive(
        storage_path.path.name, source, password, encoding, make_limits(settings)
    ) as archive:
        yield archive


async def _build_tree(archive: Archive, modified: float) -> Node | None:
    """All that can be unpacked, with the folders above it; None when there is more than LARGEST_TREE of it, or it is
    deeper than DEEPEST_TREE."""
    root = Node(Entry("", 0, modified, True))
    count = 0
    async with aclosing(archive.iter_members()) as members:
        async for member in members:
            if member.refused:
                continue
            node = root
            *above, name = member.path.split("/")
            if len(above) > DEEPEST_TREE:
                return None
            for part in above:
                if part not in node.children:
                    node.children[part] = Node(Entry(part, 0, modified, True))
                    count += 1
                node = node.children[part]
            known = node.children.get(name)
            node.children[name] = Node(_make_entry(name, member, modified), known.children if known else {})
            count += known is None
            if count > LARGEST_TREE:
                return None
    return root


def _make_entry(name: str, member: Member, modified: float) -> Entry:
    return Entry(name, member.size or 0, member.modified or modified, member.is_dir)


async def _make_tree_rows(folder: Node, codes: dict[str, int], storage: Storage) -> list[dict[str, Any]]:
    rows = []
    for entry in await sort_entries([node.entry for node in folder.children.values()], Order.of(storage)):
        children = await _make_tree_rows(folder.children[entry.name], codes, storage) if entry.is_dir else []
        rows.append(objects.make_row(codes, entry) | {"children": children or None})
    return rows


async def _read_folder(archive: Archive, folder: TreePath, modified: float) -> list[Entry]:
    """The entries of one folder; EntryNotFound when it is none."""
    prefix = "" if folder == "/" else f"{folder[1:]}/"
    found: dict[str, Entry] = {}
    is_known = not prefix
    async with aclosing(archive.iter_members()) as members:
        async for member in members:
            if member.refused or not (member.path + "/").startswith(prefix):
                continue
            name, deeper, _ = member.path[len(prefix) :].partition("/")
            is_known = is_known or member.is_dir or bool(name)
            if not name:
                continue
            if deeper:
                found.setdefault(name, Entry(name, 0, modified, True))
            else:
                found[name] = _make_entry(name, member, modified)
    if not is_known:
        raise EntryNotFound
    return list(found.values())
