"""The service as people run it: `mangrove serve` in a process of its own, and a client that speaks its envelope."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from mangrove.records.store.endpoints import EngineEndpoint
from mangrove.standalone.data_directory import DataDirectory
from tests.support.prepared import SOCKET, PreparedProcess
from tests.support.proc import list_servers, read_links

Process = subprocess.Popen[bytes] | PreparedProcess

ADMIN_PASSWORD = "correct horse battery"
START_SECONDS = 300.0
PROCESSES = int(os.environ.get("MANGROVE_PROCESSES", "1"))  # of a service, unless a test asks for others
PART = ".mangrove-"  # what names of unfinished files begin with
TRASH_NAME = ".mangrove-trash"
LIMITS = httpx.Limits(keepalive_expiry=2)  # the service closes a connection that is idle for five seconds


class HttpClient(httpx.Client):
    """An HTTP client that closes its connections when nothing refers to it, and those that the service soon closes."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"limits": LIMITS} | options)

    def __del__(self) -> None:
        self.close()


class Client:
    """Speaks JSON with the service; `token` is sent as it is, "" for none. Answers are envelopes.

    `data`: the service's data directory, where it is known.
    """

    def __init__(self, address: str, token: str = "", data: Path | None = None) -> None:
        self.address = address
        self.token = token
        self.data = data
        headers = {"authorization": token} if token else {}
        self.http = HttpClient(base_url=address, headers=headers, timeout=60)

    def post(self, path: str, /, params: Any = None, **body: Any) -> dict[str, Any]:
        """POST with the keywords as JSON body."""
        return self.envelope(self.http.post(path, json=body, params=params))

    def get(self, path: str, /, **query: Any) -> dict[str, Any]:
        """GET with the keywords as query."""
        return self.envelope(self.http.get(path, params=query))

    def put(self, path: str, content: Any, **headers: str) -> dict[str, Any]:
        """Upload to the tree path; keywords become headers, `_` for `-`."""
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.http.put("/api/fs/put", content=content, headers={"file-path": quote_path(path), **extra})
        return self.envelope(answer)

    @staticmethod
    def envelope(answer: httpx.Response) -> dict[str, Any]:
        assert answer.status_code == 200, (answer.status_code, answer.text[:500])
        envelope: dict[str, Any] = answer.json()
        problem = envelope.pop("problem", "")
        assert bool(problem) == (envelope["code"] != 200 and not answer.url.path.startswith("/openlist/")), problem
        assert set(envelope) == {"code", "message", "data"}, envelope
        return envelope

    def ok(self, path: str, /, params: Any = None, **body: Any) -> Any:
        """The data of a POST that must succeed."""
        answer = self.post(path, params=params, **body)
        assert answer["code"] == 200, answer
        return answer["data"]

    def names(self, path: str) -> list[str]:
        """Sorted names in a folder."""
        return sorted(entry["name"] for entry in self.ok("/api/fs/list", path=path, refresh=False)["content"])

    def bytes(self, path: str, **headers: str) -> httpx.Response:
        """GET of a file's raw_url."""
        return self.http.get(self.ok("/api/fs/get", path=path)["raw_url"], headers=headers)


def quote_path(path: str) -> str:
    from urllib.parse import quote

    return quote(path)


