"""Buckets on moto, drivers on them, and servers that answer oddly."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import boto3
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from mangrove.core.paths import TreePath
from mangrove.drivers.base import DriverContext
from mangrove.drivers.s3.driver import S3, S3Options
from tests import servers

P = TreePath
MIB = 1 << 20


class Bucket:
    """A bucket of its own on moto, accessed without the driver."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint, self.name = endpoint, f"b{uuid4().hex}"
        self.driver_endpoint = endpoint
        keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y"}
        self.client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
        self.client.create_bucket(Bucket=self.name)

    def options(self, **more: Any) -> S3Options:
        values = {"sign_url_expire": 0, **servers.s3_options(self.driver_endpoint, self.name)}
        return S3Options(**(values | more))

    def put(self, *keys: str, content: bytes = b"x") -> None:
        """Past moto's HTTP, which takes 5 ms for an object and refuses some keys."""
        for key in keys:
            s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(self.name, key, content)

    def get(self, key: str) -> bytes:
        content: bytes = self.client.get_object(Bucket=self.name, Key=key)["Body"].read()
        return content

    def keys(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return sorted(item["Key"] for page in pages for item in page.get("Contents", []))

    def uploads(self) -> list[dict[str, Any]]:
        """Multipart uploads that were neither completed nor aborted."""
        uploads_found: list[dict[str, Any]] = self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])
        return uploads_found

    def dangling(self) -> int:
        return len(self.uploads())


def run_on_driver(options: S3Options, work: Callable[[S3], Awaitable[Any]], modified: float = 0.0) -> Any:
    """Return the result of `work` on a started driver."""

    async def run() -> Any:
        driver = S3(options, DriverContext(modified=modified))
        await driver.start()
        try:
            return await work(driver)
        finally:
            await driver.stop()

    return asyncio.run(run())


async def many(size: int, block: int = MIB) -> AsyncIterator[bytes]:
    for start in range(0, size, block):
        yield bytes(min(block, size - start))


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield bytes(MIB)
        await asyncio.sleep(0)


@contextmanager
def odd_server(
    status: int, content: bytes, announced: int | None = None, headers: Mapping[str, str] | None = None
) -> Iterator[S3Options]:
    """A server that answers everything the same; one that announces more than it has stays silent after it."""
    over = threading.Event()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(announced or len(content)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
            if announced:
                self.wfile.flush()
                over.wait(120)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        values = {"sign_url_expire": 0, **servers.s3_options(endpoint, "bucket")}
        yield S3Options(**values)
    finally:
        over.set()
        server.shutdown()
        server.server_close()
