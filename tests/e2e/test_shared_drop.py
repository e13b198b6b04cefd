"""A large file that a visitor sends through a drop link while the service is killed twice."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support import waiting
from tests.support.service import LIMITS, Service, fork_service

pytestmark = pytest.mark.long
FILE_BYTES = 5 << 30
CHUNK_BYTES = 10 << 20
CHUNK_COUNT = FILE_BYTES // CHUNK_BYTES
KILLED_CHUNKS = (CHUNK_COUNT // 3, 2 * CHUNK_COUNT // 3)
KILL_DELAY_SECONDS = 0.03  # while the chunk is on its way
SESSION = {"x-share-session": "a random text"}
STORE_SECONDS = 300.0
BLOCK = os.urandom(1 << 20)


def make_chunk(index: int) -> bytes:
    """Return a chunk that no other one is equal to."""
    return (index.to_bytes(8) + BLOCK[8:]) * (CHUNK_BYTES // len(BLOCK))


class Sender:
    """A visitor and the service, which ends and starts again."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.service = fork_service(data)
        admin = self.service.client()
        admin.ok("/api/fs/mkdir", path="/files/in")
        self.id: str = admin.ok("/api/share/create", files=["/files/in"], mode="drop")["id"]
        self.http = httpx.Client(base_url=self.service.address, timeout=120, trust_env=False, limits=LIMITS)
        sizes = {"x-file-size": str(FILE_BYTES), "x-chunk-size": str(CHUNK_BYTES)}
        begun = self._call("POST", "init", headers=sizes | {"file-path": f"/@s/{self.id}/large.bin"})
        assert begun["chunk_size"] == CHUNK_BYTES
        self._upload_id = begun["upload_id"]

    def _call(self, method: str, route: str, **options: Any) -> Any:
        options["headers"] = SESSION | options.get("headers", {})
        answer = self.http.request(method, f"/api/fs/multipart/{route}", **options).json()
        assert answer["code"] == 200, answer
        return answer["data"]

    def send(self, index: int) -> None:
        headers = {"x-upload-id": self._upload_id, "x-chunk-index": str(index)}
        self._call("PUT", "chunk", headers=headers, content=make_chunk(index))

    def send_while_killed(self, index: int) -> None:
        """Send a chunk to a service that is killed meanwhile, and start the service again."""
        killer = threading.Timer(KILL_DELAY_SECONDS, self.service.kill)
        killer.start()
        try:
            self.send(index)
        except httpx.TransportError:
            pass
        killer.join()
        self.http.close()
        self.service = fork_service(self._data)
        self.http = httpx.Client(base_url=self.service.address, timeout=120, trust_env=False, limits=LIMITS)

    def list_received(self) -> set[int]:
        ranges = self._call("GET", "status", params={"upload_id": self._upload_id})["received"]
        return {index for first, last in ranges for index in range(first, last + 1)}

    def complete(self) -> Any:
        return self._call("POST", "complete", headers={"x-upload-id": self._upload_id})["receipt"]


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[Sender]:
    sender = Sender(tmp_path / "data")
    yield sender
    sender.http.close()
    service: Service = sender.service
    service.stop()


def test_large_drop_is_resumed_after_the_service_was_killed(sender: Sender) -> None:
    digest = sha256()
    for index in range(CHUNK_COUNT):
        digest.update(make_chunk(index))
        if index in KILLED_CHUNKS:
            sender.send_while_killed(index)
            received = sender.list_received()
            assert set(range(index)) <= received <= set(range(index + 1)), "no acknowledged chunk is lost"
            if index in received:
                continue
        sender.send(index)
    receipt = sender.complete()
    assert (receipt["name"], receipt["size"], receipt["sha256"]) == ("large.bin", FILE_BYTES, digest.hexdigest())
    file = sender.service.data / "files/in/large.bin"
    waiting.wait_until(file.exists, STORE_SECONDS)
    with file.open("rb") as content:
        assert file_digest(content, "sha256").hexdigest() == receipt["sha256"]
