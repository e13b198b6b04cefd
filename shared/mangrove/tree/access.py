"""A path of the tree as one caller may use it: path, caller and rules together.

`at()` is the only constructor that routes use. It confines the path to the user's base path, finds the rules and the
mount table, and answers a `PathAccess` whose methods read; changes are made by `tree.operations.changes`
and require the right that the route declared through `PathAccess.require`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from mangrove import configuration
from mangrove.configuration.values import Settings
from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, EntryNotFound, NotReadable, StorageProblem
from mangrove.drivers.base import Entry
from mangrove.identity.rights import Caller, Right
from mangrove.tree import mounts
from mangrove.tree.folder_passwords import limit_guesses
from mangrove.tree.listing.folder import CachedFolder
from mangrove.tree.listing.listing import listings
from mangrove.tree.mounts import Mount, MountTable, StoragePath, select_mount
from mangrove.tree.operations import links
from mangrove.tree.rules import Judgement, Rule, Rules, get_rules


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
    """An absolute path with all that decides about it. `password` is the folder password the caller typed.

    `judgements`: what the rules say of the path, then of each path that it stands for through an alias. What one of
    them forbids is forbidden; only the path's own rule opens it for writing or has texts to show.
    """

    caller: Caller
    path: TreePath
    password: str
    settings: Settings
    rules: Rules
    table: MountTable
    judgements: Sequence[Judgement]

    @classmethod
    def make(
        cls, caller: Caller, path: TreePath, password: str, settings: Settings, rules: Rules, table: MountTable
    ) -> PathAccess:
        """The access to a path, judged in one pass over the folders on the way to it."""
        judgements = tuple(rules.judge(caller.user, place) for place in table.find_places(path))
        return cls(caller, path, password, settings, rules, table, judgements)

    @property
    def judgement(self) -> Judgement:
        """What the rules say of the path itself."""
        return self.judgements[0]

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
        path = self.path / name
        if not self._is_next_place(name):
            return self.with_path(path)
        judgements = tuple(self.rules.judge_child(one, name) for one in self.judgements)
        return PathAccess(self.caller, path, self.password, self.settings, self.rules, self.table, judgements)

    def _is_next_place(self, name: str) -> bool:
        """Whether the entry `name` is, wherever this folder is, that of the folder: so it is judged in one step."""
        if "/" in name or "\\" in name or name in ("", ".", ".."):
            return False
        table = self.table
        return not table.redirects or not any(
            one.path in table.redirects or one.path / name in table.redirects for one in self.judgements
        )

    def with_path(self, path: TreePath) -> PathAccess:
        """The same caller at another absolute path."""
        return self.make(self.caller, path, self.password, self.settings, self.rules, self.table)

    def may_read(self) -> bool:
        """Whether the rules let the caller read here."""
        return all(one.may_read(self.password) for one in self.judgements)

    def is_reader(self) -> bool:
        """Whether no list of readers leaves the caller out."""
        return all(one.is_reader for one in self.judgements)

    def may_write(self) -> bool:
        """Whether no list of writers leaves the caller out."""
        return all(one.may_write for one in self.judgements)

    def may_replace(self, child: PathAccess) -> bool:
        """Whether the caller may put something in the place of `child`, an entry of this folder: not without the right
        to write, whatever else lets them put new things there, and not where they may not read."""
        return self.can_write() and self.may_read() and child.may_read()

    def find_hide_rules(self) -> Sequence[Rule]:
        """The rules that hide names from the caller in this folder."""
        return [rule for one in self.judgements if (rule := one.hide_rule) is not None]

    def require_read(self) -> PathAccess:
        """Itself, when the rules let the caller read here; AccessDenied otherwise."""
        if not self.may_read():
            raise NotReadable
        return self

    def require_export(self, changes: bool = True) -> None:
        """AccessDenied unless the caller may read all that is here: a whole folder that is copied leaves its rules
        behind.

        `changes`: it will be gone from here, so writing must be allowed, too.
        """
        self.require_read()
        if self.is_restricted_below(changes):
            raise NotReadable

    def require_import(self) -> None:
        """AccessDenied where a rule at or below restricts the caller: a whole folder that is put here fills what is
        below."""
        if self.is_restricted_below(True):
            raise AccessDenied

    def is_restricted_below(self, changes: bool) -> bool:
        """Whether a rule at or below keeps something from the caller; with `changes`, also from being changed."""
        return any(self.rules.is_restricted_below(one, self.password, changes) for one in self.judgements)

    def require(self, right: Right) -> None:
        """AccessDenied unless the route declared `right`, the caller has it, and the rules let them write in this
        folder.

        A rule that opens a folder for writing replaces WRITE alone. A route that declared another right is a mistake
        in the program and is refused.
        """
        if self.caller.declared_right is not right:
            raise AccessDenied(f"the door declared {self.caller.declared_right!r}, the verb needs {right!r}")
        is_open = right is Right.WRITE and self.judgement.is_open_for_writing
        if not (self.caller.has(right) or is_open) or not self.may_write():
            raise AccessDenied

    def find_mount(self) -> tuple[Mount, TreePath]:
        """The storage that serves this path and the path inside it; StorageProblem when none does."""
        return select_mount(self.table, self.path)

    async def locate(self, role: str | None = None) -> StoragePath:
        """Return the path inside its storage, whose driver runs. StorageProblem when there is none or it cannot run.

        `role`: "src", "dst" or "", which the message of a missing storage names; None for the bare message.
        """
        try:
            mount, inner = self.find_mount()
        except StorageProblem as problem:
            if role is None:
                raise
            raise problem.with_prefix(f"failed get {role} storage".replace("  ", " ")) from None
        return StoragePath(await mount.get_driver(), inner, mount)

    async def list_folder(self, refresh: bool = False) -> CachedFolder:
        """The listing of this folder in its storage, rules not applied; the driver's StorageProblem as it is."""
        return await listings().get(await self.locate(), refresh=refresh)

    def is_hidden(self) -> bool:
        """Whether the path, or a folder on the way to it, is hidden from the caller."""
        return any(one.is_hidden for one in self.judgements)

    def find_virtual_folders(self) -> dict[str, Mount]:
        """The mount folders right below, hidden ones left out."""
        found = self.table.find_virtual_folders(self.path)
        hiding = self.find_hide_rules()
        return {
            name: mount
            for name, mount in found.items()
            if not any(rule.hides_name(name) for rule in hiding) and self.child(name).is_reader()
        }

    def make_visibility_filter(self) -> VisibilityFilter:
        """Which entries of this folder the caller may see."""
        hiding = self.find_hide_rules()
        has_readers = self.rules.has_reader_lists
        if not hiding and not has_readers:
            return VisibilityFilter(None, None)
        shows_files, shows_folders = self.is_reader(), all(one.is_reader_below for one in self.judgements)
        places = [one.path for one in self.judgements]
        is_root = any(place in self.table.redirects for place in places)  # each name stands for something else
        judged = {name for place in places for name in self.rules.find_names_below(place)}
        judged |= {path.name for path in self.table.redirects if path.parent in places}

        def test(entry: Entry) -> bool:
            if any(rule.hides_name(entry.name) for rule in hiding):
                return False
            if not has_readers or not entry.is_dir:
                return not has_readers or shows_files
            return self.child(entry.name).is_reader() if is_root or entry.name in judged else shows_folders

        hidden_by = tuple(rule.meta.id for rule in hiding)
        return VisibilityFilter((hidden_by, self.caller.user.id if has_readers else 0), test)

    def is_mount_or_ancestor(self) -> bool:
        """Whether this is a mount's own folder or only leads to mounts: never to be renamed, moved or removed."""
        return any(one.path in self.table.by_path or one.path in self.table.ancestors for one in self.judgements)

    def can_write(self) -> bool:
        """Whether the rules and the caller's rights allow new things here."""
        return (self.caller.has(Right.WRITE) or self.judgement.is_open_for_writing) and self.may_write()

    def requires_signature(self) -> bool:
        """Whether links to this file carry a signature; see `needs_signature`."""
        return needs_signature(self.settings, self.rules, self.table, self.path)

    def signs_folder(self) -> bool:
        """Whether links to the files in this folder carry one."""
        return _is_any_place(links.signs_folder, self.settings, self.rules, self.table, self.path)


