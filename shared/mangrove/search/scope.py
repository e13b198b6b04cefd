"""The names of the tree that are indexed. The walk and every later read leave out the same names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mangrove.configuration.values import Settings
from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, RelativePath
from mangrove.drivers.base import Entry
from mangrove.drivers.part_names import is_part
from mangrove.records.storages import Storage


@dataclass(frozen=True, slots=True)
class IndexScope:
    """The indexed part of the tree.

    `ignored`: paths of the tree that are left out with everything below them. `max_depth`: the largest depth of indexed
    names in the tree, 1 for those right below the root; 0: unlimited.
    """

    ignored: tuple[TreePath, ...] = ()
    max_depth: int = 0

    @classmethod
    def make(cls, settings: Settings) -> IndexScope:
        """Return the scope of the present settings."""
        return cls(settings.ignore_paths, max(settings.max_index_depth, 0))

    def has_folder(self, folder: TreePath) -> bool:
        """True if the names in a folder of the tree are indexed."""
        depth = 0 if folder == "/" else folder.count("/")
        is_deep = 0 < self.max_depth <= depth
        return not is_deep and not any(folder.within(path) for path in self.ignored)

    def select(self, folder: TreePath, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries of a folder of the tree that are indexed."""
        left_out = {path.name for path in self.ignored if path.parent == folder and path != "/"}
        return [entry for entry in entries if entry.name not in left_out and not is_part(entry.name)]


def find_child(folder: TreePath, name: str) -> TreePath | None:
    """Return the path of an entry of a folder, None if no path of the service leads to it."""
    try:
        child = TreePath(f"{folder}/{name}")
    except (BadRequest, RelativePath):
        return None
    return child if child.parent == folder and child.name == name else None


def is_indexed(storage: Storage, settings: Settings) -> bool:
    """True if a storage should have an index."""
    return settings.has_search_index and not storage.disabled and not storage.disable_index
