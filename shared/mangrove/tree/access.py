"""A path of the tree with the access of one caller: path, caller, rules and storage together.

`at()` is the only constructor that routes use. It confines the path to the user's base path, finds the rules and the
mount table, and returns a `PathAccess` whose methods read. Changes are made by `tree.operations`; they call
`PathAccess.require` with the right that the route declared.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from mangrove import configuration
from mangrove.configuration.values import Settings
from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, EntryNotFound, NotReadable, StorageProblem
from mangrove.drivers.base import Entry
from mangrove.identity.lockout import count_guess
from mangrove.identity.rights import SHARE_VISITOR, Caller, GuestDisabled, Right
from mangrove.records.storages import Storage
from mangrove.tree import mounts
from mangrove.tree.callers import note_caller
from mangrove.tree.listing.folder import CachedFolder
from mangrove.tree.listing.listing import listings
from mangrove.tree.mount_table import MountTable
from mangrove.tree.mounts import Mount, StoragePath, select_mount
from mangrove.tree.rules import Rule, RuleDecision, Rules, get_rules
from mangrove.tree.sharing.shared_path import SharedPath, is_shared


@dataclass(frozen=True, slots=True)
class VisibilityFilter:
    """The entries of one folder that a caller may see."""

    key: Hashable  # equal for filters of that folder that accept the same entries
    test: Callable[[Entry], bool] | None  # None if all entries pass

    def passes(self, entry: Entry) -> bool:
        """True if the caller may see the entry."""
        return self.test is None or self.test(entry)

    def select(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries that the caller may see, in their order."""
        return entries if self.test is None else [entry for entry in entries if self.test(entry)]


@dataclass(frozen=True, slots=True)
class TreeState:
    """The data that decides about all paths of a request."""

    settings: Settings
    rules: Rules
    table: MountTable

    @classmethod
    async def read(cls) -> TreeState:
        """Return the present data. No storage is called."""
        table = await mounts.ready()
        now = configuration.cached()
        return cls(now.settings, await get_rules(now), table)

    def evaluate(self, caller: Caller, path: TreePath) -> Sequence[RuleDecision]:
        """Return the decisions about a path and each path to which it leads through an alias."""
        return tuple(self.rules.evaluate(caller, aliased) for aliased in self.table.find_aliased_paths(path))

    def needs_signature(self, path: TreePath) -> bool:
        """True if a link to a file needs a signature: all links do, or a rule locks, reserves or hides the file.

        The rules and mounts of each path to which it leads through an alias apply, too.
        """
        return any(
            self.settings.sign_all or mount.storage.enable_sign or self.rules.is_guarded(aliased)
            for mount, aliased in self._find_mounts(path)
        )

    def signs_folder(self, path: TreePath) -> bool:
        """True if the links in a listing of a folder are signed: all of them, if one may need it."""
        return self.needs_signature(path) or any(self.rules.hides_in(aliased) for _, aliased in self._find_mounts(path))

    def _find_mounts(self, path: TreePath) -> Iterator[tuple[Mount, TreePath]]:
        for aliased in self.table.find_aliased_paths(path):
            for mount in self.table.find_mounts(aliased):
                yield mount, aliased


