"""A storage that cannot refuse a taken name by itself: it looks, and acts later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound
from mangrove.drivers.base import ROOT, Capabilities, Driver, DriverContext, DriverProperties, Entry, Upload
from mangrove.drivers.options import Options
from tests.unit.tree.environment import stream

STEP = 0.002  # seconds between a look and the change


class CheckingDriver(Driver):
    """Files in memory by path; None stands for a folder. `refuses`: what `can_refuse_existing` answers."""

    name = "Checking"
    Options = Options
    config = DriverProperties(no_cache=True, direct_lookup=True)
    capabilities = Capabilities(write=True, makedirs=True, rename=True, move=True, copy=True)

    def __init__(self, *folders: str, refuses: bool = False) -> None:
        super().__init__(Options(), DriverContext())
        self.files: dict[TreePath, bytes | None] = {ROOT: None, **{TreePath(folder): None for folder in folders}}
        self.refuses = refuses
        self.durable: list[bool] = []  # what the writes and copies were asked for

    async def can_refuse_existing(self) -> bool:
        return self.refuses

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        yield [
            self._make_entry(file_path) for file_path in self.files if file_path.parent == path and file_path != ROOT
        ]

    def _make_entry(self, path: TreePath) -> Entry:
        content = self.files[path]
        return Entry(path.name, len(content or b""), 1.0, content is None)

    async def stat(self, path: TreePath) -> Entry:
        await asyncio.sleep(0)
        if path not in self.files:
            raise EntryNotFound
        return self._make_entry(path)

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        return stream(self.files[path] or b"")

    async def _check(self, path: TreePath, overwrite: bool) -> None:
        if path in self.files and not (overwrite and self.files[path] is not None):
            raise EntryExists
        await asyncio.sleep(STEP)

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        self.durable.append(upload.durable)
        content = b"".join([chunk async for chunk in body])
        await self._check(path, upload.overwrite)
        self.files[path] = content
        return self._make_entry(path)

    async def makedirs(self, path: TreePath) -> None:
        for step in reversed(path.ancestors()):
            if self.files.get(step) is not None:
                raise EntryExists
            await asyncio.sleep(STEP)
            self.files[step] = None

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        await self.copy(path, target, overwrite=overwrite)
        for old in [file_path for file_path in self.files if file_path.within(path)]:
            del self.files[old]

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        await self.rename(path, target, overwrite=overwrite)

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        self.durable.append(durable)
        if path not in self.files:
            raise EntryNotFound
        await self._check(target, overwrite)
        for old in [file_path for file_path in self.files if file_path.within(path)]:
            await asyncio.sleep(STEP)
            self.files[target / old.below(path)] = self.files[old]
