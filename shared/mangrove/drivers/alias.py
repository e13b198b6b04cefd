"""Alias: folders of other storages under new names, several of one name merged into one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from mangrove.drivers import base
from mangrove.drivers.base import (
    Capacity,
    Copies,
    Driver,
    DriverConfig,
    DriverContext,
    Entry,
    Link,
    MakesDirectories,
    Moves,
    Options,
    Removes,
    RemovesEmpty,
    Renames,
    Space,
    Upload,
    Writes,
    option,
)
from mangrove.paths import TreePath
from mangrove.problems import Forbidden, NotFound, NotSupported, Problem, StorageProblem

DEEPEST = 8  # aliases of aliases
WAITING = 4  # chunks of a body that the slowest of several targets may lag behind

Write = Literal["", "disabled", "first", "deterministic", "deterministic_or_all", "all", "all_strict"]
Put = Literal[
    "", "disabled", "first", "deterministic", "deterministic_or_all", "all", "all_strict", "random", "quota",
    "quota_strict",
]  # fmt: skip


class AliasOptions(Options):
    paths: str = option(required=True, type="text")
    read_conflict_policy: Literal["", "first", "random", "all"] = option("first")
    write_conflict_policy: Write = option(
        "disabled", help="Which of several folders of one name a rename, remove or new folder goes to"
    )
    put_conflict_policy: Put = option(
        "disabled", help="Which of several folders of one name an upload, copy, move or decompression goes to"
    )
    file_consistency_check: bool = option(False)
    download_concurrency: int = option(0, help="Need to enable proxy")
    download_part_size: int = option(0, help="Need to enable proxy. Unit: KB")
    provider_pass_through: bool = option(False)
    details_pass_through: bool = option(False)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path of the alias may really be. `source` tells the folders of one name apart."""

    source: int
    driver: Driver
    inner: TreePath


_depth: ContextVar[int] = ContextVar("depth", default=0)


@contextmanager
def _deeper() -> Iterator[None]:
    depth = _depth.get()
    if depth >= DEEPEST:
        raise StorageProblem("the aliases lead in a circle")
    token = _depth.set(depth + 1)
    try:
        yield
    finally:
        _depth.reset(token)


