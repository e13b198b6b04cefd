"""The files of the index of a storage: immutable files, and a manifest that is replaced atomically.

In the standalone service they are in `<data>/index/<storage id>/`; in the cloud in the bucket MANGROVE_INDEX_BUCKET
under `<storage id>/`, from which files are fetched once to `/tmp/index/<storage id>/`.

A file that is read for the first time, or has changed, is compared with the checksum in the manifest: a damaged Parquet
file often reads as other names.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
import zlib
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from mangrove import configuration
from mangrove.core.checkpoints import pass_checkpoint
from mangrove.core.chunked import stream
from mangrove.core.codec import DecodeError, dump, parse
from mangrove.core.paths import TreePath
from mangrove.core.platform import platform
from mangrove.core.problems import EntryNotFound
from mangrove.core.telemetry import log_warning
from mangrove.drivers.base import BLOCK, ROOT, Driver, Entry, Upload, list_all
from mangrove.drivers.registry import StartedStorage
from mangrove.records import index_changes
from mangrove.records.index_changes import ChangeKind, IndexChange
from mangrove.search.calls import DamagedSegment

MANIFEST = "manifest.json"
WORK_PREFIX = "work-"  # prefix of folders for unfinished files
FILE_NAME = re.compile(r"[A-Za-z0-9_-]+\.parquet")  # no name leads out of the folder
OPEN_ATTEMPTS = 3  # to open an index that is replaced meanwhile


@dataclass(frozen=True, kw_only=True)
class IndexManifest:
    """The present index of a storage: its files and the number of rows in them.

    `began`: the start of the walk in seconds since the epoch; `finished`: its end, ISO 8601; `checksums`: CRC-32 by
    file, set by `SegmentStore.commit`. Changes with numbers up to `merged` are in it. `partial`: the walk has not
    finished.
    """

    version: Literal[2] = 2
    names: list[str]
    folders: list[str]
    count: int
    folder_count: int
    began: float
    finished: str
    merged: str = ""
    partial: bool = False
    checksums: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.files:
            if not FILE_NAME.fullmatch(name):
                raise DecodeError(f"{name[:40]!r} is not a name of an index file")

    @property
    def files(self) -> list[str]:
        return self.names + self.folders


@dataclass(frozen=True, slots=True)
class Segments:
    """An index with files on this machine."""

    storage_id: int
    manifest: IndexManifest
    names: tuple[Path, ...]
    folders: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class _OpenedIndex:
    """An opened index, the entry of its manifest, and the state of its files."""

    entry: Entry
    segments: Segments
    looks: tuple[tuple[int, int], ...]


class SegmentStore:
    """The indexes of all storages. A stored file is never changed.

    `driver`: the storage of the files; `folder`: where files are read, which is the same place in the standalone
    service; `fetches`: True if it is another place.
    """

    def __init__(
        self, driver: Driver | None = None, folder: Path | None = None, *, fetches: bool | None = None
    ) -> None:
        self._fetches = platform().remote_index if fetches is None else fetches
        self._storage = StartedStorage("index", "MANGROVE_INDEX_BUCKET", driver)
        self._folder = folder or platform().index_folder
        self._opened: dict[int, _OpenedIndex] = {}

    def _get_local_folder(self, storage_id: int) -> Path:
        return self._folder / str(storage_id)

    async def read_manifest(self, storage_id: int) -> IndexManifest | None:
        """Return the manifest of the present index without reading its files.

        Return None in the same cases as `open`.
        """
        storage = await self._storage.get_driver()
        try:
            return await _read_manifest(storage, storage_id)
        except EntryNotFound:
            return None
        except DecodeError:
            await self._drop_with_warning(storage_id, MANIFEST)
            return None

    async def open(self, storage_id: int) -> Segments | None:
        """Return the present index.

        Return None if there is none, or if it was damaged; then it is dropped and logged.
        """
        storage = await self._storage.get_driver()
        damaged = ""
        for _ in range(OPEN_ATTEMPTS):
            try:
                entry = await storage.stat(_get_path(storage_id, MANIFEST))
                return await self._open(storage, storage_id, entry)
            except EntryNotFound:
                return None
            except DecodeError:
                damaged = MANIFEST
            except DamagedSegment as problem:  # or it was replaced since the manifest was read
                damaged = str(problem.data)
        await self._drop_with_warning(storage_id, damaged)
        return None

    def get_opened(self, storage_id: int) -> Segments | None:
        """Return the last result of `open`."""
        opened = self._opened.get(storage_id)
        return None if opened is None else opened.segments

    async def _open(self, storage: Driver, storage_id: int, entry: Entry) -> Segments:
        known = self._opened.get(storage_id)
        if known is not None and known.entry == entry and known.looks == _look_at(known.segments):
            return known.segments
        manifest = await _read_manifest(storage, storage_id)
        names = [await self.fetch(storage_id, name) for name in manifest.names]
        folders = [await self.fetch(storage_id, name) for name in manifest.folders]
        segments = Segments(storage_id, manifest, tuple(names), tuple(folders))
        looks = _look_at(segments)
        await asyncio.to_thread(_verify, segments)
        if self._fetches:
            await asyncio.to_thread(_remove_local, self._get_local_folder(storage_id), manifest.files)
        self._opened[storage_id] = _OpenedIndex(entry, segments, looks)
        return segments

    def make_work_folder(self, storage_id: int) -> Path:
        """Make an empty folder for unfinished files. The next `commit`, `discard` or `drop` removes it."""
        folder = self._get_local_folder(storage_id)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        import tempfile  # takes milliseconds, and the clean-up makes no segment

        return Path(tempfile.mkdtemp(prefix=WORK_PREFIX, dir=folder))

    async def store(self, storage_id: int, file: Path) -> None:
        """Store a finished file under its unique name, and remove the local one."""
        storage = await self._storage.get_driver()
        if not self._fetches:
            self._get_local_folder(storage_id).mkdir(mode=0o700, parents=True, exist_ok=True)
        upload = _make_upload(file.stat().st_size)
        await storage.write(_get_path(storage_id, file.name), _read_blocks(file), upload)
        pass_checkpoint("index.stored")
        if not self._fetches:
            file.unlink()
        else:
            file.replace(self._get_local_folder(storage_id) / file.name)

    async def fetch(self, storage_id: int, name: str) -> Path:
        """Return the local path of a stored file, also of an unfinished index.

        Raise DamagedSegment if it is missing.
        """
        path = self._get_local_folder(storage_id) / name
        if path.is_file():
            return path
        storage = await self._storage.get_driver()
        if not self._fetches:
            raise DamagedSegment(data=name)
        part = self.make_work_folder(storage_id) / name
        try:
            with part.open("wb") as file:
                async for block in await storage.read(_get_path(storage_id, name)):
                    await asyncio.to_thread(file.write, block)
            part.replace(path)
        except EntryNotFound:
            raise DamagedSegment(data=name) from None
        finally:
            shutil.rmtree(part.parent, ignore_errors=True)
        return path

    async def commit(self, storage_id: int, manifest: IndexManifest) -> None:
        """Make this the present index, then remove files that it does not name, unless it is partial."""
        storage = await self._storage.get_driver()
        last = await self.read_manifest(storage_id)
        checksums = {} if last is None else last.checksums
        new = [name for name in manifest.files if name not in checksums]
        paths = [await self.fetch(storage_id, name) for name in new]
        checksums = checksums | dict(zip(new, await asyncio.to_thread(_measure_all, paths), strict=True))
        whole = replace(manifest, checksums={name: checksums[name] for name in manifest.files})
        content = dump(whole)
        await storage.write(_get_path(storage_id, MANIFEST), stream(content), _make_upload(len(content)))
        pass_checkpoint("index.committed")
        await _announce(storage_id)
        if not manifest.partial:
            await self._remove_others(storage_id, manifest.files)

    async def discard(self, storage_id: int) -> None:
        """Remove the files of an unfinished index. The present one stays."""
        manifest = await self.read_manifest(storage_id)
        if manifest is None or manifest.partial:
            await self.drop(storage_id)
        else:
            await self._remove_others(storage_id, manifest.files)

    async def _remove_others(self, storage_id: int, names: Collection[str]) -> None:
        storage = await self._storage.get_driver()
        kept_names = {MANIFEST, *names}
        for entry in await _list(storage, TreePath(f"/{storage_id}")):
            if entry.name not in kept_names:
                await storage.remove(_get_path(storage_id, entry.name))
        if self._fetches:
            await asyncio.to_thread(_remove_local, self._get_local_folder(storage_id), kept_names, is_over=True)

    async def drop(self, storage_id: int) -> None:
        """Remove the index of a storage."""
        storage = await self._storage.get_driver()
        self._opened.pop(storage_id, None)
        await storage.remove(_get_path(storage_id, MANIFEST))
        pass_checkpoint("index.dropped")
        await _announce(storage_id)
        await storage.remove(TreePath(f"/{storage_id}"))
        await asyncio.to_thread(shutil.rmtree, self._get_local_folder(storage_id), ignore_errors=True)

    async def drop_damaged(self, segments: Segments, name: str) -> None:
        """Drop an index with a damaged file, and log one line, unless another index has replaced it.

        A caller that gets DamagedSegment calls this and opens the index again. `name`: of the file, for the log.
        """
        if await self.read_manifest(segments.storage_id) == segments.manifest:
            await self._drop_with_warning(segments.storage_id, name)

    async def _drop_with_warning(self, storage_id: int, name: str) -> None:
        log_warning("damaged search index dropped", storage=storage_id, file=name)
        await self.drop(storage_id)

    async def drop_unknown(self, storage_ids: Collection[int]) -> None:
        """Drop the indexes of all other storages."""
        for entry in await _list(await self._storage.get_driver(), ROOT):
            if entry.is_dir and entry.name.isdecimal() and int(entry.name) not in storage_ids:
                await self.drop(int(entry.name))


async def _announce(storage_id: int) -> None:
    """Notify other processes that a storage has another index."""
    await asyncio.to_thread(index_changes.add, IndexChange(storage_id, ChangeKind.INDEX))


def _get_path(storage_id: int, name: str) -> TreePath:
    return TreePath(f"/{storage_id}/{name}")


def _make_upload(size: int) -> Upload:
    return Upload(size, time.time(), durable=configuration.cached().settings.is_durable)


async def _list(storage: Driver, path: TreePath) -> list[Entry]:
    try:
        return await list_all(storage, path)
    except EntryNotFound:
        return []


async def _read_manifest(storage: Driver, storage_id: int) -> IndexManifest:
    """Return the manifest. Raise EntryNotFound, or DecodeError for an invalid one or one of another version."""
    body = await storage.read(_get_path(storage_id, MANIFEST))
    return parse(IndexManifest, b"".join([block async for block in body]))


async def _read_blocks(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as opened:
        while block := await asyncio.to_thread(opened.read, BLOCK):
            yield block


def _look_at(segments: Segments) -> tuple[tuple[int, int], ...]:
    """Return the state of the files, which changes with them. Raise DamagedSegment if one is missing."""
    return tuple(map(_look_at_file, (*segments.names, *segments.folders)))


def _look_at_file(path: Path) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        raise DamagedSegment(data=path.name) from None
    return status.st_size, status.st_mtime_ns


def _verify(segments: Segments) -> None:
    for path in (*segments.names, *segments.folders):
        if _measure(path) != segments.manifest.checksums.get(path.name):
            raise DamagedSegment(data=path.name)


def _measure_all(paths: Iterable[Path]) -> list[int]:
    return [_measure(path) for path in paths]


def _measure(path: Path) -> int:
    """Return the CRC-32. Raise DamagedSegment if the file cannot be read."""
    checksum = 0
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                checksum = zlib.crc32(block, checksum)
    except OSError as error:
        raise DamagedSegment(data=path.name) from error
    return checksum


def _remove_local(folder: Path, kept_names: Collection[str], *, is_over: bool = False) -> None:
    """Remove fetched files that are not needed any more; with `is_over`, also unfinished ones."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir():
            if is_over:
                shutil.rmtree(path, ignore_errors=True)
        elif path.name not in kept_names:
            path.unlink(missing_ok=True)
