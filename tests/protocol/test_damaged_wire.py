"""A wire that flips a byte between the service and an S3 server: no move takes what was damaged for what was meant."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from mangrove.tasks.core.model import State
from tests import servers
from tests.support.task_env import Bucket, Disk, TaskEnv

MARK, DAMAGED = b"<flip me>", b"<flip ne>"
LARGE = 20 << 20  # bytes; stored in parts


class FlippingProxy:
    """Passes bytes between clients and a server; in one direction it damages the first MARK that it sees."""

    def __init__(self, port: int, upwards: bool) -> None:
        self._target, self._upwards = port, upwards
        self._left, self._lock = 1, threading.Lock()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def has_flipped(self) -> bool:
        return not self._left

    def _accept(self) -> None:
        with suppress(OSError):  # it was closed
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self._target)) as server:
            peers = {client: server, server: client}
            while True:
                ready, _, _ = select.select(list(peers), [], [])
                for readable in ready:
                    block = readable.recv(1 << 16)
                    if not block:
                        return
                    peers[readable].sendall(self._damage(block) if (readable is client) == self._upwards else block)

    def _damage(self, block: bytes) -> bytes:
        with self._lock:
            if not self._left or MARK not in block:
                return block
            self._left = 0
            return block.replace(MARK, DAMAGED, 1)

    def close(self) -> None:
        self._server.close()


@contextmanager
def flipping(endpoint: str, *, upwards: bool) -> Iterator[FlippingProxy]:
    proxy = FlippingProxy(int(endpoint.rpartition(":")[2]), upwards)
    try:
        yield proxy
    finally:
        proxy.close()


def make_body(size: int) -> bytes:
    return os.urandom(100) + MARK * (size // len(MARK)) + os.urandom(50)


def mount_behind(task_env: TaskEnv, bucket: Bucket, proxy: FlippingProxy) -> str:
    """The mount of a bucket behind the wire."""
    return task_env.mount("S3", servers.s3_options(proxy.address, bucket.name))


@pytest.mark.parametrize("size", [5000, LARGE])
@pytest.mark.parametrize("upwards", [True, False], ids=["to the server", "from the server"])
def test_flipped_byte_never_ends_as_successful_move(task_env: TaskEnv, size: int, upwards: bool) -> None:
    body = make_body(size)
    bucket, disk = task_env.bucket(), task_env.disk()
    with ExitStack() as stack:
        proxy = stack.enter_context(flipping(task_env.endpoint(), upwards=upwards))
        behind = mount_behind(task_env, bucket, proxy)
        ends: tuple[Disk | Bucket, Disk | Bucket] = (disk, bucket) if upwards else (bucket, disk)
        ends[0].put("f", body)
        task = task_env.move(disk.mount if upwards else behind, behind if upwards else disk.mount, "f")
        task_env.run(task)
        assert proxy.has_flipped
    source, target = ends
    if task_env.view(task)[0] == State.SUCCEEDED:  # what was damaged was sent once more
        assert (source.files(), target.files()) == ({}, {"f": body})
    else:
        assert task_env.view(task)[1].startswith("1 of 1 items failed: f: ")
        assert (source.files(), target.files()) == ({"f": body}, {})
