"""Virtual: folders of generated files, for trying out the service.

The tree is derived from the storage's id and the path of each folder, so every process shows the same one. Changes
affect the listing only, and all processes share them.
"""

from __future__ import annotations

import asyncio
import os
import random
import string
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Literal

import orjson

from mangrove.core.chunked import in_batches
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, NotAFile, NotAFolder, StorageProblem
from mangrove.core.runtime import BoundedCache
from mangrove.drivers.base import BLOCK, Capabilities, Driver, DriverContext, DriverProperties, Entry, Upload
from mangrove.drivers.capabilities import NO_TRASH
from mangrove.drivers.refusals import refuse_inside_itself, refuse_other_size, refuse_root_removal
from mangrove.drivers.virtual.options import VirtualOptions

MAX_CACHED_FOLDERS = 256  # whose generated content is cached
MAX_ENTRIES = 10_000  # files, and as many folders, per folder
MAX_ATTEMPTS = 20  # to store a change while other processes store theirs
ROOT_SEED = "/"
MAX_STATE_BYTES = 128 << 10  # of all changes of one storage as JSON, about 3,000 of them

# [bytes, modified] for a file, [seed, modified] for a folder whose content is derived from `seed` ("": an empty one),
# False for a removed entry
Node = tuple[int, float] | tuple[str, float]
Stored = Node | Literal[False]


