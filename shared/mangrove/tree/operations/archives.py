"""The contents of archives: the tree, one folder, the bytes of one file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mangrove import archives
from mangrove.archives import Archive, ArchiveLimits, Member
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
    Problem,
    StorageProblem,
)
from mangrove.drivers.base import Driver, Entry
from mangrove.identity.rights import Right
from mangrove.records.storages import Storage
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.lookups import look_up
from mangrove.tree.listing.orders import SortOrder, sort_entries
from mangrove.tree.listing.rows import make_row
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import links
from mangrove.tree.operations.downloads import Download
from mangrove.tree.operations.links import Purpose

MAX_TREE_ENTRIES = 10_000  # per answer; clients read larger archives folder by folder
MAX_TREE_DEPTH = 100  # nested folders per answer; JSON libraries limit them, too
LOOKUP_SECONDS = 60.0  # to list an archive or to find a file in it; a task may take longer


class NotAnArchive(NotSupported):
    """The name of the file is not that of an archive."""

    text = "failed get archive tool: the obj does not have an extension."
    plain_message = archives.NOT_AN_ARCHIVE


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A file of a storage as the source of an archive."""

    driver: Driver
    path: TreePath
    size: int

    async def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset`; fewer only at the end."""
        blocks: Any = await self.driver.read(self.path, offset, length)
        async with aclosing(blocks):
            return b"".join([block async for block in blocks])


@dataclass(slots=True)
class _Node:
    """A folder or file of the tree while it is built."""

    entry: Entry
    children: dict[str, _Node] = field(default_factory=dict)  # of a folder, by name


def make_limits(settings: Settings) -> ArchiveLimits:
    """Return the limits of an archive from the settings."""
    return ArchiveLimits(settings.archive_max_members, settings.archive_max_size, settings.archive_max_ratio)


async def get_meta(access: PathAccess, password: str, base: str, caller: str) -> dict[str, Any]:
    """Return the answer of `fs/archive/meta`. `base`: the address of the service; `caller`: its limits apply."""
    storage_path = await _locate(access)
    signer = links.make_signer(access.tree.settings, access.caller.user.id, Purpose.ARCHIVE)
    share, path = access.share, access.path
    raw_url = links.make_file_url(base, "/ae", path) if share is None else share.make_url(base, "/sad", path)
    answer = {
        "comment": "",
        "encrypted": False,
        "content": None,
        "raw_url": raw_url,
        "sign": signer.sign(access.path) if access.requires_signature() else "",
    }
    try:
        async with _look_into(access, storage_path, password, caller) as (archive, modified):
            tree = await _build_tree(archive, modified)
            answer |= {"comment": archive.comment, "encrypted": archive.encrypted}
    except (StorageProblem, BrokenArchive) as problem:
        raise _explain(problem, f"failed to get {storage_path.path} archive met: {problem.message}") from None
    if tree is not None:
        storage = storage_path.mount.storage
        answer["content"] = await _make_tree_rows(tree, access.tree.settings.type_codes, storage)
        answer["sort"] = {
            "order_by": storage.order_by,
            "order_direction": storage.order_direction,
            "extract_folder": storage.extract_folder,
        }
    return answer


async def read_folder(access: PathAccess, password: str, inside: str, caller: str) -> tuple[list[Entry], Storage]:
    """Return the entries of one folder of the archive, and the storage of the archive."""
    folder = TreePath(inside)
    storage_path = await _locate(access)
    try:
        async with _look_into(access, storage_path, password, caller) as (archive, modified):
            return await _collect_entries(archive, folder, modified), storage_path.mount.storage
    except (StorageProblem, BrokenArchive) as problem:
        repeated = f": {EntryNotFound.text}" if isinstance(problem, EntryNotFound) else ""
        text = f"failed to list archive [{storage_path.path}]{folder}: {problem.message}{repeated}"
        raise _explain(problem, text) from None


def _explain(problem: Problem, message: str) -> Problem:
    """Return the problem with the message that existing clients expect; its own is the plain one."""
    explained = type(problem)(message, data=problem.data)
    explained.retry_after = problem.retry_after
    explained.plain_message = problem.describe()
    return explained


class MemberStream:
    """The bytes of one member of an archive. The caller has to close it."""

    def __init__(
        self, stream: AsyncGenerator[tuple[Member, bytes], None], archive: Entry, member: Member, first: bytes
    ) -> None:
        self.archive = archive  # as it was when it was opened
        self.member = member
        self._stream = stream
        self._first = first

    def __aiter__(self) -> MemberStream:
        return self

    async def __anext__(self) -> bytes:
        if self._first:
            block, self._first = self._first, b""
            return block
        return (await anext(self._stream))[1]

    async def aclose(self) -> None:
        """Close the archive."""
        await self._stream.aclose()


async def open_member(file: Download, inside: str, password: str, caller: str) -> MemberStream:
    """Open a file of an archive. Raise EntryNotFound. A failure up to its first block is raised here."""
    try:
        async with _limit_time():
            archive = await _stat_archive(file.storage_path)
            stream = _stream_member(file, archive, TreePath(inside)[1:], password, caller)
            head = await anext(stream, None)
            body = await anext(stream, None)
    except (StorageProblem, BrokenArchive) as problem:
        raise _explain(problem, f"failed link: {problem.message}") from None
    if head is None:
        raise EntryNotFound(f"failed link: {EntryNotFound.text}")
    return MemberStream(stream, archive, head[0], b"" if body is None else body[1])


async def _stream_member(
    file: Download, entry: Entry, path: str, password: str, caller: str
) -> AsyncGenerator[tuple[Member, bytes], None]:
    """Yield the member with an empty block, then with each of its blocks; nothing if there is no such member."""
    async with (
        limits().archive_members.hold(caller),
        _open(file.storage_path, entry, file.settings, password) as archive,
        aclosing(archive.iter_contents(lambda _, member: member.path == path)) as contents,
    ):
        async for _, member, blocks in contents:
            yield member, b""
            async for block in blocks:
                yield member, block
            return


def require_archive_rights(access: PathAccess) -> None:
    """Raise AccessDenied unless the caller may read archives, and read here."""
    caller = access.caller
    if caller.declared_right is not Right.READ_ARCHIVES or not access.has(Right.READ_ARCHIVES):
        raise AccessDenied
    if access.share is not None and not (access.tree.settings.share_archive_preview and access.share.shows_content):
        raise AccessDenied("sharing archives previewing is not allowed")
    access.require_read()


async def _locate(access: PathAccess) -> StoragePath:
    """Return the archive's path in its storage. AccessDenied unless the caller may read archives, and read here."""
    require_archive_rights(access)
    try:
        return await access.locate()
    except StorageProblem as problem:
        raise problem.with_prefix("failed get storage") from None


async def _stat_archive(storage_path: StoragePath) -> Entry:
    """Return the archive's entry.

    Raise NotSupported for a file that is not an archive, and for an unknown size: its end is read first.
    """
    entry = await look_up(storage_path)
    if entry.is_dir:
        raise NotAFile
    if not archives.is_supported(storage_path.path.name):
        raise NotAnArchive
    if entry.size is None:
        raise NotSupported("the size of the archive is not known")
    return entry


@asynccontextmanager
async def _limit_time() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            yield
    except TimeoutError:
        raise ArchiveTooLarge("reading the archive takes too long") from None


@asynccontextmanager
async def _look_into(
    access: PathAccess, storage_path: StoragePath, password: str, caller: str
) -> AsyncIterator[tuple[Archive, float]]:
    """Open the archive for LOOKUP_SECONDS. Yield it and its modification time."""
    entry = await _stat_archive(storage_path)
    async with (
        limits().archive_lookups.hold(caller),
        _limit_time(),
        _open(storage_path, entry, access.tree.settings, password) as archive,
    ):
        yield archive, entry.modified


@asynccontextmanager
async def _open(storage_path: StoragePath, entry: Entry, settings: Settings, password: str) -> AsyncIterator[Archive]:
    source = ArchiveFile(storage_path.driver, storage_path.path, entry.size or 0)
    encoding = settings.non_efs_zip_encoding
    name = storage_path.path.name
    async with archives.open_archive(name, source, password, encoding, make_limits(settings)) as archive:
        yield archive


async def _build_tree(archive: Archive, modified: float) -> _Node | None:
    """Return the tree of all entries that can be extracted; None if it is too large or too deep for an answer."""
    root = _Node(Entry("", 0, modified, True))
    count = 0
    async with aclosing(archive.iter_members()) as members:
        async for member in members:
            if member.refused:
                continue
            node = root
            *folders, name = member.path.split("/")
            if len(folders) > MAX_TREE_DEPTH:
                return None
            for folder in folders:
                if folder not in node.children:
                    node.children[folder] = _Node(Entry(folder, 0, modified, True))
                    count += 1
                node = node.children[folder]
            known = node.children.get(name)
            node.children[name] = _Node(_make_entry(name, member, modified), known.children if known else {})
            count += known is None
            if count > MAX_TREE_ENTRIES:
                return None
    return root


def _make_entry(name: str, member: Member, modified: float) -> Entry:
    return Entry(name, member.size or 0, member.modified or modified, member.is_dir)


async def _make_tree_rows(folder: _Node, codes: dict[str, int], storage: Storage) -> list[dict[str, Any]]:
    tree_rows = []
    for entry in await sort_entries([node.entry for node in folder.children.values()], SortOrder.of(storage)):
        children = await _make_tree_rows(folder.children[entry.name], codes, storage) if entry.is_dir else []
        tree_rows.append(make_row(codes, entry) | {"children": children or None})
    return tree_rows


async def _collect_entries(archive: Archive, folder: TreePath, modified: float) -> list[Entry]:
    """Return the entries of one folder. Raise EntryNotFound."""
    prefix = "" if folder == "/" else f"{folder[1:]}/"
    entries: dict[str, Entry] = {}
    is_folder = not prefix
    async with aclosing(archive.iter_members()) as members:
        async for member in members:
            if member.refused or not (member.path + "/").startswith(prefix):
                continue
            name, deeper, _ = member.path[len(prefix) :].partition("/")
            is_folder = is_folder or member.is_dir or bool(name)
            if not name:
                continue
            if deeper:
                entries.setdefault(name, Entry(name, 0, modified, True))
            else:
                entries[name] = _make_entry(name, member, modified)
    if not is_folder:
        raise EntryNotFound
    return list(entries.values())
