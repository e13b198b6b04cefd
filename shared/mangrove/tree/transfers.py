"""The verbs that move and copy entries from one folder to another.

What a storage cannot do by itself at once is answered, as work for a task.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from mangrove.drivers.base import Copies, Moves
from mangrove.identity.rights import Right
from mangrove.paths import TreePath, check_existing_name
from mangrove.problems import BadRequest, Collision, Denied, NotAFolder, NotFound, NotSupported, StorageProblem
from mangrove.tree.access import NOT_READABLE, PathAccess, locate, lookup
from mangrove.tree.browse import explain_folder_failure
from mangrove.tree.changes import check_source, exists, forget
from mangrove.tree.listing import listings
from mangrove.tree.mounts import Located


@dataclass(frozen=True, slots=True)
class OnConflict:
    """What to do when the target name is taken; refuse when nothing is set. `merge` enters existing folders."""

    overwrite: bool = False
    skip: bool = False
    merge: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One entry to be moved or copied: its name for messages, its paths in the source's and the target's storage."""

    name: str
    path: TreePath
    target: TreePath
    is_dir: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """Checked items, and the folders they go from and to."""

    source: Located
    target: Located
    items: Sequence[Item]

    @property
    def has_one_driver(self) -> bool:
        """Whether one driver serves both ends."""
        return self.source.driver is self.target.driver


async def move(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], conflict: OnConflict
) -> Sequence[Item]:
    """Move entries into another folder; answers those that need a task."""
    plan = await _make_plan(source_dir, target_dir, names, conflict, Right.MOVE)
    driver = plan.source.driver
    if not plan.has_one_driver or not isinstance(driver, Moves):
        return plan.items
    return await _execute(plan, driver.move, "move")


async def copy(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], conflict: OnConflict
) -> Sequence[Item]:
    """Copy entries into another folder; answers those that need a task."""
    plan = await _make_plan(source_dir, target_dir, names, conflict, Right.COPY)
    driver = plan.source.driver
    if not plan.has_one_driver or not isinstance(driver, Copies):
        return plan.items
    if conflict.merge:
        missing = [child for item in plan.items for child in await _find_missing(plan, item, source_dir, target_dir)]
        plan = replace(plan, items=missing)
    return await _execute(plan, driver.copy, "copy")


async def _execute(plan: Plan, verb: Callable[[TreePath, TreePath], Awaitable[None]], word: str) -> Sequence[Item]:
    """Do what the driver can do at once; the items that it cannot."""
    left = []
    for item in plan.items:
        try:
            await verb(item.path, item.target)
        except NotSupported:
            left.append(item)
        except StorageProblem as problem:
            raise problem.with_prefix(f"{word} [{item.name}]") from problem
        finally:
            forget(plan.source.with_path(item.path))
            forget(plan.source.with_path(item.target))
    return left


async def _make_plan(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], conflict: OnConflict, right: Right
) -> Plan:
    """Check rights, names, sources and targets of all items; nothing is done yet."""
    if not names:
        raise BadRequest("Empty file names")
    for name in names:
        check_existing_name(name)
    if right is Right.MOVE:
        source_dir.require(right)
    target_dir.require(right)
    for name in names:
        source_dir.child(name).require_read()
    source = await locate(source_dir, "src")
    target = await locate(target_dir, "dst")
    if source.mount.path == target.mount.path:
        target = source.with_path(target.path)  # balanced mounts hold the same: one of them does it all
    plan = Plan(source, target, ())
    items = []
    for name in dict.fromkeys(names):
        item = Item(name, source.path / name, target.path / name, False)
        checked = await _check_item(plan, item, source_dir, target_dir, conflict, right)
        if checked is not None:
            items.append(checked)
    await check_target_folder(target)
    return replace(plan, items=items)


async def _check_item(
    plan: Plan, item: Item, source_dir: PathAccess, target_dir: PathAccess, conflict: OnConflict, right: Right
) -> Item | None:
    """The item, knowing whether it is a folder; None when it is to be skipped."""
    word = "move" if right is Right.MOVE else "copy"
    source, target = source_dir.child(item.name), target_dir.child(item.name)
    taken = await exists(plan.target.with_path(item.target)) or target.is_mount_or_ancestor()
    if taken and conflict.skip:
        return None
    if taken and (target.is_hidden() or not (conflict.overwrite or conflict.merge)):
        raise Collision(f"file [{item.name}] exists")
    if source_dir.path == target_dir.path:
        raise StorageProblem(f"{word} in place")
    is_dir = await check_source(source, plan.source.with_path(item.path))
    if taken and conflict.merge and not is_dir:
        return None
    if target_dir.path.within(source.path):
        raise StorageProblem("the destination folder is a subfolder of the source folder")
    if is_dir and not conflict.merge:
        target.require_import()
    if not (conflict.merge and right is Right.COPY):
        source.require_export(right is Right.MOVE)
        _check_hide_rules(source, target, is_dir)
    return replace(item, is_dir=is_dir)


