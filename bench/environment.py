"""Where measurements happen: a temporary folder, one real service in it, S3 servers beside it."""

from __future__ import annotations

import json
import os
import time
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.raw import Connection
from tests.servers import rclone_s3, s3_options
from tests.service import Client, Service, start_service


class Environment:
    """`seconds` of each measurement over HTTP, `size` in bytes of each large file, `rows` of a large table."""

    def __init__(self, folder: Path, stack: ExitStack, seconds: int, size: int, rows: int = 1_000_000) -> None:
        self.folder = folder
        self.stack = stack
        self.seconds = seconds
        self.size = size
        self.rows = rows
        self.data = folder / "data"
        self.kept: dict[str, float] = {}  # what one measurement found out for another line
        self.deployment: Any = None  # of the functions, where they are measured
        self._service: Service | None = None
        self._token = ""
        stack.callback(self.stop)

    @property
    def service(self) -> Service:
        """The service, started when it is first asked for."""
        if self._service is None:
            self.start()
        assert self._service is not None
        return self._service

    def start(self) -> float:
        """Start the service; seconds until it answered."""
        began = time.perf_counter()
        self._service = launch_service(self.data)
        return time.perf_counter() - began

    def stop(self) -> None:
        """End the service, if it runs."""
        if self._service is not None:
            self._service.stop()
            self._service = None

    def restart(self) -> float:
        """End the service and start it on the same data; seconds until it answered."""
        self.token()
        self.stop()
        return self.start()

    def token(self) -> str:
        """An administrator's token; it outlives a restart."""
        if not self._token:
            self._token = self.service.client().token
        return self._token

    @property
    def client(self) -> Client:
        return Client(self.service.address, self.token())

    def connection(self) -> Connection:
        """A new keep-alive connection, signed in."""
        return Connection(self.service.address, self.token())

    def local(self, count: int) -> str:
        """The tree path of a folder of `count` small files in the Local storage that the first start mounts."""
        folder = self.data / "files" / f"n{count}"
        if not folder.exists():
            self.token()
            fill(folder, count)
        return f"/files/n{count}"

    def mount_s3(self, count: int = 0) -> str:
        """The mount path of a new bucket with `count` small files, on a server of its own, its bytes proxied."""
        home = self.folder / uuid4().hex
        bucket = f"b{uuid4().hex}"
        fill(home / bucket, count)
        endpoint = self.stack.enter_context(rclone_s3(home))
        addition = json.dumps(s3_options(endpoint, bucket))
        self.client.ok(
            "/api/admin/storage/create",
            mount_path=f"/{bucket}",
            driver="S3",
            addition=addition,
            cache_expiration=30,
            web_proxy=True,
            webdav_policy="native_proxy",
        )
        return f"/{bucket}"

    @cached_property
    def s3(self) -> str:
        """The mount path of an S3 bucket for large files."""
        return self.mount_s3()


def launch_service(data: Path, **environment: str) -> Service:
    """A started service that may keep what it compiled, as it does for everybody else."""
    return start_service(data, PYTHONDONTWRITEBYTECODE="", **environment)


def fill(folder: Path, count: int) -> None:
    """A new folder of `count` files of a few bytes."""
    folder.mkdir(parents=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for number in range(count):
        file = os.open(f"file {number:06}.txt", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=handle)
        os.write(file, b"mangrove")
        os.close(file)
    os.close(handle)
