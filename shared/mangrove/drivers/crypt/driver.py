"""Crypt: files and names encrypted as rclone's crypt does, in a folder of any other storage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence, Set
from dataclasses import replace
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryChanged,
    EntryExists,
    EntryNotFound,
    NotAFile,
    NotSupported,
    Problem,
    StorageForbidden,
    StorageProblem,
)
from mangrove.drivers.base import Capabilities, Capacity, Driver, DriverContext, DriverProperties, Entry, Upload
from mangrove.drivers.context import limit_redirects
from mangrove.drivers.crypt.ciphers import Keys, derive_keys, encrypt_body, encrypt_size, obscure, reveal
from mangrove.drivers.crypt.names import EncryptedNames
from mangrove.drivers.crypt.options import CryptOptions
from mangrove.drivers.crypt.reading import EncryptedFile
from mangrove.drivers.crypt.remote import EncryptedEntry, FolderListing, Remote, decrypt_entry
from mangrove.drivers.refusals import refuse_changed, refuse_existing
from mangrove.drivers.whole_files import CountedBody

THUMBNAILS = ".thumbnails"
MAX_THUMBNAIL_BYTES = 4 << 20  # bytes


class Crypt(Driver):
    name = "Crypt"
    Options = CryptOptions
    config = DriverProperties(only_proxy=True, no_cache=True, default_root="/", check_status=True, direct_lookup=True)
    capabilities = Capabilities(
        write=True, makedirs=True, rename=True, move=True, copy=True, remove=True, remove_unchanged=True,
        remove_empty=True, sync=True, make_thumbnail=True, find_others=True, identify=True, get_space=True,
    )  # fmt: skip
    options: CryptOptions

    def __init__(self, options: CryptOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        self._data_key = b""
        self._remote: Remote | None = None

    async def start(self) -> None:
        """Check the options. The remote is not called: it may start later, or lead here."""
        self.options.check()
        root, here = TreePath(self.options.remote_path), self.context.mount_path
        if root == here or (here != "/" and root.within(here)):
            raise StorageProblem(f"{root} lies in the encrypted storage itself")
        keys, names = await asyncio.to_thread(self._make_ciphers)
        await self._obscure_options()
        assert self.context.resolver is not None
        self._data_key = keys.data
        self._remote = Remote(self.context.resolver, root, names)

    def _make_ciphers(self) -> tuple[Keys, EncryptedNames]:
        try:
            password, salt = reveal(self.options.password), reveal(self.options.salt)
        except ValueError:
            raise StorageProblem("the password or the salt is not obscured: enter it again") from None
        keys = derive_keys(password, salt)
        return keys, EncryptedNames(self.options, keys)

    async def _obscure_options(self) -> None:
        password, salt = obscure(self.options.password), obscure(self.options.salt)
        if (password, salt) == (self.options.password, self.options.salt) or self.context.save_options is None:
            return
        options = replace(self.options, password=password, salt=salt)
        try:
            await self.context.save_options(options)
        except Problem:
            pass  # the next start tries again; this one has the keys
        self.options = options

    @property
    def remote(self) -> Remote:
        """The location of the encrypted files."""
        if self._remote is None:
            raise StorageProblem("storage not init")
        return self._remote

    def find_others(self, path: TreePath) -> Sequence[TreePath]:
        return self.remote.find_places(path)

    def find_sources(self, target: TreePath, *, below: bool = False) -> Sequence[TreePath]:
        return self.remote.find_sources(target, below)

    async def identify(self, path: TreePath) -> Set[str]:
        """Return nothing: the remote's identity of the file is that of other bytes."""
        place = await self.remote.locate_root() if path == "/" else (await self.remote.find(path)).place
        names: Set[str] = set()
        if place.driver.capabilities.identify:
            with limit_redirects():
                names = await place.driver.identify(place.path)
        return {f"crypt:{name}" for name in names or {str(self.remote.get_tree_path(path, True))}}

    async def can_refuse_existing(self) -> bool:
        """False if a file and a folder of one name have different names in the remote."""
        return self.remote.names.are_alike and await self._ask_remote(lambda driver: driver.can_refuse_existing())

    async def proves_writes(self) -> bool:
        return await self._ask_remote(lambda driver: driver.proves_writes())

    async def proves_reads(self) -> bool:
        return True  # each block has an authenticator that only the holder of the key can make

    async def _ask_remote(self, question: Callable[[Driver], Awaitable[bool]]) -> bool:
        """True if the storage of the whole folder guarantees it; False if it does not run or others are mounted
        below.
        """
        if self.remote.has_mounts_below():
            return False
        try:
            place = await self.remote.locate_root()
            with limit_redirects():
                return await question(place.driver)
        except StorageProblem:
            return False

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        thumbnails = THUMBNAILS if self.options.thumbnail else ""
        listing = FolderListing(self.remote, path, self.context.modified, self.options.show_hidden, thumbnails)
        return listing.read(self.context.report_status if path == "/" else None)

    async def stat(self, path: TreePath) -> Entry:
        if path == "/":
            return Entry("", 0, self.context.modified, True)
        return (await self.remote.find(path)).entry

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        existing = None if path == "/" else await self.remote.find(path)
        if existing is None or existing.entry.is_dir:
            raise NotAFile
        refuse_changed(existing.entry, if_match)
        file = EncryptedFile(*existing.place, existing.stored, self._data_key, path.name)
        with limit_redirects():
            return await file.read(offset, length)

    async def make_thumbnail(self, path: TreePath) -> tuple[bytes, str]:
        picture = path.parent / THUMBNAILS / f"{path.name}.webp"
        if not self.options.thumbnail or ((await self.stat(picture)).size or 0) > MAX_THUMBNAIL_BYTES:
            raise NotSupported
        return b"".join([block async for block in await self.read(picture, 0, MAX_THUMBNAIL_BYTES)]), "image/webp"

    async def get_space(self) -> Capacity:
        driver = (await self.remote.locate_root()).driver
        with limit_redirects():
            return await driver.get_space()

    async def sync(self, path: TreePath) -> None:
        place = await self.remote.locate_root() if path == "/" else (await self.remote.find(path)).place
        if place.driver.capabilities.sync:
            with limit_redirects():
                await place.driver.sync(place.path)

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        self.remote.names.check_length(path, False)
        await self._refuse_other_kind(path, False)
        if not upload.overwrite:
            await refuse_existing(self.stat, path)
        if path.parent == "/":
            await self._make_root()
        place = await self.remote.locate(path, False)
        if not place.driver.capabilities.write:
            raise NotSupported
        counted = CountedBody(body, upload.size)

        async def encrypt() -> AsyncIterator[bytes]:
            async for chunk in encrypt_body(self._data_key, aiter(counted)):
                yield chunk
            counted.refuse_shorter()

        stored = Upload(encrypt_size(upload.size), upload.modified, overwrite=upload.overwrite, durable=upload.durable)
        with limit_redirects():
            written = decrypt_entry(await place.driver.write(place.path, encrypt(), stored), path.name)
        assert written is not None
        return written._replace(size=counted.size)

    async def _make_root(self) -> None:
        """Make the remote's folder if it does not exist, as rclone does."""
        place = await self.remote.locate_root()
        if place.path != "/" and place.driver.capabilities.makedirs:
            with limit_redirects():
                try:
                    await place.driver.stat(place.path)
                except EntryNotFound:
                    await place.driver.makedirs(place.path)

    async def _refuse_other_kind(self, path: TreePath, is_dir: bool) -> None:
        """Raise EntryExists if a folder has the name of a new file, or the reverse, unless the remote checks that."""
        if self.remote.names.is_alike(path.name):
            return
        if await self.remote.find_kind(path, not is_dir) is not None:
            raise EntryExists

    async def makedirs(self, path: TreePath) -> None:
        if path == "/":
            return
        self.remote.names.check_length(path, True)
        if not self.remote.names.are_alike:
            await self._refuse_files(path)
        place = await self.remote.locate(path, True)
        with limit_redirects():
            await place.driver.makedirs(place.path)

    async def _refuse_files(self, path: TreePath) -> None:
        """Raise EntryExists if the folder, or a missing parent, has the name of a file."""
        for step in path.ancestors()[:-1]:
            try:
                existing = await self.remote.find(step)
            except EntryNotFound:
                continue
            if not existing.entry.is_dir:
                raise EntryExists
            return

    async def _find_to_change(self, path: TreePath) -> EncryptedEntry:
        if path == "/":
            raise StorageForbidden
        return await self.remote.find(path)

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        existing, driver, new = await self._prepare_target(path, target, overwrite)
        if driver.capabilities.rename:
            with limit_redirects():
                await driver.rename(existing.place.path, new, overwrite=overwrite)
        else:
            await self.move(path, target, overwrite=overwrite)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        existing, driver, new = await self._prepare_target(path, target, overwrite)
        with limit_redirects():
            await driver.move(existing.place.path, new, overwrite=overwrite)

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        existing, driver, new = await self._prepare_target(path, target, overwrite)
        with limit_redirects():
            await driver.copy(existing.place.path, new, overwrite=overwrite, durable=durable)

    async def _prepare_target(
        self, path: TreePath, target: TreePath, overwrite: bool
    ) -> tuple[EncryptedEntry, Any, TreePath]:
        """Return the entry to rename, move or copy, its driver, and the new path in that driver.

        Raise EntryExists if that is taken.
        """
        existing = await self._find_to_change(path)
        is_dir = existing.entry.is_dir
        self.remote.names.check_length(target, is_dir)
        await self._refuse_other_kind(target, is_dir)
        place = await self.remote.locate_beside(existing, path, target)
        return existing, place.driver, place.path

    async def remove(self, path: TreePath) -> None:
        try:
            existing = await self._find_to_change(path)
        except EntryNotFound:
            return
        with limit_redirects():
            await existing.place.driver.remove(existing.place.path)

    async def discard(self, path: TreePath) -> None:
        try:
            existing = await self._find_to_change(path)
        except EntryNotFound:
            return
        with limit_redirects():
            await existing.place.driver.discard(existing.place.path)

    async def remove_unchanged(self, path: TreePath, entry: Entry) -> None:
        try:
            existing = await self._find_to_change(path)
        except EntryNotFound:
            return
        if existing.entry != entry._replace(name=path.name):
            raise EntryChanged
        with limit_redirects():
            await existing.place.driver.remove_unchanged(existing.place.path, existing.stored)

    async def remove_empty(self, path: TreePath) -> bool:
        """Remove the folder if it is empty. A folder with names that do not decrypt is not empty."""
        if path == "/":
            return False
        existing = await self.remote.find_kind(path, True)
        if existing is None or not existing.entry.is_dir:
            return False
        driver, inner = existing.place
        with limit_redirects():
            if driver.capabilities.remove_empty:
                return await driver.remove_empty(inner)
            async for batch in driver.list(inner):
                if batch:
                    return False
            await driver.remove(inner)
        return True
