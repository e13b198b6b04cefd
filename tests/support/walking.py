"""The service where openat2 is not known, as on Linux before 5.6: `python -m tests.support.walking serve …`.

A filter of the kernel (seccomp) answers ENOSYS to that one call, in this process and all that it starts.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

from mangrove.standalone.__main__ import main

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_FILTER = 2  # SECCOMP_MODE_FILTER
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # of BPF: words, compared with a constant
_ALLOW, _FAIL_WITH = 0x7FFF0000, 0x00050000
_OPENAT2 = 437  # on every processor


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def hide_openat2() -> None:
    """From now on the kernel does not know the call; OSError where filters are not allowed."""
    rows = (
        (_LOAD, 0, 0, 0),  # the number of the call
        (_JUMP_IF_EQUAL, 0, 1, _OPENAT2),
        (_RETURN, 0, 0, _FAIL_WITH | errno.ENOSYS),
        (_RETURN, 0, 0, _ALLOW),
    )
    program = _Program(len(rows), b"".join(struct.pack("HBBI", *row) for row in rows))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong)
    for arguments in ((_PR_SET_NO_NEW_PRIVS, 1, None), (_PR_SET_SECCOMP, _FILTER, ctypes.byref(program))):
        if prctl(*arguments, 0, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    hide_openat2()
    sys.exit(main())
