"""The rights of the owner of a task. Every step evaluates rights and rules again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mangrove.core.paths import TreePath, check_name
from mangrove.core.problems import AccessDenied, StorageForbidden, StorageProblem
from mangrove.identity.rights import Caller, Right
from mangrove.records.tasks.model import Task
from mangrove.tasks.core.files import find
from mangrove.tree import access as tree_access
from mangrove.tree import callers
from mangrove.tree.access import PathAccess
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations.name_locks import makedirs
from mangrove.tree.rules import Rule


async def authorize_caller(task: Task, right: Right) -> Caller:
    """Return the owner of a task, to use `right` within the scope of the token that requested the task.

    Raise AccessDenied if the account was deleted or disabled, or if the token has expired or was removed.
    """
    return await callers.find_present(task.owner, task.view.token, right)


async def access_path(caller: Caller, path: str, password: str = "") -> PathAccess:
    """Return the access to an absolute path. Raise AccessDenied outside the caller's base path."""
    access = await tree_access.at(caller, path, password, confined=False)
    if not access.path.within(access.base):
        raise AccessDenied
    return access


@dataclass(slots=True)
class TargetAccess:
    """The target of a task as its owner may use it."""

    folder: PathAccess
    """The folder of the tree that the target is in."""
    name: str
    """The name in `folder`; "" if the target is the folder itself."""
    storage_path: StoragePath
    is_write_only: bool = False
    """True if entries may be stored in `folder` without the right to read it."""
    _folders: dict[str | None, tuple[bool, Sequence[Rule]]] = field(default_factory=dict)

    def find_refusal(self, path: str) -> StorageProblem | None:
        """Return the reason why an entry must not be stored at `path` below the target ("" for the target itself), None
        if it may.
        """
        parent, _, name = path.rpartition("/") if path else (None, "", self.name)
        if self.is_write_only and not parent:
            parent = None
        if parent not in self._folders:
            self._folders[parent] = self._find_rules(parent)
        is_allowed, hide_rules = self._folders[parent]
        if is_allowed and not any(rule.hides_name(name) for rule in hide_rules):
            return None
        return StorageForbidden("permission denied")

    def find_path(self, path: str) -> TreePath:
        """Return the path in the tree of an entry below the target ("" for the target itself)."""
        return self.folder.path / self.name / path

    def may_replace(self) -> bool:
        """True if an existing entry at the target may be replaced."""
        if self.name:
            return self.folder.may_replace(self.folder.child(self.name))
        return self.folder.can_write() and self.folder.may_read()

    def _find_rules(self, parent: str | None) -> tuple[bool, Sequence[Rule]]:
        """Return True if entries may be stored in a folder (None: `self.folder`), and the rules that hide names in it.

        The caller need not be able to read `self.folder`: nothing is replaced there (see `may_replace`).
        """
        if parent is None:
            return self.folder.may_write(), ()
        access = self.folder.with_path(self.find_path(parent))
        is_allowed = access.may_write() and access.may_read()
        mount, _ = access.find_mount()  # an entry below another mount would be invisible everywhere
        return is_allowed and mount.path == self.storage_path.mount.path, access.find_hide_rules()


async def resolve_target(caller: Caller, folder: str, name: str, password: str = "") -> TargetAccess:
    """Return the target of a task. Raise AccessDenied if the caller may not write there."""
    access = await access_path(caller, folder, password)
    access.require(caller.declared_right)
    storage_path = await access.locate()
    return TargetAccess(access, name, storage_path.child(name) if name else storage_path)


async def make_target_folder(target: TargetAccess) -> None:
    """Make the folder of a target and its parents, where the caller may."""
    folder, storage_path = target.folder, target.storage_path
    if target.name:
        storage_path = storage_path.parent
    for ancestor, path in zip(storage_path.path.ancestors()[:-1], folder.path.ancestors(), strict=False):
        if await find(storage_path.with_path(ancestor)) is not None:
            break
        check_name(ancestor.name)
        folder.with_path(path.parent).require(folder.caller.declared_right)
    await makedirs(storage_path)
