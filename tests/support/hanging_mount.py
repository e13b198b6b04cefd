"""A mounted file system that can be made to hang as a dead network share does: rclone serves it through FUSE, and is
stopped. Needs root, /dev/fuse and rclone."""

from __future__ import annotations

import array
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MNT_DETACH = 2
RCLONE = Path(sys.executable).parent / "rclone"
MISSING = next(
    (
        text
        for text, is_missing in (
            ("only root may mount", os.geteuid() != 0),
            ("there is no /dev/fuse", not os.path.exists("/dev/fuse")),
            ("there is no rclone", not RCLONE.exists()),
        )
        if is_missing
    ),
    "",
)
"""Why there can be no such mount here; empty when there can."""


class HangingMount:
    """`path` shows the folder `source`; `hang` until `resume`."""

    def __init__(self, path: Path, source: Path, server: subprocess.Popen[bytes]) -> None:
        self.path = path
        self.source = source
        self._server = server

    def hang(self) -> None:
        self._server.send_signal(signal.SIGSTOP)

    def is_waited_for(self, process: int) -> bool:
        """Return True if a thread of a process waits for the mount."""
        tasks = Path(f"/proc/{process}/task").glob("*/wchan")
        return any(_read_if_there(task) == "request_wait_answer" for task in tasks)

    def resume(self) -> None:
        self._server.send_signal(signal.SIGCONT)


def _read_if_there(path: Path) -> str:
    """Nothing when the thread has ended; here, since this file is a program, too, which imports no other of ours."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@contextmanager
def hanging_mount(folder: Path) -> Iterator[HangingMount]:
    """A mount in the new folder `folder`, which is gone with the context whatever hangs in it."""
    path, source, programs = folder / "mount", folder / "source", folder / "programs"
    for needed in (path, source, programs):
        needed.mkdir(parents=True)
    helper = programs / "fusermount3"
    helper.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} "$@"\n')
    helper.chmod(0o700)
    command = [str(RCLONE), "mount", str(source), str(path), "--config", str(folder / "none.conf")]
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}"}
    with (folder / "rclone.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait_until_mounted(path, server)
        yield HangingMount(path, source, server)
    finally:
        _unmount(path)
        server.kill()  # which ends what hangs in the mount
        server.wait()


def _wait_until_mounted(path: Path, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while not path.is_mount():
        assert server.poll() is None and time.monotonic() < end, (path.parent / "rclone.log").read_text()
        time.sleep(0.02)


def _unmount(path: Path) -> None:
    ctypes.CDLL(None).umount2(os.fsencode(path), MNT_DETACH)


def _mount(path: str) -> None:
    """Do the work of fusermount3 for a server: mount, and send it the connection."""
    connection = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={connection},rootmode=40000,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"mangrove-test", os.fsencode(path), b"fuse.rclone", 0, options.encode()):
        sys.exit(os.strerror(ctypes.get_errno()))
    with socket.socket(fileno=int(os.environ["_FUSE_COMMFD"])) as server:
        server.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [connection]))])


if __name__ == "__main__":
    if "-u" in sys.argv:
        _unmount(Path(sys.argv[-1]))
    else:
        _mount(sys.argv[-1])
