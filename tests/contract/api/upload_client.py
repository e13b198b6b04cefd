"""Helpers of the upload tests: sending by either route, or byte by byte."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

from tests.contract.api import fixtures
from tests.support.service import Client, Service

ROUTES = ["put", "form"]


def list_parts(service: Service, folder: str) -> list[str]:
    """The unfinished uploads to a folder."""
    return service.find_unfinished(fixtures.disk(service, folder))


def read_stored(service: Service, path: str) -> bytes:
    return fixtures.disk(service, path).read_bytes()


def send(client: Client, route: str, path: str, content: bytes, **headers: str) -> dict[str, Any]:
    """Upload by either route."""
    extra = {"file-path": quote(path)} | {name.replace("_", "-"): value for name, value in headers.items()}
    if route == "put":
        return client.envelope(client.http.put("/api/fs/put", content=content, headers=extra))
    return client.envelope(client.http.put("/api/fs/form", files={"file": ("ignored", content)}, headers=extra))


def form(client: Client, path: str, body: bytes, kind: str = "multipart/form-data; boundary=b") -> dict[str, Any]:
    """A form upload written by hand."""
    headers = {"file-path": quote(path), "content-type": kind}
    return client.envelope(client.http.put("/api/fs/form", content=body, headers=headers))


@contextmanager
def open_upload(client: Client, path: str, *lines: str, route: str = "put") -> Iterator[socket.socket]:
    """A connection on which the head of an upload was sent."""
    address = urlsplit(client.address)
    with socket.create_connection((address.hostname, address.port), timeout=120) as connection:
        head = [f"PUT /api/fs/{route} HTTP/1.1", f"Host: {address.netloc}", f"File-Path: {quote(path)}", *lines]
        if client.token:
            head.append(f"Authorization: {client.token}")
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        yield connection


def read_answer(connection: socket.socket) -> dict[str, Any]:
    """The envelope that arrives on a connection."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += receive(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    fields = [line.partition(b":") for line in head.lower().split(b"\r\n")]
    length = next(int(value) for name, _, value in fields if name == b"content-length")
    while len(body) < length:
        body += receive(connection)
    answer: dict[str, Any] = json.loads(body)
    return answer


def receive(connection: socket.socket) -> bytes:
    block = connection.recv(65536)
    assert block, "the connection ended before the answer"
    return block


CUT: dict[str, tuple[str, list[str], bytes]] = {
    "length": ("put", ["Content-Length: 5000000"], b"x" * 2_000_000),
    "chunks": ("put", ["Transfer-Encoding: chunked"], b"F4240\r\n" + b"x" * 1_000_000 + b"\r\nF4240\r\nyy"),
    "form": (
        "form",
        ["Content-Length: 5000000", "Content-Type: multipart/form-data; boundary=b"],
        b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + b"x" * 2_000_000,
    ),
}


def send_batch(client: Client, contents: Mapping[str, bytes], *, body: bytes = b"", **manifest: Any) -> dict[str, Any]:
    """Upload several files in one request; `manifest` replaces its fields, `body` the bytes of the files."""
    rows = [{"path": path, "size": len(content), "modified": 1_700_000_000_000} for path, content in contents.items()]
    head = json.dumps({"files": rows} | manifest).encode()
    headers = {"x-manifest-size": str(len(head))}
    content = head + (body or b"".join(contents.values()))
    response = client.http.put("/api/fs/put_batch", content=content, headers=headers)
    answer: dict[str, Any] = response.json()
    return answer