def _check_hide_rules(source: PathAccess, target: PathAccess, is_dir: bool) -> None:
    """Refuse to take a folder out of reach of the rule that hides names in it from the caller."""
    user = source.caller.user
    rule = source.rules.find_hide_rule(user, source.path)
    if is_dir and rule is not None and rule is not target.rules.find_hide_rule(user, target.path):
        raise Denied(NOT_READABLE)


async def check_target_folder(located: Located) -> None:
    """Refuse unless it is a folder."""
    try:
        found = await lookup(located)
    except NotFound as problem:
        prefix = "failed to get obj: " if located.driver.config.direct_lookup else ""
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
    if not target.rules.may_write(target.caller.user, target.path):
        raise Denied
    missing: list[Item] = []
    visibility = source.make_visibility_filter()
    async for batch in plan.source.driver.list(item.path):
        for entry in visibility.select(batch):
            if not source.rules.may_read(source.caller.user, source.path / entry.name, source.password):
                continue
            child = Item(f"{item.name}/{entry.name}", item.path / entry.name, item.target / entry.name, entry.is_dir)
            is_folder = entry.is_dir and not entry.is_link
            if is_folder or not await exists(plan.source.with_path(child.target)):
                missing += await _find_missing(plan, child, source_dir, target_dir)
    return missing


async def move_files(source_dir: PathAccess, target_dir: PathAccess, policy: str) -> int:
    """Move every file of a tree into one folder; answers how many. `policy`: cancel, skip or overwrite.

    With `cancel` a taken name, or two files of one name, refuse everything before the first is moved.
    """
    if policy not in ("cancel", "skip", "overwrite"):
        raise BadRequest("conflict_policy must be cancel, skip or overwrite")
    source_dir.require_read().require(Right.MOVE)
    target_dir.require(Right.MOVE)
    source = await locate(source_dir, "src")
    target = await locate(target_dir, "dst")
    driver = source.driver
    if source.mount.path != target.mount.path or not isinstance(driver, Moves):
        raise NotSupported
    target = source.with_path(target.path)
    try:
        taken = {entry.name for entry in (await listings().get(target, refresh=True)).entries}
        items = [item async for item in _walk_files(source_dir, source, target.path)]
    except StorageProblem as problem:
        raise explain_folder_failure(target_dir, problem) from problem
    chosen = _resolve_conflicts(items, taken, policy, target_dir)
    left = await _execute(Plan(source, target, chosen), driver.move, "move")
    if left:
        raise NotSupported
    return len(chosen)


def _resolve_conflicts(items: Sequence[Item], taken: set[str], policy: str, target_dir: PathAccess) -> list[Item]:
    """The items that are to be moved; Collision for a taken name that the policy does not allow."""
    chosen: list[Item] = []
    names = taken | set(target_dir.table.find_virtual_folders(target_dir.path))
    for item in items:
        if item.path == item.target:
            continue
        name = item.target.name
        target = target_dir.child(name)
        is_protected = target.is_mount_or_ancestor() or target.is_hidden()
        if name in names and (policy == "cancel" or (is_protected and policy == "overwrite")):
            raise Collision(f"file [{name}] exists")
        if name in names and policy == "skip":
            continue
        names.add(name)
        chosen.append(item)
    return chosen


async def _walk_files(access: PathAccess, located: Located, target: TreePath) -> AsyncIterator[Item]:
    """Every file below that the caller may see and move away."""
    visibility = access.make_visibility_filter()
    if not access.rules.may_write(access.caller.user, access.path):
        return
    folders: list[str] = []
    async for batch in located.driver.list(located.path):
        for entry in visibility.select(batch):
            if entry.is_dir:
                folders += [] if entry.is_link else [entry.name]
            else:
                yield Item(entry.name, located.path / entry.name, target / entry.name, False)
    for name in folders:
        below = access.child(name)
        if not below.is_mount_or_ancestor() and below.rules.may_read(below.caller.user, below.path, below.password):
            async for item in _walk_files(below, located.child(name), target):
                yield item
