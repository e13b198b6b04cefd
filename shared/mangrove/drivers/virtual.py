"""Virtual: folders of random files, to try the service with. Changes affect the random listing only."""

from __future__ import annotations

import asyncio
import os
import random
import string
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence

from mangrove.drivers.base import BLOCK, Driver, DriverConfig, DriverContext, Entry, Options, Upload, option
from mangrove.paths import TreePath
from mangrove.problems import BadRequest, NotAFile, NotAFolder, NotFound

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
    config = DriverConfig(only_proxy=True, need_ms=True)
    options: VirtualOptions

    def __init__(self, options: VirtualOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        self._folders: OrderedDict[str, dict[str, Entry]] = OrderedDict()

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
        yield [*self._get_folder(path).values()]

    async def stat(self, path: TreePath) -> Entry:
        found = Entry("", 0, self.context.modified, True)
        for step in reversed(path.ancestors()[:-1]):
            below = self._get_folder(step.parent).get(step.name) if found.is_dir else None
            if below is None:
                raise NotFound
            found = below
        return found

    async def read(self, path: TreePath, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        entry = await self.stat(path)
        if entry.is_dir:
            raise NotAFile
        left = max((entry.size or 0) - offset, 0)
        return _generate_bytes(left if length is None else min(length, left))

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        size = 0
        async for chunk in body:
            size += len(chunk)
        if upload.size is not None and size != upload.size:
            raise BadRequest(f"the body has {size} bytes instead of the announced {upload.size}")
        entry = Entry(path.name, size, upload.modified, False)
        self._get_folder(path.parent)[path.name] = entry
        return entry

    async def makedirs(self, path: TreePath) -> None:
        for step in reversed(path.ancestors()[:-1]):
            folder = self._get_folder(step.parent)
            if step.name not in folder:
                folder[step.name] = Entry(step.name, 0, time.time(), True)
                self._folders[step] = {}

    async def rename(self, path: TreePath, target: TreePath) -> None:
        await self.move(path, target)

    async def move(self, path: TreePath, target: TreePath) -> None:
        await self.copy(path, target)
        await self.remove(path)

    async def copy(self, path: TreePath, target: TreePath) -> None:
        entry = await self.stat(path)
        if entry.is_dir:
            self._folders[target] = dict(self._get_folder(path))
        self._get_folder(target.parent)[target.name] = entry._replace(name=target.name)

    async def remove(self, path: TreePath) -> None:
        self._get_folder(path.parent).pop(path.name, None)
        self._folders.pop(path, None)


def _make_name() -> str:
    return "".join(random.choices(string.ascii_letters, k=10))


def _clamp_count(number: int) -> int:
    return min(max(number, 0), MOST)


async def _generate_bytes(left: int) -> AsyncIterator[bytes]:
    while left > 0:
        yield os.urandom(min(left, BLOCK))
        left -= BLOCK
        await asyncio.sleep(0)
