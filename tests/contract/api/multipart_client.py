"""Uploads in parts as a client makes them."""

from __future__ import annotations

import base64
import zlib
from typing import Any
from urllib.parse import quote

import httpx

from tests.support.service import Client

MIB = 1 << 20


def format_crc32(content: bytes) -> str:
    """As S3 writes it."""
    return base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()


class MultipartClient:
    """One client; answers are envelopes."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def init(self, path: str, size: int | str, chunk: int = MIB, **headers: str) -> dict[str, Any]:
        sent = {"file-path": quote(path), "x-file-size": str(size), "x-chunk-size": str(chunk)}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.envelope(self.client.http.post("/api/fs/multipart/init", headers=sent))

    def begin(self, path: str, size: int, chunk: int = MIB, **headers: str) -> dict[str, Any]:
        """The session of an upload that must be let in."""
        answer = self.init(path, size, chunk, **headers)
        assert answer["code"] == 200, answer
        data: dict[str, Any] = answer["data"]
        return data

    def chunk(self, id: str, index: int | str, content: bytes, **headers: str) -> dict[str, Any]:
        sent = {"x-upload-id": id, "x-chunk-index": str(index)}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.envelope(self.client.http.put("/api/fs/multipart/chunk", content=content, headers=sent))

    def complete(self, id: str, **headers: str) -> dict[str, Any]:
        answer = self.client.http.post("/api/fs/multipart/complete", headers={"x-upload-id": id, **headers})
        return self.client.envelope(answer)

    def abort(self, id: str) -> dict[str, Any]:
        return self.client.envelope(self.client.http.post("/api/fs/multipart/abort", headers={"x-upload-id": id}))

    def status(self, **query: Any) -> dict[str, Any]:
        return self.client.get("/api/fs/multipart/status", **query)

    def send_signed(self, id: str, index: int, content: bytes) -> httpx.Response:
        """Store a chunk at the storage itself."""
        chunks = [{"index": index, "crc32": format_crc32(content)}]
        (signed,) = self.client.ok("/api/fs/multipart/sign", upload_id=id, chunks=chunks)["chunks"]
        return httpx.request(signed["method"], signed["url"], content=content, headers=signed["headers"], timeout=60)