@dataclass(slots=True)
class PathAccess:
    """An absolute path with all data that decides about it."""

    caller: Caller
    path: TreePath
    password: str  # the folder password that the caller sent
    tree: TreeState
    # about the path, then about each path to which it leads through an alias. A prohibition in any of them applies;
    # only the one about the path itself can allow writing or has texts to show.
    decisions: Sequence[RuleDecision]
    share: SharedPath | None = None  # for a visitor of a share link: paths lie in it
    _selection: tuple[Mount, TreePath] | None = field(default=None, init=False, repr=False, compare=False)
    _parent: PathAccess | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def make(
        cls, caller: Caller, path: TreePath, password: str, tree: TreeState, share: SharedPath | None = None
    ) -> PathAccess:
        """Return the access to a path, evaluated in one pass over the folders on the way to it."""
        return cls(caller, path, password, tree, tree.evaluate(caller, path), share)

    @property
    def decision(self) -> RuleDecision:
        """The decision about the path itself."""
        return self.decisions[0]

    @property
    def base(self) -> TreePath:
        """The caller's own root."""
        return self.caller.base

    @property
    def parent(self) -> PathAccess:
        """Return the access to the parent folder, the same at every call."""
        if self._parent is None:
            self._parent = self.with_path(self.path.parent)
        return self._parent

    def child(self, name: str) -> PathAccess:
        """Return the access to the entry `name` of this folder. Raise RelativePath for a name that leads out of it."""
        if self.share is not None and self.share.roots:
            if name not in self.share.roots:
                raise EntryNotFound
            return self.share.roots[name]
        if not self._is_child_of_all(name):
            return self.with_path(self.path / name)
        decisions = tuple(self.tree.rules.evaluate_child(decision, name) for decision in self.decisions)
        return PathAccess(self.caller, decisions[0].path, self.password, self.tree, decisions, self.share)

    def _is_child_of_all(self, name: str) -> bool:
        """True if the paths behind the entry `name` are children of the paths behind this folder."""
        if "/" in name or "\\" in name or name in ("", ".", ".."):
            return False
        redirects = self.tree.table.redirects
        return not redirects or not any(
            decision.path in redirects or decision.path / name in redirects for decision in self.decisions
        )

    def with_path(self, path: TreePath) -> PathAccess:
        """Return the access of the same caller to another absolute path. EntryNotFound for one outside of the share."""
        if self.share is not None:
            self.share.find_inner(path)
        return self.make(self.caller, path, self.password, self.tree, self.share)

    def has(self, right: Right) -> bool:
        """True if the caller has a right at this path."""
        return self.caller.has(right, self.path)

    def may_read(self) -> bool:
        """True if the rules and the scope of the caller allow reading here."""
        return self.caller.may_read and all(decision.may_read(self.password) for decision in self.decisions)

    def is_reader(self) -> bool:
        """True if no list of readers excludes the caller."""
        return all(decision.is_reader for decision in self.decisions)

    def may_write(self) -> bool:
        """True if the scope of the caller allows changes, and no list of writers excludes the caller."""
        return self.caller.may_change and all(decision.may_write for decision in self.decisions)

    def may_replace(self, child: PathAccess) -> bool:
        """True if the caller may replace `child`, an entry of this folder.

        It requires the right to write, even where other rights allow new entries here, and the right to read both.
        """
        return self.can_write() and self.may_read() and child.may_read()

    def find_hide_rules(self) -> Sequence[Rule]:
        """Return the rules that hide names from the caller in this folder."""
        return [rule for decision in self.decisions if (rule := decision.hide_rule) is not None]

    def require_read(self) -> PathAccess:
        """Return this access. Raise NotReadable unless the rules allow the caller to read here."""
        if not self.may_read():
            raise NotReadable
        return self

    async def count_password_guess(self) -> None:
        """Count the password that the caller sent. Raise TooMany while the folder is locked for the caller's address.

        It is a guess for the path or its folder; if they have none, for the folders below.
        """
        passwords = {
            decision.rule.path: decision.password
            for decision in (*self.decisions, *self.parent.decisions)
            if decision.rule is not None and decision.password
        }
        matching_paths = [path for path, password in passwords.items() if password == self.password]
        # a password that is right for one folder cannot be varied to guess another
        for path in matching_paths or passwords:
            await count_guess(path, self.caller.source, self.password, bool(matching_paths))
        if not passwords:
            for decision in self.decisions:
                if self.tree.rules.has_password_below(decision.path):
                    await count_guess(f"{decision.path} below", self.caller.source, self.password, False)

    def require_export(self, changes: bool = True) -> None:
        """Raise NotReadable unless the caller may read everything here, because a copy of a folder does not copy its
        rules. With `changes` the folder is taken away, so the caller must also be allowed to write.
        """
        self.require_read()
        if self.is_restricted_below(changes):
            raise NotReadable

    def require_import(self) -> None:
        """Raise AccessDenied if a rule at or below the path restricts the caller: a new folder at the path would bypass
        it.
        """
        if self.is_restricted_below(True):
            raise AccessDenied

    def require_same_hide_rules(self, target: PathAccess) -> None:
        """Raise NotReadable if a rule hides names from the caller in this folder and not in `target`."""
        target_rules = target.find_hide_rules()
        if any(not any(rule is target_rule for target_rule in target_rules) for rule in self.find_hide_rules()):
            raise NotReadable

    def is_restricted_below(self, changes: bool) -> bool:
        """True if a rule at or below the path hides anything from the caller, or with `changes` denies changes."""
        return any(self.tree.rules.is_restricted_below(decision, self.password, changes) for decision in self.decisions)

    def require(self, right: Right) -> None:
        """Raise AccessDenied unless the route declared `right`, the caller has it, and may write in this folder.

        A rule that allows writing in a folder replaces only the right WRITE. A route that declared another right is a
        programming error and is refused.
        """
        if self.caller.declared_right is not right:
            raise AccessDenied(f"the route declared {self.caller.declared_right!r}, the operation requires {right!r}")
        is_open = right is Right.WRITE and self.decision.is_open_for_writing
        if not (self.has(right) or is_open) or not self.may_write():
            raise AccessDenied

    def find_mount(self, role: str | None = None) -> tuple[Mount, TreePath]:
        """Return the storage of this path, the same at every call, and the path inside it. Raise NotMounted.

        `role`: "src", "dst" or "", which the message of NotMounted names; None for the plain message.
        """
        if self._selection is None:
            try:
                self._selection = select_mount(self.tree.table, self.path)
            except StorageProblem as problem:
                if role is None:
                    raise
                raise problem.with_prefix(f"failed get {role} storage".replace("  ", " ")) from None
        return self._selection

    def find_storage(self) -> Storage | None:
        """Return the storage of this path; None for a path that only leads to storages."""
        try:
            return self.find_mount()[0].storage
        except StorageProblem:
            return None

    async def locate(self, role: str | None = None) -> StoragePath:
        """Return the path inside its storage, with a running driver. Raise StorageProblem.

        `role` as in `find_mount`.
        """
        mount, inner = self.find_mount(role)
        return StoragePath(await mount.get_driver(), inner, mount)

    async def list_folder(self) -> CachedFolder:
        """Return the listing of this folder in its storage, without applying rules. Raise StorageProblem."""
        return await listings().get(await self.locate())

    def is_hidden(self) -> bool:
        """True if the path, or a folder on the way to it, is hidden from the caller."""
        return any(decision.is_hidden for decision in self.decisions)

    def find_virtual_folders(self) -> dict[str, Mount]:
        """Return the mounts right below that the caller may see."""
        folders = self.tree.table.find_virtual_folders(self.path)
        hide_rules = self.find_hide_rules()
        return {
            name: mount
            for name, mount in folders.items()
            if not any(rule.hides_name(name) for rule in hide_rules) and self.child(name).is_reader()
        }

    def make_visibility_filter(self) -> VisibilityFilter:
        """Return the filter for the entries of this folder that the caller may see."""
        hide_rules = self.find_hide_rules()
        has_readers = self.tree.rules.has_reader_lists
        if not hide_rules and not has_readers:
            return VisibilityFilter(None, None)
        shows_files = self.is_reader()
        shows_folders = all(decision.is_reader_below for decision in self.decisions)
        paths = [decision.path for decision in self.decisions]
        is_root = any(path in self.tree.table.redirects for path in paths)  # each name leads to another location
        ruled_names = {name for path in paths for name in self.tree.rules.find_names_below(path)}
        ruled_names |= {path.name for path in self.tree.table.redirects if path.parent in paths}

        def test(entry: Entry) -> bool:
            if any(rule.hides_name(entry.name) for rule in hide_rules):
                return False
            if not has_readers or not entry.is_dir:
                return not has_readers or shows_files
            return self.child(entry.name).is_reader() if is_root or entry.name in ruled_names else shows_folders

        hidden_by = tuple(rule.meta.id for rule in hide_rules)
        return VisibilityFilter((hidden_by, self.caller.names_key if has_readers else 0), test)

    def is_mount_or_ancestor(self) -> bool:
        """True for the folder of a mount or one that leads to mounts. It is never renamed, moved or removed."""
        table = self.tree.table
        return any(decision.path in table.by_path or decision.path in table.ancestors for decision in self.decisions)

    def can_write(self) -> bool:
        """True if the rules and the caller's rights allow new entries here."""
        if self.share is not None and not self.share.takes_uploads:
            return False
        return (self.has(Right.WRITE) or self.decision.is_open_for_writing) and self.may_write()

    def requires_signature(self) -> bool:
        """True if links to this file carry a signature."""
        return self.share is None and self.tree.needs_signature(self.path)

    def signs_folder(self) -> bool:
        """True if links to the files in this folder carry a signature."""
        return self.share is None and self.tree.signs_folder(self.path)


async def at(caller: Caller, path: str, password: str = "", *, confined: bool = True) -> PathAccess:
    """Return the access to a path of a request, below the caller's root unless `confined` is False.

    Raise RelativePath or BadRequest for a text that is not a path, TooMany for a password while the folder is locked
    for the caller's address, EntryNotFound for a path of a share link. No storage is called.
    """
    tree_path = TreePath(path)
    if caller.user.id == SHARE_VISITOR.id:
        raise GuestDisabled
    if is_shared(tree_path):
        raise EntryNotFound
    note_caller(caller)
    tree = await TreeState.read()
    if confined:
        tree_path = caller.base / tree_path
    access = PathAccess.make(caller, tree_path, password, tree)
    if password and caller.source and tree.rules.has_passwords and not access.has(Right.SKIP_PASSWORD):
        await access.count_password_guess()
    return access
