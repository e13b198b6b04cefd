"""The verbs that carry things from one folder to another.

What a storage cannot do by itself at once is answered, as work for a task.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from mangrove.drivers.base import Copies, Driver, Moves
from mangrove.identity.rights import Right
from mangrove.paths import TreePath, check_existing_name
from mangrove.problems import BadRequest, Collision, Denied, NotFound, NotSupported, StorageProblem
from mangrove.tree.access import NOT_READABLE, PathAccess, look
from mangrove.tree.browse import explained_folder
from mangrove.tree.changes import exists, forget, running, source
from mangrove.tree.listing import cache
from mangrove.tree.mounts import Mount


@dataclass(frozen=True, slots=True)
class OnConflict:
    """What to do when the target name is taken; refuse when nothing is set. `merge` enters existing folders."""

    overwrite: bool = False
    skip: bool = False
    merge: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """One entry on its way: names for messages, paths inside the storage."""

    name: str
    path: TreePath
    target: TreePath
    is_dir: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What was checked: the items, and the storages they go from and to."""

    driver: Driver
    mount: Mount
    target: Driver
    target_mount: Mount
    items: Sequence[Item]

    @property
    def within_one(self) -> bool:
        """Whether one driver serves both ends."""
        return self.driver is self.target


async def move(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], conflict: OnConflict
) -> Sequence[Item]:
    """Move entries into another folder; answers those that need a task."""
    plan = await _planned(source_dir, target_dir, names, conflict, Right.MOVE)
    driver = plan.driver
    if not plan.within_one or not isinstance(driver, Moves):
        return plan.items
    return await _carry(plan, driver.move, "move")


async def copy(
    source_dir: PathAccess, target_dir: PathAccess, names: Sequence[str], conflict: OnConflict
) -> Sequence[Item]:
    """Copy entries into another folder; answers those that need a task."""
    plan = await _planned(source_dir, target_dir, names, conflict, Right.COPY)
    driver = plan.driver
    if not plan.within_one or not isinstance(driver, Copies):
        return plan.items
    if conflict.merge:
        merged = [one for item in plan.items for one in await _merged(plan, item, source_dir, target_dir)]
        plan = replace(plan, items=merged)
    return await _carry(plan, driver.copy, "copy")


async def _carry(plan: Plan, verb: Callable[[TreePath, TreePath], Awaitable[None]], word: str) -> Sequence[Item]:
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
            forget(plan.mount, item.path)
            forget(plan.mount, item.target)
    return left