class Virtual(Driver):
    name = "Virtual"
    Options = VirtualOptions
    config = DriverProperties(only_proxy=True, need_ms=True, is_indexed=False, alert=NO_TRASH)
    capabilities = Capabilities(write=True, makedirs=True, rename=True, move=True, copy=True, remove=True)
    options: VirtualOptions

    def __init__(self, options: VirtualOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        self._derived: BoundedCache[str, Mapping[str, Node]] = BoundedCache(MAX_CACHED_FOLDERS)
        self._changing = asyncio.Lock()  # changes of this process conflict only with those of others

    async def _derive(self, seed: str) -> Mapping[str, Node]:
        """Return the generated content of a folder of this seed; nothing for ""."""
        folder = self._derived.get(seed)
        if folder is None:
            folder = await asyncio.to_thread(self._make_nodes, seed)
            self._derived.put(seed, folder)
        return folder

    def _make_nodes(self, seed: str) -> Mapping[str, Node]:
        if not seed:
            return {}
        options, source = self.options, random.Random(f"{self.context.storage_id}:{seed}")
        low = max(options.min_file_size, 0)
        high = max(options.max_file_size, low)
        names = [_make_name(source) for _ in range(_clamp_count(options.num_file))]
        folders = [_make_name(source) for _ in range(_clamp_count(options.num_folder))]
        modified = self.context.modified
        nodes: dict[str, Node] = {name: (source.randint(low, high), modified) for name in names}
        return nodes | {name: (_make_seed(seed, name), modified) for name in folders}

    async def _find(self, changes: Changes, path: TreePath) -> Node:
        """Return the node at a path. Raise EntryNotFound."""
        node: Node = (ROOT_SEED, self.context.modified)
        for step in reversed(path.ancestors()[:-1]):
            changed = changes.get(step)
            seed = node[0]
            below = (await self._derive(seed)).get(step.name) if changed is None and isinstance(seed, str) else changed
            if not below:
                raise EntryNotFound
            node = below
        return node

    async def _find_folder(self, changes: Changes, path: TreePath) -> str:
        """Return the seed of a folder. Raise EntryNotFound or NotAFolder."""
        seed, _ = await self._find(changes, path)
        if not isinstance(seed, str):
            raise NotAFolder
        return seed

    async def _read_changes(self) -> Changes:
        return Changes(await self.context.state.read())

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        changes = await self._read_changes()
        nodes = {**await self._derive(await self._find_folder(changes, path)), **changes.list_in(path)}
        async for batch in in_batches([(name, node) for name, node in nodes.items() if node]):
            yield [_make_entry(name, node) for name, node in batch]

    async def stat(self, path: TreePath) -> Entry:
        return _make_entry(path.name, await self._find(await self._read_changes(), path))

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        entry = await self.stat(path)
        if entry.is_dir:
            raise NotAFile
        left = max((entry.size or 0) - offset, 0)
        return _generate_bytes(left if length is None else min(length, left))

    async def can_refuse_existing(self) -> bool:
        return True  # if another process has changed the tree meanwhile, this change is not stored

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        size = 0
        async for chunk in body:
            size += len(chunk)
        refuse_other_size(size, upload.size)
        await self._change(lambda change: change.put(path, (size, upload.modified), upload.overwrite))
        return Entry(path.name, size, upload.modified, False)

    async def makedirs(self, path: TreePath) -> None:
        await self._change(lambda change: change.make_folders(path))

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        if path == target:
            return
        refuse_inside_itself(path, target)

        async def move(change: _Change) -> None:
            await change.copy(path, target, overwrite)
            await change.remove(path)

        await self._change(move)

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        refuse_inside_itself(path, target)
        await self._change(lambda change: change.copy(path, target, overwrite))

    async def remove(self, path: TreePath) -> None:
        refuse_root_removal(path)
        await self._change(lambda change: change.remove(path))

    async def _change(self, apply: Callable[[_Change], Awaitable[None]]) -> None:
        """Apply a change to the newest state and store it; repeat if another process was faster."""
        async with self._changing:
            for attempt in range(MAX_ATTEMPTS):
                text = await self.context.state.read()
                changes = Changes(text)
                await apply(_Change(self, changes))
                new = changes.format()
                if new == text or await self.context.state.replace(text, new):
                    return
                await asyncio.sleep(random.random() * 0.01 * (attempt + 1))
        raise StorageProblem("too many others change this storage: try again")


class _Change:
    """Make one change of the tree, based on the changes that were read."""

    def __init__(self, driver: Virtual, changes: Changes) -> None:
        self._driver = driver
        self._changes = changes

    async def put(self, path: TreePath, node: Node, overwrite: bool) -> None:
        """Give a node a path. Raise EntryExists unless that is free or a file replaces a file."""
        await self._refuse_taken(path, node, overwrite)
        self._changes.put(path, node)

    async def copy(self, path: TreePath, target: TreePath, overwrite: bool) -> None:
        """Copy the node of a path to another one. Raise EntryExists as `put`."""
        node = await self._driver._find(self._changes, path)
        await self._refuse_taken(target, node, overwrite)
        self._changes.copy(path, target, node)

    async def _refuse_taken(self, path: TreePath, node: Node, overwrite: bool) -> None:
        await self._driver._find_folder(self._changes, path.parent)
        taken = await self._find(path)
        if path == "/" or (taken is not None and (_is_dir(taken) or _is_dir(node) or not overwrite)):
            raise EntryExists

    async def make_folders(self, path: TreePath) -> None:
        """Make a folder and its parents. Raise EntryExists if a file has one of the paths."""
        for step in reversed(path.ancestors()[:-1]):
            taken = await self._find(step)
            if taken is None:
                self._changes.put(step, ("", time.time()))
            elif not _is_dir(taken):
                raise EntryExists

    async def remove(self, path: TreePath) -> None:
        """Remove the node of a path, if there is one."""
        if await self._find(path) is not None:
            seed = await self._driver._find_folder(self._changes, path.parent)
            self._changes.remove(path, is_derived=path.name in await self._driver._derive(seed))

    async def _find(self, path: TreePath) -> Node | None:
        try:
            return await self._driver._find(self._changes, path)
        except EntryNotFound:
            return None


def _make_seed(folder: str, name: str) -> str:
    """Return the seed of a folder in a generated one: short at every depth, since changes contain it."""
    return sha256(f"{folder}/{name}".encode()).hexdigest()[:16]


def _is_dir(node: Node) -> bool:
    return isinstance(node[0], str)


def _make_entry(name: str, node: Node) -> Entry:
    size, modified = node
    return Entry(name, 0, modified, True) if isinstance(size, str) else Entry(name, size, modified, False)


def _make_name(source: random.Random) -> str:
    return "".join(source.choices(string.ascii_letters, k=10))


def _clamp_count(number: int) -> int:
    return min(max(number, 0), MAX_ENTRIES)


async def _generate_bytes(left: int) -> AsyncIterator[bytes]:
    while left > 0:
        yield os.urandom(min(left, BLOCK))
        left -= BLOCK
        await asyncio.sleep(0)


class Changes:
    """The changes of one storage, as stored at one time: entries that people made, moved or removed.

    They are one JSON object, nodes by path, so that all processes of a service share them as one record.
    """

    def __init__(self, text: str) -> None:
        self._stored: dict[str, Stored] = orjson.loads(text) if text.startswith("{") else {}

    def format(self) -> str:
        """Return the JSON text of the changes. Raise StorageProblem for more than MAX_STATE_BYTES."""
        text = orjson.dumps(self._stored).decode()
        if len(text) > MAX_STATE_BYTES:
            raise StorageProblem(
                f"a Virtual storage keeps at most {MAX_STATE_BYTES >> 10} KiB of changes: remove something first"
            )
        return text

    def get(self, path: TreePath) -> Stored | None:
        """Return the changed node at a path, False for a removed one, None for an unchanged one."""
        return self._stored.get(path)

    def list_in(self, folder: TreePath) -> dict[str, Stored]:
        """Return the changes directly in a folder, by name."""
        start = "/" if folder == "/" else f"{folder}/"
        return {
            path[len(start) :]: node
            for path, node in self._stored.items()
            if path.startswith(start) and "/" not in path[len(start) :]
        }

    def put(self, path: TreePath, node: Node) -> None:
        """Set the node of a path."""
        self._stored[str(path)] = node

    def remove(self, path: TreePath, *, is_derived: bool) -> None:
        """Remove a path with everything below it; `is_derived`: the generated tree has it."""
        for key in self._list_within(path):
            del self._stored[key]
        if is_derived:
            self._stored[str(path)] = False

    def copy(self, path: TreePath, target: TreePath, node: Node) -> None:
        """Give `target` the node of `path` and the changes below it."""
        below: dict[str, Stored] = {
            str(target / TreePath(key).below(path)): self._stored[key] for key in self._list_within(path)
        }
        self._stored |= below
        self._stored[str(target)] = node

    def _list_within(self, path: TreePath) -> list[str]:
        return [key for key in self._stored if key == path or key.startswith(f"{path}/")]
