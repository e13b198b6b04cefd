"""A place in the tree as one caller may see it: where a path, a user and the rules meet.

`at()` is the only way in. It confines the path to the user's base path, finds the storage and the rules, and
answers a Spot whose verbs read; the verbs that change things are in `mangrove.tree.changes` and spend the right
that the route declared through `Spot.spend`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mangrove.drivers.base import Driver, Entry
from mangrove.identity.rights import Caller, Right
from mangrove.paths import TreePath
from mangrove.problems import Denied, NotFound, Problem, StorageProblem
from mangrove.site import snapshot
from mangrove.site.values import Settings
from mangrove.tree import mounts, rules
from mangrove.tree.listing import Folder, cache
from mangrove.tree.mounts import Mount, MountTable, pick
from mangrove.tree.rules import Rules

NOT_READABLE = "password is incorrect or you have no permission"


@dataclass(frozen=True, slots=True)
class PathAccess:
    """An absolute path with all that decides about it. `password` is the folder password the caller typed."""

    caller: Caller
    path: TreePath
    password: str
    settings: Settings
    rules: Rules
    table: MountTable

    @property
    def base(self) -> TreePath:
        """The caller's own root."""
        return TreePath(self.caller.user.base_path)

    def child(self, name: str) -> PathAccess:
        """The spot of `name` inside this folder; RelativePath when it would be elsewhere."""
        return self.with_path(self.path / name)

    def with_path(self, path: TreePath) -> PathAccess:
        """The same caller at another absolute path."""
        return PathAccess(self.caller, path, self.password, self.settings, self.rules, self.table)

    def require_read(self) -> PathAccess:
        """Itself, when the rules let the caller read here; Denied otherwise."""
        if not self.rules.may_read(self.caller.user, self.path, self.password):
            raise Denied(NOT_READABLE)
        return self

    def require_export(self, changes: bool = True) -> None:
        """Denied unless the caller may read all that is here: what is carried away whole leaves its rules behind.

        `changes`: whether it will be gone from here, so that he must be allowed to write, too.
        """
        self.require_read()
        if self.rules.keeps(self.caller.user, self.path, self.password, changes):
            raise Denied(NOT_READABLE)

    def require_import(self) -> None:
        """Denied where a rule at or below keeps the caller out: what is put here whole reaches all places below."""
        if self.rules.keeps(self.caller.user, self.path, self.password, True):
            raise Denied

    def require(self, right: Right, folder: TreePath | None = None) -> None:
        """Refuse unless the route declared `right`, the caller has it, and the rules let him write in `folder`.

        A rule that opens writing stands in for WRITE alone. A door that declared another right is a mistake in
        the program: refused, never let through.
        """
        if self.caller.declared_right is not right:
            raise Denied(f"the door declared {self.caller.declared_right!r}, the verb needs {right!r}")
        place = self.path if folder is None else folder
        opened = right is Right.WRITE and self.rules.opens_writing(place)
        if not (self.caller.has(right) or opened) or not self.rules.may_write(self.caller.user, place):
            raise Denied

    def mount(self) -> tuple[Mount, TreePath]:
        """The storage that serves this path and the path inside it; StorageProblem when none does."""
        return pick(self.table, self.path)

    async def driver(self) -> tuple[Driver, TreePath, Mount]:
        """The running driver, the path inside it, the mount."""
        mount, inner = self.mount()
        return await mount.running(), inner, mount

    async def folder(self, refresh: bool = False) -> tuple[Folder, Driver, Mount]:
        """The listing of this folder in its storage, rules not applied; the driver's StorageProblem as it is."""
        driver, inner, mount = await self.driver()
        return await cache.get(mount, driver, inner, refresh), driver, mount

    async def entry(self) -> Entry:
        """What stands here in the storage; NotFound, or the driver's StorageProblem."""
        driver, inner, mount = await self.driver()
        return await look(driver, inner, mount)

    def virtual(self) -> dict[str, Mount]:
        """The mount folders right below, hidden ones left out."""
        found = self.table.folders(self.path)
        rule = self.rules.hiding(self.caller.user, self.path)
        return {
            name: mount
            for name, mount in found.items()
            if not (rule and rule.hides_name(name)) and self.rules.admits(self.caller.user, self.path / name)
        }

    def visible(self) -> tuple[Any, Callable[[Entry], bool] | None]:
        """Which entries of this folder the caller may see: a key for equal answers, and the test (None: all)."""
        user = self.caller.user
        rule = self.rules.hiding(user, self.path)
        readers = self.rules.any_readers
        if rule is None and not readers:
            return None, None

        def test(entry: Entry) -> bool:
            if rule is not None and rule.hides_name(entry.name):
                return False
            return not readers or self.rules.admits(user, self.path / entry.name if entry.is_dir else self.path)

        return (rule.meta.id if rule else 0, user.id if readers else 0), test

    def is_mount_or_ancestor(self) -> bool:
        """Whether this is a mount's own folder or only leads to mounts: never to be renamed, moved or removed."""
        return self.path in self.table.by_path or self.path in self.table.above

    def can_write(self) -> bool:
        """Whether the rules and the caller's rights let him put new things here."""
        user = self.caller.user
        may = self.caller.has(Right.WRITE) or self.rules.opens_writing(self.path)
        return may and self.rules.may_write(user, self.path)


async def look(driver: Driver, inner: TreePath, mount: Mount, *, to_show: bool = False) -> Entry:
    """One entry: asked directly where the driver can, else looked up in its folder's listing.

    An entry that is only shown may be as old as a listing that is trusted unasked.
    """
    if driver.config.direct_lookup or inner == "/":
        return await (cache.single(mount, driver, inner) if to_show else driver.stat(inner))
    folder = await cache.get(mount, driver, inner.parent)
    found = folder.named(inner.name)
    if found is None:
        raise NotFound
    return found


async def at(caller: Caller, raw: str, password: str = "", *, confined: bool = True) -> PathAccess:
    """The spot of a path as the caller wrote it, below his base path unless `confined` is off.

    Raises RelativePath or BadRequest for a path that is none. Nothing is looked up yet.
    """
    path = TreePath(raw)
    table = await mounts.ready()
    now = snapshot.current()
    if confined:
        path = TreePath(caller.user.base_path) / path
    return PathAccess(caller, path, password, now.settings, rules.of(now), table)


def prefixed(problem: Problem, prefix: str) -> Problem:
    """Storage failures get `prefix: ` in front, refusals stay as they are."""
    return problem.with_prefix(prefix) if isinstance(problem, StorageProblem) else problem
