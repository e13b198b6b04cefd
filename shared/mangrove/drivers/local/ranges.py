"""Bytes from one open file to another, by the quickest means that their two file systems have."""

from __future__ import annotations

import errno
import fcntl
import os

from mangrove.drivers.base import BLOCK
from mangrove.drivers.threads import allow_long_wait

FICLONE = 0x40049409  # Linux: share the blocks of another file
_NO_CLONE = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.ENOSYS)  # of two file systems, whatever the files
_NOT_THESE = (errno.EINVAL, errno.EBADF, errno.EPERM)  # of two files; others of the same file systems may be cloned
_CANNOT = (
    errno.EXDEV,  # Linux before 5.3, and since 5.19 unless both file systems are of one type that can
    errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL,  # the file system or the kernel cannot
    errno.EBADF,  # an old answer of file systems that cannot
    errno.EPERM,  # a sandbox refuses the call; where the file is immutable the next means fails as well
    errno.ENOTSOCK,  # sendfile of systems that send to sockets only
)  # fmt: skip
Devices = tuple[int, int]


def _find_devices(source: int, copied: int) -> Devices:
    return os.fstat(source).st_dev, os.fstat(copied).st_dev


def _copy_in_kernel(source: int, copied: int, offset: int, length: int) -> int:
    return os.copy_file_range(source, copied, length, offset, offset)


def _send(source: int, copied: int, offset: int, length: int) -> int:
    os.lseek(copied, offset, os.SEEK_SET)
    return os.sendfile(copied, source, offset, length)


def _read_and_write(source: int, copied: int, offset: int, length: int) -> int:
    block = memoryview(os.pread(source, min(length, BLOCK), offset))
    done = 0
    while done < len(block):
        done += os.pwrite(copied, block[done:], offset + done)
    return done


MEANS = (*([_copy_in_kernel] if hasattr(os, "copy_file_range") else []), _send, _read_and_write)


class RangeCopier:
    """Copies between open files; remembers of each two file systems what works between them."""

    def __init__(self) -> None:
        self._means: dict[Devices, int] = {}  # the first of MEANS that worked
        self._no_clones: set[Devices] = set()

    def copy(self, source: int, copied: int, offset: int, length: int) -> int:
        """Copy a range to the same offset; the bytes copied, fewer where the source ends."""
        return self._copy(source, copied, offset, length, _find_devices(source, copied))

    def copy_whole(self, source: int, copied: int, size: int, largest: int, devices: Devices) -> int | None:
        """Copy a file into an empty one; the bytes copied. None when it is larger than `largest` and no clone.
        `devices`: those that the two lie on."""
        if self._clone(source, copied, devices):
            return size
        return self._copy(source, copied, 0, size, devices) if size <= largest else None

    def _copy(self, source: int, copied: int, offset: int, length: int, devices: Devices) -> int:
        means, left = self._means.get(devices, 0), length
        while left > 0:
            try:
                with allow_long_wait():
                    done = MEANS[means](source, copied, offset, left)
            except OSError as error:
                if error.errno not in _CANNOT or means == len(MEANS) - 1:
                    raise
                done = 0
            if done:
                self._means.setdefault(devices, means)
                left, offset = left - done, offset + done
            elif means == len(MEANS) - 1:
                break
            else:
                means += 1  # also after 0 bytes, which Linux before 5.19 answers for files of the kernel's own
        return length - left

    def _clone(self, source: int, copied: int, devices: Devices) -> bool:
        """Make an empty file share the bytes of another one; whether that is possible."""
        if devices in self._no_clones:
            return False
        try:
            fcntl.ioctl(copied, FICLONE, source)
        except OSError as error:
            if error.errno in _NO_CLONE:
                self._no_clones.add(devices)
            elif error.errno not in _NOT_THESE:
                raise
            return False
        return True
