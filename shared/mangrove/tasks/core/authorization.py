"""The rights of the user who opened a task, as they are now: every step of work looks up rights and rules anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core.paths import TreePath, check_name
from mangrove.core.problems import AccessDenied, StorageForbidden, StorageProblem
from mangrove.identity.rights import Caller, Right
from mangrove.records.tasks.model import Task
from mangrove.tasks.core.endpoints import Endpoint
from mangrove.tree import access
from mangrove.tree.access import PathAccess
from mangrove.tree.mounts import Mount, StoragePath
from mangrove.tree.operations.name_locks import makedirs
from mangrove.tree.rules import Rule


async def authorize_caller(task: Task, right: Right) -> Caller:
    """The owner of a task, to use `right`; AccessDenied when the account is disabled or gone."""
    await configuration.get()
    user = await users.find_by_id(task.owner)
    if user is None or user.disabled:
        raise AccessDenied("who asked for this has no account any more")
    return Caller(user, right)


async def access_path(caller: Caller, path: str, password: str = "") -> PathAccess:
    """Access to an absolute path; AccessDenied outside the caller's base path."""
    found = await access.at(caller, path, password, confined=False)
    if not found.path.within(found.base):
        raise AccessDenied
    return found


@dataclass(slots=True)
class Target:
    """Where bytes go: a folder of the tree, and in it `name`; "" for the folder itself."""

    folder: PathAccess
    name: str
    endpoint: Endpoint
    mount: Mount
    _folders: dict[str | None, tuple[bool, Sequence[Rule]]] = field(default_factory=dict)

    @property
    def storage_path(self) -> StoragePath:
        """The target with its mount."""
        return StoragePath(self.endpoint.driver, self.endpoint.path, self.mount)

    def find_refusal(self, item: str) -> StorageProblem | None:
        """Why the entry `item` below the target ("" for itself) may not be put there; None when it may."""
        parent, _, name = item.rpartition("/") if item else (None, "", self.name)
        if parent not in self._folders:
            self._folders[parent] = self._find_rules(parent)
        may, hiding = self._folders[parent]
        if may and not any(rule.hides_name(name) for rule in hiding):
            return None
        return StorageForbidden("permission denied")

    def may_replace(self) -> bool:
        """Whether what is at the target may be replaced."""
        if self.name:
            return self.folder.may_replace(self.folder.child(self.name))
        return self.folder.can_write() and self.folder.may_read()

    def _find_rules(self, parent: str | None) -> tuple[bool, Sequence[Rule]]:
        """Whether things may be put into a folder (None: the target's own), and the rules that hide names in it.

        Into the target's own also where the caller may not read: nothing is replaced there (see `may_replace`).
        """
        if parent is None:
            return self.folder.may_write(), ()
        access = self.folder.with_path(TreePath(f"{self.folder.path}/{self.name}/{parent}"))
        may = access.may_write() and access.may_read()
        there, _ = access.find_mount()  # what is put below another mount would be seen nowhere
        return may and there.path == self.mount.path, access.find_hide_rules()


async def resolve_target(caller: Caller, folder: str, name: str, password: str = "") -> Target:
    """Where a task's bytes go, as the caller may put them there; AccessDenied when that is not allowed."""
    into = await access_path(caller, folder, password)
    into.require(caller.declared_right)
    storage_path = await into.locate()
    if name:
        storage_path = storage_path.child(name)
    return Target(into, name, Endpoint(storage_path.driver, storage_path.path, storage_path.mount), storage_path.mount)


async def make_target_folder(target: Target) -> None:
    """Make the folder that a target is in, and those above it, where the caller may."""
    driver, folder = target.endpoint.driver, target.folder
    inner = target.endpoint.path.parent if target.name else target.endpoint.path
    for ancestor, path in zip(inner.ancestors()[:-1], folder.path.ancestors(), strict=False):
        if await Endpoint(driver, ancestor).find() is not None:
            break
        check_name(ancestor.name)
        folder.with_path(path.parent).require(folder.caller.declared_right)
    storage_path = StoragePath(driver, inner, target.mount)
    await makedirs(storage_path)
