"""The files at a path of the tree, for locks.

A lock is on files, not on a path: a file that an alias shows at another path, or that is in two mounts of one storage,
is locked at each of its paths.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem
from mangrove.drivers.context import MAX_REDIRECTS
from mangrove.protocols.webdav.errors import DavProblem
from mangrove.records.webdav_locks import LockedFile
from mangrove.tree.mount_table import MountTable
from mangrove.tree.mounts import Mount

ROOT = TreePath("/")
TREE = "tree"  # the name of the holder of folders that only lead to storages
MAX_MOUNTS_BELOW_LOCK = 64  # that a lock of infinite depth can cover
IDENTIFY_SECONDS = 1.0  # for a storage that is mounted above the requested path


@dataclass(frozen=True, slots=True)
class CoveringFile:
    """The file itself, or a folder above it whose lock covers it."""

    file: LockedFile
    rest: TreePath  # the path of the file below that folder
    path: TreePath | None  # the folder's path in the caller's tree, None if it has none


@dataclass(frozen=True, slots=True)
class LockedFolder:
    """A folder below which locks are searched."""

    file: LockedFile
    path: TreePath  # in the caller's tree
    is_mount: bool = False  # a lock on the folder itself is below the requested path


class FileLocator:
    """Locations of paths in the storages that hold their files. The name of each storage is read once."""

    def __init__(self, table: MountTable) -> None:
        self._table = table
        self._roots: dict[int, LockedFile] = {}

    async def find_files(self, path: TreePath) -> list[LockedFile]:
        """Return the files at a path: several for an alias that merges folders."""
        return list(dict.fromkeys([await self._locate(place) for place in self._find_places(path)]))

    def _find_places(self, path: TreePath) -> Sequence[TreePath]:
        """Return the tree paths that hold the files of a path; the path itself for a folder that only an alias has."""
        places = self._table.find_aliased_paths(path)
        return [place for place in places if not self._is_alias(place)] or [path]

    def _is_alias(self, place: TreePath) -> bool:
        mounts = self._table.find_mounts(place)
        return bool(mounts) and mounts[0].redirects is not None

    async def find_covering(self, path: TreePath) -> list[CoveringFile]:
        """Return the files at a path and the folders above them, at each path that leads to them."""
        covering: dict[LockedFile, CoveringFile] = {}
        places = self._find_places(path)
        for place in places:
            own = self._table.find_mounts(place)
            for folder in place.ancestors():
                is_own = self._table.find_mounts(folder) == own
                self._add(covering, path, folder, place, await self._locate(folder, is_own))
        for place in self._find_aliases([*places, path]):
            for folder in self._table.find_mounts(place)[0].path.ancestors():
                self._add(covering, path, folder, place, await self._locate(folder, False))
        return list(covering.values())

    def _add(
        self, covering: dict[LockedFile, CoveringFile], path: TreePath, folder: TreePath, place: TreePath,
        file: LockedFile,
    ) -> None:  # fmt: skip
        if file in covering and covering[file].path is not None:
            return
        rest = place.below(folder)
        above: TreePath | None = path
        if rest != "/":
            above = TreePath(path.removesuffix(rest)) if path.endswith(rest) else None
        is_same = above is not None and folder in self._table.find_aliased_paths(above)
        covering[file] = CoveringFile(file, rest, above if is_same else None)

    def _find_aliases(self, places: Sequence[TreePath]) -> Sequence[TreePath]:
        """Return the paths of aliases that show one of the locations, and the aliases among the locations."""
        aliases = dict.fromkeys(place for place in places if self._is_alias(place))
        waiting = list(places)
        for _ in range(MAX_REDIRECTS if self._table.redirects else 0):
            sources = [source for place in waiting for source in self._find_sources(place)]
            waiting = [source for source in dict.fromkeys(sources) if source not in aliases]
            aliases |= dict.fromkeys(waiting)
            if not waiting:
                break
        return list(aliases)

    def _find_sources(self, place: TreePath) -> Iterator[TreePath]:
        for mount in self._table.showing:
            if mount.redirects is not None:
                for source in mount.redirects.find_sources(place):
                    path = mount.path / source
                    if mount in self._table.find_mounts(path):
                        yield path

    async def find_folders(self, path: TreePath) -> list[LockedFolder]:
        """Return the folders of a path, and the roots of the storages mounted below it."""
        folders: list[LockedFolder] = []
        for place in self._find_places(path):
            file = await self._locate(place)
            folders.append(LockedFolder(file, path))
            if place in self._table.ancestors:
                folders += await self._find_mounted(path, place)
                if file.storage != TREE:
                    folders.append(LockedFolder(LockedFile(TREE, place), path))
        return folders

    async def _find_mounted(self, path: TreePath, place: TreePath) -> list[LockedFolder]:
        mounts = {mount.path: mount for mount in self._table.mounts if mount.path != place and mount.path.within(place)}
        if len(mounts) > MAX_MOUNTS_BELOW_LOCK:
            raise DavProblem(403, "too many storages are mounted below: lock a folder further down")
        return [
            LockedFolder(await self._locate(mounted, False), path / mounted.below(place), is_mount=True)
            for mounted in mounts
        ]

    async def _locate(self, place: TreePath, is_own: bool = True) -> LockedFile:
        """Return the file at a tree path. If not `is_own`, a failure of its storage is ignored."""
        mounts = self._table.find_mounts(place)
        if not mounts:
            return LockedFile(TREE, place)
        mount = mounts[0]
        root = self._roots.get(mount.storage.id)
        if root is None:
            root = await self._locate_root(mount, is_own)
            self._roots[mount.storage.id] = root
        inner = place.below(mount.path)
        return LockedFile(root.storage, root.path / inner if inner != "/" else root.path)

    async def _locate_root(self, mount: Mount, is_own: bool) -> LockedFile:
        if mount.redirects is not None:
            return LockedFile(f"storage#{mount.storage.id}", TreePath("/"))
        try:
            if is_own:
                return await _identify(mount)
            async with asyncio.timeout(IDENTIFY_SECONDS):
                return await _identify(mount)
        except (Problem, TimeoutError):
            if is_own:
                raise
            return LockedFile(f"storage#{mount.storage.id}", TreePath("/"))


async def _identify(mount: Mount) -> LockedFile:
    """Return the root of a storage: the same for all mounts of one storage, if its driver can tell."""
    driver = await mount.get_driver()
    if not driver.capabilities.identify:
        return LockedFile(f"storage#{mount.storage.id}", TreePath("/"))
    name, slash, path = min(await driver.identify(TreePath("/"))).partition("/")
    return LockedFile(f"files#{sha256(name.encode()).hexdigest()[:32]}", TreePath(slash + path))
