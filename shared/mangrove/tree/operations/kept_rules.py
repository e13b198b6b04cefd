"""Rules that protect an entry and would stay behind when it is renamed or moved.

A rule belongs to a path. An entry that gets another path leaves its rule, and would be open to everybody there. For
this reason it gets the other path only if a rule protects that one too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied
from mangrove.identity.rights import Caller
from mangrove.tree.access import PathAccess, TreeState
from mangrove.tree.mount_table import MountTable
from mangrove.tree.mounts import StoragePath


class RuleLeftBehind(AccessDenied):
    """A rule protects the entry, and no rule protects the path that it would get."""

    text = "a rule protects it and would stay behind: only an administrator can prepare its new path"


@dataclass(frozen=True, slots=True)
class KeptRules:
    """The rules that protect entries which get another path."""

    caller: Caller
    tree: TreeState

    @classmethod
    def of(cls, access: PathAccess) -> KeptRules:
        """Return the rules that a request sees."""
        return cls(access.caller, access.tree)

    async def require(
        self, path: TreePath, storage_path: StoragePath, new_path: TreePath, new_storage_path: StoragePath
    ) -> None:
        """Raise RuleLeftBehind if a rule at or below an entry protects it, and none at its new path does.

        Rules of all storages that show the entry count. Only an administrator learns their paths.
        """
        if not self.tree.rules.has_protected_paths:
            return
        new_paths: dict[TreePath, TreePath | None] = {path: new_path}
        if self.tree.table.showing or self.tree.table.redirects:
            new_paths |= await _find_shown_paths(self.tree.table, storage_path, new_storage_path)
        for old, new in new_paths.items():
            for protected in self.tree.rules.iterate_protected_paths(old):
                prepared = None if new is None else new / protected.below(old)
                if prepared is None or not self.tree.rules.protects(prepared):
                    raise RuleLeftBehind(_explain(protected, prepared) if self.caller.is_admin else None)


def require_mount_rules(tree: TreeState, path: TreePath, new_path: TreePath) -> None:
    """Raise RuleLeftBehind if a rule at or below a mount path protects files of its storage, and none at the new one.

    Rules below another mount protect the files of that one. A rule above both mount paths may protect both.
    """
    others = [mounted for mounted in tree.table.mount_paths if mounted != path and mounted.within(path)]
    for protected in tree.rules.iterate_protected_paths(path):
        prepared = new_path / protected.below(path)
        is_kept = tree.rules.protects(prepared) or tree.rules.protects_below(protected, prepared)
        if not is_kept and not any(protected.within(mounted) for mounted in others):
            raise RuleLeftBehind(_explain(protected, prepared))


def _explain(protected: TreePath, prepared: TreePath | None) -> str:
    reason = f"the rule for [{protected}] would stay behind and protect nothing: "
    return reason + ("change or delete it first" if prepared is None else f"make a rule for [{prepared}] first")


async def _find_shown_paths(
    table: MountTable, source: StoragePath, target: StoragePath
) -> dict[TreePath, TreePath | None]:
    """Return the paths at which storages show an entry, each with its new one; None if that is not certain."""
    old_paths, new_paths = [await _find_appearances(table, end) for end in (source, target)]
    return {
        old: new_paths[id][0] if len(paths) == len(new_paths.get(id, ())) == 1 else None
        for id, paths in old_paths.items()
        for old in paths
    }


async def _find_appearances(table: MountTable, storage_path: StoragePath) -> Mapping[int, list[TreePath]]:
    paths: dict[int, list[TreePath]] = {}
    for scope in await table.find_appearances(storage_path.mount.storage.id, storage_path.path, False):
        if (mount := table.by_id.get(scope.storage_id)) is not None:
            paths.setdefault(scope.storage_id, []).append(mount.path / scope.path)
    return paths