def parse(text: str) -> dict[str, list[TreePath]]:
    """Name → folders, of lines `name:/path` or `/path`; a colon counts only before the first slash."""
    found: dict[str, list[TreePath]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, path = line.partition(":")
        if not colon or "/" in name:
            name, path = "", line
        target = TreePath(path)
        found.setdefault(name or target.name, []).append(target)
    return found


class Alias(Driver):
    name = "Alias"
    Options = AliasOptions
    config = DriverConfig(no_cache=True, proxy_range=True, default_root="/", direct_lookup=True)
    options: AliasOptions

    def __init__(self, options: AliasOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        self._sources: dict[str, list[TreePath]] = {}

    async def start(self) -> None:
        sources = parse(self.options.paths)
        if not sources:
            raise StorageProblem("paths is required")
        for path in (path for paths in sources.values() for path in paths):
            here = self.context.mount_path
            if path == here or (here != "/" and path.within(here)):
                raise StorageProblem(f"{path} lies in the alias itself")
        self._sources = sources

    @property
    def _flat(self) -> bool:
        """Whether there is one name only, so that its content is the root."""
        return len(self._sources) == 1

    def _folders(self, path: TreePath) -> list[TreePath]:
        """The tree paths that `path` stands for; NotFound for a name that is none, empty for the list of names."""
        if not self._sources:
            raise StorageProblem("storage not init")
        if self._flat:
            return [source / path for source in next(iter(self._sources.values()))]
        if path == "/":
            return []
        first, _, rest = path[1:].partition("/")
        if first not in self._sources:
            raise NotFound
        return [source / rest for source in self._sources[first]]

    async def _places(self, path: TreePath) -> list[Place]:
        """Every storage that may hold `path`, in the order of the lines; those that do not run are left out."""
        assert self.context.resolver is not None
        found: list[Place] = []
        problem: StorageProblem = NotFound()
        for index, folder in enumerate(self._folders(path)):
            try:
                found.append(Place(index, *await self.context.resolver.resolve(folder)))
            except StorageProblem as reason:
                problem = reason
        if not found:
            raise problem
        return found

    async def _existing(self, path: TreePath) -> list[tuple[Place, Entry]]:
        """The places where something stands; NotFound when there is none."""
        found: list[tuple[Place, Entry]] = []
        problem: StorageProblem = NotFound()
        with _deeper():
            for place in await self._places(path):
                try:
                    found.append((place, await place.driver.stat(place.inner)))
                except NotFound:
                    pass
                except StorageProblem as reason:
                    problem = reason
        if not found:
            raise problem
        return found

    async def identify(self, path: TreePath) -> set[str]:
        places = [place for place, _ in await self._existing(path)]
        with _deeper():
            known = [await one.driver.identify(one.inner) for one in places if isinstance(one.driver, base.SameFile)]
        return {name for names in known for name in names}

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        assert self.context.resolver is not None
        folders = self._folders(path)
        if not folders:
            yield [Entry(name, 0, self.context.modified, True) for name in self._sources]
            return
        union: dict[str, Entry] = {}
        problem: StorageProblem | None = NotFound()
        for folder in folders:
            try:
                for entry in await self._entries(folder):
                    union.setdefault(entry.name, entry)
                problem = None
            except StorageProblem as reason:
                problem = problem and reason
            for name in self.context.resolver.folders(folder):
                union.setdefault(name, Entry(name, 0, self.context.modified, True))
        if problem is not None and not union:
            raise problem
        yield [*union.values()]

    async def _entries(self, folder: TreePath) -> Sequence[Entry]:
        assert self.context.resolver is not None
        with _deeper():
            driver, inner = await self.context.resolver.resolve(folder)
            return [self._shown(entry, driver) for entry in await base.list_all(driver, inner)]

    def _shown(self, entry: Entry, driver: Driver) -> Entry:
        return entry._replace(provider=entry.provider or driver.name) if self.options.provider_pass_through else entry

    async def stat(self, path: TreePath) -> Entry:
        if path == "/" or (not self._flat and path.parent == "/" and path.name in self._sources):
            return Entry(path.name, 0, self.context.modified, True)
        try:
            place, entry = (await self._existing(path))[0]
        except NotFound:
            assert self.context.resolver is not None
            if any(folder.name in self.context.resolver.folders(folder.parent) for folder in self._folders(path)):
                return Entry(path.name, 0, self.context.modified, True)
            raise
        return self._shown(entry._replace(name=path.name), place.driver)

    async def _file(self, path: TreePath) -> Place:
        """The place a file is read from, by the read policy."""
        found = await self._existing(path)
        if self.options.file_consistency_check:
            found = [one for one in found if one[1].size == found[0][1].size]
        chosen = random.choice(found) if self.options.read_conflict_policy in ("random", "all") else found[0]
        return chosen[0]

    async def read(self, path: TreePath, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        place = await self._file(path)
        with _deeper():
            return await place.driver.read(place.inner, offset, length)

    async def link(self, path: TreePath) -> Link:
        place = await self._file(path)
        if not isinstance(place.driver, base.Links):
            raise NotSupported
        with _deeper():
            return await place.driver.link(place.inner)

    async def make_thumbnail(self, path: TreePath) -> tuple[bytes, str]:
        place = await self._file(path)
        if not isinstance(place.driver, base.MakesThumbnails):
            raise NotSupported
        return await place.driver.make_thumbnail(place.inner)

    async def get_space(self) -> Capacity:
        if not self.options.details_pass_through:
            raise NotSupported
        place = (await self._places(TreePath("/")))[0]
        if not isinstance(place.driver, Space):
            raise NotSupported
        return await place.driver.get_space()

    def _locked(self, path: TreePath) -> bool:
        """Whether this is the root or one of the names, which only the options change."""
        return path == "/" or (not self._flat and path.parent == "/")

    async def _chosen(self, path: TreePath, policy: str) -> Sequence[Place]:
        """Where a change of what stands at `path` goes, by a write policy."""
        if policy in ("", "disabled"):
            raise Forbidden
        found = [place for place, _ in await self._existing(path)]
        complete = len(found) == len(self._folders(path))
        if policy == "deterministic" and len(found) > 1:
            raise StorageProblem("path conflict")
        if policy == "all_strict" and not complete:
            raise StorageProblem("leak some of same-name dirs")
        if policy == "deterministic_or_all" and len(found) > 1 and not complete:
            raise StorageProblem("leak some of same-name dirs")
        if policy == "random":
            return [random.choice(found)]
        if policy in ("quota", "quota_strict"):
            return [await _roomiest(found, policy == "quota_strict")]
        return found[:1] if policy == "first" else found

    async def makedirs(self, path: TreePath) -> None:
        if self._locked(path):
            raise Forbidden
        parent = path.parent
        while not self._locked(parent) and not await self._is_there(parent):
            parent = parent.parent
        rest = path.below(parent)
        for place in await self._chosen(parent, self.options.write_conflict_policy):
            if not isinstance(place.driver, MakesDirectories):
                raise NotSupported
            await place.driver.makedirs(place.inner / rest)

    async def _is_there(self, path: TreePath) -> bool:
        try:
            await self._existing(path)
        except NotFound:
            return False
        return True

    async def rename(self, path: TreePath, target: TreePath) -> None:
        if self._locked(path):
            raise Forbidden
        for place in await self._chosen(path, self.options.write_conflict_policy):
            if not isinstance(place.driver, Renames):
                raise NotSupported
            await place.driver.rename(place.inner, place.inner.parent / target.name)

    async def remove(self, path: TreePath) -> None:
        if self._locked(path):
            raise Forbidden
        for place in await self._chosen(path, self.options.write_conflict_policy):
            if not isinstance(place.driver, Removes):
                raise NotSupported
            await place.driver.remove(place.inner)

    async def remove_empty(self, path: TreePath) -> bool:
        if self._locked(path):
            return False
        gone = [
            isinstance(place.driver, RemovesEmpty) and await place.driver.remove_empty(place.inner)
            for place in await self._chosen(path, self.options.write_conflict_policy)
        ]
        return all(gone) and not await self._is_there(path)

    async def move(self, path: TreePath, target: TreePath) -> None:
        def verb(driver: Driver) -> Callable[[TreePath, TreePath], Awaitable[None]]:
            if not isinstance(driver, Moves):
                raise NotSupported
            return driver.move

        await self._carry(path, target, verb)

    async def copy(self, path: TreePath, target: TreePath) -> None:
        def verb(driver: Driver) -> Callable[[TreePath, TreePath], Awaitable[None]]:
            if not isinstance(driver, Copies):
                raise NotSupported
            return driver.copy

        await self._carry(path, target, verb)

    async def _carry(
        self,
        path: TreePath,
        target: TreePath,
        verb: Callable[[Driver], Callable[[TreePath, TreePath], Awaitable[None]]],
    ) -> None:
        """Within each source folder by itself; NotSupported when that would leave one of them."""
        if self._locked(path):
            raise Forbidden
        into = {place.source: place for place in await self._chosen(target.parent, self.options.put_conflict_policy)}
        pairs = [(place, into.get(place.source)) for place, _ in await self._existing(path)]
        if len(into) != len(pairs) or any(there is None or there.driver is not place.driver for place, there in pairs):
            raise NotSupported
        for place, there in pairs:
            assert there is not None
            await verb(place.driver)(place.inner, there.inner / target.name)

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        places = await self._chosen(path.parent, self.options.put_conflict_policy)
        targets: list[tuple[Writes, TreePath]] = []
        for place in places:
            if not isinstance(place.driver, Writes):
                raise NotSupported
            targets.append((place.driver, place.inner / path.name))
        if len(targets) == 1:
            driver, inner = targets[0]
            return await driver.write(inner, body, upload)
        return await _write_all(targets, body, upload)


async def _roomiest(places: Sequence[Place], strict: bool) -> Place:
    """One of the places, the likelier the more bytes are free there."""
    free: list[int] = []
    for place in places:
        try:
            free.append((await place.driver.get_space()).free if isinstance(place.driver, Space) else 0)
        except Problem:
            free.append(0)
    if not any(free) or (strict and not all(free)):
        raise StorageProblem("none of same-name dirs has enough space")
    return random.choices(places, free)[0]


async def _write_all(targets: Sequence[tuple[Writes, TreePath]], body: AsyncIterator[bytes], upload: Upload) -> Entry:
    """One body into several storages at once; when one refuses it, the others let go of theirs."""
    queues: list[asyncio.Queue[bytes | None]] = [asyncio.Queue(WAITING) for _ in targets]

    async def feed() -> None:
        async for chunk in body:
            for queue in queues:
                await queue.put(chunk)
        for queue in queues:
            await queue.put(None)

    async def drain(queue: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
        while (chunk := await queue.get()) is not None:
            yield chunk

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(feed())
            writes = [
                group.create_task(driver.write(inner, drain(queue), upload))
                for (driver, inner), queue in zip(targets, queues, strict=True)
            ]
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
    return writes[0].result()
