"""Facts of processes from the kernel; processes that end meanwhile are left out."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


def read_if_there(path: Path) -> bytes:
    """Return the content of a file of the kernel; nothing if its process or thread has ended."""
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
    """Yield the open files of a process: `/a/file`, `socket:[123]`."""
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):  # it was closed meanwhile
            yield os.readlink(path)


def list_open(folder: Path) -> list[str]:
    """The open files of this process that are in a folder. Those that other tests have left may be closed meanwhile."""
    return sorted(link for link in read_links(os.getpid()) if Path(link).is_relative_to(folder))


def read_stat(pid: int) -> list[str]:
    """Return the fields of a process after its name, from its state on; nothing if it has ended."""
    return read_if_there(Path(f"/proc/{pid}/stat")).decode().rpartition(")")[2].split()


def get_family_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, all its descendants and the children that they have waited for."""
    ticks = (sum(map(int, read_stat(member)[11:15])) for member in (pid, *list_descendants(pid)))
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def is_gone(pid: int) -> bool:
    """Return True if it ended with all of its threads, which have its files open until then; its status read or not."""
    fields = read_stat(pid)
    return not fields or (fields[0] == "Z" and int(fields[17]) <= 1)


def is_stopped(pid: int) -> bool:
    """Return True if a signal has stopped it, or it has ended."""
    fields = read_stat(pid)
    return not fields or fields[0] in "TZ"


def stop_group(pid: int) -> None:
    """Have a process that leads its group stand still with all it has started, also what it was just starting."""
    while True:
        os.killpg(pid, signal.SIGSTOP)
        if all(map(is_stopped, [pid, *list_descendants(pid)])):
            return
        time.sleep(0.005)


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """A socket of IPv4 as the kernel lists it; `is_listening` or a connection to the port `peer`."""

    inode: str
    port: int
    peer: int
    is_listening: bool


def list_sockets(port: int) -> list[TcpSocket]:
    """Those of this network namespace with the local port."""
    rows = (line.split() for line in read_if_there(Path("/proc/net/tcp")).decode().splitlines()[1:])
    sockets = (TcpSocket(row[9], _get_port(row[1]), _get_port(row[2]), row[3] == "0A") for row in rows)
    return [socket for socket in sockets if socket.port == port]


def _get_port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def list_servers(pid: int, port: int) -> list[int]:
    """The processes that accept connections at the port, of this one's children, or itself where none does."""
    links = {f"socket:[{socket.inode}]" for socket in list_sockets(port) if socket.is_listening}
    return [child for child in list_children(pid) if links & set(read_links(child))] or [pid]


def find_server(pids: Iterable[int], port: int, peer: int) -> int | None:
    """Return the process that holds the connection from the port `peer`; None if no process has accepted it."""
    links = {f"socket:[{socket.inode}]" for socket in list_sockets(port) if socket.peer == peer}
    return next((pid for pid in pids if links & set(read_links(pid))), None)


def get_pss(pid: int) -> int:
    """Return the bytes of a process in memory; a page that others share counts in part."""
    rollup = read_if_there(Path(f"/proc/{pid}/smaps_rollup")).decode()
    return sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:"))


def get_family_pss(pid: int) -> int:
    """Return the bytes of a process and all its descendants in memory; shared pages count once."""
    return sum(map(get_pss, (pid, *list_descendants(pid))))
