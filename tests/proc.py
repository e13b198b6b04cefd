"""What the kernel tells of processes; whatever ends while one looks is left out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def read_if_there(path: Path) -> bytes:
    """What a file of the kernel says; nothing when its process or thread ended."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def list_children(pid: int) -> list[int]:
    """The processes that threads of this one have started."""
    listed = b" ".join(read_if_there(path) for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return [int(text) for text in listed.split()]


def list_descendants(pid: int) -> list[int]:
    """The processes below one, the nearest first."""
    children = list_children(pid)
    return children + [below for child in children for below in list_descendants(child)]


def read_links(pid: int) -> Iterator[str]:
    """What the open files of a process are: `/a/file`, `socket:[123]`."""
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):  # it was closed meanwhile
            yield os.readlink(path)


def is_gone(pid: int) -> bool:
    """Whether it ended, its status read or not."""
    status = read_if_there(Path(f"/proc/{pid}/stat")).decode()
    return not status or status.rpartition(")")[2].split()[0] == "Z"