async def lookup(storage_path: StoragePath, *, to_show: bool = False) -> Entry:
    """One entry: asked of the driver where it answers directly, else looked up in its folder's listing.

    An entry that is only shown may be as old as a listing that is used without asking the storage.
    """
    if storage_path.driver.config.direct_lookup or storage_path.path == "/":
        return await (listings().stat(storage_path) if to_show else storage_path.driver.stat(storage_path.path))
    found = (await listings().get(storage_path.parent)).find(storage_path.path.name)
    if found is None:
        raise EntryNotFound
    return found


async def at(caller: Caller, raw: str, password: str = "", *, confined: bool = True) -> PathAccess:
    """The access to a path as the caller wrote it, below the caller's base path unless `confined` is off.

    Raises RelativePath or BadRequest for a text that is no path, TooMany for a password while the folder is locked for
    the caller's address. Nothing is looked up yet.
    """
    path = TreePath(raw)
    table = await mounts.ready()
    now = configuration.cached()
    if confined:
        path = TreePath(caller.user.base_path) / path
    access = PathAccess.make(caller, path, password, now.settings, await get_rules(now), table)
    if password and caller.source and access.rules.has_passwords and not caller.has(Right.SKIP_PASSWORD):
        await limit_guesses(access)
    return access


def needs_signature(settings: Settings, rules: Rules, table: MountTable, path: TreePath) -> bool:
    """Whether links to a file at `path` carry a signature and need one: for itself, or for one of the paths that it
    stands for through an alias."""
    return _is_any_place(links.requires_signature, settings, rules, table, path)


def _is_any_place(
    test: Callable[[Settings, Rules, Mount, TreePath], bool],
    settings: Settings,
    rules: Rules,
    table: MountTable,
    path: TreePath,
) -> bool:
    places = table.find_places(path)
    return any(test(settings, rules, mount, place) for place in places for mount in table.find_mounts(place))
