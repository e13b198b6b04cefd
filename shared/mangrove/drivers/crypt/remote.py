"""The storage of the encrypted files: finds, locates and lists them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NamedTuple

from mangrove.core.chunked import iterate_chunked
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotAFolder, NotMounted, NotSupported, Problem, StorageProblem
from mangrove.drivers.base import ROOT, Driver, Entry, Resolver
from mangrove.drivers.context import limit_redirects
from mangrove.drivers.crypt.ciphers import decrypt_size
from mangrove.drivers.crypt.names import EncryptedNames, list_spellings, spell_controls


class Place(NamedTuple):
    """A path inside the storage that contains it."""

    driver: Driver
    path: TreePath


@dataclass(frozen=True, slots=True)
class EncryptedEntry:
    """A file or folder: its location, the entry of its storage, and the decrypted entry."""

    place: Place
    stored: Entry
    entry: Entry


class Remote:
    """The content below `root`, a path of the tree, with names converted by `names`."""

    def __init__(self, resolver: Resolver, root: TreePath, names: EncryptedNames) -> None:
        self.names = names
        self.root = root
        self._resolver = resolver

    def get_tree_path(self, path: TreePath, is_dir: bool) -> TreePath:
        """Return the path in the tree of a stored file or folder."""
        return self.root / self.names.encrypt_path(path, is_dir)

    async def locate(self, path: TreePath, is_dir: bool) -> Place:
        """Return the storage of a file or folder, existing or not. Raise NotMounted if there is none."""
        driver, inner = await self._resolve(path, is_dir)
        return Place(driver, self._list_spellings(driver, inner)[0])

    async def _resolve(self, path: TreePath, is_dir: bool) -> Place:
        with limit_redirects():
            driver, inner = await self._resolver.resolve(self.get_tree_path(path, is_dir))
            return Place(driver.get_unmapped(), inner)  # a mapped name would not decrypt

    def _list_spellings(self, driver: Driver, inner: TreePath) -> Sequence[TreePath]:
        return list_spellings(driver, inner) if self.names.makes_symbols else (inner,)

    async def find(self, path: TreePath) -> EncryptedEntry:
        """Return a file or folder. Raise EntryNotFound if there is none, or one that does not decrypt."""
        if path == "/":
            raise NotSupported
        first = "." not in path.name
        for is_dir in (first,) if self.names.is_alike(path.name) else (first, not first):
            try:
                return await self._find(path, is_dir)
            except EntryNotFound:
                continue
        raise EntryNotFound

    async def find_kind(self, path: TreePath, is_dir: bool) -> EncryptedEntry | None:
        """Return a file, or a folder, if the two have different names in the remote; None if there is none."""
        try:
            return await self._find(path, is_dir)
        except EntryNotFound:
            return None

    async def _find(self, path: TreePath, is_dir: bool) -> EncryptedEntry:
        try:
            place, stored = await self._stat(path, is_dir)
        except (EntryNotFound, NotMounted):
            raise EntryNotFound from None
        except StorageProblem:
            self.names.check_length(path, is_dir)  # which may be the only problem
            raise
        if stored.is_dir != is_dir and not self.names.is_alike(path.name):
            raise EntryNotFound
        entry = decrypt_entry(stored, path.name)
        if entry is None:
            raise EntryNotFound
        return EncryptedEntry(place, stored, entry)

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
        """Return the paths in the tree at which a folder may be."""
        place = self.get_tree_path(path, True)
        return [*{place, spell_controls(place)}] if self.names.makes_symbols else [place]

    def find_sources(self, target: TreePath, below: bool) -> list[TreePath]:
        """Return the decrypted path of a folder of the tree, if it is the remote or inside it; with `below`, or
        above it.
        """
        if not target.within(self.root):
            return [ROOT] if below and self.root.within(target) else []
        path = ROOT
        for name in filter(None, target.below(self.root).split("/")):
            plain = self.names.decrypt(name, True)
            if plain is None:
                return []  # shown nowhere
            path /= plain
        return [path]

    async def locate_beside(self, existing: EncryptedEntry, path: TreePath, target: TreePath) -> Place:
        """Return the path of `target` in the same storage as `path`: balanced storages have the same content.

        Raise NotSupported if it is mounted elsewhere.
        """
        is_dir = existing.entry.is_dir
        new = self.get_tree_path(target, is_dir)
        other = await self.locate(target, is_dir)
        old = self.get_tree_path(path, is_dir)
        mounted = TreePath(old[: len(old) - len(existing.place.path)])
        if not new.within(mounted) or len(new.below(mounted)) != len(other.path):
            raise NotSupported
        return Place(existing.place.driver, other.path)

    def list_mounts(self, path: TreePath) -> list[str]:
        """The decrypted names of storages that are mounted right below a folder."""
        names = self._resolver.folders(self.get_tree_path(path, True))
        return [name for encrypted_name in names if (name := self.names.decrypt(encrypted_name, True)) is not None]

    def has_mounts_below(self) -> bool:
        """True if parts of it are in other storages."""
        return bool(self._resolver.folders(self.root))

    async def locate_root(self) -> Place:
        """The storage of the root."""
        return await self.locate(ROOT, True)


def decrypt_entry(stored: Entry, name: str) -> Entry | None:
    """Return the decrypted entry of a stored file or folder; None if its size is impossible for an encrypted file."""
    try:
        size = 0 if stored.is_dir else decrypt_size(stored.size)
    except ValueError:
        return None
    return stored._replace(name=name, size=size, hashes=None, thumb=False, url="")


Report = Callable[[str], Awaitable[None]]


class FolderListing:
    """One listing of a folder. `thumbnails`: the name of the folder with the thumbnails of its files; "" for none."""

    def __init__(
        self, remote: Remote, path: TreePath, modified: float, show_hidden: bool, thumbnails: str = ""
    ) -> None:
        self._remote = remote
        self._path = path
        self._modified = modified
        self._show_hidden = show_hidden
        self._thumbnails = thumbnails
        self._foreign = self._own = 0  # names that these options cannot have made, and names that they made

    async def read(self, report: Report | None) -> AsyncIterator[Sequence[Entry]]:
        """Yield the batches. Raise EntryNotFound or NotAFolder.

        `report` is called at the end: with a message if no name decrypts, otherwise with "".
        """
        pictures = await self._list_pictures() if self._thumbnails else frozenset[str]()
        mounts = {name: Entry(name, 0, self._modified, True) for name in self._remote.list_mounts(self._path)}
        try:
            async with aclosing(self._read()) as batches:
                async for batch in batches:
                    for entry in batch:
                        mounts.pop(entry.name, None)
                    yield (
                        [entry._replace(thumb=f"{entry.name}.webp" in pictures) for entry in batch]
                        if pictures
                        else batch
                    )
        except EntryNotFound:
            if not mounts:
                raise
        if mounts:
            yield [*mounts.values()]
        if report is not None:
            await report(self._explain())

    def _explain(self) -> str:
        if self._own or not self._foreign:
            return ""
        return (
            f"none of the {self._foreign} names in {self._remote.root} can be decrypted: "
            "password, salt or name options are not those that they were encrypted with"
        )

    async def _list_pictures(self) -> Set[str]:
        try:
            listing = FolderListing(self._remote, self._path / self._thumbnails, 0.0, True)
            return {entry.name async for batch in listing.read(None) async for entry in iterate_chunked(batch)}
        except Problem:
            return frozenset()

    async def _read(self) -> AsyncGenerator[Sequence[Entry]]:
        try:
            place = await self._remote.locate(self._path, True)
        except NotMounted as problem:
            raise StorageProblem(f"failed get storage: {problem.message}") from None
        stored: Any = place.driver.list(place.path)
        try:
            async with aclosing(stored):
                while (batch := await self._get_next(stored)) is not None:
                    yield [entry async for entry in self._decrypt(batch)]
        except EntryNotFound:
            if self._path != "/" and await self._remote.find_kind(self._path, False) is not None:
                raise NotAFolder from None
            raise

    async def _get_next(self, stored: Any) -> Sequence[Entry] | None:
        with limit_redirects():
            batch: Sequence[Entry] | None = await anext(stored, None)
        return batch

    async def _decrypt(self, batch: Sequence[Entry]) -> AsyncIterator[Entry]:
        names = self._remote.names
        async for stored in iterate_chunked(batch):
            name = names.decrypt(stored.name, stored.is_dir)
            if names.tells_keys(stored.is_dir):
                self._own += name is not None
                self._foreign += name is None
            if name is None or (name.startswith(".") and not self._show_hidden):
                continue
            entry = decrypt_entry(stored, name)
            if entry is not None:
                yield entry
