"""The upload of many small files: each is allowed or refused by itself, and a storage stores its files in one call.

A storage that has no such call, or needs a lock for each name, stores them one by one.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mangrove.core.chunked import stream
from mangrove.core.concurrency import gather_bounded
from mangrove.core.problems import Problem, StorageProblem
from mangrove.drivers.base import Driver, NewFile, Upload
from mangrove.tree.access import PathAccess
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import journal, uploads

FOLDER_CONCURRENCY = 8
SINGLE_WRITE_CONCURRENCY = 32  # which a storage may flush together


@dataclass(frozen=True, slots=True)
class SmallUpload:
    """A file whose bytes are in memory. `hashes` as for `uploads.write`."""

    access: PathAccess
    content: bytes
    upload: Upload
    hashes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Allowed:
    """An upload that the caller may make, and its path."""

    small: SmallUpload
    access: PathAccess
    storage_path: StoragePath
    overwrite: bool

    def describe(self) -> NewFile:
        upload = replace(self.small.upload, overwrite=self.overwrite, durable=self.access.tree.settings.is_durable)
        return NewFile(self.storage_path.path, self.small.content, upload)


async def write(files: Sequence[SmallUpload], *, overwrite: bool) -> list[Problem | None]:
    """Store files as `uploads.write` does. Return the problem of each, or None."""
    batch = _Batch(files, overwrite)
    await batch.allow()
    await batch.write()
    return batch.problems


class _Batch:
    """Files on their way. A file with a problem is left out of the next step."""

    def __init__(self, files: Sequence[SmallUpload], overwrite: bool) -> None:
        self.problems: list[Problem | None] = [None] * len(files)
        self._files = files
        self._overwrite = overwrite
        self._alone: list[int] = []
        self._together: dict[int, _Allowed] = {}

    async def allow(self) -> None:
        """Check each file, and choose how it is stored."""
        for index, file in enumerate(self._files):
            try:
                access, storage_path = await uploads.allow(file.access)
                driver = storage_path.driver
                if not driver.capabilities.write_whole or not await driver.can_refuse_existing():
                    self._alone.append(index)
                    continue
            except Problem as problem:
                self.problems[index] = problem
                continue
            may_replace = self._overwrite and access.parent.may_replace(access)
            self._together[index] = _Allowed(file, access, storage_path, may_replace)

    async def write(self) -> None:
        """Store all files that are allowed."""
        await self._make_folders()
        await self._verify()
        drivers: dict[Driver, list[int]] = defaultdict(list)
        for index in self._select():
            drivers[self._together[index].storage_path.driver].append(index)
        for driver, indexes in drivers.items():
            await self._write_together(driver, indexes)
        await gather_bounded([partial(self._write_alone, index) for index in self._alone], SINGLE_WRITE_CONCURRENCY)

    def _select(self) -> list[int]:
        return [index for index in self._together if self.problems[index] is None]

    async def _make_folders(self) -> None:
        folders: dict[StoragePath, list[int]] = defaultdict(list)
        for index, allowed in self._together.items():
            folders[allowed.storage_path.parent].append(index)
        await gather_bounded([partial(self._make_folder, *folder) for folder in folders.items()], FOLDER_CONCURRENCY)

    async def _make_folder(self, folder: StoragePath, indexes: Sequence[int]) -> None:
        try:
            await uploads.make_folder(self._together[indexes[0]].access.parent, folder)
        except Problem as problem:
            for index in indexes:
                self.problems[index] = problem

    async def _verify(self) -> None:
        indexes = self._select()
        small = [self._together[index].small for index in indexes]
        for index, problem in zip(indexes, await asyncio.to_thread(_find_mismatches, small), strict=True):
            self.problems[index] = problem

    async def _write_together(self, driver: Driver, indexes: Sequence[int]) -> None:
        files = [self._together[index] for index in indexes]
        try:
            async with journal.add_many([file.storage_path for file in files]) as change:
                results = await driver.write_whole([file.describe() for file in files])
                change.set_entries([None if isinstance(result, StorageProblem) else result for result in results])
        except Problem as problem:
            for index in indexes:
                self.problems[index] = problem
            return
        for index, file, result in zip(indexes, files, results, strict=True):
            if isinstance(result, StorageProblem):
                self.problems[index] = uploads.explain_failure(result, file.access, file.overwrite)

    async def _write_alone(self, index: int) -> None:
        file = self._files[index]
        try:
            await uploads.write(
                file.access, stream(file.content), file.upload, overwrite=self._overwrite, hashes=file.hashes
            )
        except Problem as problem:
            self.problems[index] = problem


def _find_mismatches(files: Sequence[SmallUpload]) -> list[Problem | None]:
    """Return for each file the problem of a hash that does not match, or None."""
    return [
        next(
            (
                uploads.make_mismatch(kind)
                for kind, expected in file.hashes.items()
                if hashlib.new(kind, file.content).hexdigest() != expected.lower()
            ),
            None,
        )
        for file in files
    ]
