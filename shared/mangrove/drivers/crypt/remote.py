"""The part of the tree in which the encrypted files are, whatever driver has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotMounted, NotSupported, StorageProblem
from mangrove.drivers.base import ROOT, Driver, Entry, Resolver
from mangrove.drivers.context import limit_redirects
from mangrove.drivers.crypt.data import decrypt_size
from mangrove.drivers.crypt.names import Names
from mangrove.drivers.crypt.spelling import list_spellings, spell_controls


class Place(NamedTuple):
    """A path inside the storage that holds it."""

    driver: Driver
    path: TreePath


@dataclass(frozen=True, slots=True)
class Found:
    """A file or folder: where it is, what its storage says of it, and what it is once it is decrypted."""

    place: Place
    stored: Entry
    entry: Entry


class Remote:
    """What is below `root`, a path of the tree, under the names that `names` makes."""

    def __init__(self, resolver: Resolver, root: TreePath, names: Names) -> None:
        self.names = names
        self.root = root
        self._resolver = resolver

    def get_tree_path(self, path: TreePath, is_dir: bool) -> TreePath:
        """Where in the tree a file or folder is stored."""
        return self.root / self.names.encrypt_path(path, is_dir)

    async def locate(self, path: TreePath, is_dir: bool) -> Place:
        """The storage of a file or folder, there or not; NotMounted when there is none."""
        driver, inner = await self._resolve(path, is_dir)
        return Place(driver, self._list_spellings(driver, inner)[0])

    async def _resolve(self, path: TreePath, is_dir: bool) -> Place:
        with limit_redirects():
            driver, inner = await self._resolver.resolve(self.get_tree_path(path, is_dir))
            return Place(driver.get_unmapped(), inner)  # a name that is shown as another one would not decrypt

    def _list_spellings(self, driver: Driver, inner: TreePath) -> Sequence[TreePath]:
        return list_spellings(driver, inner) if self.names.makes_symbols else (inner,)

    async def find(self, path: TreePath) -> Found:
        """A file or folder; EntryNotFound when there is none, or one that does not decrypt."""
        if path == "/":
            raise NotSupported
        first = "." not in path.name
        for is_dir in (first,) if self.names.is_alike(path.name) else (first, not first):
            try:
                return await self._find(path, is_dir)
            except EntryNotFound:
                continue
        raise EntryNotFound

    async def find_kind(self, path: TreePath, is_dir: bool) -> Found | None:
        """A file, or a folder, where the two have different names in the remote; None when there is none."""
        try:
            return await self._find(path, is_dir)
        except EntryNotFound:
            return None

    async def _find(self, path: TreePath, is_dir: bool) -> Found:
        try:
            place, stored = await self._stat(path, is_dir)
        except (EntryNotFound, NotMounted):
            raise EntryNotFound from None
        except StorageProblem:
            self.names.check_length(path, is_dir)  # which may be all that is wrong
            raise
        if stored.is_dir != is_dir and not self.names.is_alike(path.name):
            raise EntryNotFound
        entry = decrypt_entry(stored, path.name)
        if entry is None:
            raise EntryNotFound
        return Found(place, stored, entry)

    async def _stat(self, path: TreePath, is_dir: bool) -> tuple[Place, Entry]:
        driver, inner = await self._resolve(path, is_dir)
        with limit_redirects():
            for spelling in self._list_spellings(driver, inner):
                try:
                    return Place(driver, spelling), await driver.stat(spelling)
                except EntryNotFound:
                    continue
        raise EntryNotFound

    def find_places(self, path: TreePath) -> Sequence[TreePath]:
        """Where in the tree a folder may be."""
        place = self.get_tree_path(path, True)
        return [*{place, spell_controls(place)}] if self.names.makes_symbols else [place]

    def find_sources(self, target: TreePath, below: bool) -> list[TreePath]:
        """The decrypted path of a folder of the tree, when it is the remote or lies in it; `below`: or above it."""
        if not target.within(self.root):
            return [ROOT] if below and self.root.within(target) else []
        path = ROOT
        for name in filter(None, target.below(self.root).split("/")):
            plain = self.names.decrypt(name, True)
            if plain is None:
                return []  # shown nowhere
            path /= plain
        return [path]

    async def locate_beside(self, found: Found, path: TreePath, target: TreePath) -> Place:
        """Where `target` is stored, in the very storage that `path` was found in: balanced ones hold the same.

        NotSupported when it is mounted elsewhere.
        """
        is_dir = found.entry.is_dir
        new = self.get_tree_path(target, is_dir)
        other = await self.locate(target, is_dir)
        old = self.get_tree_path(path, is_dir)
        mounted = TreePath(old[: len(old) - len(found.place.path)])
        if not new.within(mounted) or len(new.below(mounted)) != len(other.path):
            raise NotSupported
        return Place(found.place.driver, other.path)

    def list_mounts(self, path: TreePath) -> list[str]:
        """The decrypted names of storages that are mounted right below a folder."""
        names = self._resolver.folders(self.get_tree_path(path, True))
        return [name for found in names if (name := self.names.decrypt(found, True)) is not None]

    def has_mounts_below(self) -> bool:
        """Whether not all of it lies in one storage."""
        return bool(self._resolver.folders(self.root))

    async def locate_root(self) -> Place:
        """The storage of the root."""
        return await self.locate(ROOT, True)


def decrypt_entry(stored: Entry, name: str) -> Entry | None:
    """What is shown of a stored file or folder; None for a file of a size that no encrypted file has."""
    try:
        size = 0 if stored.is_dir else decrypt_size(stored.size)
    except ValueError:
        return None
    return stored._replace(name=name, size=size, hashes=None, thumb=False, url="")