async def _planned(
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
    driver, inner, mount = await running(source_dir, "src")
    target, into, target_mount = await running(target_dir, "dst")
    if mount.path == target_mount.path:
        target, target_mount = driver, mount  # balanced mounts hold the same: one of them does it all
    plan = Plan(driver, mount, target, target_mount, ())
    items = []
    for name in dict.fromkeys(names):
        item = Item(name, inner / name, into / name, False)
        checked = await _checked(plan, item, source_dir, target_dir, conflict, right)
        if checked is not None:
            items.append(checked)
    await folder(target, into, target_mount)
    return replace(plan, items=items)


async def _checked(
    plan: Plan, item: Item, source_dir: PathAccess, target_dir: PathAccess, conflict: OnConflict, right: Right
) -> Item | None:
    """The item, knowing whether it is a folder; None when it is to be skipped."""
    word = "move" if right is Right.MOVE else "copy"
    place, into = source_dir.child(item.name), target_dir.child(item.name)
    taken = await exists(plan.target, item.target, plan.target_mount) or into.is_mount_or_ancestor()
    if taken and conflict.skip:
        return None
    hidden = into.rules.hidden(into.caller.user, into.path)
    if taken and (hidden or not (conflict.overwrite or conflict.merge)):
        raise Collision(f"file [{item.name}] exists")
    if source_dir.path == target_dir.path:
        raise StorageProblem(f"{word} in place")
    is_dir = await source(place, plan.driver, item.path, plan.mount)
    if taken and conflict.merge and not is_dir:
        return None
    if target_dir.path.within(place.path):
        raise StorageProblem("the destination folder is a subfolder of the source folder")
    if is_dir and not conflict.merge:
        into.require_import()
    if not (conflict.merge and right is Right.COPY):
        place.require_export(right is Right.MOVE)
        _same_hiding(place, into, is_dir)
    return replace(item, is_dir=is_dir)


def _same_hiding(item: PathAccess, target: PathAccess, is_dir: bool) -> None:
    """Refuse to carry a folder out of reach of the rule that hides names in it from the caller."""
    user = item.caller.user
    rule = item.rules.hiding(user, item.path)
    if is_dir and rule is not None and rule is not target.rules.hiding(user, target.path):
        raise Denied(NOT_READABLE)


async def folder(driver: Driver, inner: TreePath, mount: Mount) -> None:
    """Refuse unless a folder stands there."""
    try:
        found = await look(driver, inner, mount)
    except NotFound as problem:
        lookup = "failed to get obj: " if driver.config.direct_lookup else ""
        raise NotFound(f"failed to get dst dir: {lookup}{problem.message}") from None
    if not found.is_dir:
        raise NotSupported("not a folder")


async def _merged(plan: Plan, item: Item, source_dir: PathAccess, target_dir: PathAccess) -> list[Item]:
    """The item, or what is missing of it where its folder is already there; existing files stay as they are.

    What the caller may not read is left out; Denied where a rule keeps him from writing.
    """
    if not item.is_dir or not await exists(plan.driver, item.target, plan.mount):
        source_dir.child(item.name).require_export(changes=False)
        _same_hiding(source_dir.child(item.name), target_dir.child(item.name), item.is_dir)
        return [item]
    place, into = source_dir.child(item.name), target_dir.child(item.name)
    if not into.rules.may_write(into.caller.user, into.path):
        raise Denied
    missing: list[Item] = []
    _, visible = place.visible()
    async for batch in plan.driver.list(item.path):
        for entry in batch:
            if visible is not None and not visible(entry):
                continue
            if not place.rules.may_read(place.caller.user, place.path / entry.name, place.password):
                continue
            child = Item(f"{item.name}/{entry.name}", item.path / entry.name, item.target / entry.name, entry.is_dir)
            if (entry.is_dir and not entry.is_link) or not await exists(plan.driver, child.target, plan.mount):
                missing += await _merged(plan, child, source_dir, target_dir)
    return missing


async def flatten(source_dir: PathAccess, target_dir: PathAccess, policy: str) -> int:
    """Move every file of a tree into one folder; answers how many. `policy`: cancel, skip or overwrite.

    With `cancel` a taken name, or two files of one name, refuse everything before the first is moved.
    """
    if policy not in ("cancel", "skip", "overwrite"):
        raise BadRequest("conflict_policy must be cancel, skip or overwrite")
    source_dir.require_read().require(Right.MOVE)
    target_dir.require(Right.MOVE)
    driver, inner, mount = await running(source_dir, "src")
    _, into, target_mount = await running(target_dir, "dst")
    if mount.path != target_mount.path or not isinstance(driver, Moves):
        raise NotSupported
    try:
        taken = {entry.name for entry in (await cache.get(mount, driver, into, refresh=True)).entries}
        items = [item async for item in _files(source_dir, driver, inner, into)]
    except StorageProblem as problem:
        raise explained_folder(target_dir, problem) from problem
    chosen = _settled(items, taken, policy, target_dir)
    left = await _carry(Plan(driver, mount, driver, mount, chosen), driver.move, "move")
    if left:
        raise NotSupported
    return len(chosen)


def _settled(items: Sequence[Item], taken: set[str], policy: str, target_dir: PathAccess) -> list[Item]:
    chosen: list[Item] = []
    names = taken | set(target_dir.table.folders(target_dir.path))
    for item in items:
        if item.path == item.target:
            continue
        there = target_dir.child(item.target.name)
        kept = there.is_mount_or_ancestor() or there.rules.hidden(there.caller.user, there.path)
        if item.target.name in names and (policy == "cancel" or (kept and policy == "overwrite")):
            raise Collision(f"file [{item.target.name}] exists")
        if item.target.name in names and policy == "skip":
            continue
        names.add(item.target.name)
        chosen.append(item)
    return chosen


async def _files(access: PathAccess, driver: Driver, inner: TreePath, into: TreePath) -> AsyncIterator[Item]:
    """Every file below that the caller may see and take away."""
    _, visible = access.visible()
    if not access.rules.may_write(access.caller.user, access.path):
        return
    folders: list[str] = []
    async for batch in driver.list(inner):
        for entry in batch:
            if visible is not None and not visible(entry):
                continue
            if entry.is_dir:
                folders += [] if entry.is_link else [entry.name]
            else:
                yield Item(entry.name, inner / entry.name, into / entry.name, False)
    for name in folders:
        below = access.child(name)
        if not below.is_mount_or_ancestor() and below.rules.may_read(below.caller.user, below.path, below.password):
            async for item in _files(below, driver, inner / name, into):
                yield item
