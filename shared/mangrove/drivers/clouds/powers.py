"""What clouds can do beside being read, by kind: a service claims what its class has, and nothing else."""

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
from mangrove.drivers.clouds.adapter import Cloud
from mangrove.drivers.clouds.errors import translate_errors
from mangrove.drivers.clouds.writing import store
from mangrove.drivers.refusals import refuse_changed, refuse_existing, refuse_inside_itself

MOST = 1000  # entries of a folder that are copied or moved without a task
AT_ONCE = 8  # of them in flight
LONGEST_LINK = 7 * 24 * 3600  # seconds that a signature may be valid
USUAL_HOURS = 4


@dataclass(frozen=True, slots=True)
class Tree:
    """What a folder holds, however deep, by what opendal calls it; the folders with the folder itself, deepest last."""

    files: Mapping[str, Entry]
    folders: Sequence[str]


class WritableCloud(Cloud):
    """Files are written and removed, folders are made and removed."""

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
            raise StorageProblem("the folder, or what the storage is to show, does not exist") from None
        except StorageProblem as problem:
            raise problem if type(problem) is not StorageProblem else problem.with_prefix(path.name) from None
        try:
            return await self.stat(path)
        except EntryNotFound:
            raise StorageProblem(f"{path.name}: the service did not keep the file") from None

    async def makedirs(self, path: TreePath) -> None:
        prefix = self.get_prefix(path)
        for step in path.ancestors()[:-1]:
            if await self.is_file(step):
                raise EntryExists
        if path != "/":
            with translate_errors():
                await self.quick.create_dir(prefix)

    async def remove(self, path: TreePath) -> None:
        if path == "/":
            raise StorageForbidden("delete root folder is not allowed")
        try:
            found = await self.stat(path)
        except EntryNotFound:
            return
        if found.is_dir:
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
            except EntryNotFound:  # somebody else removes the same; what they have not come to yet is still there
                if not await self.is_folder(path):
                    return
        raise InUse

    async def remove_empty(self, path: TreePath) -> bool:
        if path == "/":
            return False
        prefix, is_there = self.get_prefix(path), False
        with translate_errors():
            async for found in await self.quick.list(prefix):
                is_there = True
                if found.path != prefix:
                    return False
        if not is_there and await self.is_file(path):
            return False
        with translate_errors():
            await self.quick.delete(prefix)
        await self.keep_folder(path.parent)
        return True

    async def keep_folder(self, path: TreePath) -> None:
        """Keep a folder whose last entry was removed; most services do so by themselves."""

    async def refuse_taken(self, path: TreePath, target: TreePath, overwrite: bool) -> Entry:
        """What is at `path` and may be copied or moved to `target`."""
        if "/" in (path, target):
            raise StorageForbidden("the root folder is not moved or copied")
        refuse_inside_itself(path, target)
        self.get_key(target)
        found = await self.stat(path)
        await refuse_existing(self.stat, target, but_files=overwrite and not found.is_dir)
        return found

    async def list_below(self, path: TreePath) -> Tree:
        """All that a folder holds; NotSupported for more than MOST entries."""
        prefix = self.get_prefix(path)
        files: dict[str, Entry] = {}
        folders = {prefix}
        with translate_errors():
            async for found in await self.quick.list(prefix, recursive=True):
                if found.path != found.path.strip():
                    raise StorageProblem(f"{found.path}: this service is not asked for names that end with a space")
                if found.metadata.is_dir:
                    folders.add(found.path)
                else:
                    files[found.path] = self.make_entry(found.path, found.metadata)
                if len(files) + len(folders) > MOST:
                    raise NotSupported
        return Tree(files, sorted(folders, key=len))

    async def make_folders(self, keys: Sequence[str]) -> None:
        with translate_errors():
            for key in keys:
                await self.quick.create_dir(key)

    async def remove_folders(self, path: TreePath) -> None:
        """Remove what is left of a folder whose files are gone; EntryChanged, and all stays, when there are new
        ones."""
        left = await self.list_below(path)
        if left.files:
            raise EntryChanged
        with translate_errors():
            for key in reversed(left.folders):
                await self.quick.delete(key)


