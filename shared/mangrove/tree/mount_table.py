"""The mounts of one snapshot of the configuration: which one serves a path, and what a path stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers import registry
from mangrove.drivers.context import MAX_REDIRECTS

if TYPE_CHECKING:
    from mangrove.tree.mounts import Mount

MOST_PLACES = 1000  # that one path stands for


class MountTable:
    """All mounts of one snapshot version, in the order of `order`, then mount path.

    `by_id`: by the storage's id. `by_path`: the mounts at a path, several when they are balanced. `ancestors`: the
    folders above any mount. `redirects`: the paths of the mounts that show other parts of the tree; `showing`: the
    mounts that do so, or hold other parts in another form.
    """

    def __init__(self, version: int, mounts: Sequence[Mount]) -> None:
        self.version = version
        self.mounts = sorted(mounts, key=lambda mount: (mount.storage.order, mount.storage.mount_path))
        self.by_id = {mount.storage.id: mount for mount in mounts}
        self.by_path: dict[str, list[Mount]] = {}
        for mount in sorted(mounts, key=lambda mount: mount.storage.mount_path):
            self.by_path.setdefault(mount.path, []).append(mount)
        self.showing = [mount for mount in mounts if registry.shows_others(mount.storage.driver)]
        self.redirects = {mount.path for mount in mounts if mount.redirects is not None}
        self.ancestors: set[str] = {folder for path in self.by_path for folder in TreePath(path).ancestors()[1:]}

    def find_mounts(self, path: TreePath) -> list[Mount]:
        """The mounts with the longest path that holds `path`; empty when none does."""
        for folder in path.ancestors():
            if folder in self.by_path:
                return self.by_path[folder]
        return []

    def find_places(self, path: TreePath) -> Sequence[TreePath]:
        """The path, and all that it stands for through aliases, and aliases of those as deep as a driver follows them.

        StorageProblem for more than MOST_PLACES.
        """
        if not self.redirects:
            return (path,)
        found, waiting = {path: None}, [path]
        for _ in range(MAX_REDIRECTS):
            targets = [target for place in waiting for target in self._find_targets(place)]
            waiting = [target for target in dict.fromkeys(targets) if target not in found]
            if not waiting:
                break
            found |= dict.fromkeys(waiting)
            if len(found) > MOST_PLACES:
                raise StorageProblem(f"an alias leads to more than {MOST_PLACES} places")
        return tuple(found)

    def _find_targets(self, place: TreePath) -> Iterator[TreePath]:
        for mount in self.find_mounts(place):
            if mount.redirects is not None:
                yield from mount.redirects.find_targets(place.below(mount.path))

    @cached_property
    def virtual_folders(self) -> Sequence[tuple[TreePath, str, Mount]]:
        """All virtual folders: the folder that each is in, its name, and the first storage mounted at or below it."""
        found: dict[tuple[TreePath, str], Mount] = {}
        for mount in self.mounts:
            for path in mount.path.ancestors()[:-1]:
                found.setdefault((path.parent, path.name), mount)
        return [(folder, name, mount) for (folder, name), mount in found.items()]

    @cached_property
    def mount_paths(self) -> Sequence[TreePath]:
        """The paths at which storages are mounted."""
        return [TreePath(path) for path in self.by_path]

    @cached_property
    def nested(self) -> Mapping[TreePath, Sequence[TreePath]]:
        """For the path of a mount the paths inside it at which others are mounted, without those in such others."""
        found: dict[TreePath, list[TreePath]] = {}
        for path in map(TreePath, self.by_path):
            above = next((folder for folder in path.ancestors()[1:] if folder in self.by_path), None)
            if above is not None:
                found.setdefault(above, []).append(path.below(above))
        return found

    def find_virtual_folders(self, path: TreePath) -> dict[str, Mount]:
        """The virtual folders right below `path`: name → the first storage mounted at or below it."""
        found: dict[str, Mount] = {}
        if path not in self.ancestors:
            return found
        for mount in self.mounts:
            if mount.path != path and mount.path.within(path):
                found.setdefault(mount.path.below(path).split("/", 2)[1], mount)
        return found
