"""Local: a folder of this machine, confined to its root."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from secrets import token_hex
from typing import ParamSpec, TypeVar

from mangrove.drivers.base import (
    Capacity,
    CopyRequest,
    Driver,
    DriverConfig,
    DriverContext,
    Entry,
    Options,
    Upload,
    option,
)
from mangrove.drivers.local import blocks as localbytes
from mangrove.drivers.local import copy as localcopy
from mangrove.drivers.local import thumbnails
from mangrove.drivers.local import tmpfile as unnamed
from mangrove.drivers.local.blocks import threaded, unbroken
from mangrove.drivers.local.rooted import Root, told
from mangrove.paths import TreePath
from mangrove.problems import BadRequest, Exists, Forbidden, NotFound, NotSupported, Problem, StorageProblem

PART = ".mangrove-"  # names of files that are still being written begin so
KEEP_DELETED = "delete permanently"
Handles = list[int]  # open files
Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")


class LocalOptions(Options):
    root_folder_path: str = option("/", required=True)
    directory_size: bool = option(False, help="This might impact host performance")
    thumbnail: bool = option(required=True, help="enable thumbnail")
    thumb_cache_folder: str = option()
    thumb_concurrency: str = option("16", help="How many thumbnails are made at the same time")
    video_thumb_pos: str = option(
        "20%", help="Where in a video its thumbnail is taken: a number means seconds, with % a share of the length"
    )
    show_hidden: bool = option(True, help="show hidden directories and files")
    mkdir_perm: str = option("777")
    recycle_bin_path: str = option(
        KEEP_DELETED, help="path to recycle bin, delete permanently if empty or keep 'delete permanently'"
    )


class Local(Driver):
    name = "Local"
    Options = LocalOptions
    config = DriverConfig(only_proxy=True, no_cache=True, default_root="/", direct_lookup=True)
    options: LocalOptions

    def __init__(self, options: LocalOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        if not options.root_folder_path:
            raise StorageProblem("root folder  not exists")  # it would be the folder the service was started in
        self.root = Root(options.root_folder_path)
        self._mode = 0o777
        wanted = options.recycle_bin_path
        self._bin = os.path.realpath(wanted) if wanted and wanted != KEEP_DELETED else None
        self._thumbnails = thumbnails.Maker(options.thumb_concurrency, options.thumb_cache_folder)

    async def start(self) -> None:
        await threaded(self._check)

    def _check(self) -> None:
        folder = self.options.root_folder_path
        if not os.path.isdir(folder):
            raise StorageProblem(f"root folder {folder} not exists")
        self._mode = _octal(self.options.mkdir_perm or "777")
        _video_position(self.options.video_thumb_pos or "20%")

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        yield await threaded(self._scan, path)

    def _scan(self, path: TreePath) -> Sequence[Entry]:
        found: list[Entry] = []
        hidden, pictures = not self.options.show_hidden, self.options.thumbnail
        with self.root.folder(path) as handle, os.scandir(handle) as items:
            for item in items:
                name = item.name
                if name[0] == "." and (hidden or name.startswith(PART)):
                    continue
                if not name.isascii() and not _utf8(name):
                    continue
                if "\\" in name:
                    continue
                link = item.is_symlink()
                try:
                    facts = self.root.status(path / name) if link else item.stat(follow_symlinks=False)
                except (Problem, OSError):
                    continue  # a link that leaves the root or leads nowhere, or gone meanwhile
                if pictures or link or stat.S_ISDIR(facts.st_mode):
                    found.append(self._entry(name, facts, path, pictures)._replace(is_link=link))
                else:
                    found.append(Entry(name, facts.st_size, facts.st_mtime, False))
        found.sort(key=itemgetter(0))
        return found

    def _entry(self, name: str, facts: os.stat_result, folder: TreePath, pictures: bool) -> Entry:
        is_dir = stat.S_ISDIR(facts.st_mode)
        size = facts.st_size
        if is_dir:
            size = self._size(folder / name) if self.options.directory_size and name else 0
        return Entry(name, size, facts.st_mtime, is_dir, 0.0, None, pictures and not is_dir and thumbnails.can(name))

    def _size(self, path: TreePath) -> int:
        """Bytes of all files below, links not followed."""
        total = 0
        for _, _, names, handle in os.fwalk(self.root.real + str(path), follow_symlinks=False):
            for name in names:
                try:
                    total += os.stat(name, dir_fd=handle, follow_symlinks=False).st_size
                except FileNotFoundError:
                    pass  # gone while we counted
        return total

    async def stat(self, path: TreePath) -> Entry:
        return await threaded(self._stat, path)

    def _stat(self, path: TreePath) -> Entry:
        if path.name.startswith(PART):
            raise NotFound
        return self._entry(path.name, self.root.status(path), path.parent, self.options.thumbnail)

    async def identify(self, path: TreePath) -> set[str]:
        facts = await threaded(self.root.status, path)
        return {f"local:{facts.st_dev}:{facts.st_ino}"}

    async def get_change_token(self, path: TreePath) -> int:
        return (await threaded(self.root.status, path)).st_mtime_ns

    async def read(self, path: TreePath, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        handle = await threaded(self.root.open, path)
        return localbytes.blocks(localbytes.Handle(handle), offset, length)

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        _free(path)
        part = f"{PART}{token_hex(12)}.part"
        held: list[int] = []
        try:
            await unbroken(self._begin, path, part, held, False)
            size = await localbytes.pour(body, held[0])
            if upload.size is not None and size != upload.size:
                raise BadRequest(f"the body has {size} bytes instead of the announced {upload.size}")
            return await unbroken(self._finish, path, part, held[0], upload)
        except BaseException:
            await unbroken(self._abandon, path, part)
            raise
        finally:
            for handle in held:
                os.close(handle)

    def _begin(self, path: TreePath, part: str, held: Handles, named: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self.root.target(path) as (folder, name):
            if _is_folder(name, folder):
                raise Exists
            held.append(os.open(part, flags, 0o666, dir_fd=folder) if named else unnamed.opened(folder, part))

    def _finish(self, path: TreePath, part: str, handle: int, upload: Upload) -> Entry:
        with self.root.target(path) as (folder, name):
            os.utime(handle, (time.time(), upload.modified))
            unnamed.put(handle, folder, part, name, exclusive=upload.exclusive)
        return self._entry(path.name, os.fstat(handle), path.parent, self.options.thumbnail)

    def _abandon(self, path: TreePath, part: str) -> None:
        try:
            with self.root.target(path) as (folder, _):
                os.unlink(part, dir_fd=folder)
        except Problem:
            pass  # it never came to be, or its folder is gone with it

    async def begin(self, path: TreePath, upload: Upload, key: str) -> str:
        _free(path)
        part = f"{PART}{key}.part"
        held: list[int] = []
        try:
            await unbroken(self._begin, path, part, held, True)
        except BaseException:
            await unbroken(self._abandon, path, part)
            raise
        finally:
            for handle in held:
                os.close(handle)
        return part

    async def abort_by_key(self, path: TreePath, key: str) -> None:
        await threaded(self._abandon, path, f"{PART}{key}.part")

    async def write_part(self, path: TreePath, token: str, number: int, offset: int, content: bytes) -> str:
        await threaded(self._part, path, token, offset, content)
        return str(len(content))

    def _part(self, path: TreePath, part: str, offset: int, content: bytes) -> None:
        with self._opened(path, part) as handle, told():
            view = memoryview(content)
            while view:
                done = os.pwrite(handle, view, offset)
                view, offset = view[done:], offset + done

    @contextmanager
    def _opened(self, path: TreePath, part: str) -> Iterator[int]:
        with self.root.target(path) as (folder, _):
            handle = os.open(part, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            yield handle
        finally:
            os.close(handle)

    async def finish(self, path: TreePath, token: str, receipts: Sequence[str], upload: Upload) -> Entry:
        return await unbroken(self._finish_parts, path, token, sum(map(int, receipts)), upload)

    def _finish_parts(self, path: TreePath, part: str, size: int, upload: Upload) -> Entry:
        with self._opened(path, part) as handle:
            if os.fstat(handle).st_size != size or size != upload.size:
                raise StorageProblem(f"the parts have {size} bytes instead of {upload.size}")
            return self._finish(path, part, handle, upload)

    async def abort(self, path: TreePath, token: str) -> None:
        await threaded(self._abandon, path, token)

    async def makedirs(self, path: TreePath) -> None:
        await threaded(self._make, path)

    def _make(self, path: TreePath) -> None:
        _free(path)
        for step in reversed(path.ancestors()[:-1]):
            with self.root.place(step) as (folder, name):
                try:
                    os.mkdir(name, self._mode, dir_fd=folder)
                except FileExistsError:
                    if not stat.S_ISDIR(self.root.status(step).st_mode):
                        raise Exists from None

    async def rename(self, path: TreePath, target: TreePath) -> None:
        await threaded(self._move, path, target)

    async def move(self, path: TreePath, target: TreePath) -> None:
        await threaded(self._move, path, target)

    def _move(self, path: TreePath, target: TreePath) -> None:
        _free(target)
        if target.within(path) and target != path:
            raise StorageProblem("the destination folder is a subfolder of the source folder")
        with self.root.place(path) as (source, old), self.root.place(target) as (folder, new):
            try:
                os.rename(old, new, src_dir_fd=source, dst_dir_fd=folder)
            except (IsADirectoryError, NotADirectoryError):
                raise Exists from None

    async def copy(self, path: TreePath, target: TreePath) -> None:
        _free(target)
        await threaded(localcopy.copy, self.root, path, target, f"{PART}{token_hex(12)}.part")

    async def copy_from(self, source: Driver, files: Sequence[CopyRequest]) -> Sequence[StorageProblem | None] | None:
        if not isinstance(source, Local):
            return None
        for file in files:
            _free(file.target)
        return await threaded(localcopy.copy_from, source.root, self.root, files, f"{PART}{token_hex(12)}.part")

    def plan_part_copies(self, source: Driver) -> tuple[int, int]:
        return (localcopy.PART if isinstance(source, Local) else 0), 1  # the kernel lets one write to a file at a time

    async def copy_part_from(
        self, source: Driver, path: TreePath, target: TreePath, token: str, number: int, offset: int, length: int
    ) -> str:
        assert isinstance(source, Local)
        return str(await threaded(self._take_part, source.root, path, target, token, offset, length))

    def _take_part(self, source: Root, path: TreePath, target: TreePath, part: str, offset: int, length: int) -> int:
        with localcopy.reading(source, path) as handle, self._opened(target, part) as copied, told():
            return localcopy.part(handle, copied, offset, length)

    async def remove(self, path: TreePath) -> None:
        if path == "/":
            raise Forbidden("delete root folder is not allowed")
        await threaded(self._recycle if self._bin else self._remove, path)

    def _remove(self, path: TreePath) -> None:
        with self.root.place(path) as (folder, name):
            if _is_folder(name, folder):
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)

    async def remove_empty(self, path: TreePath) -> bool:
        return await threaded(self._remove_empty, path)

    def _remove_empty(self, path: TreePath) -> bool:
        with self.root.place(path) as (folder, name):
            try:
                os.rmdir(name, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    return False
                raise
        return True

    def _recycle(self, path: TreePath) -> None:
        assert self._bin is not None
        place = Path(self._bin + str(path.parent))
        with told():
            place.mkdir(parents=True, exist_ok=True)
            target = place / path.name
            if os.path.lexists(target):
                target = place / f"{path.name}_{datetime.now():%Y%m%d%H%M%S}_{token_hex(2)}"
        with self.root.place(path) as (folder, name):
            try:
                os.rename(name, target, src_dir_fd=folder)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                raise StorageProblem("the recycle bin is on another file system") from None

    async def get_space(self) -> Capacity:
        with told():
            facts = await threaded(os.statvfs, self.root.real)
        return Capacity(facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize)

    async def make_thumbnail(self, path: TreePath) -> tuple[bytes, str]:
        if not self.options.thumbnail or not thumbnails.can(path.name):
            raise NotSupported
        handle = await threaded(self.root.open, path)
        return await self._thumbnails.make(handle, path.name)


def _free(path: TreePath) -> None:
    """Refuse a name under which nothing would be seen."""
    if any(name.startswith(PART) for name in path.split("/")):
        raise Forbidden(f"names that begin with {PART} are kept for unfinished files")


def _is_folder(name: str, folder: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _octal(text: str) -> int:
    try:
        return int(text, 8)
    except ValueError:
        raise StorageProblem(f'strconv.ParseUint: parsing "{text[:40]}": invalid syntax') from None


def _video_position(text: str) -> None:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise StorageProblem(f"invalid video_thumb_pos value: {text[:40]}") from None
    if value < 0 or (text.endswith("%") and value > 100):
        raise StorageProblem(f"invalid video_thumb_pos value: {text[:40]}")
