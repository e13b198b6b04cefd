"""Alias: folders of other storages under new names, several of one name merged into one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from mangrove.core.chunked import in_batches
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, NotSupported, StorageForbidden, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.alias import reading, writing
from mangrove.drivers.alias.options import AliasOptions, find_folders, find_sources, index_folders, parse
from mangrove.drivers.base import (
    Capabilities,
    Capacity,
    Driver,
    DriverContext,
    DriverProperties,
    Entry,
    Link,
    PageSource,
    Upload,
)
from mangrove.drivers.context import limit_redirects


@dataclass(frozen=True, slots=True)
class Location:
    """A path of the alias in one of the storages behind it.

    `source`: the index of the folder among those of its name.
    """

    source: int
    driver: Driver
    path: TreePath


class Alias(Driver):
    name = "Alias"
    maps_names = True
    Options = AliasOptions
    config = DriverProperties(no_cache=True, proxy_range=True, default_root="/", direct_lookup=True)
    capabilities = Capabilities(
        write=True, makedirs=True, rename=True, move=True, copy=True, remove=True, remove_empty=True, link=True,
        make_thumbnail=True, find_others=True, identify=True, get_space=True,
    )  # fmt: skip
    options: AliasOptions

    def __init__(self, options: AliasOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        self._sources: dict[str, list[TreePath]] = {}
        self._range_plan = reading.make_plan(
            options.download_concurrency, options.download_part_size, context.proxy_range
        )

    async def start(self) -> None:
        self._sources = await asyncio.to_thread(self._read_sources)  # there may be very many

    def _read_sources(self) -> dict[str, list[TreePath]]:
        sources = parse(self.options.paths)
        if not sources:
            raise StorageProblem("paths is required")
        for path in (path for paths in sources.values() for path in paths):
            here = self.context.mount_path
            if path == here or (here != "/" and path.within(here)):
                raise StorageProblem(f"{path} lies in the alias itself")
        return sources

    @property
    def _is_flat(self) -> bool:
        """True if there is only one name; its content is then that of the root."""
        return len(self._sources) == 1

    def _find_folders(self, path: TreePath) -> Sequence[TreePath]:
        """Return the targets as `find_folders`, from the sources at the start."""
        if not self._sources:
            raise StorageProblem("storage not init")
        return find_folders(self._sources, path)

    async def _find_locations(self, path: TreePath) -> list[Location]:
        """Return every mounted storage that may have `path`, in the order of the lines."""
        assert self.context.resolver is not None
        locations: list[Location] = []
        problem: StorageProblem = EntryNotFound()
        for index, folder in enumerate(self._find_folders(path)):
            try:
                locations.append(Location(index, *await self.context.resolver.resolve(folder)))
            except StorageProblem as reason:
                problem = reason
        if not locations:
            raise problem
        return locations

    async def _find_existing(self, path: TreePath) -> list[tuple[Location, Entry]]:
        """Return the existing locations with their entries. Raise EntryNotFound if there is none."""
        existing: list[tuple[Location, Entry]] = []
        problem: StorageProblem = EntryNotFound()
        with limit_redirects():
            for location in await self._find_locations(path):
                try:
                    existing.append((location, await location.driver.stat(location.path)))
                except EntryNotFound:
                    pass
                except StorageProblem as reason:
                    problem = reason
        if not existing:
            raise problem
        return existing

    async def identify(self, path: TreePath) -> set[str]:
        existing = [location for location, _ in await self._find_existing(path)]
        with limit_redirects():
            known = [
                await location.driver.identify(location.path)
                for location in existing
                if location.driver.capabilities.identify
            ]
        return {name for names in known for name in names}

    def find_others(self, path: TreePath) -> Sequence[TreePath]:
        return self._find_folders(path)

    def find_sources(self, target: TreePath, *, below: bool = False) -> Sequence[TreePath]:
        return find_sources(index_folders(self._sources), target, below)

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        assert self.context.resolver is not None
        folders = self._find_folders(path)
        if not folders:
            yield [Entry(name, 0, self.context.modified, True) for name in self._sources]
            return
        union: dict[str, Entry] = {}
        problem: StorageProblem | None = EntryNotFound()
        for folder in folders:
            try:
                for entry in await self._list_folder(folder):
                    union.setdefault(entry.name, entry)
                problem = None
            except StorageProblem as reason:
                problem = problem and reason
            for name in self.context.resolver.folders(folder):
                union.setdefault(name, Entry(name, 0, self.context.modified, True))
        if problem is not None and not union:
            raise problem
        async for batch in in_batches([*union.values()]):
            yield batch

    async def _list_folder(self, folder: TreePath) -> Sequence[Entry]:
        assert self.context.resolver is not None
        with limit_redirects():
            driver, inner = await self.context.resolver.resolve(folder)
            return [self._add_provider(entry, driver) for entry in await base.list_all(driver, inner)]

    def _add_provider(self, entry: Entry, driver: Driver) -> Entry:
        return entry._replace(provider=entry.provider or driver.name) if self.options.provider_pass_through else entry

    async def find_paged(self, path: TreePath) -> PageSource | None:
        """Return the folder that this one leads to, if it is a single one without other mounts in it."""
        assert self.context.resolver is not None
        try:
            folders = self._find_folders(path)
            if len(folders) != 1 or self.context.resolver.folders(folders[0]):
                return None
            with limit_redirects():
                driver, inner = await self.context.resolver.resolve(folders[0])
                return await driver.find_paged(inner)
        except StorageProblem:
            return None  # a listing reports the reason

    async def stat(self, path: TreePath) -> Entry:
        if path == "/" or (not self._is_flat and path.parent == "/" and path.name in self._sources):
            return Entry(path.name, 0, self.context.modified, True)
        try:
            location, entry = (await self._find_existing(path))[0]
        except EntryNotFound:
            assert self.context.resolver is not None
            if any(folder.name in self.context.resolver.folders(folder.parent) for folder in self._find_folders(path)):
                return Entry(path.name, 0, self.context.modified, True)
            raise
        return self._add_provider(entry._replace(name=path.name), location.driver)

    async def _choose_source(self, path: TreePath) -> Location:
        """Return the location from which a file is read, by the read policy."""
        candidates = await self._find_existing(path)
        if self.options.file_consistency_check:
            candidates = [candidate for candidate in candidates if candidate[1].size == candidates[0][1].size]
        chosen = random.choice(candidates) if self.options.read_conflict_policy in ("random", "all") else candidates[0]
        return chosen[0]

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        location = await self._choose_source(path)
        with limit_redirects():
            if self._range_plan is not None and if_match is not None and if_match.size is not None:
                return await reading.read(location.driver, location.path, offset, length, if_match, self._range_plan)
            return await location.driver.read(location.path, offset, length, if_match)

    async def link(self, path: TreePath) -> Link:
        location = await self._choose_source(path)
        with limit_redirects():
            return await location.driver.link(location.path)

    async def make_thumbnail(self, path: TreePath) -> tuple[bytes, str]:
        location = await self._choose_source(path)
        return await location.driver.make_thumbnail(location.path)

    async def get_space(self) -> Capacity:
        if not self.options.details_pass_through:
            raise NotSupported
        location = (await self._find_locations(TreePath("/")))[0]
        return await location.driver.get_space()

    async def can_refuse_existing(self) -> bool:
        """True if each name leads to one folder: several would refuse separately."""
        if any(len(folders) > 1 for folders in self._sources.values()):
            return False
        return await self._ask_all(lambda driver: driver.can_refuse_existing())

    async def proves_writes(self) -> bool:
        return await self._ask_all(lambda driver: driver.proves_writes())

    async def _ask_all(self, question: Callable[[Driver], Awaitable[bool]]) -> bool:
        """True if all storages behind this guarantee it; False if one does not run or others are mounted below."""
        assert self.context.resolver is not None
        folders = [folder for folders in self._sources.values() for folder in folders]
        if any(self.context.resolver.folders(folder) for folder in folders):
            return False
        try:
            with limit_redirects():
                drivers = [(await self.context.resolver.resolve(folder))[0] for folder in folders]
                return all([await question(driver) for driver in drivers])
        except StorageProblem:
            return False

    def _is_locked(self, path: TreePath) -> bool:
        """True for the root and the names in it, which only the options can change."""
        return path == "/" or (not self._is_flat and path.parent == "/")

    async def _choose_targets(self, path: TreePath, policy: str) -> Sequence[Location]:
        """Return the locations of `path` that a change affects, by a write policy."""
        if policy in ("", "disabled"):
            raise StorageForbidden
        locations = [location for location, _ in await self._find_existing(path)]
        complete = len(locations) == len(self._find_folders(path))
        if policy == "deterministic" and len(locations) > 1:
            raise StorageProblem("path conflict")
        if policy == "all_strict" and not complete:
            raise StorageProblem("leak some of same-name dirs")
        if policy == "deterministic_or_all" and len(locations) > 1 and not complete:
            raise StorageProblem("leak some of same-name dirs")
        if policy == "random":
            return [random.choice(locations)]
        if policy in ("quota", "quota_strict"):
            return [
                locations[
                    await writing.choose_by_free_space(
                        [candidate.driver for candidate in locations], policy == "quota_strict"
                    )
                ]
            ]
        return locations[:1] if policy == "first" else locations

    async def makedirs(self, path: TreePath) -> None:
        if path == "/":
            return
        if self._is_locked(path):
            raise StorageForbidden
        parent = path.parent
        while not self._is_locked(parent) and not await self._exists(parent):
            parent = parent.parent
        rest = path.below(parent)
        for location in await self._choose_targets(parent, self.options.write_conflict_policy):
            await location.driver.makedirs(location.path / rest)

    async def _exists(self, path: TreePath) -> bool:
        try:
            await self._find_existing(path)
        except EntryNotFound:
            return False
        return True

    async def _check_free(self, path: TreePath, overwrite: bool) -> None:
        """Raise EntryExists if one of the storages has the entry, unless it may be replaced. Then none is changed."""
        if not overwrite and await self._exists(path):
            raise EntryExists

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        if self._is_locked(path):
            raise StorageForbidden
        await self._check_free(target, overwrite)
        for location in await self._choose_targets(path, self.options.write_conflict_policy):
            await location.driver.rename(location.path, location.path.parent / target.name, overwrite=overwrite)

    async def remove(self, path: TreePath) -> None:
        for location in await self._choose_for_removal(path):
            await location.driver.remove(location.path)

    async def discard(self, path: TreePath) -> None:
        for location in await self._choose_for_removal(path):
            await location.driver.discard(location.path)

    async def _choose_for_removal(self, path: TreePath) -> Sequence[Location]:
        if self._is_locked(path):
            raise StorageForbidden
        try:
            return await self._choose_targets(path, self.options.write_conflict_policy)
        except EntryNotFound:
            return ()

    async def remove_empty(self, path: TreePath) -> bool:
        if self._is_locked(path):
            return False
        gone = [
            location.driver.capabilities.remove_empty and await location.driver.remove_empty(location.path)
            for location in await self._choose_targets(path, self.options.write_conflict_policy)
        ]
        return all(gone) and not await self._exists(path)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        await self._check_free(target, overwrite)
        for location, folder in await self._pair_with_targets(path, target.parent):
            await location.driver.move(location.path, folder.path / target.name, overwrite=overwrite)

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        await self._check_free(target, overwrite)
        for location, folder in await self._pair_with_targets(path, target.parent):
            new = folder.path / target.name
            await location.driver.copy(location.path, new, overwrite=overwrite, durable=durable)

    async def _pair_with_targets(self, path: TreePath, folder: TreePath) -> Sequence[tuple[Location, Location]]:
        """Yield each location of `path` with the location of `folder` in the same source folder.

        Raise NotSupported if they do not match one to one, each pair in one storage: that requires a task.
        """
        if self._is_locked(path):
            raise StorageForbidden
        chosen = await self._choose_targets(folder, self.options.put_conflict_policy)
        targets = {location.source: location for location in chosen}
        sources = [location for location, _ in await self._find_existing(path)]
        pairs = [(location, targets[location.source]) for location in sources if location.source in targets]
        if not len(pairs) == len(sources) == len(targets) or any(
            source.driver is not other.driver for source, other in pairs
        ):
            raise NotSupported
        return pairs

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        locations = await self._choose_targets(path.parent, self.options.put_conflict_policy)
        if not upload.overwrite:
            body = self._check_at_end(body, path)
        targets: list[tuple[Driver, TreePath]] = []
        for location in locations:
            if not location.driver.capabilities.write:
                raise NotSupported
            targets.append((location.driver, location.path / path.name))
        if len(targets) == 1:
            driver, inner = targets[0]
            return await driver.write(inner, body, upload)
        return await writing.write_all(targets, body, upload)

    async def _check_at_end(self, body: AsyncIterator[bytes], path: TreePath) -> AsyncIterator[bytes]:
        """Yield the body.

        Raise EntryExists at its end if one of the storages has the name then, so that none stores it.
        """
        async for chunk in body:
            yield chunk
        await self._check_free(path, overwrite=False)
