"""Local: a folder of this machine, confined to its root."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from secrets import token_hex

from mangrove.drivers.base import Capacity, CopyRequest, Driver, DriverConfig, DriverContext, Entry, Upload
from mangrove.drivers.local import copy, tmpfile
from mangrove.drivers.local.blocks import FileHandle, read_blocks, run_in_thread, run_to_completion, write_body
from mangrove.drivers.local.options import KEEP_DELETED, LocalOptions, check_video_position, parse_mode
from mangrove.drivers.local.rooted import Root, translate_errors
from mangrove.drivers.local.thumbnails import ThumbnailMaker, is_picture
from mangrove.paths import TreePath
from mangrove.problems import BadRequest, Exists, Forbidden, NotFound, NotSupported, Problem, StorageProblem

PART = ".mangrove-"  # names of files that are still being written begin so
Handles = list[int]  # of open files


class Local(Driver):
    name = "Local"
    Options = LocalOptions
    config = DriverConfig(only_proxy=True, no_cache=True, default_root="/", direct_lookup=True)
    options: LocalOptions

    def __init__(self, options: LocalOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        if not options.root_folder_path:
            raise StorageProblem("root folder  not exists")  # not the current folder of the process
        self.root = Root(options.root_folder_path)
        self._mode = 0o777
        recycle_bin = options.recycle_bin_path
        self._recycle_bin = os.path.realpath(recycle_bin) if recycle_bin and recycle_bin != KEEP_DELETED else None
        self._thumbnails = ThumbnailMaker(options.thumb_concurrency, options.thumb_cache_folder)

    async def start(self) -> None:
        await run_in_thread(self._check_options)

    def _check_options(self) -> None:
        folder = self.options.root_folder_path
        if not os.path.isdir(folder):
            raise StorageProblem(f"root folder {folder} not exists")
        self._mode = parse_mode(self.options.mkdir_perm or "777")
        check_video_position(self.options.video_thumb_pos or "20%")

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        yield await run_in_thread(self._scan, path)

    def _scan(self, path: TreePath) -> Sequence[Entry]:
        found: list[Entry] = []
        hide, thumbnails = not self.options.show_hidden, self.options.thumbnail
        with self.root.open_folder(path) as handle, os.scandir(handle) as items:
            for item in items:
                name = item.name
                if name[0] == "." and (hide or name.startswith(PART)):
                    continue
                if not name.isascii() and not _is_unicode(name):
                    continue
                if "\\" in name:
                    continue
                is_link = item.is_symlink()
                try:
                    status = self.root.stat(path / name) if is_link else item.stat(follow_symlinks=False)
                except (Problem, OSError):
                    continue  # a link that leaves the root or leads nowhere, or removed meanwhile
                if thumbnails or is_link or stat.S_ISDIR(status.st_mode):
                    found.append(self._make_entry(name, status, path)._replace(is_link=is_link))
                else:
                    found.append(Entry(name, status.st_size, status.st_mtime, False))
        found.sort(key=itemgetter(0))
        return found

    def _make_entry(self, name: str, status: os.stat_result, folder: TreePath) -> Entry:
        is_dir = stat.S_ISDIR(status.st_mode)
        size = status.st_size
        if is_dir:
            size = self._sum_sizes(folder / name) if self.options.directory_size and name else 0
        thumb = self.options.thumbnail and not is_dir and is_picture(name)
        return Entry(name, size, status.st_mtime, is_dir, thumb=thumb)

    def _sum_sizes(self, path: TreePath) -> int:
        """Bytes of all files below, links not followed."""
        total = 0
        for _, _, names, handle in os.fwalk(self.root.real + str(path), follow_symlinks=False):
            for name in names:
                try:
                    total += os.stat(name, dir_fd=handle, follow_symlinks=False).st_size
                except FileNotFoundError:
                    pass  # removed meanwhile
        return total

    async def stat(self, path: TreePath) -> Entry:
        return await run_in_thread(self._stat, path)

    def _stat(self, path: TreePath) -> Entry:
        if path.name.startswith(PART):
            raise NotFound
        return self._make_entry(path.name, self.root.stat(path), path.parent)

    async def identify(self, path: TreePath) -> set[str]:
        status = await run_in_thread(self.root.stat, path)
        return {f"local:{status.st_dev}:{status.st_ino}"}

    async def get_change_token(self, path: TreePath) -> int:
        return (await run_in_thread(self.root.stat, path)).st_mtime_ns

    async def read(self, path: TreePath, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        handle = await run_in_thread(self.root.open, path)
        return read_blocks(FileHandle(handle), offset, length)

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        _refuse_part_name(path)
        part = f"{PART}{token_hex(12)}.part"
        handles: Handles = []
        try:
            await run_to_completion(self._create_part, path, part, handles, tmpfile.create)
            size = await write_body(body, handles[0])
            if upload.size is not None and size != upload.size:
                raise BadRequest(f"the body has {size} bytes instead of the announced {upload.size}")
            return await run_to_completion(self._commit, path, part, handles[0], upload)
        except BaseException:
            await run_to_completion(self._discard, path, part)
            raise
        finally:
            for handle in handles:
                os.close(handle)

    def _create_part(self, path: TreePath, part: str, handles: Handles, create: Callable[[int, str], int]) -> None:
        """Create the unfinished file of `path`; its handle is added to `handles`, also when the caller is cancelled."""
        with self.root.open_target(path) as (folder, name):
            if _is_folder(name, folder):
                raise Exists
            handles.append(create(folder, part))

    def _commit(self, path: TreePath, part: str, handle: int, upload: Upload) -> Entry:
        with self.root.open_target(path) as (folder, name):
            os.utime(handle, (time.time(), upload.modified))
            tmpfile.commit(handle, folder, part, name, exclusive=upload.exclusive)
        return self._make_entry(path.name, os.fstat(handle), path.parent)

    def _discard(self, path: TreePath, part: str) -> None:
        try:
            with self.root.open_target(path) as (folder, _):
                os.unlink(part, dir_fd=folder)
        except Problem:
            pass  # it was never created or has no name, or its folder is gone

    async def begin(self, path: TreePath, upload: Upload, key: str) -> str:
        _refuse_part_name(path)
        part = f"{PART}{key}.part"
        handles: Handles = []
        try:
            await run_to_completion(self._create_part, path, part, handles, tmpfile.create_named)
        except BaseException:
            await run_to_completion(self._discard, path, part)
            raise
        finally:
            for handle in handles:
                os.close(handle)
        return part

    async def abort_by_key(self, path: TreePath, key: str) -> None:
        await run_in_thread(self._discard, path, f"{PART}{key}.part")

    async def write_part(self, path: TreePath, token: str, number: int, offset: int, content: bytes) -> str:
        await run_in_thread(self._write_part, path, token, offset, content)
        return str(len(content))

    def _write_part(self, path: TreePath, part: str, offset: int, content: bytes) -> None:
        with self._open_part(path, part) as handle, translate_errors():
            view = memoryview(content)
            while view:
                done = os.pwrite(handle, view, offset)
                view, offset = view[done:], offset + done

    @contextmanager
    def _open_part(self, path: TreePath, part: str) -> Iterator[int]:
        with self.root.open_target(path) as (folder, _):
            handle = os.open(part, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            yield handle
        finally:
            os.close(handle)

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        return await run_to_completion(self._commit_parts, path, token, sum(map(int, receipts)), upload)

    def _commit_parts(self, path: TreePath, part: str, size: int, upload: Upload) -> Entry:
        with self._open_part(path, part) as handle:
            if os.fstat(handle).st_size != size or size != upload.size:
                raise StorageProblem(f"the parts have {size} bytes instead of {upload.size}")
            return self._commit(path, part, handle, upload)

    async def abort(self, path: TreePath, token: str) -> None:
        await run_in_thread(self._discard, path, token)

    async def makedirs(self, path: TreePath) -> None:
        await run_in_thread(self._makedirs, path)

    def _makedirs(self, path: TreePath) -> None:
        _refuse_part_name(path)
        for step in reversed(path.ancestors()[:-1]):
            with self.root.open_parent(step) as (folder, name):
                try:
                    os.mkdir(name, self._mode, dir_fd=folder)
                except FileExistsError:
                    if not stat.S_ISDIR(self.root.stat(step).st_mode):
                        raise Exists from None

    async def rename(self, path: TreePath, target: TreePath) -> None:
        await run_in_thread(self._move, path, target)

    async def move(self, path: TreePath, target: TreePath) -> None:
        await run_in_thread(self._move, path, target)

    def _move(self, path: TreePath, target: TreePath) -> None:
        _refuse_part_name(target)
        if target.within(path) and target != path:
            raise StorageProblem("the destination folder is a subfolder of the source folder")
        with self.root.open_parent(path) as (source, old), self.root.open_parent(target) as (folder, new):
            try:
                os.rename(old, new, src_dir_fd=source, dst_dir_fd=folder)
            except (IsADirectoryError, NotADirectoryError):
                raise Exists from None

    async def copy(self, path: TreePath, target: TreePath) -> None:
        _refuse_part_name(target)
        await run_in_thread(copy.copy, self.root, path, target, f"{PART}{token_hex(12)}.part")

    async def copy_from(self, source: Driver, files: Sequence[CopyRequest]) -> Sequence[StorageProblem | None] | None:
        if not isinstance(source, Local):
            return None
        for file in files:
            _refuse_part_name(file.target)
        return await run_in_thread(copy.copy_from, source.root, self.root, files, f"{PART}{token_hex(12)}.part")

    def plan_part_copies(self, source: Driver) -> tuple[int, int]:
        return (copy.PART if isinstance(source, Local) else 0), 1  # the kernel serialises writes to one file

    async def copy_part_from(
        self, source: Driver, path: TreePath, target: TreePath, token: str, number: int, offset: int, length: int
    ) -> str:
        assert isinstance(source, Local)
        return str(await run_in_thread(self._copy_part, source.root, path, target, token, offset, length))

    def _copy_part(self, source: Root, path: TreePath, target: TreePath, part: str, offset: int, length: int) -> int:
        with copy.open_file(source, path) as handle, self._open_part(target, part) as copied, translate_errors():
            return copy.copy_range(handle, copied, offset, length)

    async def remove(self, path: TreePath) -> None:
        if path == "/":
            raise Forbidden("delete root folder is not allowed")
        await run_in_thread(self._recycle if self._recycle_bin else self._remove, path)

    def _remove(self, path: TreePath) -> None:
        with self.root.open_parent(path) as (folder, name):
            if _is_folder(name, folder):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    async def remove_empty(self, path: TreePath) -> bool:
        return await run_in_thread(self._remove_empty, path)

    def _remove_empty(self, path: TreePath) -> bool:
        with self.root.open_parent(path) as (folder, name):
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
        return True

    def _recycle(self, path: TreePath) -> None:
        assert self._recycle_bin is not None
        parent = Path(self._recycle_bin + str(path.parent))
        with translate_errors():
            parent.mkdir(parents=True, exist_ok=True)
            target = parent / path.name
            if os.path.lexists(target):
                target = parent / f"{path.name}_{datetime.now():%Y%m%d%H%M%S}_{token_hex(2)}"
        with self.root.open_parent(path) as (folder, name):
            try:
                os.rename(name, target, src_dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                raise StorageProblem("the recycle bin is on another file system") from None

    async def get_space(self) -> Capacity:
        with translate_errors():
            status = await run_in_thread(os.statvfs, self.root.real)
        return Capacity(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)

    async def make_thumbnail(self, path: TreePath) -> tuple[bytes, str]:
        if not self.options.thumbnail or not is_picture(path.name):
            raise NotSupported
        handle = await run_in_thread(self.root.open, path)
        return await self._thumbnails.make(handle, path.name)


def _refuse_part_name(path: TreePath) -> None:
    """Refuse the names of unfinished files, which listings leave out."""
    if any(name.startswith(PART) for name in path.split("/")):
        raise Forbidden(f"names that begin with {PART} are kept for unfinished files")


def _is_folder(name: str, folder: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
