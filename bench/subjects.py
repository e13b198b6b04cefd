"""The compared services. They run at the same time, mount the same files and get the same requests."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from bench.connection import Connection
from bench.tables import wait_until
from tests.servers import free_port, s3_options, wait_for
from tests.support.proc import get_family_pss
from tests.support.service import ADMIN_PASSWORD, Service, start_service

MOUNT_SECONDS, MAX_BUILD_SECONDS = 60.0, 300.0
MIN_COMMON_HITS = 50
PEER = "peer"


class Subject:
    """A service that is measured; `folder` is for its own data and targets."""

    def __init__(self, name: str, folder: Path, start: Callable[[Path], Service]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.folder = folder
        self._start = start
        self._mounts: dict[str, str] = {}
        self.launch()

    def launch(self) -> None:
        """Start the service on the data that it has, and wait until it answers."""
        self.service = self._start(self.folder / "data")
        self.address, self.pid = self.service.address, self.service.process.pid
        self._connection = Connection(self.address)

    def stop(self) -> None:
        """Stop the service if it runs."""
        self._connection.close()
        self.service.stop()

    def restart(self) -> None:
        """Restart the service on the same data, and wait until it can describe its mounts, without listing them."""
        self.stop()
        self.launch()
        assert self.token
        for mount in self._mounts.values():
            wait_until(partial(self._is_there, mount), MOUNT_SECONDS, f"{self.name}: {mount}")

    def _is_there(self, path: str) -> bool:
        with suppress(RuntimeError):
            return bool(self.ask("/api/fs/get", path=path))
        return False

    @property
    def token(self) -> str:
        """The token of an administrator."""
        if not self._connection.token:
            self._connection.token = self.sign_in("admin", ADMIN_PASSWORD)
        return self._connection.token

    def sign_in(self, username: str, password: str) -> str:
        """Return a new token of a user."""
        with Connection(self.address) as connection:
            return str(connection.ask("/api/auth/login", {"username": username, "password": password})["token"])

    def connect(self) -> Connection:
        """Return a new keep-alive connection with a token."""
        return Connection(self.address, self.token)

    def ask(self, path: str, /, **body: Any) -> Any:
        """Return the data of a POST of these fields, or of a GET without fields. Raise RuntimeError for a failure."""
        assert self.token
        return self._connection.ask(path, body or None)

    def list_page(self, path: str, total: int, page: int = 1, size: int = 50) -> None:
        """Read a page of a folder. Fail unless it is full, and the folder has at least `total` entries."""
        data = self.ask("/api/fs/list", path=path, page=page, per_page=size)
        assert len(data["content"]) == size and data["total"] >= total, data["total"]

    def wait_for_index(self) -> None:
        """Wait until the index of names is complete."""
        progress = partial(self.ask, "/api/admin/index/progress")
        wait_until(lambda: progress()["is_done"], MAX_BUILD_SECONDS, f"{self.name}: index")

    def search(self, parent: str, keywords: str, expected: int | None) -> None:
        """Read the first page of hits. `expected`: the number of hits; None for many."""
        page = {"parent": parent, "keywords": keywords, "scope": 0, "page": 1, "per_page": 50, "password": ""}
        total = self.ask("/api/fs/search", **page)["total"]
        if total != expected and (expected is not None or total < MIN_COMMON_HITS):
            raise RuntimeError(f"{self.name}: {total} hits, not {expected}")

    def save_setting(self, key: str, value: str) -> None:
        with self.connect() as connection:
            connection.ask("/api/admin/setting/save", [{"key": key, "value": value}])

    def get_target(self, kind: str, **body: str) -> str:
        """Return path and query of the address that an answer has in a field."""
        address = urlsplit(self.ask(f"/api/fs/{kind}", **body)["raw_url" if kind == "get" else "url"])
        return f"{address.path}?{address.query}"

    @contextmanager
    def make_target(self) -> Iterator[tuple[Path, str]]:
        """Make an empty folder and remove it at the end. Yield it and its mount path."""
        folder = self.folder / uuid4().hex
        folder.mkdir()
        try:
            yield folder, self.mount_local(folder)
        finally:
            shutil.rmtree(folder)
            self._mounts.pop(str(folder), None)

    def mount_local(self, folder: Path) -> str:
        """Return the mount path of a folder of this machine. Mount it if necessary."""
        return self._mount(str(folder), "Local", root_folder_path=str(folder), show_hidden=True, thumbnail=False)

    def mount_bucket(self, endpoint: str, bucket: str) -> str:
        """Return the mount path of a bucket. Mount it if necessary."""
        return self._mount(bucket, "S3", **s3_options(endpoint, bucket, region="us-east-1", list_object_version="v2"))

    def _mount(self, what: str, driver: str, **addition: Any) -> str:
        if what not in self._mounts:
            path = f"/m{uuid4().hex[:8]}"
            self.ask(
                "/api/admin/storage/create", mount_path=path, driver=driver, addition=json.dumps(addition),
                cache_expiration=30, web_proxy=True, webdav_policy="native_proxy",
            )  # fmt: skip
            self._mounts[what] = path
        return self._mounts[what]

    def count_processes(self) -> int:
        """Return the number of processes of the service that accept connections."""
        return len(self.service.list_servers())

    def get_memory_per_process(self) -> float:
        """Return the bytes of all processes, with shared pages counted once, per process that accepts connections."""
        return get_family_pss(self.pid) / self.count_processes()


@contextmanager
def run_subjects(
    folder: Path, processes: Iterable[tuple[str, int | None]], peer: Path | None = None
) -> Iterator[list[Subject]]:
    """Run services with these names and numbers of processes (None: the default), and a peer if there is its binary."""
    starts = {name: (f"ours {name}", partial(_start_ours, count)) for name, count in processes}
    if peer is not None:
        starts[PEER] = PEER, partial(_start_peer, peer)
    subjects: list[Subject] = []
    try:
        subjects.extend(Subject(name, folder / home, start) for name, (home, start) in starts.items())
        yield subjects
    finally:
        for subject in subjects:
            subject.stop()


def _start_ours(processes: int | None, data: Path) -> Service:
    """Start `mangrove serve` on a data directory. `processes`: None for the default number."""
    more = {} if processes is None else {"MANGROVE_PROCESSES": str(processes)}
    return start_service(data, PYTHONDONTWRITEBYTECODE="", **more)


def _start_peer(binary: Path, data: Path) -> Service:
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
    printed = data.parent / "peer.log"
    with printed.open("a") as log:
        process = subprocess.Popen([binary, "server", "--data", str(data)], stdout=log, stderr=log)
    wait_for(port)
    return Service(process, f"http://127.0.0.1:{port}", data, printed)