class CopyingCloud(WritableCloud):
    """The service copies files by itself; folders of at most MOST entries are copied file by file."""

    capabilities = replace(WritableCloud.capabilities, copy=True)

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        await self.copy_all(path, target, overwrite)

    async def copy_all(self, path: TreePath, target: TreePath, overwrite: bool) -> Mapping[str, Entry]:
        """Copy a file or folder; the files that were copied, by what opendal calls them."""
        found = await self.refuse_taken(path, target, overwrite)
        if not found.is_dir:
            key = self.get_key(path)
            await self._copy_file(key, self.get_key(target))
            return {key: found}
        tree = await self.list_below(path)
        old, new = self.get_prefix(path), self.get_prefix(target)
        pairs = [(key, new + key.removeprefix(old)) for key in tree.files]
        try:
            await self.make_folders([new + key.removeprefix(old) for key in tree.folders])
            await gather_bounded([partial(self._copy_file, *pair) for pair in pairs], AT_ONCE)
        except BaseException:
            with suppress(StorageProblem):  # the failure that led here is the one to tell
                await finish_despite_cancel(self._drop([key for _, key in pairs], target))
            raise
        return tree.files

    async def _copy_file(self, key: str, target: str) -> None:
        with translate_errors():
            await self.patient.copy(key, target)

    async def _drop(self, keys: Sequence[str], folder: TreePath) -> None:
        """Remove files that were copied, and their folders if nothing else is in them."""
        with translate_errors():
            for key in keys:
                await self.quick.delete(key)
        await self.remove_folders(folder)


class ObjectStore(CopyingCloud):
    """A service without folders: one is there while something is below it, or an empty object of its name."""

    capabilities = replace(CopyingCloud.capabilities, rename=True, move=True)
    deletes_if_match: ClassVar[bool] = False
    """Whether a removal takes the validator as its condition."""

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        await self.move(path, target, overwrite=overwrite)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        """Copies, then removals; what changed while it was copied stays at the source: EntryChanged."""
        if path == target:
            return
        copied = await self.copy_all(path, target, overwrite)
        is_folder = self.get_key(path) not in copied
        try:
            await gather_bounded([partial(self._remove_copied, *one) for one in copied.items()], AT_ONCE)
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

    def make_condition(self, found: Entry) -> dict[str, Any]:
        """For a removal: that it is still this file, where the service looks at that."""
        return {"if_match": f'"{found.etag}"'} if self.deletes_if_match and found.etag else {}

    async def keep_folder(self, path: TreePath) -> None:
        if path == "/":
            return
        prefix = self.get_prefix(path)
        with translate_errors():
            async for _ in await self.quick.list(prefix, limit=1):
                return
            await self.quick.create_dir(prefix)


class Drive(CopyingCloud):
    """A service with folders that renames files; a folder of at most MOST entries is moved file by file."""

    capabilities = replace(CopyingCloud.capabilities, rename=True, move=True)

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        await self.move(path, target, overwrite=overwrite)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        if path == target:
            return
        found = await self.refuse_taken(path, target, overwrite)
        if not found.is_dir:
            await self._move_file(self.get_key(path), self.get_key(target))
            return
        tree = await self.list_below(path)
        old, new = self.get_prefix(path), self.get_prefix(target)
        await self.make_folders([new + key.removeprefix(old) for key in tree.folders])
        works = [partial(self._move_file, key, new + key.removeprefix(old)) for key in tree.files]
        await gather_bounded(works, AT_ONCE)
        await self.remove_folders(path)

    async def _move_file(self, key: str, target: str) -> None:
        with translate_errors():
            await self.quick.rename(key, target)


class LinkingCloud(Cloud):
    """The service takes addresses that are signed here, with the key of the storage."""

    capabilities = replace(Cloud.capabilities, link=True)
    names_downloads: ClassVar[bool] = False
    """Whether a signed address says under which name a browser saves the file."""

    def has_link(self, key: str) -> bool:
        """Whether opendal signs the address of a file of this name rightly."""
        return True

    async def link(self, path: TreePath) -> Link:
        key, hours = self.get_key(path), getattr(self.options, "sign_url_expire", 0)
        seconds = min((hours if hours > 0 else USUAL_HOURS) * 3600, LONGEST_LINK)
        saved_as = format_content_disposition(path.name) if self.names_downloads else None
        if not self.has_link(key):
            raise NotSupported
        try:
            with translate_errors():
                signed = await self.quick.presign_read(key, seconds, content_disposition=saved_as)
        except StorageProblem:
            raise NotSupported from None  # nothing is sent: these options are not fit to sign with
        if {name.lower() for name in signed.headers} - {"date", "host"}:
            raise NotSupported  # a browser would have to send more than the address
        return Link(signed.url, lifetime=float(seconds))
