"""A process that has loaded the service, and forks it for each test that asks for one.

The modules of a service take two thirds of the CPU of its start. The workers of a run share this process. A client
connects to the Unix socket that the variable SOCKET names, sends a line, and gets the number of the forked process in a
line. A second line has its exit status. Tests of the start itself run `mangrove serve`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from mangrove.core import checkpoints

SOCKET = "MANGROVE_TEST_PREPARED"
START_SECONDS = 60.0  # for the modules to be loaded


class PreparedProcess:
    """A forked service. It has the part of the interface of `subprocess.Popen` that tests use."""

    def __init__(self, module: str, arguments: Sequence[str], variables: dict[str, str], *outputs: Path) -> None:
        """Fork. `outputs`: the files of standard output and of standard error."""
        order = {
            "module": module, "arguments": list(arguments), "variables": variables, "folder": os.getcwd(),
            "outputs": list(map(str, outputs)),
        }  # fmt: skip
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(START_SECONDS)
        self._connection.connect(os.environ[SOCKET])
        self._connection.sendall(json.dumps(order).encode() + b"\n")
        self._reader = self._connection.makefile("rb")
        self.pid = int(self._reader.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.001)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit status."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                self._connection.recv(1, socket.MSG_PEEK)
            except TimeoutError:
                assert timeout is not None
                raise subprocess.TimeoutExpired(f"service {self.pid}", timeout) from None
            self._connection.settimeout(START_SECONDS)
            self.returncode = int(self._reader.readline())
            self._reader.close()
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


@contextmanager
def run_prepared() -> Iterator[None]:
    """Start the process for this run, and set the variable SOCKET."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/socket")
        listener.listen(socket.SOMAXCONN)
        command = [sys.executable, "-m", __name__, str(listener.fileno())]
        with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listener.fileno()]) as process:
            os.environ[SOCKET] = f"{folder}/socket"
            try:
                yield
            finally:
                del os.environ[SOCKET]
                assert process.stdin is not None
                process.stdin.close()  # ends it


class Forker:
    """Forks services, and reports their ends. It ends, and kills them, when its standard input is closed."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._clients: dict[int, socket.socket] = {}  # by process
        self._wakeup, written = socket.socketpair()
        written.setblocking(False)
        self._wakeup.setblocking(False)
        self._signals = written
        for file in (listener, self._wakeup, sys.stdin):
            self._selector.register(file, selectors.EVENT_READ)

    def run(self) -> None:
        """Fork until standard input is closed."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends pytest, and that closes standard input
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._signals.fileno())
        while True:
            files = [key.fileobj for key, _ in self._selector.select()]
            if self._wakeup in files:
                self._report_ends()
            if self._listener in files:
                self._answer(self._listener.accept()[0])
            if sys.stdin in files:
                break
        for pid in self._clients:
            os.kill(pid, signal.SIGKILL)

    def _report_ends(self) -> None:
        self._wakeup.recv(4096)
        for pid in list(self._clients):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with self._clients.pop(pid) as client, suppress(OSError):  # a test that was killed does not read it
                    client.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))

    def _answer(self, client: socket.socket) -> None:
        with client.makefile("rb") as reader:
            order = json.loads(reader.readline() or "{}")
        if not order:
            client.close()  # the test was killed
            return
        pid = os.fork()
        if not pid:
            self._serve(order, client)
        self._clients[pid] = client
        with suppress(OSError):
            client.sendall(b"%d\n" % pid)

    def _serve(self, order: dict[str, Any], client: socket.socket) -> NoReturn:
        """Run the service in the forked process, as `python -m MODULE ARGUMENTS` would."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._selector.close()
            for connection in (self._listener, self._wakeup, self._signals, client, *self._clients.values()):
                connection.close()
            self._enter(order)
            status = self._call(order["module"], order["arguments"])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    @staticmethod
    def _enter(order: dict[str, Any]) -> None:
        for number, path in enumerate(order["outputs"], 1):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(file, number)
            os.close(file)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        os.environ.clear()
        os.environ.update(order["variables"])
        os.chdir(order["folder"])
        importlib.reload(checkpoints)  # which reads a variable at its import

    @staticmethod
    def _call(module: str, arguments: list[str]) -> int:
        from mangrove.standalone.__main__ import main
        from tests.support import quick

        sys.argv = [module, *arguments]
        if module == quick.__name__:
            quick.prepare()
        return main()


def load() -> None:
    """Load what every service loads, as the service itself does before it forks."""
    from mangrove.core import runtime
    from mangrove.core.runtime import Runtime

    with runtime.use(Runtime()):  # what the modules ask for at their import is not kept
        from mangrove.standalone import engine

        os.environ["MANGROVE_TABLES"] = engine.TABLES  # read when the records are imported
        from mangrove.standalone import preload

        preload.preload(None)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load()
    Forker(socket.socket(fileno=int(sys.argv[1]))).run()
