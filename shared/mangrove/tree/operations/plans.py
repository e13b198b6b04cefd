"""The checks of a request that moves, copies or renames entries. They change nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from mangrove.core import deadlines
from mangrove.core.chunked import iterate_chunked
from mangrove.core.deadlines import TimeBudget, unlimited
from mangrove.core.paths import TreePath, check_existing_name, check_name
from mangrove.core.problems import (
    AccessDenied,
    BadRequest,
    EntryNotFound,
    NameConflict,
    NotAFolder,
    NotSupported,
    OutOfTime,
    StorageForbidden,
    StorageProblem,
)
from mangrove.drivers.base import Entry
from mangrove.drivers.refusals import refuse_inside_itself
from mangrove.identity.rights import Right
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.lookups import Lookups, find_entry, look_up, look_up_many
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations.free_names import choose_name, list_free_names
from mangrove.tree.operations.kept_rules import KeptRules

MAX_NAMES_PER_REQUEST = 10_000
WORDS = {Right.MOVE: "move", Right.COPY: "copy", Right.RENAME: "rename"}  # in messages


@dataclass(frozen=True, slots=True)
class OnConflict:
    """The handling of a target name that is taken. Without any of these it is refused."""

    overwrite: bool = False
    skip: bool = False
    merge: bool = False  # merge existing folders, keep existing files
    keep_both: bool = False  # give the entry a number

    def keeps_existing(self, item: TransferItem) -> bool:
        """True if an item with a taken target is skipped; a merge enters folders instead."""
        return self.skip or (self.merge and not item.is_dir)


@dataclass(frozen=True, slots=True)
class TransferRequest:
    """A request to move or copy entries of a folder into another one."""

    right: Right  # MOVE or COPY
    source_dir: PathAccess
    target_dir: PathAccess
    names: Sequence[str]
    conflict: OnConflict = OnConflict()
    target_name: str | None = None  # a new name for the only entry

    @classmethod
    def of_entry(cls, right: Right, source: PathAccess, target: PathAccess, overwrite: bool) -> TransferRequest:
        """Return the request for one entry, whose target is a path instead of a folder."""
        conflict = OnConflict(overwrite=overwrite)
        return cls(right, source.parent, target.parent, [source.path.name], conflict, target.path.name)

    @property
    def word(self) -> str:
        """Return the operation as messages name it."""
        return WORDS[self.right]

    @property
    def is_renaming_move(self) -> bool:
        """True if the only entry gets a new name in another folder."""
        return self.right is Right.MOVE and self.target_name is not None and self.target_name != self.names[0]

    @property
    def is_merging_copy(self) -> bool:
        """True if existing folders get the entries that they lack."""
        return self.conflict.merge and self.right is Right.COPY


@dataclass(frozen=True, slots=True)
class TransferItem:
    """An entry that is to be moved, copied or renamed."""

    name: str  # in messages
    path: TreePath  # in the source's storage
    target: TreePath  # in the target's storage
    entry: Entry  # as it was looked up
    overwrite: bool = False

    @property
    def is_dir(self) -> bool:
        """True for a folder."""
        return self.entry.is_dir


@dataclass(frozen=True, slots=True)
class Plan:
    """Checked items, with the folder that they are in."""

    right: Right  # MOVE, COPY or RENAME
    source: StoragePath
    items: Sequence[TransferItem]
    conflict: OnConflict = OnConflict()  # for a target that was taken since the check
    is_durable: bool = False  # copies are on the disk when they are acknowledged
    needs_task: bool = False  # no driver can do it within the request


def check_count(names: Sized) -> None:
    """Raise BadRequest for no name, and for more names than a request may have."""
    if not names:
        raise BadRequest("Empty file names")
    if len(names) > MAX_NAMES_PER_REQUEST:
        raise BadRequest(f"{len(names)} names in one request, at most {MAX_NAMES_PER_REQUEST} are taken")


async def plan_transfer(request: TransferRequest, budget: TimeBudget | None = None) -> Plan:
    """Check the rights, names, sources and targets of all entries of a move or copy.

    A merging copy has the entries that the targets lack, unless a task has to find them.
    """
    check_count(request.names)
    _require_rights(request)
    if request.target_name is not None:
        check_name(request.target_name)
    names = [check_existing_name(name) async for name in iterate_chunked(dict.fromkeys(request.names))]
    source = await request.source_dir.locate("src")
    if request.source_dir.may_read():  # otherwise the caller would learn what is missing
        with _explain_missing("src object", source):
            await look_up(source)
    target = await request.target_dir.locate("dst")
    if source.mount.path == target.mount.path:
        target = source.with_path(target.path)  # balanced mounts have the same files: one of them is used for both ends
    checker = _ItemChecker(request, await look_up_many(source, names), await look_up_many(target, names))
    items = [item async for name in iterate_chunked(names) if (item := await checker.check(name)) is not None]
    await check_target_folder(target)
    needs_task = source.driver is not target.driver or not _has_operation(source, request.right)
    plan = Plan(request.right, source, items, request.conflict, request.source_dir.tree.settings.is_durable, needs_task)
    return plan if needs_task or not request.is_merging_copy else await _plan_missing(request, plan, budget)


def _has_operation(source: StoragePath, right: Right) -> bool:
    capabilities = source.driver.capabilities
    return capabilities.move if right is Right.MOVE else capabilities.copy


def _require_rights(request: TransferRequest) -> None:
    """Raise AccessDenied unless the caller has the rights at both ends."""
    if request.is_renaming_move and not request.source_dir.has(Right.RENAME):
        raise AccessDenied
    if request.right is Right.MOVE:
        request.source_dir.require(Right.MOVE)
    request.target_dir.require(request.right)


@dataclass(frozen=True, slots=True)
class _ItemChecker:
    """The checks of single entries of a move or copy."""

    request: TransferRequest
    sources: Lookups  # in the source folder
    targets: Lookups  # in the target folder
    numbered: set[str] = field(default_factory=set)  # names that entries of this request get

    async def check(self, name: str) -> TransferItem | None:
        """Return the item of an entry; None if it is skipped."""
        request, conflict, target_dir = self.request, self.request.conflict, self.request.target_dir
        source = request.source_dir.child(name).require_read()
        target = target_dir.child(request.target_name or name)
        if not target.may_read():  # the answer is the same for a taken and a free name
            target, conflict = await self._find_unreadable_target(target), OnConflict()
        elif conflict.keep_both:
            target = await self._find_free_target(source, target)
        may_replace = target_dir.may_replace(target)
        target_name = target.path.name
        is_taken = await self.targets.has(target_name) or target.is_mount_or_ancestor()
        if is_taken and conflict.skip:
            return None
        if is_taken and not (conflict.merge or (conflict.overwrite and may_replace)):
            raise NameConflict(f"file [{target_name}] exists")
        if source.path == target.path:
            raise StorageProblem(f"{request.word} in place")
        entry = await check_source(source, self.sources)
        if is_taken and conflict.merge and not entry.is_dir:
            return None
        refuse_inside_itself(source.path, target_dir.path)
        if entry.is_dir and not conflict.merge:
            target.require_import()
        if not (conflict.merge and request.right is Right.COPY):
            source.require_export(request.right is Right.MOVE)
            if entry.is_dir:
                source.require_same_hide_rules(target)
        if request.right is Right.MOVE:
            ends = self.sources.folder.child(name), self.targets.folder.child(target_name)
            await KeptRules.of(source).require(source.path, ends[0], target.path, ends[1])
        overwrite = conflict.overwrite and may_replace and not (conflict.skip or conflict.merge)
        return TransferItem(
            name, self.sources.folder.path / name, self.targets.folder.path / target_name, entry, overwrite
        )

    async def _find_free_target(self, source: PathAccess, target: PathAccess) -> PathAccess:
        """Return the first path that is free, readable and not a target of this request: with a number if needed."""
        is_folder = (await check_source(source, self.sources)).is_dir
        for name in list_free_names(target.path.name, is_folder):
            candidate = self.request.target_dir.child(name)
            is_taken = name in self.numbered or await self.targets.has(name) or candidate.is_mount_or_ancestor()
            if not is_taken and candidate.may_read():
                self.numbered.add(name)
                return candidate
        return target

    async def _find_unreadable_target(self, target: PathAccess) -> PathAccess:
        """Return the path of an entry whose target the caller may not read."""
        name = target.path.name
        try:
            free_name = await choose_name(self.request.target_dir, self.targets.folder, name, is_folder=False)
        except NameConflict:
            raise NameConflict(f"file [{name}] exists") from None
        return self.request.target_dir.child(free_name)


async def _plan_missing(request: TransferRequest, plan: Plan, budget: TimeBudget | None) -> Plan:
    """Return the plan for the items that the targets lack.

    A task has to compare if there is too much, or the time is up.
    """
    missing: list[TransferItem] = []
    try:
        with deadlines.limit((budget or unlimited()).get_seconds()):
            async for item in iterate_chunked(plan.items):
                source, target = request.source_dir.child(item.name), request.target_dir.child(item.target.name)
                missing += await _find_missing(plan, item, source, target)
                if budget is not None and len(missing) > MAX_NAMES_PER_REQUEST:
                    return replace(plan, needs_task=True)
    except OutOfTime:
        if budget is None:
            raise
        return replace(plan, needs_task=True)
    return replace(plan, items=missing)


async def _find_missing(plan: Plan, item: TransferItem, source: PathAccess, target: PathAccess) -> list[TransferItem]:
    """Return the item, or the parts of it that an existing target folder lacks. Existing files stay as they are.

    Entries that the caller may not read are left out. Raise AccessDenied if a rule forbids writing.
    """
    if not item.is_dir or await find_entry(plan.source.with_path(item.target)) is None:
        source.require_export(changes=False)
        if item.is_dir:
            source.require_same_hide_rules(target)
        return [item]
    deadlines.check()
    if not target.may_write():
        raise AccessDenied
    missing: list[TransferItem] = []
    visibility = source.make_visibility_filter()
    async for batch in plan.source.driver.list(item.path):
        async for entry in iterate_chunked(batch):
            if not visibility.passes(entry) or not (child_source := source.child(entry.name)).may_read():
                continue
            child = TransferItem(f"{item.name}/{entry.name}", item.path / entry.name, item.target / entry.name, entry)
            is_folder = entry.is_dir and not entry.is_link
            if is_folder or await find_entry(plan.source.with_path(child.target)) is None:
                missing += await _find_missing(plan, child, child_source, target.child(entry.name))
    return missing


async def check_source(access: PathAccess, lookups: Lookups) -> Entry:
    """Return the entry to change. `lookups`: those of its folder.

    Raise EntryNotFound if it is missing or hidden, StorageForbidden if it is a mount or contains one.
    """
    if access.is_mount_or_ancestor():
        raise StorageForbidden
    with _explain_missing("src object", lookups.folder):
        if access.is_hidden():
            raise EntryNotFound
        return await lookups.find(access.path.name)


@contextmanager
def _explain_missing(word: str, storage_path: StoragePath) -> Iterator[None]:
    """Name what is missing in the message of EntryNotFound, in the words that clients compare."""
    try:
        yield
    except EntryNotFound as problem:
        prefix = "failed to get obj: " if storage_path.driver.config.direct_lookup else ""
        raise EntryNotFound(f"failed to get {word}: {prefix}{problem.message}") from None


async def check_target_folder(storage_path: StoragePath) -> None:
    """Raise EntryNotFound or NotAFolder unless the folder exists."""
    with _explain_missing("dst dir", storage_path):
        entry = await look_up(storage_path)
    if not entry.is_dir:
        raise NotAFolder


async def plan_renames(
    folder: PathAccess, new_names: Mapping[str, str], overwrite: bool, *, may_use_task: bool
) -> Plan:
    """Check the renames of entries of a folder, old name to new name. Unchanged names are left out.

    Raise NotSupported for a storage that cannot rename, unless a task may copy and remove instead.
    """
    folder.require(Right.RENAME)
    async for old, new in iterate_chunked(new_names.items()):
        check_existing_name(old)
        check_name(new)
    parent = await folder.locate("")
    capabilities = parent.driver.capabilities
    if not capabilities.rename and not (may_use_task and capabilities.write and capabilities.remove):
        raise NotSupported
    async for old in iterate_chunked(new_names):
        item = folder.child(old)
        if not item.is_hidden():  # a hidden entry is not found, whether it exists or not
            item.require_export()
    pairs = {old: new async for old, new in iterate_chunked(new_names.items()) if old != new}
    lookups = await look_up_many(parent, {*new_names, *pairs.values()})
    entries = {old: await check_source(folder.child(old), lookups) async for old in iterate_chunked(new_names)}
    kept_rules = KeptRules.of(folder)
    async for old, new in iterate_chunked(pairs.items()):
        folder.child(new).require_import()
        await kept_rules.require(folder.path / old, parent.child(old), folder.path / new, parent.child(new))
    await _check_new_names(folder, lookups, pairs.values(), overwrite)
    items = [
        TransferItem(
            old, parent.path / old, parent.path / new, entries[old], overwrite and folder.may_replace(folder.child(new))
        )
        async for old, new in iterate_chunked(pairs.items())
    ]
    return Plan(Right.RENAME, parent, items)


async def _check_new_names(folder: PathAccess, lookups: Lookups, names: Iterable[str], overwrite: bool) -> None:
    """Raise NameConflict for a new name that two entries would get, that is taken, or that the caller may not read."""
    taken: set[str] = set()
    async for name in iterate_chunked(names):
        target = folder.child(name)
        if name in taken or target.is_mount_or_ancestor() or not target.may_read():
            raise NameConflict(f"file [{name}] exists")
        taken.add(name)
        if not (overwrite and folder.may_replace(target)) and await lookups.has(name):
            raise NameConflict(f"file [{name}] exists")
