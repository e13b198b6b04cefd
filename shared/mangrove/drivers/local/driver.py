"""Local: a folder of this machine, confined to its root."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress

from mangrove.core.chunked import stream
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryChanged,
    EntryExists,
    EntryNotFound,
    NotSupported,
    Problem,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import (
    ROOT,
    Capabilities,
    Capacity,
    CopyRequest,
    Driver,
    DriverContext,
    DriverProperties,
    Entry,
    FolderBatch,
    NewFile,
    SendableFile,
    StagedFile,
    Upload,
    WholeFile,
)
from mangrove.drivers.local import copy, kernel, noreplace, quarantine, tmpfile
from mangrove.drivers.local.blocks import FileHandle, LocalStagedFile, read_blocks, write_body
from mangrove.drivers.local.commits import catch_problem
from mangrove.drivers.local.durability import Durability, sync_file
from mangrove.drivers.local.folders import make_folders
from mangrove.drivers.local.options import KEEP_DELETED, LocalOptions, check_video_position, parse_mode
from mangrove.drivers.local.removal import Remover, is_folder
from mangrove.drivers.local.rooted import FileStat, Root, check_wanted, is_same
from mangrove.drivers.local.scan import FolderScan, FoldersScan, read_whole
from mangrove.drivers.local.small_files import SmallFileWriter, get_stored, is_small, read_small
from mangrove.drivers.local.thumbnails import ThumbnailMaker, is_picture
from mangrove.drivers.part_names import PART, is_part, make_part_name, refuse_part_name
from mangrove.drivers.refusals import refuse_inside_itself, refuse_other_size, refuse_root_removal
from mangrove.drivers.threads import StorageThreads

Body = AsyncIterator[bytes]
OpenHandles = list[FileHandle]


class Local(Driver):
    name = "Local"
    Options = LocalOptions
    config = DriverProperties(only_proxy=True, no_cache=True, default_root="/", direct_lookup=True)
    capabilities = Capabilities(
        write=True, write_whole=True, parts=True, stream_part=True, open_staged=True, makedirs=True, rename=True,
        move=True, copy=True, copy_from=True, remove=True, remove_unchanged=True, remove_empty=True, set_aside=True,
        set_many_aside=True, set_modified=True, sync=True, open_file=True, read_whole=True, make_thumbnail=True,
        list_folders=True, list_names=True, identify=True, get_space=True, get_change_token=True,
    )  # fmt: skip
    options: LocalOptions

    def __init__(self, options: LocalOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        if not options.root_folder_path:
            raise StorageProblem("root folder  not exists")  # not the current folder of the process
        self.root = Root(options.root_folder_path)
        self._threads = StorageThreads(f"local {context.mount_path}", lambda: os.statvfs(options.root_folder_path))
        self._mode = 0o777
        self._is_own = not context.storage_id  # the service uses it for internal files
        self._durability = Durability(self.root)
        self._copier = copy.FileCopier(self.root, self._durability)
        self._small_files = SmallFileWriter(self.root, self._durability, self._make_exact_entry, self._is_own)
        recycle_bin = "" if options.recycle_bin_path == KEEP_DELETED else options.recycle_bin_path
        self._remover = Remover(self.root, recycle_bin, self._copier.ranges)
        self._thumbnails = ThumbnailMaker(self._threads, options.thumb_concurrency, options.thumb_cache_folder)
        self._refuses_existing: bool | None = None  # not tried yet

    async def start(self) -> None:
        await self._threads.run(self._check_options)

    def _check_options(self) -> None:
        folder = self.options.root_folder_path
        if not os.path.isdir(self.root.real):
            raise StorageProblem(f"root folder {folder} not exists")
        self._mode = parse_mode(self.options.mkdir_perm or "777")
        check_video_position(self.options.video_thumb_pos or "20%")

    async def can_refuse_existing(self) -> bool:
        if self._refuses_existing is None:
            await self._threads.run_to_completion(self._try_to_refuse)
        return bool(self._refuses_existing)

    def _try_to_refuse(self) -> None:
        # if no file can be made now, the next call tries again
        with suppress(StorageProblem), self.root.open_folder(ROOT) as handle:
            self._refuses_existing = noreplace.can_refuse_existing(handle)

    async def proves_writes(self) -> bool:
        return await self._threads.run(self._is_on_this_machine)

    proves_reads = proves_writes

    def _is_on_this_machine(self) -> bool:
        with self.root.open_folder(ROOT) as handle:
            return kernel.is_on_this_machine(handle)

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self.make_scan(path).iterate_batches(self.options.show_hidden)

    def list_names(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self.make_scan(path).iterate_batches(self.options.show_hidden, defers_details=True)

    async def read_details(self, path: TreePath, names: Sequence[str]) -> Sequence[Entry | None]:
        return await self._threads.run(self.make_scan(path).read_details, names)

    def make_scan(self, path: TreePath) -> FolderScan:
        """Return the scan of a folder."""
        return FolderScan(self.root, self._threads, path, self._make_entry, self.options.thumbnail)

    async def list_folders(self, paths: Sequence[TreePath]) -> AsyncIterator[Sequence[FolderBatch]]:
        scan = FoldersScan(paths, self.make_scan, self.options.show_hidden)
        while scan.has_more:
            yield await self._threads.run(scan.read_batch)

    def _make_entry(self, name: str, status: os.stat_result, folder: TreePath) -> Entry:
        is_dir, size = stat.S_ISDIR(status.st_mode), status.st_size
        if is_dir:
            size = self.root.sum_sizes(folder / name) if self.options.directory_size and name else 0
        thumb = self.options.thumbnail and not is_dir and is_picture(name)
        return Entry(name, size, status.st_mtime, is_dir, thumb=thumb)

    async def stat(self, path: TreePath) -> Entry:
        return await self._threads.run(self._stat, path)

    async def stat_many(self, paths: Sequence[TreePath]) -> Sequence[Entry | StorageProblem]:
        return await self._threads.run(lambda: [catch_problem(self._stat, path) for path in paths])

    def _stat(self, path: TreePath) -> Entry:
        if is_part(path.name):
            raise EntryNotFound
        return self._make_exact_entry(path, quarantine.stat_or_restore(self.root, path))

    def _make_exact_entry(self, path: TreePath, status: os.stat_result) -> Entry:
        entry = self._make_entry(path.name, status, path.parent)
        return entry if entry.is_dir else entry._replace(etag=FileStat.of(status).etag)

    async def identify(self, path: TreePath) -> set[str]:
        status = await self._threads.run(self.root.stat, path)
        return {f"local:{status.st_dev}:{status.st_ino}"}

    async def get_change_token(self, path: TreePath) -> int:
        return (await self._threads.run(self.root.stat, path)).st_mtime_ns

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        handle = await self._threads.run(self._open, path, if_match)
        return read_blocks(self._threads, handle, offset, length)

    async def read_whole(self, files: Sequence[tuple[TreePath, Entry]]) -> Sequence[WholeFile | StorageProblem]:
        return await self._threads.run(read_whole, self.root, files, self._make_exact_entry)

    async def open_file(self, path: TreePath, if_match: Entry | None = None) -> SendableFile:
        return await self._threads.run(self._open, path, if_match)

    def _open(self, path: TreePath, if_match: Entry | None) -> FileHandle:
        if is_part(path.name):
            raise EntryNotFound
        handle = FileHandle(self.root.open(path), self._threads)
        if if_match is not None and not is_same(os.fstat(handle.number), if_match):
            raise EntryChanged
        return handle

    async def open_staged(self, path: TreePath) -> StagedFile:
        refuse_part_name(path)
        handles = OpenHandles()
        await self._threads.run_to_completion(self._create_nameless, path, handles)
        return LocalStagedFile(handles[0], self._threads)

    def _create_nameless(self, path: TreePath, handles: OpenHandles) -> None:
        with self._open_target_folder(path) as folder:
            handle = tmpfile.create_nameless(folder, self.root.limit_mode(tmpfile.NEW_FILE))
            if handle is None:
                raise NotSupported
            handles.append(FileHandle(handle, self._threads))

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        refuse_part_name(path)
        if upload.staged is None and is_small(upload):
            file = NewFile(path, await read_small(body, upload), upload)
            return get_stored(await self.write_whole([file]))
        part, handles, staged = make_part_name(), OpenHandles(), upload.staged
        try:
            if isinstance(staged, LocalStagedFile) and staged.threads is self._threads:
                staged.is_committed = True
                handles.append(staged.handle)
                async for _ in body:
                    pass  # it has no bytes any more
                size = await staged.get_size()
            else:
                await self._threads.run_to_completion(self._create_part, path, part, handles)
                size = await write_body(self._threads, body, handles[0].number, is_own=self._is_own)
            refuse_other_size(size, upload.size)
            return await self._threads.run_to_completion(self._commit, path, part, handles[0].number, upload)
        except BaseException:
            await self._drop_part(path, part)
            raise
        finally:
            for handle in handles:
                handle.close()

    async def write_whole(self, files: Sequence[NewFile]) -> Sequence[Entry | StorageProblem]:
        return await self._threads.run_to_completion(self._small_files.write, files)

    def _create_part(self, path: TreePath, part: str, handles: OpenHandles) -> None:
        """Create the unfinished file of `path`. Its handle is added to `handles`, also if the caller is cancelled."""
        with self._open_target_folder(path) as folder:
            handle = tmpfile.create(folder, part, self.root.limit_mode(tmpfile.NEW_FILE))
            handles.append(FileHandle(handle, self._threads))

    @contextmanager
    def _open_target_folder(self, path: TreePath) -> Iterator[int]:
        """Return a handle of the folder of a file to store. Raise EntryExists if the file is a folder."""
        with self.root.open_target(path) as (folder, name):
            if is_folder(name, folder):
                raise EntryExists
            yield folder

    def _commit(self, path: TreePath, part: str, handle: int, upload: Upload) -> Entry:
        with self.root.open_target(path) as (folder, name):
            os.utime(handle, (time.time(), upload.modified))
            if upload.durable:
                sync_file(handle)
            check_wanted()
            tmpfile.commit(handle, folder, part, name, overwrite=upload.overwrite)
        if upload.durable:
            self._durability.sync_names([path])
        return self._make_exact_entry(path, os.fstat(handle))

    async def _drop_part(self, path: TreePath, part: str) -> None:
        try:
            await self._threads.run_to_completion(self._discard, path, part)
        except Unreachable:
            self._threads.run_later(self._discard, path, part)

    def _discard(self, path: TreePath, part: str) -> None:
        with suppress(Problem), self.root.open_target(path) as (folder, _):  # its folder may be gone, or it has no name
            os.unlink(part, dir_fd=folder)

    async def begin(self, path: TreePath, upload: Upload, key: str) -> str:
        refuse_part_name(path)
        part = f"{PART}{key}.part"
        try:
            await self._threads.run_to_completion(self._begin, path, part)
        except BaseException:
            await self._drop_part(path, part)
            raise
        return part

    def _begin(self, path: TreePath, part: str) -> None:
        with self._open_target_folder(path) as folder:
            os.close(tmpfile.create_named(folder, part, self.root.limit_mode(tmpfile.NEW_FILE)))

    async def abort_by_key(self, path: TreePath, key: str) -> None:
        await self._threads.run(self._discard, path, f"{PART}{key}.part")

    async def write_part(self, path: TreePath, token: str, number: int, offset: int, content: bytes) -> str:
        return await self.stream_part(path, token, number, offset, stream(content))

    async def stream_part(self, path: TreePath, token: str, number: int, offset: int, body: Body) -> str:
        handle = await self._threads.run(self._keep_part_open, path, token)
        try:
            return str(await write_body(self._threads, body, handle.number, offset, is_own=self._is_own))
        finally:
            handle.close()

    def _keep_part_open(self, path: TreePath, part: str) -> FileHandle:
        with self._open_part(path, part) as handle:
            return FileHandle(os.dup(handle), self._threads)

    @contextmanager
    def _open_part(self, path: TreePath, part: str) -> Iterator[int]:
        with self.root.open_target(path) as (folder, _):
            handle = os.open(part, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            yield handle
        finally:
            os.close(handle)

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        return await self._threads.run_to_completion(self._commit_parts, path, token, sum(map(int, receipts)), upload)

    def _commit_parts(self, path: TreePath, part: str, size: int, upload: Upload) -> Entry:
        with self._open_part(path, part) as handle:
            if os.fstat(handle).st_size != size or size != upload.size:
                raise StorageProblem(f"the parts have {size} bytes instead of {upload.size}")
            return self._commit(path, part, handle, upload)

    async def abort(self, path: TreePath, token: str) -> None:
        await self._threads.run(self._discard, path, token)

    async def makedirs(self, path: TreePath) -> None:
        await self._threads.run(self._makedirs, path)

    def _makedirs(self, path: TreePath) -> None:
        refuse_part_name(path)
        make_folders(self.root, path, self.root.limit_mode(self._mode), self._durability.forget)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> Entry | None:
        return await self._threads.run(self._move, path, target, overwrite)

    def _move(self, path: TreePath, target: TreePath, overwrite: bool) -> Entry | None:
        self._rename(path, target, overwrite)
        try:
            status = self.root.stat(target)
        except Problem:
            return None  # another program has changed it since
        return None if stat.S_ISDIR(status.st_mode) else self._make_exact_entry(target, status)

    def _rename(self, path: TreePath, target: TreePath, overwrite: bool) -> None:
        refuse_part_name(target)
        if path == target:
            self.root.stat(path)
            return
        refuse_inside_itself(path, target)
        with self.root.open_parent(path) as (source, old), self.root.open_parent(target) as (folder, new):
            quarantine.rename(old, new, source, folder, overwrite=overwrite)

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        refuse_part_name(target)
        await self._threads.run(self._copier.copy, path, target, overwrite, durable)

    async def copy_from(self, source: Driver, files: Sequence[CopyRequest]) -> Sequence[StorageProblem | None] | None:
        source = source.unwrap()
        if not isinstance(source, Local):
            return None
        for file in files:
            refuse_part_name(file.target)
        return await self._threads.run(self._copier.copy_from, source.root, files)

    def plan_part_copies(self, source: Driver) -> tuple[int, int]:
        return (copy.PART if isinstance(source.unwrap(), Local) else 0), 1  # the kernel serialises writes to one file

    async def copy_part_from(
        self, source: Driver, path: TreePath, target: TreePath, token: str, number: int, offset: int, length: int
    ) -> str:
        source = source.unwrap()
        if not isinstance(source, Local):
            raise NotSupported
        return str(await self._threads.run(self._copy_part, source.root, path, target, token, offset, length))

    def _copy_part(self, source: Root, path: TreePath, target: TreePath, part: str, offset: int, length: int) -> int:
        with self._open_part(target, part) as copied:
            return self._copier.copy_range(source, path, copied, offset, length)

    async def remove(self, path: TreePath) -> None:
        refuse_root_removal(path)
        await self._threads.run(self._remover.remove, path)

    async def remove_unchanged(self, path: TreePath, entry: Entry) -> None:
        await self._threads.run_to_completion(self._remover.remove_unchanged, path, entry)

    async def remove_empty(self, path: TreePath) -> bool:
        return await self._threads.run(self._remover.remove_empty, path)

    async def set_aside(self, path: TreePath, target: TreePath, *, keep: bool = False) -> bool:
        return await self._threads.run_to_completion(self._remover.set_aside, path, target, keep)

    async def set_many_aside(self, files: Sequence[tuple[TreePath, TreePath]]) -> Sequence[bool | StorageProblem]:
        return await self._threads.run_to_completion(self._remover.set_many_aside, files, self._mode)

    async def set_modified(self, path: TreePath, modified: float) -> Entry:
        return await self._threads.run_to_completion(self._set_modified, path, modified)

    def _set_modified(self, path: TreePath, modified: float) -> Entry:
        with self.root.open_target(path) as (folder, name):
            accessed = os.stat(name, dir_fd=folder, follow_symlinks=False).st_atime_ns
            times = (accessed, round(modified * 1e9))
            os.utime(name, ns=times, dir_fd=folder, follow_symlinks=False)
            return self._make_exact_entry(path, os.stat(name, dir_fd=folder, follow_symlinks=False))

    async def sync(self, path: TreePath) -> None:
        await self._threads.run(self._durability.sync, path)

    async def get_space(self) -> Capacity:
        return await self._threads.run(self.root.measure_space)

    async def make_thumbnail(self, path: TreePath) -> tuple[bytes, str]:
        if not self.options.thumbnail or not is_picture(path.name):
            raise NotSupported
        return await self._thumbnails.make(self.root, path)
