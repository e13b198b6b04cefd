"""Thousands of small files go to a storage and come back, by task, with the service killed once on each way.

FILES: how many, instead of 10,000.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.crash.trees import ODD
from tests.protocol import places
from tests.protocol.places import Kind
from tests.support.service import Client, Service, fork_service

pytestmark = pytest.mark.long

FILES = int(os.environ.get("FILES", "10000"))
IN_FOLDER = 50  # files
MAX_FILE_BYTES = 4096
KILL_AT = 30  # per cent of the work
TASK_SECONDS = 3600.0
NAMES = [name for name in ODD if len(name) < 60 and not set(name) & set('?"<>') and name == name.strip(" .")]  # in SMB
REMOTE = [name for name in places.KINDS if name not in {"Local", "S3"}]


class Mortal:
    """A service that may be killed; `client` finds the next one."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.service: Service = fork_service(data)
        self.client: Client = self.service.client()

    def kill(self) -> None:
        self.service.kill()
        self.service = fork_service(self._data)
        self.client.address = self.service.address
        self.client.http.base_url = self.service.address

    def copy(self, source: str, target: str, name: str) -> float:
        """Copy a folder by a task during which the service is killed; the seconds until it was done."""
        began = time.monotonic()
        body = {"src_dir": source, "dst_dir": target, "names": [name]}
        (task,) = self.client.ok("/openlist/api/fs/copy", **body)["tasks"]
        while self._info(task["id"])["progress"] < KILL_AT:
            assert time.monotonic() < began + TASK_SECONDS
            time.sleep(0.05)
        self.kill()
        while (row := self._info(task["id"]))["end_time"] is None or row["state"] not in places.DONE_STATES:
            assert time.monotonic() < began + TASK_SECONDS, row
            time.sleep(0.1)
        assert (row["state"], row["error"]) == (2, ""), row
        return time.monotonic() - began

    def _info(self, id: str) -> dict[str, object]:
        row: dict[str, object] = self.client.ok("/openlist/api/task/copy/info", params={"tid": id})
        return row


@contextmanager
def mortal(data: Path) -> Iterator[Mortal]:
    made = Mortal(data)
    try:
        yield made
    finally:
        made.service.kill()


def make_tree(top: Path) -> dict[str, bytes]:
    """Small files in folders and folders below, some with odd names."""
    rng, tree = Random("small files"), dict[str, bytes]()
    while len(tree) < FILES:
        folder = f"d{len(tree) // IN_FOLDER % 20}/{rng.choice(NAMES)} {len(tree) // IN_FOLDER}"
        for number in range(min(IN_FOLDER, FILES - len(tree))):
            name = f"{number} {rng.choice(NAMES)}" if number % 5 == 0 else f"{number}.bin"
            tree[f"{folder}/{name}"] = rng.randbytes(rng.choice((0, 1, rng.randrange(MAX_FILE_BYTES))))
    for path, content in tree.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_bytes(content)
    return tree


def read_disk(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", REMOTE)
def test_small_files_are_copied_completely_despite_kills(name: str, tmp_path: Path) -> None:
    kind: Kind = places.KINDS[name]
    if kind.missing:
        pytest.skip(kind.missing)
    (tmp_path / "server").mkdir()
    with mortal(tmp_path / "data") as running, ExitStack() as stack:
        files = running.service.data / "files"
        tree = make_tree(files / "tree")
        served = stack.enter_context(kind.serve(tmp_path / "server", running.client))
        mount = stack.enter_context(places.mount(running.client, kind, served.options))
        running.client.ok("/api/fs/mkdir", path="/files/back")
        seconds = [running.copy("/files", mount, "tree"), running.copy(mount, "/files/back", "tree")]
        print(f"{name}: {FILES} files there in {seconds[0]:.0f} s, and back in {seconds[1]:.0f} s")
        assert read_disk(files / "back/tree") == tree
        if served.folder is not None:
            assert read_disk(served.folder / "tree") == tree
