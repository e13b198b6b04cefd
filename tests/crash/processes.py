"""A service of several processes that are killed, and clients that know the process of their connection."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from tests.support.proc import find_server, is_gone
from tests.support.service import Service

PROCESSES = 3
RECOVERY_SECONDS = 120.0  # until one that died is there again
MAX_CONNECTIONS = 60  # that are open until each process has accepted one; one address may not have many more
IDLE_SECONDS = 4.0  # after which the service may close a connection
TROUBLES = (OSError, http.client.HTTPException)


class Lost(Exception):
    """The process that was asked has been killed: what it was asked for may have been done, or not."""


@dataclass
class Family:
    """A running service, and which of its processes were killed so far."""

    service: Service
    token: str
    killed: set[int] = field(default_factory=set)

    @property
    def port(self) -> int:
        port = urlsplit(self.service.address).port
        assert port is not None
        return port

    def list_servers(self) -> list[int]:
        """The processes that answer."""
        return self.service.list_servers()

    def kill(self, pid: int) -> None:
        """End one of them as a crash would."""
        self.killed.add(pid)
        os.kill(pid, signal.SIGKILL)

    def wait_until_whole(self) -> list[int]:
        """Until as many processes answer as were asked for, none of them killed; they."""
        end = time.monotonic() + RECOVERY_SECONDS
        while True:
            pids = self.list_servers()
            if len(pids) == PROCESSES and not self.killed & set(pids):
                return pids
            assert time.monotonic() < end, f"{pids} are left of {PROCESSES} processes"
            time.sleep(0.01)

    def connect(self) -> Caller:
        """A new connection to whichever process accepts it."""
        end = time.monotonic() + RECOVERY_SECONDS
        while True:
            with suppress(*TROUBLES):  # it waited for a process that was killed
                return Caller(self)
            assert time.monotonic() < end, "nobody accepts connections"

    @contextmanager
    def connect_each(self) -> Iterator[dict[int, Caller]]:
        """A connection to each process that answers now; fewer where some are killed meanwhile."""
        expected, callers, rest = set(self.list_servers()), dict[int, Caller](), list[Caller]()
        end = time.monotonic() + RECOVERY_SECONDS
        try:
            while not expected <= callers.keys() | self.killed and time.monotonic() < end:
                if len(rest) > MAX_CONNECTIONS:  # a process stands still
                    close_all(rest)
                caller = self.connect()
                if caller.pid not in expected or callers.setdefault(caller.pid, caller) is not caller:
                    rest.append(caller)
            yield callers
        finally:
            close_all(rest)
            close_all(list(callers.values()))


class Caller:
    """Open a connection to one process, whose number is `pid`.

    Raise OSError or HTTPException if no process accepts it.
    """

    def __init__(self, family: Family) -> None:
        self._family = family
        self._connection = http.client.HTTPConnection("127.0.0.1", family.port, timeout=60)
        try:
            self._connection.request("GET", "/ping")  # then it is accepted
            self._connection.getresponse().read()
            self.pid = self._find_pid()
        except BaseException:
            self.close()
            raise

    def _find_pid(self) -> int:
        peer = self._connection.sock.getsockname()[1]
        pid = find_server(self._family.list_servers(), self._family.port, peer)
        if pid is None:
            raise ConnectionAbortedError("its process has ended")
        return pid

    def close(self) -> None:
        self._connection.close()

    def detach(self) -> socket.socket:
        """The connection's socket, which is the caller's from now on."""
        connection: socket.socket = self._connection.sock
        self._connection.sock = None
        return connection

    def ask(self, path: str, /, **body: Any) -> Any:
        """The data of a POST of these fields, or of a GET without any; Lost."""
        content = json.dumps(body).encode() if body else None
        return self._send("POST" if body else "GET", path, content, {"content-type": "application/json"})

    def save(self, **settings: str) -> None:
        """Change settings; Lost."""
        rows = [{"key": key, "value": value} for key, value in settings.items()]
        headers = {"content-type": "application/json"}
        self._send("POST", "/api/admin/setting/save", json.dumps(rows).encode(), headers)

    def put(self, path: str, content: bytes) -> None:
        """Upload to the tree path; Lost."""
        self._send("PUT", "/api/fs/put", content, {"file-path": quote(path)})

    def list_names(self, path: str) -> set[str]:
        """Lost."""
        return {entry["name"] for entry in self.ask("/api/fs/list", path=path)["content"] or ()}

    def _reopen(self) -> None:
        """Replace the connection by another one to the same process. A service closes those that are idle."""
        others: list[Caller] = []
        end = time.monotonic() + RECOVERY_SECONDS
        try:
            while self.pid not in self._family.killed:
                assert time.monotonic() < end, f"{self.pid} accepts no connection"
                if len(others) > MAX_CONNECTIONS:  # it stands still
                    close_all(others)
                others.append(self._family.connect())
                if others[-1].pid == self.pid:
                    self._connection, others[-1]._connection = others[-1]._connection, self._connection
                    return
        finally:
            close_all(others)
        raise Lost

    def _send(self, method: str, path: str, content: bytes | None, headers: dict[str, str]) -> Any:
        looked_at = time.monotonic()
        if select.select([self._connection.sock], [], [], 0)[0]:  # closed: no answer is due
            self._reopen()
        try:
            self._connection.request(method, path, content, headers | {"authorization": self._family.token})
            answer = json.loads(self._connection.getresponse().read())
        except TROUBLES as trouble:
            if self.pid not in self._family.killed and time.monotonic() - looked_at > IDLE_SECONDS:
                self._reopen()  # it was closed after that look
                return self._send(method, path, content, headers)
            assert self.pid in self._family.killed, f"{path} at {self.pid}, which nobody killed: {trouble!r}"
            raise Lost from trouble
        assert answer["code"] == 200, (path, answer)
        return answer["data"]


def close_all(callers: list[Caller]) -> None:
    """Close the connections, and empty the list."""
    for caller in callers:
        caller.close()
    callers.clear()


class Work(threading.Thread):
    """Something done again and again until it is ended, which tells what went wrong; a killed process is not wrong."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self.family = family
        self.done = 0
        self.lost = 0
        self.problem: BaseException | None = None
        self.ending = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            while not self.ending.is_set():
                self._work_until_lost()
        except BaseException as problem:
            self.problem = problem

    def _work_until_lost(self) -> None:
        caller = self.family.connect()
        try:
            while not self.ending.is_set():
                self.work(caller)
                self.done += 1
        except Lost:
            self.lost += 1
        finally:
            caller.close()

    def work(self, caller: Caller) -> None:
        """One round; Lost."""
        raise NotImplementedError

    def end(self) -> None:
        """Wait until it ended, and raise what went wrong."""
        self.ending.set()
        self.join()
        if self.problem is not None:
            raise self.problem


def wait_until_gone(pids: list[int], seconds: float = RECOVERY_SECONDS) -> None:
    """Until all of these processes ended."""
    end = time.monotonic() + seconds
    while left := [pid for pid in pids if not is_gone(pid)]:
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.01)
