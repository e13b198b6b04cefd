"""The compared services. They run at the same time, mount the same files and get the same requests."""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.connection import Connection
from bench.processes import get_family_pss
from tests.servers import free_port, s3_options, wait_for
from tests.support.proc import list_servers
from tests.support.service import ADMIN_PASSWORD, start_service

START_SECONDS = 60.0
IDLE_SECONDS = 2.0  # after which a server may close a connection


@dataclass(frozen=True, slots=True)
class Running:
    """The first process of a service, and its address."""

    process: subprocess.Popen[Any]
    address: str


Launch = Callable[[], Running]


class Subject:
    """A service that is measured; `folder` is for its own data and targets."""

    def __init__(self, name: str, folder: Path, launch: Launch) -> None:
        self.name = name
        self.folder = folder
        self._launch = launch
        self._running: Running | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._answered = 0.0  # the time of the last answer, by time.monotonic
        self._token = ""
        self._mounts: dict[str, str] = {}

    @property
    def address(self) -> str:
        assert self._running is not None, "it does not run"
        return self._running.address

    @property
    def pid(self) -> int:
        assert self._running is not None, "it does not run"
        return self._running.process.pid

    @property
    def token(self) -> str:
        """The token of an administrator."""
        if not self._token:
            self._token = self.ask("/api/auth/login", username="admin", password=ADMIN_PASSWORD)["token"]
        return self._token

    def start(self) -> None:
        """Start the service and wait until it can describe each of its mounts, without listing them."""
        self.launch()
        end = time.monotonic() + START_SECONDS
        for mount in self._mounts.values():
            while not self._is_there(mount):
                if time.monotonic() > end:
                    raise RuntimeError(f"{self.name} did not start the storage {mount}")
                time.sleep(0.05)

    def launch(self) -> None:
        """Start the service and wait until it answers."""
        self._running = self._launch()

    def _is_there(self, path: str) -> bool:
        try:
            return bool(self.ask("/api/fs/get", path=path))
        except RuntimeError:
            return False

    def stop(self) -> None:
        """Stop the service if it runs."""
        if self._running is not None:
            self._running.process.terminate()
            self._running.process.wait(60)
            self._running, self._token = None, ""
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def restart(self) -> None:
        """Restart the service on the same data, and sign in."""
        self.stop()
        self.start()
        assert self.token

    def ask(self, path: str, /, **body: Any) -> Any:
        """Return the data of a POST of these fields, or of a GET without fields. Raise RuntimeError for a failure."""
        return self._send("POST" if body else "GET", path, body or None)

    def _send(self, method: str, path: str, body: Any) -> Any:
        headers = {"content-type": "application/json"}
        if not path.startswith("/api/auth/"):
            headers["authorization"] = self.token
        if time.monotonic() - self._answered > IDLE_SECONDS:
            self._disconnect()
        if self._connection is None:
            self._connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=300)
        try:
            self._connection.request(method, path, None if body is None else json.dumps(body), headers)
            envelope = json.loads(self._connection.getresponse().read())
        except BaseException:
            self._disconnect()
            raise
        self._answered = time.monotonic()
        if envelope["code"] != 200:
            raise RuntimeError(f"{self.name}: {path}: {envelope}")
        return envelope["data"]

    def connect(self) -> Connection:
        """Return a new keep-alive connection with a token."""
        return Connection(self.address, self.token)

    def save_setting(self, key: str, value: str) -> None:
        """Save a setting. Raise RuntimeError unless the code of the answer is 200."""
        self._send("POST", "/api/admin/setting/save", [{"key": key, "value": value}])

    def get_download_target(self, path: str) -> str:
        """Return path and query of the address of a file's bytes."""
        address = urlsplit(self.ask("/api/fs/get", path=path)["raw_url"])
        return f"{address.path}?{address.query}"

    def mount_local(self, folder: Path) -> str:
        """Return the mount path of a folder of this machine. Mount it if necessary."""
        return self._mount(str(folder), "Local", root_folder_path=str(folder), show_hidden=True, thumbnail=False)

    def mount_bucket(self, endpoint: str, bucket: str) -> str:
        """Return the mount path of a bucket. Mount it if necessary."""
        return self._mount(bucket, "S3", **s3_options(endpoint, bucket, region="us-east-1", list_object_version="v2"))

    def _mount(self, what: str, driver: str, **addition: Any) -> str:
        if what not in self._mounts:
            path = f"/m{len(self._mounts)}"
            self.ask(
                "/api/admin/storage/create", mount_path=path, driver=driver, addition=json.dumps(addition),
                cache_expiration=30, web_proxy=True, webdav_policy="native_proxy",
            )  # fmt: skip
            self._mounts[what] = path
        return self._mounts[what]

    def count_processes(self) -> int:
        """Return the number of processes of the service that accept connections."""
        return len(list_servers(self.pid, urlsplit(self.address).port or 0))

    def get_memory_per_process(self) -> float:
        """Return the bytes of all processes, with shared pages counted once, per process that accepts connections."""
        return get_family_pss(self.pid) / self.count_processes()


def launch_ours(data: Path, processes: int | None) -> Running:
    """Start `mangrove serve` on a data directory. `processes`: None for the default number."""
    service = start_service(
        data, PYTHONDONTWRITEBYTECODE="", **({} if processes is None else {"MANGROVE_PROCESSES": str(processes)})
    )
    return Running(service.process, service.address)


def launch_peer(binary: Path, data: Path) -> Running:
    """Start another service that has the commands `admin set` and `server`, on a data directory of its own."""
    config = data / "config.json"
    if not config.exists():
        command = [str(binary), "admin", "set", ADMIN_PASSWORD, "--data", str(data)]
        subprocess.run(command, check=True, capture_output=True)
        (data / "dist").mkdir()  # without a page it refuses to start
        (data / "dist" / "index.html").write_text("<html></html>")
    port = free_port()
    known = json.loads(config.read_text())
    known["dist_dir"] = str(data / "dist")
    known["scheme"] |= {"address": "127.0.0.1", "http_port": port}
    config.write_text(json.dumps(known))
    with (data.parent / "peer.log").open("a") as log:
        process = subprocess.Popen([binary, "server", "--data", str(data)], stdout=log, stderr=log)
    wait_for(port)
    return Running(process, f"http://127.0.0.1:{port}")
