"""The changes of a Virtual storage: what people made, moved or removed in a tree that is derived otherwise.

They are one JSON object, path → node, so that all processes of a service share them as one record.
"""

from __future__ import annotations

from typing import Literal

import orjson

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem

MAX_STATE_BYTES = 128 << 10  # of all changes of one storage as JSON, some 3,000 of them

# [bytes, modified] for a file, [seed, modified] for a folder whose content is derived from `seed` ("": an empty one),
# False for what was removed
Node = tuple[int, float] | tuple[str, float]
Stored = Node | Literal[False]


class Changes:
    """The changes of one storage, as they were stored at one time."""

    def __init__(self, text: str) -> None:
        self._stored: dict[str, Stored] = orjson.loads(text) if text.startswith("{") else {}

    def format(self) -> str:
        """The JSON text of the changes; StorageProblem for more than MAX_STATE_BYTES."""
        text = orjson.dumps(self._stored).decode()
        if len(text) > MAX_STATE_BYTES:
            raise StorageProblem(
                f"a Virtual storage keeps at most {MAX_STATE_BYTES >> 10} KiB of changes: remove something first"
            )
        return text

    def get(self, path: TreePath) -> Stored | None:
        """The changed node at a path, False for a removed one, None for one that is as it was derived."""
        return self._stored.get(path)

    def list_in(self, folder: TreePath) -> dict[str, Stored]:
        """The changes right in a folder, by name."""
        start = "/" if folder == "/" else f"{folder}/"
        return {
            path[len(start) :]: node
            for path, node in self._stored.items()
            if path.startswith(start) and "/" not in path[len(start) :]
        }

    def put(self, path: TreePath, node: Node) -> None:
        """Give a path a node."""
        self._stored[str(path)] = node

    def remove(self, path: TreePath, *, is_derived: bool) -> None:
        """Remove a path with all below it; `is_derived`: the tree would have it without the changes."""
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
