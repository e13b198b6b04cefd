"""Unix sockets for the processes of one user. Their paths may be longer than the 107 bytes that the kernel allows."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PENDING_CONNECTIONS = 128  # that wait for `accept`, also while the process that accepts is restarted
FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


def listen(path: Path) -> socket.socket:
    """Return a listening socket that only its owner can use, after removing one with the same path. Raise OSError."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        os.fchmod(listener.fileno(), 0o600)  # the mode of its file, whatever the umask
        with _shorten(path) as short:
            listener.bind(short)
        listener.listen(PENDING_CONNECTIONS)
    except BaseException:
        listener.close()
        raise
    return listener


def connect(path: Path, seconds: float | None = None) -> socket.socket:
    """Return a connection. Raise OSError, or TimeoutError if it takes longer than `seconds`."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(seconds)
        with _shorten(path) as short:
            connection.connect(short)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _shorten(path: Path) -> Iterator[str]:
    """Return a short name of a path, which goes through a handle of its folder."""
    handle = os.open(path.parent, FOLDER_FLAGS)
    try:
        short = f"/proc/self/fd/{handle}/{path.name}"
        yield short if os.path.isdir(os.path.dirname(short)) else str(path)
    finally:
        os.close(handle)
