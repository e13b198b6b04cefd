"""The entries of the trash as callers see them: listed and deleted.

The rights are those at the path that an entry came from, by the rules of that path, at the moment of the effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import orjson

from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import iterate_chunked
from mangrove.core.deadlines import TimeBudget
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    AccessDenied,
    BadRequest,
    EntryNotFound,
    NotMounted,
    OutOfTime,
    Problem,
    StorageForbidden,
)
from mangrove.drivers import registry
from mangrove.identity.rights import Caller, Right
from mangrove.records import trash
from mangrove.records.trash import TrashEntry
from mangrove.tree import access as tree_access
from mangrove.tree import mounts
from mangrove.tree.access import PathAccess
from mangrove.tree.mounts import Mount
from mangrove.tree.operations import changes
from mangrove.tree.operations.plans import check_count
from mangrove.tree.trash import repair
from mangrove.tree.trash.claims import claim_deletions
from mangrove.tree.trash.content import delete_content, read_option

MAX_IDS_PER_REQUEST = 1000
MAX_ENTRIES_PER_PAGE = 1000
DEFAULT_ENTRIES_PER_PAGE = 200
MAX_ENTRIES_PER_EMPTYING = 10_000  # of one request; a further request continues
MAX_ROWS_PER_LISTING = 20_000  # read to find the entries of a page
ROWS_PER_READ = 500
DAY_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class TrashItem:
    """An entry of the trash, and its place in the tree."""

    entry: TrashEntry
    access: PathAccess
    """The path that it came from."""
    mount: Mount

    @property
    def id(self) -> str:
        """The id that clients use."""
        return f"{self.entry.storage_id}-{self.entry.id}"

    @property
    def expires(self) -> float | None:
        """The time of its deletion in seconds since the epoch, None if it stays."""
        days = _read_days(self.mount)
        return self.entry.removed + days * DAY_SECONDS if days > 0 else None


def find_days(folder: PathAccess) -> int | None:
    """Return the days for which entries removed from a folder are kept, 0 if they are not kept.

    None if that is unknown: outside of storages, and in a storage that shows other storages.
    """
    try:
        mount = folder.find_mount()[0]
    except NotMounted:
        return None
    return None if registry.shows_others(mount.storage.driver) else _read_days(mount)


def _read_days(mount: Mount) -> int:
    """Return the option `trash_days` of a storage, even if its driver does not run."""
    if mount.driver is not None:
        return read_option(mount.driver, "trash_days")
    try:
        days = orjson.loads(mount.storage.addition or "{}").get("trash_days")
    except (orjson.JSONDecodeError, AttributeError):
        return 0  # the driver does not start with these options either
    return days if isinstance(days, int) else 0


@dataclass(slots=True)
class TrashResult:
    """The result of a request that concerns several entries."""

    done: list[tuple[str, TreePath]] = field(default_factory=list)
    """Ids, and the paths in the tree."""
    failed: list[tuple[str, Problem]] = field(default_factory=list)
    left: list[TrashItem] = field(default_factory=list)
    """Entries for which the time was too short."""
    interruption: OutOfTime | None = None
    """The problem that ended the request before these entries."""


@dataclass(frozen=True, slots=True)
class TrashQuery:
    """The requested entries: those of the caller, those from a folder, or, for an administrator, all."""

    caller: Caller
    folder: PathAccess | None = None
    password: str = ""

    async def find_visible(self, entry: TrashEntry) -> TrashItem | None:
        """Return the entry if the caller may see it: removed by the caller, or one that the caller may restore."""
        try:
            item = await find_item(self.caller, entry, self.password)
        except Problem:
            return None
        if self.folder is not None and not item.access.path.within(self.folder.path):
            return None
        is_own = entry.owner == self.caller.user.id
        return item if is_own or self.caller.is_admin or may_restore(item.access) else None

    async def make_reader(self) -> Callable[[str], list[TrashEntry]]:
        """Return the call that reads rows after an id, the newest first."""
        table = await mounts.ready()
        if self.folder is None and not self.caller.is_admin:
            owner = self.caller.user.id
            return lambda start: trash.list_owned(owner, ROWS_PER_READ, start=start)
        path = TreePath("/") if self.folder is None else self.folder.path
        ids = [mount.storage.id for mount in table.mounts if mount.path.within(path) or path.within(mount.path)]

        def read(start: str) -> list[TrashEntry]:
            rows = [row for id in ids for row in trash.list_of(id, ROWS_PER_READ, start=start)]
            return sorted(rows, key=lambda row: row.id, reverse=True)[:ROWS_PER_READ]

        return read


async def iterate(query: TrashQuery, start: str) -> AsyncIterator[tuple[str, TrashItem | None]]:
    """Yield the entries after an id with their ids, the newest first. Yield None for an entry that is not visible."""
    read = await query.make_reader()
    while rows := await asyncio.to_thread(read, start):
        async for row in iterate_chunked(rows):
            yield row.id, await query.find_visible(row)
        start = rows[-1].id


async def list_page(query: TrashQuery, start: str, limit: int) -> tuple[list[TrashItem], str]:
    """Return at most `limit` entries after the id `start`, and the id at which the next page begins, "" at the end."""
    await repair.finish_removals()
    limit = min(limit, MAX_ENTRIES_PER_PAGE) if limit > 0 else DEFAULT_ENTRIES_PER_PAGE
    items: list[TrashItem] = []
    count = 0
    async for id, item in iterate(query, start):
        items += [item] if item is not None else []
        count += 1
        if len(items) >= limit or count >= MAX_ROWS_PER_LISTING:
            return items, id
    return items, ""


async def find_item(caller: Caller, entry: TrashEntry, password: str) -> TrashItem:
    """Return an entry with its access in the tree. Raise EntryNotFound if the caller may not see it."""
    table = await mounts.ready()
    mount = table.by_id.get(entry.storage_id)
    if mount is None:
        raise EntryNotFound("its storage is not mounted")
    path = mount.path / entry.path
    if not path.within(caller.base):
        raise EntryNotFound
    access = await tree_access.at(caller, path, password, confined=False)
    if not access.may_read() or not access.parent.may_read() or access.is_hidden():
        raise EntryNotFound
    return TrashItem(entry, access, mount)


def may_restore(access: PathAccess) -> bool:
    """True if the caller may remove and write where an entry came from."""
    parent = access.parent
    return parent.has(Right.DELETE) and parent.may_write() and parent.can_write()


def check_rights(item: TrashItem) -> None:
    """Raise AccessDenied or StorageForbidden unless the caller may restore and delete an entry."""
    folder = item.access.parent
    folder.require(Right.DELETE)
    if not folder.can_write():
        raise AccessDenied
    changes.check_removal(folder, item.access.path.name)
    if item.entry.is_dir:
        item.access.require_import()
    if item.access.find_mount()[0].path != item.mount.path:
        raise StorageForbidden("another storage is mounted where the entry came from")


def parse_ids(ids: Sequence[str]) -> list[tuple[int, str]]:
    """Return the storage ids and ids of entries. Raise BadRequest for too many ids, or a text that is not an id."""
    if not ids or len(ids) > MAX_IDS_PER_REQUEST:
        raise BadRequest(f"{len(ids)} ids in one request, from 1 to {MAX_IDS_PER_REQUEST} are taken")
    keys: list[tuple[int, str]] = []
    for text in ids:
        storage_id, _, id = text.partition("-")
        if not (storage_id.isascii() and storage_id.isdigit() and len(storage_id) < 16 and id.isalnum()):
            raise BadRequest(f"{text[:40]!r} is not an id of the trash")
        keys.append((int(storage_id), id))
    return keys


async def find_items(caller: Caller, ids: Sequence[str], password: str, outcome: TrashResult) -> list[TrashItem]:
    """Return the entries of ids. Add those that the caller may not see to the failures of the outcome."""
    keys = parse_ids(ids)
    entries = {
        (entry.storage_id, entry.id): entry for entry in await asyncio.to_thread(trash.get_many, keys)
    }  # fmt: skip
    items: list[TrashItem] = []
    for text, key in dict(zip(ids, keys, strict=True)).items():
        try:
            if key not in entries:
                raise EntryNotFound("the entry is not in the trash")
            items.append(await find_item(caller, entries[key], password))
        except Problem as problem:
            outcome.failed.append((text, problem))
    return items


async def find_newest(caller: Caller, folder: PathAccess, names: Sequence[str]) -> list[str]:
    """Return the ids of the entries that were removed last at these names of a folder by the caller.

    Raise BadRequest if there are none.
    """
    check_count(names)
    await repair.finish_removals()
    paths = {folder.path / name: "" for name in names}
    left, count = len(paths), 0
    async for _, item in iterate(TrashQuery(caller, folder), ""):
        count += 1
        if item is not None and paths.get(item.access.path) == "" and item.entry.owner == caller.user.id:
            paths[item.access.path] = item.id
            left -= 1
        if not left or count >= MAX_ROWS_PER_LISTING:
            break
    ids = [id for id in paths.values() if id]
    if not ids:
        raise BadRequest("none of these names is in the trash")
    return ids


async def delete(caller: Caller, ids: Sequence[str], password: str) -> TrashResult:
    """Delete entries permanently."""
    outcome = TrashResult()
    items = await find_items(caller, ids, password, outcome)
    await _delete_items(items, outcome)
    return outcome


async def empty(query: TrashQuery) -> tuple[TrashResult, bool]:
    """Delete the entries that the caller sees and may delete. Return True if a further request has to continue."""
    outcome = TrashResult()
    items: list[TrashItem] = []
    has_more = False
    async for _, item in iterate(query, ""):
        items += [item] if item is not None else []
        if len(items) >= MAX_ENTRIES_PER_EMPTYING:
            has_more = True
            break
    await _delete_items(items, outcome)
    return outcome, has_more


async def _delete_items(items: Sequence[TrashItem], outcome: TrashResult) -> None:
    """Delete entries. They disappear from the trash immediately. The next clean-up continues long deletions."""
    allowed: list[TrashItem] = []
    async for item in iterate_chunked(items):
        try:
            check_rights(item)
            allowed.append(item)
        except Problem as problem:
            outcome.failed.append((item.id, problem))
    claimed: list[TrashItem] = []
    budget = TimeBudget()
    problems = await claim_deletions([item.entry for item in allowed], budget)
    for item, refusal in zip(allowed, problems, strict=True):
        if refusal is None:
            claimed.append(item)
        else:
            outcome.failed.append((item.id, refusal))
    pass_checkpoint("trash.deleting")
    outcome.done += [(item.id, item.access.path) for item in claimed]
    await _delete_claimed(claimed, budget)


async def _delete_claimed(items: Sequence[TrashItem], budget: TimeBudget) -> None:
    for position, item in enumerate(items):
        if not budget.covers(position, len(items)):
            return
        try:
            await delete_content(await item.mount.get_driver(), item.entry)
            await asyncio.to_thread(trash.forget, [item.entry])
        except Problem:
            pass  # the next clean-up tries again
