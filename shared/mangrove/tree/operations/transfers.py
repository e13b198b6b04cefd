"""The verbs that move and copy entries from one folder to another.

What a storage cannot do by itself at once is answered, as work for a task.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from mangrove.core import deadlines
from mangrove.core.deadlines import Budget, unlimited
from mangrove.core.paths import TreePath, check_existing_name, check_name
from mangrove.core.problems import (
    BadRequest,
    Collision,
    Denied,
    Exists,
    NotAFolder,
    NotFound,
    NotReadable,
    NotSupported,
    OutOfTime,
    StorageProblem,
)
from mangrove.core.slices import in_slices
from mangrove.drivers.base import Copies, Moves
from mangrove.drivers.refusals import refuse_inside_itself
from mangrove.identity.rights import Right
from mangrove.tree.access import PathAccess, locate, lookup
from mangrove.tree.listing.browse import explain_folder_failure
from mangrove.tree.listing.items import NOTHING, Item
from mangrove.tree.listing.listing import listings
from mangrove.tree.listing.lookups import Lookups, look_up
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal
from mangrove.tree.operations.changes import MOST_NAMES, check_count, check_source, exists, explain_missing_source
from mangrove.tree.operations.drops import choose_name
from mangrove.tree.operations.names import hold_name

NEEDS_TASK = "only a task can do this"
MOST_GATHERED = 50_000  # files that a request moves out of their folders


@dataclass(frozen=True, slots=True)
class OnConflict:
    """What to do when the target name is taken; refuse when nothing is set. `merge` enters existing folders."""

    overwrite: bool = False
    skip: bool = False
    merge: bool = False

    def keeps_existing(self, item: Item) -> bool:
        """Whether the item is left out when its target is taken; a merge enters folders instead."""
        return self.skip or (self.merge and not item.is_dir)


@dataclass(frozen=True, slots=True)
class Plan:
    """Checked items, and the folders they go from and to."""

    source: StoragePath
    target: StoragePath
    items: Sequence[Item]

    @property
    def has_one_driver(self) -> bool:
        """Whether one driver serves both ends."""
        return self.source.driver is self.target.driver


async def move(
    source_dir: PathAccess,
    target_dir: PathAccess,
    names: Sequence[str],
    conflict: OnConflict,
    budget: Budget | None = None,
) -> Sequence[Item]:
    """Move entries into another folder; answers those that need a task, also for want of time."""
    plan = await _make_plan(source_dir, target_dir, names, conflict, Right.MOVE)
    driver = plan.source.driver
    if not plan.has_one_driver or not isinstance(driver, Moves):
        return plan.items
    return (await _execute(plan, partial(_move, driver), "move", conflict, budget)).left


async def move_to(source: PathAccess, target: PathAccess, overwrite: bool) -> Sequence[Item]:
    """Move an entry to a path in another folder, under another name if that path has one; the entry, where that needs a
    task."""
    if target.path.name != source.path.name and not source.caller.has(Right.RENAME):
        raise Denied
    plan, conflict = await _plan_one(source, target, overwrite, Right.MOVE)
    driver = plan.source.driver
    if not plan.has_one_driver or not isinstance(driver, Moves):
        return plan.items
    return (await _execute(plan, partial(_move, driver), "move", conflict)).left


async def copy_to(source: PathAccess, target: PathAccess, overwrite: bool) -> Sequence[Item]:
    """Copy an entry to a path, under another name if that path has one; the entry, where that needs a task."""
    plan, conflict = await _plan_one(source, target, overwrite, Right.COPY)
    driver = plan.source.driver
    if not plan.has_one_driver or not isinstance(driver, Copies):
        return plan.items
    return (await _execute(plan, partial(_copy, driver, source.settings.is_durable), "copy", conflict)).left


async def _plan_one(source: PathAccess, target: PathAccess, overwrite: bool, right: Right) -> tuple[Plan, OnConflict]:
    conflict = OnConflict(overwrite=overwrite)
    name = check_name(target.path.name)
    return await _make_plan(source.parent, target.parent, [source.path.name], conflict, right, name), conflict


async def copy(
    source_dir: PathAccess,
    target_dir: PathAccess,
    names: Sequence[str],
    conflict: OnConflict,
    budget: Budget | None = None,
) -> Sequence[Item]:
    """Copy entries into another folder; answers those that need a task, also for want of time."""
    plan = await _make_plan(source_dir, target_dir, names, conflict, Right.COPY)
    driver = plan.source.driver
    if not plan.has_one_driver or not isinstance(driver, Copies):
        return plan.items
    if conflict.merge:
        missing: list[Item] = []
        try:
            with deadlines.limit((budget or unlimited()).get_seconds()):
                async for item in in_slices(plan.items):
                    missing += await _find_missing(plan, item, source_dir, target_dir)
                    if budget is not None and len(missing) > MOST_NAMES:
                        return plan.items
        except OutOfTime:
            if budget is None:
                raise
            return plan.items
        plan = replace(plan, items=missing)
    verb = partial(_copy, driver, source_dir.settings.is_durable)
    return (await _execute(plan, verb, "copy", conflict, budget)).left


Verb = Callable[
    [StoragePath, StoragePath, bool], Awaitable[None]
]  # from a place to another, with or without overwriting


async def _move(driver: Moves, source: StoragePath, target: StoragePath, overwrite: bool) -> None:
    async with hold_name(target, source, overwrite=overwrite):
        await driver.move(source.path, target.path, overwrite=overwrite)


async def _copy(driver: Copies, durable: bool, source: StoragePath, target: StoragePath, overwrite: bool) -> None:
    async with hold_name(target, overwrite=overwrite):
        await driver.copy(source.path, target.path, overwrite=overwrite, durable=durable)


@dataclass(slots=True)
class Outcome:
    """How many items were moved or copied, and those that the driver cannot do at once, or that there was no time for;
    the others were skipped. `is_whole`: all items are known; else nothing was done, and a task has to find them."""

    done: int = 0
    left: list[Item] = field(default_factory=list)
    is_whole: bool = True


async def _execute(plan: Plan, verb: Verb, word: str, conflict: OnConflict, budget: Budget | None = None) -> Outcome:
    """Do what the driver can do at once. A target that was taken since the look at it follows `conflict`, too."""
    outcome, budget = Outcome(), budget or unlimited()
    async for position, item in in_slices(enumerate(plan.items)):
        if not budget.covers(position, len(plan.items)):
            outcome.left += plan.items[position:]
            break
        source, target = plan.source.with_path(item.path), plan.source.with_path(item.target)
        change = journal.move if word == "move" else journal.copy
        try:
            async with change(source, target, is_folder=item.is_dir, replaces=item.overwrite):
                await verb(source, target, item.overwrite)
            outcome.done += 1
        except NotSupported:
            outcome.left.append(item)
        except StorageProblem as problem:
            if not isinstance(problem, Exists) or item.overwrite:
                raise problem.with_prefix(f"{word} [{item.name}]") from problem
            if not conflict.keeps_existing(item):
                raise Collision(f"file [{item.name}] exists") from None
    return outcome


async def _make_plan(
    source_dir: PathAccess,
    target_dir: PathAccess,
    names: Sequence[str],
    conflict: OnConflict,
    right: Right,
    target_name: str = "",
) -> Plan:
    """Check rights, names, sources and targets of all items; nothing is done yet. `target_name`: another name for the
    one item."""
    if not names:
        raise BadRequest("Empty file names")
    check_count(names)
    async for name in in_slices(names):
        check_existing_name(name)
    if right is Right.MOVE:
        source_dir.require(right)
    target_dir.require(right)
    source = await locate(source_dir, "src")
    if source_dir.may_read():  # else what is missing there is not to be known
        await _check_source_folder(source)
    async for name in in_slices(names):
        source_dir.child(name).require_read()
    target = await locate(target_dir, "dst")
    if source.mount.path == target.mount.path:
        target = source.with_path(target.path)  # balanced mounts hold the same: one of them does it all
    plan, wanted = Plan(source, target, ()), dict.fromkeys(names)
    known = _Known(await look_up(source, wanted), await look_up(target, wanted))
    items = []
    async for name in in_slices(wanted):
        item = Item(name, source.path / name, target.path / (target_name or name), NOTHING)
        checked = await _check_item(plan, item, source_dir, target_dir, conflict, right, known)
        if checked is not None:
            items.append(checked)
    await check_target_folder(target)
    return replace(plan, items=items)


class _Known(NamedTuple):
    """What was looked up of the names at both ends."""

    source: Lookups
    target: Lookups


async def _check_item(
    plan: Plan,
    item: Item,
    source_dir: PathAccess,
    target_dir: PathAccess,
    conflict: OnConflict,
    right: Right,
    known: _Known,
) -> Item | None:
    """The item, knowing what it is; None when it is to be skipped."""
    word = "move" if right is Right.MOVE else "copy"
    source, target = source_dir.child(item.name), target_dir.child(item.target.name)
    if not target.may_read():  # as for one that is not there, whatever is
        try:
            name = await choose_name(target_dir, plan.target, item.target.name, is_folder=False)
        except Collision:
            raise Collision(f"file [{item.target.name}] exists") from None
        target, item, conflict = target_dir.child(name), replace(item, target=plan.target.path / name), OnConflict()
    may_replace = target_dir.may_replace(target)
    taken = await known.target.has(item.target.name) or target.is_mount_or_ancestor()
    if taken and conflict.skip:
        return None
    if taken and not (conflict.merge or (conflict.overwrite and may_replace)):
        raise Collision(f"file [{item.target.name}] exists")
    if source.path == target.path:
        raise StorageProblem(f"{word} in place")
    entry = await check_source(source, plan.source.with_path(item.path), known.source)
    is_dir = entry.is_dir
    if taken and conflict.merge and not is_dir:
        return None
    refuse_inside_itself(source.path, target_dir.path)
    if is_dir and not conflict.merge:
        target.require_import()
    if not (conflict.merge and right is Right.COPY):
        source.require_export(right is Right.MOVE)
        _check_hide_rules(source, target, is_dir)
    replaceable = conflict.overwrite and may_replace and not (conflict.skip or conflict.merge)
    return replace(item, entry=entry, overwrite=replaceable)


def _check_hide_rules(source: PathAccess, target: PathAccess, is_dir: bool) -> None:
    """Refuse to take a folder out of reach of the rule that hides names in it from the caller."""
    kept = target.find_hide_rules()
    if is_dir and not all(any(rule is one for one in kept) for rule in source.find_hide_rules()):
        raise NotReadable


async def _check_source_folder(storage_path: StoragePath) -> None:
    """NotFound, as for each entry, when the folder is not there: before anything else is asked about its names."""
    try:
        await lookup(storage_path)
    except NotFound as problem:
        raise explain_missing_source(storage_path, problem) from None


async def check_target_folder(storage_path: StoragePath) -> None:
    """Refuse unless it is a folder."""
    try:
        found = await lookup(storage_path)
    except NotFound as problem:
        prefix = "failed to get obj: " if storage_path.driver.config.direct_lookup else ""
        raise NotFound(f"failed to get dst dir: {prefix}{problem.message}") from None
    if not found.is_dir:
        raise NotAFolder


async def _find_missing(plan: Plan, item: Item, source_dir: PathAccess, target_dir: PathAccess) -> list[Item]:
    """The item, or what the target lacks of it where its folder is already there; existing files stay as they are.

    What the caller may not read is left out; Denied where a rule keeps them from writing.
    """
    source, target = source_dir.child(item.name), target_dir.child(item.name)
    if not item.is_dir or not await exists(plan.source.with_path(item.target)):
        source.require_export(changes=False)
        _check_hide_rules(source, target, item.is_dir)
        return [item]
    deadlines.check()
    if not target.may_write():
        raise Denied
    missing: list[Item] = []
    visibility = source.make_visibility_filter()
    async for batch in plan.source.driver.list(item.path):
        async for entry in in_slices(batch):
            if not visibility.passes(entry) or not source.child(entry.name).may_read():
                continue
            child = Item(f"{item.name}/{entry.name}", item.path / entry.name, item.target / entry.name, entry)
            is_folder = entry.is_dir and not entry.is_link
            if is_folder or not await exists(plan.source.with_path(child.target)):
                missing += await _find_missing(plan, child, source_dir, target_dir)
    return missing


async def move_files(
    source_dir: PathAccess, target_dir: PathAccess, policy: str, budget: Budget | None = None
) -> Outcome:
    """Move every file of a tree into one folder. `policy`: cancel, skip or overwrite.

    With `cancel` a taken name, or two files of one name, refuse everything before the first is moved. With a `budget`
    the outcome has what is left for a task, or says that a task has to look for the files: there are more than
    MOST_GATHERED, or they are not found in time. Without one NotSupported says that it takes a task.
    """
    if policy not in ("cancel", "skip", "overwrite"):
        raise BadRequest("conflict_policy must be cancel, skip or overwrite")
    source_dir.require_read().require(Right.MOVE)
    target_dir.require_read().require(Right.MOVE)
    source = await locate(source_dir, "src")
    target = await locate(target_dir, "dst")
    driver = source.driver
    if source.mount.path != target.mount.path or not isinstance(driver, Moves):
        raise NotSupported
    target = source.with_path(target.path)
    items: list[Item] = []
    try:
        with deadlines.limit((budget or unlimited()).get_seconds()):
            taken = {entry.name async for entry in in_slices((await listings().get(target, refresh=True)).entries)}
            async for item in _walk_files(source_dir, source, target.path):
                items.append(item)
                if budget is not None and len(items) > MOST_GATHERED:
                    return Outcome(is_whole=False)
    except StorageProblem as problem:
        raise explain_folder_failure(target_dir, problem) from problem
    except OutOfTime:
        if budget is None:
            raise
        return Outcome(is_whole=False)
    chosen = await _resolve_conflicts(items, taken, policy, target_dir)
    conflict = OnConflict(skip=policy == "skip")
    outcome = await _execute(Plan(source, target, chosen), partial(_move, driver), "move", conflict, budget)
    if outcome.left and budget is None:
        raise NotSupported
    return outcome


async def _resolve_conflicts(items: Sequence[Item], taken: set[str], policy: str, target_dir: PathAccess) -> list[Item]:
    """The items that are to be moved; Collision for a taken name that the policy does not allow."""
    chosen: list[Item] = []
    names = taken | set(target_dir.table.find_virtual_folders(target_dir.path))
    async for item in in_slices(items):
        if item.path == item.target:
            continue
        name = item.target.name
        target = target_dir.child(name)
        is_taken = name in names or not target.may_read()  # whether one is hidden is not to be known
        replaceable = policy == "overwrite" and target_dir.may_replace(target) and not target.is_mount_or_ancestor()
        if is_taken and policy == "skip":
            continue
        if is_taken and not replaceable:
            raise Collision(f"file [{name}] exists")
        names.add(name)
        chosen.append(replace(item, overwrite=replaceable))
    return chosen


async def _walk_files(access: PathAccess, storage_path: StoragePath, target: TreePath) -> AsyncIterator[Item]:
    """Every file below that the caller may see and move away."""
    visibility = access.make_visibility_filter()
    if not access.may_write():
        return
    folders: list[str] = []
    async for batch in storage_path.driver.list(storage_path.path):
        deadlines.check()
        async for entry in in_slices(batch):
            if not visibility.passes(entry):
                continue
            if entry.is_dir:
                folders += [] if entry.is_link else [entry.name]
            else:
                yield Item(entry.name, storage_path.path / entry.name, target / entry.name, entry)
    async for name in in_slices(folders):
        below = access.child(name)
        if not below.is_mount_or_ancestor() and below.may_read():
            async for item in _walk_files(below, storage_path.child(name), target):
                yield item
