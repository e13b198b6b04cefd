"""Rules that protect an entry and would stay behind when it is renamed or moved.

A rule belongs to a path. An entry that gets another path leaves its rule, and would be open to everybody there. For
this reason it gets the other path only if a rule protects that one too.
"""

from __future__ import annotations

from collections.abc import Mapping

from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied
from mangrove.tree.access import PathAccess
from mangrove.tree.mount_table import MountTable
from mangrove.tree.mounts import StoragePath


class RuleLeftBehind(AccessDenied):
    """A rule protects the entry, and no rule protects the path that it would get."""

    text = "a rule protects it and would stay behind: only an administrator can prepare its new path"


async def require_rules(
    source: PathAccess, storage_path: StoragePath, target: PathAccess, target_storage_path: StoragePath
) -> None:
    """Raise RuleLeftBehind if a rule at or below an entry protects it and none protects the same path of `target`.

    Rules of all storages that show the entry count. Only an administrator learns their paths.
    """
    rules = source.rules
    if not rules.has_protected_paths:
        return
    new_paths: dict[TreePath, TreePath | None] = {source.path: target.path}
    if source.table.showing or source.table.redirects:
        new_paths |= await _find_shown_paths(source.table, storage_path, target_storage_path)
    for old, new in new_paths.items():
        for protected in rules.iterate_protected_paths(old):
            prepared = None if new is None else new / protected.below(old)
            if prepared is None or not rules.protects(prepared):
                raise RuleLeftBehind(_explain(protected, prepared) if source.caller.is_admin else None)


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
