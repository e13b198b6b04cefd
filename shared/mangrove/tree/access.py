"""A path of the tree as one caller may use it: path, caller and rules together.

`at()` is the only constructor that routes use. It confines the path to the user's base path, finds the rules and the
mount table, and answers a `PathAccess` whose methods read; the verbs that change things are in `mangrove.tree.changes`
and require the right that the route declared through `PathAccess.require`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from mangrove.drivers.base import Entry
from mangrove.identity.rights import Caller, Right
from mangrove.paths import TreePath
from mangrove.problems import Denied, NotFound, StorageProblem
from mangrove.site import snapshot
from mangrove.site.values import Settings
from mangrove.tree import mounts
from mangrove.tree.listing import CachedFolder, listings
from mangrove.tree.mounts import Located, Mount, MountTable, select_mount
from mangrove.tree.rules import Rules, get_rules

NOT_READABLE = "password is incorrect or you have no permission"


@dataclass(frozen=True, slots=True)
class VisibilityFilter:
    """Which entries of one folder a caller may see: those that pass `test`, all where it is None.

    `key`: equal for filters of that folder that let the same entries pass.
    """

    key: Hashable
    test: Callable[[Entry], bool] | None

    def passes(self, entry: Entry) -> bool:
        """Whether the caller may see the entry."""
        return self.test is None or self.test(entry)

    def select(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The entries that the caller may see, in their order."""
        return entries if self.test is None else [entry for entry in entries if self.test(entry)]


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

    @property
    def parent(self) -> PathAccess:
        """The same caller at the folder above."""
        return self.with_path(self.path.parent)

    def child(self, name: str) -> PathAccess:
        """The same caller at the entry `name` of this folder; RelativePath when that would be elsewhere."""
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
        """Denied unless the caller may read all that is here: a whole folder that is copied leaves its rules behind.

        `changes`: it will be gone from here, so writing must be allowed, too.
        """
        self.require_read()
        if self.rules.is_restricted_below(self.caller.user, self.path, self.password, changes):
            raise Denied(NOT_READABLE)

    def require_import(self) -> None:
        """Denied where a rule at or below restricts the caller: a whole folder that is put here fills what is below."""
        if self.rules.is_restricted_below(self.caller.user, self.path, self.password, True):
            raise Denied

    def require(self, right: Right, folder: TreePath | None = None) -> None:
        """Denied unless the route declared `right`, the caller has it, and the rules let them write in `folder`.

        A rule that opens a folder for writing replaces WRITE alone. A route that declared another right is a mistake
        in the program and is refused.
        """
        if self.caller.declared_right is not right:
            raise Denied(f"the door declared {self.caller.declared_right!r}, the verb needs {right!r}")
        path = self.path if folder is None else folder
        is_open = right is Right.WRITE and self.rules.is_open_for_writing(path)
        if not (self.caller.has(right) or is_open) or not self.rules.may_write(self.caller.user, path):
            raise Denied

    def find_mount(self) -> tuple[Mount, TreePath]:
        """The storage that serves this path and the path inside it; StorageProblem when none does."""
        return select_mount(self.table, self.path)

    async def locate(self) -> Located:
        """The path inside its storage, whose driver runs; StorageProblem when there is none or it cannot run."""
        mount, inner = self.find_mount()
        return Located(await mount.get_driver(), inner, mount)

    async def list_folder(self, refresh: bool = False) -> CachedFolder:
        """The listing of this folder in its storage, rules not applied; the driver's StorageProblem as it is."""
        return await listings().get(await self.locate(), refresh=refresh)

    async def stat(self) -> Entry:
        """The entry of this path in its storage; NotFound, or the driver's StorageProblem."""
        return await lookup(await self.locate())

    def is_hidden(self) -> bool:
        """Whether the path, or a folder on the way to it, is hidden from the caller."""
        return self.rules.is_hidden(self.caller.user, self.path)

    def find_virtual_folders(self) -> dict[str, Mount]:
        """The mount folders right below, hidden ones left out."""
        user = self.caller.user
        found = self.table.find_virtual_folders(self.path)
        rule = self.rules.find_hide_rule(user, self.path)
        return {
            name: mount
            for name, mount in found.items()
            if not (rule and rule.hides_name(name)) and self.rules.is_reader(user, self.path / name)
        }

    def make_visibility_filter(self) -> VisibilityFilter:
        """Which entries of this folder the caller may see."""
        user = self.caller.user
        rule = self.rules.find_hide_rule(user, self.path)
        has_readers = self.rules.has_reader_lists
        if rule is None and not has_readers:
            return VisibilityFilter(None, None)

        def test(entry: Entry) -> bool:
            if rule is not None and rule.hides_name(entry.name):
                return False
            return not has_readers or self.rules.is_reader(user, self.path / entry.name if entry.is_dir else self.path)

        return VisibilityFilter((rule.meta.id if rule else 0, user.id if has_readers else 0), test)

    def is_mount_or_ancestor(self) -> bool:
        """Whether this is a mount's own folder or only leads to mounts: never to be renamed, moved or removed."""
        return self.path in self.table.by_path or self.path in self.table.ancestors

    def can_write(self) -> bool:
        """Whether the rules and the caller's rights allow new things here."""
        allowed = self.caller.has(Right.WRITE) or self.rules.is_open_for_writing(self.path)
        return allowed and self.rules.may_write(self.caller.user, self.path)


async def locate(access: PathAccess, role: str = "") -> Located:
    """The path inside its storage; `role` (`src`, `dst`) goes into the message when there is no storage."""
    try:
        mount, inner = access.find_mount()
    except StorageProblem as problem:
        raise problem.with_prefix(f"failed get {role} storage".replace("  ", " ")) from None
    return Located(await mount.get_driver(), inner, mount)


async def lookup(located: Located, *, to_show: bool = False) -> Entry:
    """One entry: asked of the driver where it answers directly, else looked up in its folder's listing.

    An entry that is only shown may be as old as a listing that is used without asking the storage.
    """
    if located.driver.config.direct_lookup or located.path == "/":
        return await (listings().stat(located) if to_show else located.driver.stat(located.path))
    found = (await listings().get(located.parent)).find(located.path.name)
    if found is None:
        raise NotFound
    return found


async def at(caller: Caller, raw: str, password: str = "", *, confined: bool = True) -> PathAccess:
    """The access to a path as the caller wrote it, below the caller's base path unless `confined` is off.

    Raises RelativePath or BadRequest for a text that is no path. Nothing is looked up yet.
    """
    path = TreePath(raw)
    table = await mounts.ready()
    now = snapshot.current()
    if confined:
        path = TreePath(caller.user.base_path) / path
    return PathAccess(caller, path, password, now.settings, get_rules(now), table)
