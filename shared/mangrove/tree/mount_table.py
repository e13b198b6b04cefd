"""The mounts of one snapshot of the configuration: the mount of a path, and the storages that show a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem, StorageProblem
from mangrove.drivers import registry
from mangrove.drivers.base import Driver, Redirects
from mangrove.drivers.context import MAX_REDIRECTS

if TYPE_CHECKING:
    from mangrove.tree.mounts import Mount

MAX_ALIASED_PATHS = 1000  # behind one path

FolderKey = tuple[int, str]
"""A storage's id, and the path of a folder inside it."""


class FolderScope(NamedTuple):
    """A folder of a storage, alone or with everything below it."""

    storage_id: int
    path: str
    deep: bool = False


class MountTable:
    """All mounts of one snapshot version, in the order of `order`, then mount path."""

    def __init__(self, version: int, mounts: Sequence[Mount]) -> None:
        self.version = version
        self.mounts = sorted(mounts, key=lambda mount: (mount.storage.order, mount.storage.mount_path))
        self.by_id = {mount.storage.id: mount for mount in mounts}
        self.by_path: dict[str, list[Mount]] = {}  # several at a path when they are balanced
        for mount in sorted(mounts, key=lambda mount: mount.storage.mount_path):
            self.by_path.setdefault(mount.path, []).append(mount)
        # mounts that show other parts of the tree, unchanged or in another form
        self.showing = [mount for mount in mounts if registry.shows_others(mount.storage.driver)]
        self.redirects = {mount.path for mount in mounts if mount.redirects is not None}  # the paths of aliases
        self.ancestors: set[str] = {folder for path in self.by_path for folder in TreePath(path).ancestors()[1:]}

    def find_mounts(self, path: TreePath) -> list[Mount]:
        """Return the mounts with the longest path that holds `path`."""
        for folder in path.ancestors():
            if folder in self.by_path:
                return self.by_path[folder]
        return []

    def find_aliased_paths(self, path: TreePath) -> Sequence[TreePath]:
        """Return the path and all paths to which it leads through aliases, as deep as a driver follows them.

        Raise StorageProblem for more than MAX_ALIASED_PATHS.
        """
        if not self.redirects:
            return (path,)
        paths, waiting = {path: None}, [path]
        for _ in range(MAX_REDIRECTS):
            targets = [target for source in waiting for target in self._find_targets(source)]
            waiting = [target for target in dict.fromkeys(targets) if target not in paths]
            if not waiting:
                break
            paths |= dict.fromkeys(waiting)
            if len(paths) > MAX_ALIASED_PATHS:
                raise StorageProblem(f"an alias leads to more than {MAX_ALIASED_PATHS} places")
        return tuple(paths)

    def _find_targets(self, path: TreePath) -> Iterator[TreePath]:
        for mount in self.find_mounts(path):
            if mount.redirects is not None:
                yield from mount.redirects.find_targets(path.below(mount.path))

    @cached_property
    def virtual_folders(self) -> Sequence[tuple[TreePath, str, Mount]]:
        """Return all virtual folders: the parent of each, its name, and the first storage mounted at or below it."""
        folders: dict[tuple[TreePath, str], Mount] = {}
        for mount in self.mounts:
            for path in mount.path.ancestors()[:-1]:
                folders.setdefault((path.parent, path.name), mount)
        return [(folder, name, mount) for (folder, name), mount in folders.items()]

    @cached_property
    def mount_paths(self) -> Sequence[TreePath]:
        """The paths at which storages are mounted."""
        return [TreePath(path) for path in self.by_path]

    @cached_property
    def nested(self) -> Mapping[TreePath, Sequence[TreePath]]:
        """Return the mounts inside each mount, as paths in it; without mounts inside such inner mounts."""
        nested: dict[TreePath, list[TreePath]] = {}
        for path in map(TreePath, self.by_path):
            outer = next((folder for folder in path.ancestors()[1:] if folder in self.by_path), None)
            if outer is not None:
                nested.setdefault(outer, []).append(path.below(outer))
        return nested

    def find_virtual_folders(self, path: TreePath) -> dict[str, Mount]:
        """Return the virtual folders right below `path`: the name, and the first storage mounted at or below it."""
        folders: dict[str, Mount] = {}
        if path not in self.ancestors:
            return folders
        for mount in self.mounts:
            if mount.path != path and mount.path.within(path):
                folders.setdefault(mount.path.below(path).split("/", 2)[1], mount)
        return folders

    def follow_redirects(self, storage_id: int, path: TreePath) -> set[FolderKey]:
        """Return a folder of a storage, and the folders of other storages to which it leads."""
        key = storage_id, str(path)
        folders: set[FolderKey] = {key}
        waiting: Sequence[FolderKey] = [key]
        for _ in range(MAX_REDIRECTS):
            waiting = [
                target for source in waiting for target in self._follow_redirect(source) if target not in folders
            ]
            folders.update(waiting)
            if not waiting or len(folders) > MAX_ALIASED_PATHS:
                break
        return folders

    def _follow_redirect(self, key: FolderKey) -> Iterator[FolderKey]:
        """Yield the folders that a storage shows at a path instead of its own files."""
        mount = self.by_id.get(key[0])
        if mount is None or mount.driver is None or not mount.driver.capabilities.find_others:
            return
        try:
            shown_paths = mount.driver.find_others(TreePath(key[1]))
        except StorageProblem:
            return  # it leads nowhere
        for path in shown_paths:
            for target in self.find_mounts(path):
                yield target.storage.id, str(path.below(target.path))

    async def find_appearances(self, storage_id: int, path: TreePath, deep: bool) -> set[FolderScope]:
        """Return a folder of a storage as all storages show it: those to which it leads, and those that lead to it.

        `deep`: the folder with everything below it, also if only a part of it is shown elsewhere.
        """
        scopes = {FolderScope(*key, deep) for key in self.follow_redirects(storage_id, path)}
        if not self.showing:
            return scopes
        waiting = [*scopes]
        for _ in range(MAX_REDIRECTS):
            sources = [source for scope in waiting for source in await self._find_sources(scope)]
            waiting = [source for source in dict.fromkeys(sources) if source not in scopes]
            scopes.update(waiting)
            if not waiting or len(scopes) > MAX_ALIASED_PATHS:
                break
        return scopes

    async def _find_sources(self, scope: FolderScope) -> list[FolderScope]:
        """Return the folders in which other storages show a folder."""
        mount = self.by_id.get(scope.storage_id)
        if mount is None:
            return []
        path = mount.path / scope.path
        sources: list[FolderScope] = []
        for showing in self.showing:
            if (redirects := await _get_redirects(showing)) is not None:
                paths = redirects.find_sources(path, below=scope.deep)
                sources += [FolderScope(showing.storage.id, str(source), scope.deep) for source in paths]
        return sources


async def _get_redirects(mount: Mount) -> Redirects | Driver | None:
    """Return the redirects of a storage that shows others; None if it does not run."""
    if mount.redirects is not None:
        return mount.redirects
    try:
        driver = await mount.get_driver()
    except Problem:
        return None  # nothing is visible there
    return driver if driver.capabilities.find_others else None
