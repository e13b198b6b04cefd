"""Calls of the kernel that Python does not offer. They release the interpreter while they wait."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from typing import Any

RENAME_NOREPLACE = 1
_OPENAT2 = 437  # the number of the call, on every processor; the C library has no function for it
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
_LIBC = ctypes.CDLL(None, use_errno=True)
_ON_THIS_MACHINE = frozenset({
    0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x858458F6, 0xF2F52010, 0x2FC12FC1, 0x794C7630,  # ext, XFS, Btrfs,
    # tmpfs, ramfs, F2FS, ZFS, overlay; then JFS, ReiserFS, FAT, exFAT, NTFS3, HFS+, bcachefs, NILFS, UDF
    0x3153464A, 0x52654973, 0x4D44, 0x2011BAB0, 0x7366746E, 0x482B, 0xCA451A4E, 0x3434, 0x15013346,
})  # fmt: skip
"""The `f_type` of statfs(2) of file systems whose bytes do not leave the machine.

NFS, SMB, 9P, Ceph and FUSE (behind which anything may be) are not among them.
"""


def _find(name: str, *types: Any) -> Any:
    """Return a function of the C library that returns an int; None if it does not have it."""
    function = getattr(_LIBC, name, None)
    if function is not None:
        function.argtypes = types
    return function


_RENAMEAT2 = _find("renameat2", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
_SYNCFS = _find("syncfs", ctypes.c_int)
_FSTATFS = _find("fstatfs", ctypes.c_int, ctypes.c_void_p)


class _OpenHow(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _find_openat2() -> Any:
    """The call, if this is Linux; the kernel's answer is known when it is made."""
    if platform.system() != "Linux" or (syscall := getattr(_LIBC, "syscall", None)) is None:
        return None
    syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_OpenHow), ctypes.c_size_t)
    syscall.restype = ctypes.c_long
    return syscall


_SYSCALL = _find_openat2()


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def rename_noreplace(old: str, new: str, source: int, folder: int) -> None:
    """Rename between two open folders.

    Raise FileExistsError if the new name is taken, OSError with EINVAL or ENOSYS if the file system or the C library
    does not support the flag.
    """
    if _RENAMEAT2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    _check(_RENAMEAT2(source, os.fsencode(old), folder, os.fsencode(new), RENAME_NOREPLACE))


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Return a handle of the relative `path` below an open folder; links are followed unless one leads out of it.

    Raise OSError with EXDEV for a link that leads out, or has an absolute target; with ENOSYS before Linux 5.6, on
    other systems and in sandboxes without the call (some of them answer EPERM); with EAGAIN if folders were renamed
    meanwhile.
    """
    if _SYSCALL is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how = _OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    handle: int = _SYSCALL(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if handle < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return handle


def can_sync_file_system() -> bool:
    """True if `sync_file_system` exists and reports errors, as Linux does since 5.8."""
    release = platform.release().split(".")
    known = _SYNCFS is not None and all(part.isdecimal() for part in release[:2])
    return known and tuple(map(int, release[:2])) >= (5, 8)


def sync_file_system(handle: int) -> None:
    """Make everything that was written to the file system of an open file survive a power cut, by any program."""
    _check(_SYNCFS(handle))


def is_on_this_machine(handle: int) -> bool:
    """True if the file system of an open file is known to keep its bytes on this machine."""
    if _FSTATFS is None or platform.system() != "Linux":
        return False
    status = ctypes.create_string_buffer(256)  # larger than a struct statfs, which starts with f_type
    _check(_FSTATFS(handle, status))
    return (ctypes.c_long.from_buffer(status).value & 0xFFFFFFFF) in _ON_THIS_MACHINE
