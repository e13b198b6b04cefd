"""Who asked for a task, as he may act now: rights and rules are looked up anew by every slice of work."""

from __future__ import annotations

from dataclasses import dataclass, field

from mangrove.drivers.base import MakesDirectories
from mangrove.identity.rights import Caller, Right
from mangrove.paths import TreePath, check_name
from mangrove.problems import Denied, Forbidden, NotSupported, StorageProblem
from mangrove.records.tasks import Task
from mangrove.site import snapshot
from mangrove.tasks.file_copy import Endpoint
from mangrove.tree import access
from mangrove.tree.access import PathAccess
from mangrove.tree.changes import forget_upwards
from mangrove.tree.mounts import Mount
from mangrove.tree.rules import Rule


async def caller(task: Task, right: Right) -> Caller:
    """Who asked; Denied when he has no account any more."""
    now = await snapshot.fresh()
    user = next((one for one in now.users.values() if one.id == task.owner), None)
    if user is None or user.disabled:
        raise Denied("who asked for this has no account any more")
    return Caller(user, right)


async def place(who: Caller, path: str, password: str = "") -> PathAccess:
    """A spot by its absolute path; Denied outside the caller's base path."""
    found = await access.at(who, path, password, confined=False)
    if not found.path.within(found.base):
        raise Denied
    return found


@dataclass(slots=True)
class Goal:
    """Where bytes go: a folder of the tree, and in it `name`; "" for the folder itself."""

    folder: PathAccess
    name: str
    end: Endpoint
    mount: Mount
    _folders: dict[str | None, tuple[bool, Rule | None]] = field(default_factory=dict)

    def refusal(self, item: str) -> StorageProblem | None:
        """Why the entry `item` below the goal ("" for itself) may not be put there, if it may not."""
        parent, _, name = item.rpartition("/") if item else (None, "", self.name)
        if parent not in self._folders:
            self._folders[parent] = self._looked(parent)
        may, hiding = self._folders[parent]
        if may and not (hiding is not None and hiding.hides_name(name)):
            return None
        return Forbidden("permission denied")

    def _looked(self, parent: str | None) -> tuple[bool, Rule | None]:
        """Whether new things may be put into a folder (None: the goal's own), and the rule that hides names in it."""
        path, who, rules = self.folder.path, self.folder.caller.user, self.folder.rules
        if parent is not None:
            path = TreePath(f"{path}/{self.name}/{parent}")
        there, _ = self.folder.with_path(path).mount()
        may = rules.may_write(who, path) and rules.admits(who, path) and there.path == self.mount.path
        return may, rules.hiding(who, path)  # what is put below another mount would be seen nowhere


async def prepare(goal: Goal) -> None:
    """Make the folder that a goal is in, and those above it, where the caller may."""
    driver, place = goal.end.driver, goal.folder
    inner = goal.end.path.parent if goal.name else goal.end.path
    for step, path in zip(inner.ancestors()[:-1], place.path.ancestors(), strict=False):
        if await Endpoint(driver, step).entry() is not None:
            break
        check_name(step.name)
        place.with_path(path.parent).require(place.caller.declared_right)
    if not isinstance(driver, MakesDirectories):
        raise NotSupported
    if inner != "/":
        await driver.makedirs(inner)
    forget_upwards(goal.mount, inner)


async def goal(who: Caller, folder: str, name: str) -> Goal:
    """Where a task's bytes go, as the caller may put them there; Denied when he may not."""
    into = await place(who, folder)
    into.require(who.declared_right)
    driver, inner, mount = await into.driver()
    return Goal(into, name, Endpoint(driver, inner / name if name else inner), mount)
