"""The changes of a Virtual storage: entries that people made, moved or removed in a generated tree.

They are one JSON object, nodes by path, so that all processes of a service share them as one record.
"""

from __future__ import annotations

from typing import Literal

import orjson

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem

MAX_STATE_BYTES = 128 << 10  # of all changes of one storage as JSON, about 3,000 of them

# [bytes, modified] for a file, [seed, modified] for a folder whose content is derived from `seed` ("": an empty one),
# False for a removed entry
Node = tuple[int, float] | tuple[str, float]
Stored = Node | Literal[False]


class Changes:
    """The changes of one storage, as stored at one time."""

    def __init__(self, text: str) -> None:
        self._stored: dict[str, Stored] = orjson.loads(text) if text.startswith("{") else {}

    def format(self) -> str:
        """Return the JSON text of the changes. Raise StorageProblem for more than MAX_STATE_BYTES."""
        text = orjson.dumps(self._stored).decode()
        if len(text) > MAX_STATE_BYTES:
            raise StorageProblem(
                f"a Virtual storage keeps at most {MAX_STATE_BYTES >> 10} KiB of changes: remove something first"
            )
        return text

    def get(self, path: TreePath) -> Stored | None:
        """Return the changed node at a path, False for a removed one, None for an unchanged one."""
        return self._stored.get(path)

    def list_in(self, folder: TreePath) -> dict[str, Stored]:
        """Return the changes directly in a folder, by name."""
        start = "/" if folder == "/" else f"{folder}/"
        return {
            path[len(start) :]: node
            for path, node in self._stored.items()
            if path.startswith(start) and "/" not in path[len(start) :]
        }

    def put(self, path: TreePath, node: Node) -> None:
        """Set the node of a path."""
        self._stored[str(path)] = node

    def remove(self, path: TreePath, *, is_derived: bool) -> None:
        """Remove a path with everything below it; `is_derived`: the generated tree has it."""
        for key in self._list_within(path):
            del self._stored[key]
        if is_derived:
            self._stored[str(path)] = False

    def copy(self, path: TreePath, target: TreePath, node: Node) -> None:
        """Give `target` the node of `path` and the changes below it."""
        below: dict[str, Stored] = {
            str(target / TreePath(key).below(path)): self._stored[key] for key in self._list_within(path)
        }
        self._stored |= below
        self._stored[str(target)] = node

    def _list_within(self, path: TreePath) -> list[str]:
        return [key for key in self._stored if key == path or key.startswith(f"{path}/")]
