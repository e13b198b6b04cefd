"""A network namespace for the records engine. No other program on the machine can connect to a port in it."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from mangrove.core import unix_sockets
from mangrove.core.telemetry import log_warning

HELPER = Path(__file__).with_name("namespace_helper.py")
SOCKET = "engine.sock"
START_SECONDS = 10.0
REST_SECONDS = 1.0  # between two starts of the helper


class NamespaceRefused(Exception):
    """The reason why there is no namespace, in a few words."""


class Namespace:
    """A network namespace that lives as long as this object, and its helper process, which opens sockets in it.

    `path` is the Unix socket that returns them. This process keeps it open, so its clients do not notice the end of a
    helper: they wait for the next one.
    """

    def __init__(self, folder: Path) -> None:
        """Create a namespace. Raise NamespaceRefused if the kernel refuses, or if `folder` is not accessible in it."""
        if sys.platform != "linux":
            raise NamespaceRefused("this system has no network namespaces")
        self.path = folder / SOCKET
        self._handles: list[int] = []
        self._helper: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self._listener = _listen(self.path)
        try:
            self._helper = self._start(str(folder))
            self._handles = _open_namespaces(self._helper)
        except OSError as error:
            self.close()
            raise NamespaceRefused(str(error.strerror)) from None
        except BaseException:
            self.close()
            raise

    @property
    def handles(self) -> list[int]:
        """Return the namespaces that a child has to enter, in this order."""
        return self._handles

    @property
    def helper(self) -> int:
        """Return the helper's pid, also after it has ended."""
        return 0 if self._helper is None else self._helper.pid

    def revive(self) -> None:
        """Start the helper again if it has ended."""
        if self._helper is None or self._helper.poll() is None or time.monotonic() - self._began < REST_SECONDS:
            return
        log_warning("helper of the records engine's namespace ended; restarting")
        with suppress(OSError):  # no memory for a process: the next check tries again
            self._helper = self._start()

    def end_helper(self) -> None:
        """Restart the helper, since it may be the cause if the engine does not answer."""
        if self._helper is not None:
            self._helper.kill()

    def close(self) -> None:
        """End the helper. The namespace ends with its last process."""
        if self._helper is not None:
            self._helper.kill()
            self._helper.wait()
        self._listener.close()
        with suppress(OSError):  # it stays in a folder that became read-only; the next start removes it
            self.path.unlink()
        while self._handles:
            os.close(self._handles.pop())

    def _start(self, *folder: str) -> subprocess.Popen[bytes]:
        self._began = time.monotonic()
        return subprocess.Popen(  # noqa: S603 - own program, no input from outside
            [sys.executable, "-I", "-S", str(HELPER), str(self._listener.fileno()), *folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if folder else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[self._listener.fileno()],
            start_new_session=True,
            preexec_fn=make_start(self._handles),
            env={},
        )


def _listen(path: Path) -> socket.socket:
    try:
        return unix_sockets.listen(path)
    except OSError as error:  # a file system without sockets
        raise NamespaceRefused(f"no socket in {path.parent}: {error.strerror}") from None


def _open_namespaces(helper: subprocess.Popen[bytes]) -> list[int]:
    """Return handles of the helper's namespaces, without those of this process.

    Raise NamespaceRefused with the helper's reason if there are none.
    """
    assert helper.stdout is not None
    with helper.stdout as output:
        ready, _, _ = select.select([output], [], [], START_SECONDS)
        said = output.readline().decode(errors="replace").strip() if ready else "no answer"
    if said != "ready":
        raise NamespaceRefused(f"no network namespace: {said or 'the helper ended'}")
    handles: list[int] = []
    try:
        for name in ("user", "net"):  # the second can be entered only from inside the first
            path = f"/proc/{helper.pid}/ns/{name}"
            if not os.path.samefile(path, f"/proc/self/ns/{name}"):
                handles.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        for handle in handles:
            os.close(handle)
        raise
    return handles


PR_SET_PDEATHSIG = 1


def make_start(namespaces: Sequence[int] = ()) -> Callable[[], None] | None:
    """Return the function that a child process calls before it runs its program.

    It enters the namespaces of these handles, and makes the child end with the thread that started it. Everything is
    looked up before the fork, because the child must not wait for a lock of another thread between fork and exec.
    """
    if sys.platform != "linux":
        return None
    library = ctypes.PyDLL(None)
    parent, set_death_signal, set_namespace = os.getpid(), library.prctl, library.setns
    get_parent, leave = os.getppid, os._exit

    def start() -> None:
        for handle in namespaces:
            if set_namespace(handle, 0):
                leave(1)
        set_death_signal(PR_SET_PDEATHSIG, signal.SIGKILL)
        if get_parent() != parent:
            leave(1)

    return start
