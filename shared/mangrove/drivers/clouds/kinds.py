"""Kinds of services, by their capabilities besides reading."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from mangrove.core.concurrency import finish_despite_cancel, gather_bounded
from mangrove.core.http import format_content_disposition
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryChanged,
    EntryExists,
    EntryNotFound,
    InUse,
    NotSupported,
    StorageForbidden,
    StorageProblem,
)
from mangrove.drivers.base import Entry, Link, Upload
from mangrove.drivers.clouds.driver import Cloud
from mangrove.drivers.clouds.errors import translate_errors
from mangrove.drivers.clouds.transfer import store
from mangrove.drivers.refusals import refuse_changed, refuse_existing, refuse_inside_itself, refuse_root_removal

MAX_ENTRIES_WITHOUT_TASK = 1000  # of a folder that is copied or moved
REQUEST_CONCURRENCY = 8
MAX_LINK_SECONDS = 7 * 24 * 3600
DEFAULT_LINK_HOURS = 4


@dataclass(frozen=True, slots=True)
class FolderContent:
    """All files and folders below a folder."""

    files: Mapping[str, Entry]
    """By their keys in opendal."""
    folders: Sequence[str]
    """The keys with that of the folder itself, the deepest last."""


class WritableCloud(Cloud):
    """A service that writes and removes files and folders."""

    capabilities = replace(Cloud.capabilities, write=True, makedirs=True, remove=True, remove_empty=True)

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        key = self.get_key(path)
        if not upload.overwrite:
            await refuse_existing(self.stat, path)
        elif await self.is_folder(path):
            raise EntryExists
        try:
            await store(self.patient, key, body, upload)
        except EntryNotFound:
            raise StorageProblem("the folder, or the root of the storage, does not exist") from None
        except StorageProblem as problem:
            raise problem if type(problem) is not StorageProblem else problem.with_prefix(path.name) from None
        try:
            return await self.stat(path)
        except EntryNotFound:
            raise StorageProblem(f"{path.name}: the service did not keep the file") from None

    async def makedirs(self, path: TreePath) -> None:
        prefix = self.get_prefix(path)
        for folder in path.ancestors()[:-1]:
            if await self.is_file(folder):
                raise EntryExists
        if path != "/":
            with translate_errors():
                await self.quick.create_dir(prefix)

    async def remove(self, path: TreePath) -> None:
        refuse_root_removal(path)
        try:
            entry = await self.stat(path)
        except EntryNotFound:
            return
        if entry.is_dir:
            await self._remove_folder(path)
        else:
            with suppress(EntryNotFound), translate_errors():
                await self.quick.delete(self.get_key(path))
        await self.keep_folder(path.parent)

    async def _remove_folder(self, path: TreePath) -> None:
        for _ in range(2):
            try:
                with translate_errors():
                    await self.quick.delete(self.get_prefix(path), recursive=True)
                return
            except EntryNotFound:  # another client removes the folder at the same time and may not be done
                if not await self.is_folder(path):
                    return
        raise InUse

    async def remove_empty(self, path: TreePath) -> bool:
        if path == "/":
            return False
        prefix, exists = self.get_prefix(path), False
        with translate_errors():
            async for item in await self.quick.list(prefix):
                exists = True
                if item.path != prefix:
                    return False
        if not exists and await self.is_file(path):
            return False
        with translate_errors():
            await self.quick.delete(prefix)
        await self.keep_folder(path.parent)
        return True

    async def keep_folder(self, path: TreePath) -> None:
        """Keep a folder after its last entry was removed. Services with folders do that themselves."""

    async def check_target(self, path: TreePath, target: TreePath, overwrite: bool) -> Entry:
        """Return the entry of `path` if it may be copied or moved to `target`."""
        if "/" in (path, target):
            raise StorageForbidden("the root folder is not moved or copied")
        refuse_inside_itself(path, target)
        self.get_key(target)
        entry = await self.stat(path)
        await refuse_existing(self.stat, target, but_files=overwrite and not entry.is_dir)
        return entry

    async def list_below(self, path: TreePath) -> FolderContent:
        """Return all files and folders below a folder. Raise NotSupported for more than MAX_ENTRIES_WITHOUT_TASK."""
        prefix = self.get_prefix(path)
        files: dict[str, Entry] = {}
        folders = {prefix}
        with translate_errors():
            async for item in await self.quick.list(prefix, recursive=True):
                if item.path != item.path.strip():
                    raise StorageProblem(f"{item.path}: names that end with a space are not used with this service")
                if item.metadata.is_dir:
                    folders.add(item.path)
                else:
                    files[item.path] = self.make_entry(item.path, item.metadata)
                if len(files) + len(folders) > MAX_ENTRIES_WITHOUT_TASK:
                    raise NotSupported
        return FolderContent(files, sorted(folders, key=len))

    async def make_folders(self, keys: Sequence[str]) -> None:
        """Make folders of these keys."""
        with translate_errors():
            for key in keys:
                await self.quick.create_dir(key)

    async def remove_folders(self, path: TreePath) -> None:
        """Remove a folder without files and its folders. If there are files, raise EntryChanged and change nothing."""
        content = await self.list_below(path)
        if content.files:
            raise EntryChanged
        with translate_errors():
            for key in reversed(content.folders):
                await self.quick.delete(key)


class CopyingCloud(WritableCloud):
    """A service that copies files. Folders of at most MAX_ENTRIES_WITHOUT_TASK entries are copied file by file."""

    capabilities = replace(WritableCloud.capabilities, copy=True)

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        await self.copy_all(path, target, overwrite)

    async def copy_all(self, path: TreePath, target: TreePath, overwrite: bool) -> Mapping[str, Entry]:
        """Copy a file or folder; return the copied files by their keys."""
        entry = await self.check_target(path, target, overwrite)
        if not entry.is_dir:
            key = self.get_key(path)
            await self._copy_file(key, self.get_key(target))
            return {key: entry}
        content = await self.list_below(path)
        old, new = self.get_prefix(path), self.get_prefix(target)
        pairs = [(key, new + key.removeprefix(old)) for key in content.files]
        try:
            await self.make_folders([new + key.removeprefix(old) for key in content.folders])
            await gather_bounded([partial(self._copy_file, *pair) for pair in pairs], REQUEST_CONCURRENCY)
        except BaseException:
            with suppress(StorageProblem):  # the first failure is the one to raise
                await finish_despite_cancel(self._remove_copies([key for _, key in pairs], target))
            raise
        return content.files

    async def _copy_file(self, key: str, target: str) -> None:
        with translate_errors():
            await self.patient.copy(key, target)

    async def _remove_copies(self, keys: Sequence[str], folder: TreePath) -> None:
        """Remove copied files, and their folders unless other files are in them."""
        with translate_errors():
            for key in keys:
                await self.quick.delete(key)
        await self.remove_folders(folder)


class ObjectStore(CopyingCloud):
    """A service without folders: a folder exists while there is a file below it, or an empty object with its name."""

    capabilities = replace(CopyingCloud.capabilities, rename=True, move=True)
    deletes_if_match: ClassVar[bool] = False
    """True if a removal accepts the validator as its condition."""

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        """Copy files, then remove them. If a file changes while it is copied, keep it and raise EntryChanged."""
        if path == target:
            return
        copied = await self.copy_all(path, target, overwrite)
        is_folder = self.get_key(path) not in copied
        try:
            await gather_bounded([partial(self._remove_copied, *item) for item in copied.items()], REQUEST_CONCURRENCY)
            if is_folder:
                await self.remove_folders(path)
        finally:
            await self.keep_folder(path.parent)

    async def _remove_copied(self, key: str, copied: Entry) -> None:
        try:
            refuse_changed(await self.stat(TreePath(key)), copied)
            with translate_errors():
                await self.quick.delete(key, **self.make_condition(copied))
        except EntryNotFound:
            return
        except EntryChanged as problem:
            raise problem.with_prefix(key) from None

    def make_condition(self, entry: Entry) -> dict[str, Any]:
        """Return the condition that a file is unchanged for its removal, if the service supports that."""
        return {"if_match": f'"{entry.etag}"'} if self.deletes_if_match and entry.etag else {}

    async def keep_folder(self, path: TreePath) -> None:
        if path == "/":
            return
        prefix = self.get_prefix(path)
        with translate_errors():
            async for _ in await self.quick.list(prefix, limit=1):
                return
            await self.quick.create_dir(prefix)


class Drive(CopyingCloud):
    """A service with folders that renames files.

    A folder of at most MAX_ENTRIES_WITHOUT_TASK entries is moved file by file.
    """

    capabilities = replace(CopyingCloud.capabilities, rename=True, move=True)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        if path == target:
            return
        entry = await self.check_target(path, target, overwrite)
        if not entry.is_dir:
            await self._move_file(self.get_key(path), self.get_key(target))
            return
        content = await self.list_below(path)
        old, new = self.get_prefix(path), self.get_prefix(target)
        await self.make_folders([new + key.removeprefix(old) for key in content.folders])
        works = [partial(self._move_file, key, new + key.removeprefix(old)) for key in content.files]
        await gather_bounded(works, REQUEST_CONCURRENCY)
        await self.remove_folders(path)

    async def _move_file(self, key: str, target: str) -> None:
        with translate_errors():
            await self.quick.rename(key, target)


class LinkingCloud(Cloud):
    """A service that accepts addresses signed with the key of the storage."""

    capabilities = replace(Cloud.capabilities, link=True)
    names_downloads: ClassVar[bool] = False
    """True if a signed address contains the name under which a browser saves the file."""

    def has_link(self, key: str) -> bool:
        """True if opendal signs the address of a file of this name correctly."""
        return True

    async def link(self, path: TreePath) -> Link:
        key, hours = self.get_key(path), getattr(self.options, "sign_url_expire", 0)
        seconds = min((hours if hours > 0 else DEFAULT_LINK_HOURS) * 3600, MAX_LINK_SECONDS)
        saved_as = format_content_disposition(path.name) if self.names_downloads else None
        if not self.has_link(key):
            raise NotSupported
        try:
            with translate_errors():
                signed = await self.quick.presign_read(key, seconds, content_disposition=saved_as)
        except StorageProblem:
            raise NotSupported from None  # nothing is sent: these options cannot sign
        if {name.lower() for name in signed.headers} - {"date", "host"}:
            raise NotSupported  # a browser would have to send more than the address
        return Link(signed.url, lifetime=float(seconds))
