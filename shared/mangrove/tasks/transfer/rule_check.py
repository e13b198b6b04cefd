"""The check that no rule stays behind, for the items that a task moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mangrove.core.paths import TreePath
from mangrove.tree.access import PathAccess, TreeState
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations.kept_rules import KeptRules, RuleLeftBehind

MAX_KNOWN_ITEMS = 10_000  # of a task, which are not checked again while rules and storages stay the same


@dataclass(slots=True)
class RuleCheck:
    """The items of a move that were checked, with the rules and storages of that check."""

    _kept_rules: KeptRules | None = None
    _refusals: dict[str, str | None] = field(default_factory=dict)
    """The message for each item, None for one that leaves no rule behind."""

    async def require(
        self,
        item: str,
        access: PathAccess,
        find_ends: Callable[[], tuple[TreePath, StoragePath, TreePath, StoragePath]],
    ) -> None:
        """Raise RuleLeftBehind for an item that a rule protects and that leaves the rule behind, as of this moment."""
        kept_rules = await self._update(access)
        if not kept_rules.tree.rules.has_protected_paths:
            return
        if item not in self._refusals:
            if len(self._refusals) >= MAX_KNOWN_ITEMS:
                self._refusals.clear()
            self._refusals[item] = await _find_refusal(kept_rules, *find_ends())
        if (message := self._refusals[item]) is not None:
            raise RuleLeftBehind(message)

    async def _update(self, access: PathAccess) -> KeptRules:
        """Return the present rules and storages. If they are others than before, forget the items."""
        tree, last = await TreeState.read(), self._kept_rules
        if last is None or last.tree.rules is not tree.rules or last.tree.table is not tree.table:
            last = self._kept_rules = KeptRules(access.caller, tree)
            self._refusals = {}
        return last


async def _find_refusal(
    kept_rules: KeptRules, path: TreePath, storage_path: StoragePath, new_path: TreePath, new_storage_path: StoragePath
) -> str | None:
    try:
        await kept_rules.require(path, storage_path, new_path, new_storage_path)
    except RuleLeftBehind as refusal:
        return refusal.message
    return None