class Service:
    """A running `mangrove serve`, whose standard output goes to the file `printed`."""

    def __init__(self, process: Process, address: str, data: Path, printed: Path) -> None:
        self.process = process
        self.address = address
        self.data = data
        self._printed = printed

    @property
    def output(self) -> str:
        """The output so far."""
        return self._printed.read_text()

    def client(self, username: str = "admin", password: str = ADMIN_PASSWORD) -> Client:
        """A signed-in client."""
        token = Client(self.address).ok("/api/auth/login", username=username, password=password)["token"]
        return Client(self.address, token, self.data)

    def find_records(self) -> EngineEndpoint:
        """Return the endpoint of its records engine, for those who may enter the data directory."""
        holder = DataDirectory(self.data).read_holder()
        assert holder is not None and holder.keeps_records
        return EngineEndpoint(holder.engine, holder.engine_socket)

    def anonymous(self) -> Client:
        """A client without a token."""
        return Client(self.address)

    def find_unfinished(self, folder: Path) -> list[str]:
        """The files under way in a folder and below: those with a name of their own, and the open ones with none."""
        named = [str(path) for path in folder.rglob(f"{PART}*") if path.name != TRASH_NAME]
        return named + [link for link in self._find_nameless() if link.startswith(f"{folder}/")]

    def _find_nameless(self) -> Iterator[str]:
        links = (link for pid in self.list_servers() for link in read_links(pid))
        return (link for link in links if link.endswith(" (deleted)"))

    def list_servers(self) -> list[int]:
        """The processes that answer: this one, or its children."""
        port = urlsplit(self.address).port
        assert port is not None
        return list_servers(self.process.pid, port)

    def kill(self) -> None:
        """End the process as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds: float = 60) -> int:
        """End it as an operator would, within `seconds`; the exit status."""
        self.process.terminate()
        return self.process.wait(seconds)


def command(*arguments: str, module: str = "mangrove.standalone") -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def start_service(data: Path, module: str = "mangrove.standalone", **environment: str) -> Service:
    """Start the service on a data directory and wait for its address."""
    output, log = list_outputs(data)
    with output.open("w") as stdout, log.open("a") as stderr:
        process: Process = subprocess.Popen(
            command(*make_arguments(data), module=module), stdout=stdout, stderr=stderr, env=make_variables(environment)
        )
    return wait_for_service(process, data)


def fork_service(data: Path, module: str = "mangrove.standalone", **environment: str) -> Service:
    """Start the service like `start_service`. In a run of several workers it is a fork of a process that has loaded it.

    This is for tests of a running service. What depends on variables at the import, or on the memory of the process,
    needs a process of its own.
    """
    if SOCKET not in os.environ:
        return start_service(data, module, **environment)
    output, log = list_outputs(data)
    output.write_text("")
    return wait_for_service(
        PreparedProcess(module, make_arguments(data), make_variables(environment), output, log), data
    )


def make_arguments(data: Path) -> list[str]:
    return ["serve", "--port", "0", "--data", str(data)]


def make_variables(more: dict[str, str]) -> dict[str, str]:
    return os.environ | {"MANGROVE_ADMIN_PASSWORD": ADMIN_PASSWORD} | more


def list_outputs(data: Path) -> tuple[Path, Path]:
    """Return the files of standard output and of standard error."""
    return data.parent / f"{data.name}.out", data.parent / f"{data.name}.log"


def wait_for_service(process: Process, data: Path) -> Service:
    """Return a service that starts when it answers."""
    printed, log = list_outputs(data)
    while not printed.read_text().endswith("\n") and process.poll() is None:
        time.sleep(0.01)
    match = re.search(r"at (http://\S+),", printed.read_text())
    assert match, (printed.read_text(), log.read_text())
    try:
        wait_until_ready(match[1])
    except BaseException:
        process.send_signal(signal.SIGKILL)
        raise
    return Service(process, match[1], data, printed)


def wait_until_ready(address: str) -> None:
    """Until the service answers."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            assert httpx.get(f"{address}/ping", timeout=30).text == "pong"
            return
        except httpx.TransportError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


@contextmanager
def run_service(data: Path, module: str = "mangrove.standalone", **environment: str) -> Iterator[Service]:
    """A service that ends with the context."""
    yield from _end_with_context(start_service(data, module, **environment))


@contextmanager
def run_forked(data: Path, module: str = "mangrove.standalone", **environment: str) -> Iterator[Service]:
    """A service of `fork_service` that ends with the context."""
    yield from _end_with_context(fork_service(data, module, **environment))


def _end_with_context(service: Service) -> Iterator[Service]:
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.kill()
