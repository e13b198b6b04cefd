"""The call of a tool: its caller and its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.identity.rights import Caller, Right
from mangrove.tree import access
from mangrove.tree.access import PathAccess


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The call of a tool by a caller."""

    caller: Caller
    base_url: str
    arguments: Mapping[str, Any]

    async def at(self, name: str = "path", right: Right = Right.READ) -> PathAccess:
        """Return the access to the path in an argument, for the use of a right."""
        return await access.at(replace(self.caller, declared_right=right), str(self.arguments.get(name, "/")))

    def show(self, path: TreePath) -> str:
        """Return a path of the tree as the caller sees it."""
        return str(path.below(self.caller.base))
