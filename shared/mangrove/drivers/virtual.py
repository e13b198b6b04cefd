"""Virtual: folders of random files, to try the service with. Changes affect the random listing only."""

from __future__ import annotations

import asyncio
import os
import random
import string
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from mangrove.core.paths import TreePath
from mangrove.core.problems import Exists, Forbidden, NotAFile, NotAFolder, NotFound
from mangrove.core.slices import in_batches
from mangrove.drivers.base import BLOCK, Driver, DriverConfig, DriverContext, Entry, Upload
from mangrove.drivers.options import Options, option
from mangrove.drivers.refusals import refuse_inside_itself, refuse_other_size

KEPT = 256  # folders whose random content is kept
MOST = 10_000  # files and folders in one


class VirtualOptions(Options):
    root_folder_path: str = option("")
    num_file: int = option(30, required=True)
    num_folder: int = option(30, required=True)
    max_file_size: int = option(1073741824, required=True)
    min_file_size: int = option(1048576, required=True)


class Virtual(Driver):
    name = "Virtual"
    Options = VirtualOptions
    config = DriverConfig(only_proxy=True, need_ms=True, is_indexed=False)
    options: VirtualOptions

    def __init__(self, options: VirtualOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        self._folders: OrderedDict[TreePath, dict[str, Entry]] = OrderedDict()

    def _get_folder(self, path: TreePath) -> dict[str, Entry]:
        folder = self._folders.get(path)
        if folder is None:
            folder = self._folders[path] = {entry.name: entry for entry in self._make_entries()}
            while len(self._folders) > KEPT:
                self._folders.popitem(last=False)
        self._folders.move_to_end(path)
        return folder

    def _make_entries(self) -> Sequence[Entry]:
        now, options = time.time(), self.options
        low = max(options.min_file_size, 0)
        high = max(options.max_file_size, low)
        files, folders = _clamp_count(options.num_file), _clamp_count(options.num_folder)
        return [
            *(Entry(_make_name(), random.randint(low, high), now, False) for _ in range(files)),
            *(Entry(_make_name(), 0, now, True) for _ in range(folders)),
        ]

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        if path != "/" and not (await self.stat(path)).is_dir:
            raise NotAFolder
        async for batch in in_batches([*self._get_folder(path).values()]):
            yield batch

    async def stat(self, path: TreePath) -> Entry:
        found = Entry("", 0, self.context.modified, True)
        for step in reversed(path.ancestors()[:-1]):
            below = self._get_folder(step.parent).get(step.name) if found.is_dir else None
            if below is None:
                raise NotFound
            found = below
        return found

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        entry = await self.stat(path)
        if entry.is_dir:
            raise NotAFile
        left = max((entry.size or 0) - offset, 0)
        return _generate_bytes(left if length is None else min(length, left))

    async def can_refuse_existing(self) -> bool:
        return True  # between the look and the change nothing else runs

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        size = 0
        async for chunk in body:
            size += len(chunk)
        refuse_other_size(size, upload.size)
        entry = Entry(path.name, size, upload.modified, False)
        await self._add(path, entry, upload.overwrite)
        return entry

    async def _add(self, path: TreePath, entry: Entry, overwrite: bool) -> None:
        """Give an entry its name; Exists unless that is free or a file replaces a file."""
        if not (await self.stat(path.parent)).is_dir:
            raise NotAFolder
        folder = self._get_folder(path.parent)
        taken = folder.get(path.name)
        if path == "/" or (taken is not None and (taken.is_dir or entry.is_dir or not overwrite)):
            raise Exists
        folder[path.name] = entry._replace(name=path.name)

    async def makedirs(self, path: TreePath) -> None:
        for step in reversed(path.ancestors()[:-1]):
            found = self._get_folder(step.parent).get(step.name)
            if found is None:
                await self._add(step, Entry(step.name, 0, time.time(), True), False)
                self._folders[step] = {}
            elif not found.is_dir:
                raise Exists

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        await self.move(path, target, overwrite=overwrite)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        if path != target:
            await self.copy(path, target, overwrite=overwrite)
            await self.remove(path)

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        refuse_inside_itself(path, target)
        await self._add(target, await self.stat(path), overwrite)
        for below in [folder for folder in self._folders if folder.within(path)]:
            self._folders[target / below.below(path)] = dict(self._folders[below])

    async def remove(self, path: TreePath) -> None:
        if path == "/":
            raise Forbidden("delete root folder is not allowed")
        with suppress(NotFound):
            await self.stat(path)
            del self._get_folder(path.parent)[path.name]
        for below in [folder for folder in self._folders if folder.within(path)]:
            del self._folders[below]


def _make_name() -> str:
    return "".join(random.choices(string.ascii_letters, k=10))


def _clamp_count(number: int) -> int:
    return min(max(number, 0), MOST)


async def _generate_bytes(left: int) -> AsyncIterator[bytes]:
    while left > 0:
        yield os.urandom(min(left, BLOCK))
        left -= BLOCK
        await asyncio.sleep(0)
