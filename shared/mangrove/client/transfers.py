"""Uploads and downloads of files: in chunks, and resumed after an interruption."""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO
from urllib.parse import quote

import httpx

from mangrove.client import models
from mangrove.client.client import Client, Notify
from mangrove.client.errors import ClientError, ConnectionFailed

BLOCK_BYTES = 1 << 18
MAX_SINGLE_BYTES = 4 << 20
"""Size up to which a file is sent in one request; a Lambda function takes no larger ones."""

MAX_SPOOLED_BYTES = 16 << 20
"""Bytes of a source of unknown size that are in memory; the rest is in a temporary file."""

CHUNK_BYTES = 16 << 20
COMPLETED = "completed"
IDLE: Notify = id


def upload(
    client: Client,
    source: IO[bytes],
    path: str,
    *,
    overwrite: bool = True,
    modified: int | None = None,
    notify: Notify = IDLE,
) -> None:
    """Store the rest of `source` at a path; `modified` is in milliseconds since 1970.

    A large file is sent in chunks. The same file to the same path continues an upload that was interrupted, if
    `modified` is passed. Return when the file is stored, even if a task stores it.
    """
    if not source.seekable():
        with tempfile.SpooledTemporaryFile(MAX_SPOOLED_BYTES) as spool:
            while block := source.read(BLOCK_BYTES):
                spool.write(block)
            spool.seek(0)
            upload(client, spool, path, overwrite=overwrite, modified=modified, notify=notify)
        return
    start = source.tell()
    size = source.seek(0, os.SEEK_END) - start
    source.seek(start)
    if size <= MAX_SINGLE_BYTES:
        content = source.read(MAX_SINGLE_BYTES)
        client.fs_put(content, file_path=quote(path), overwrite=overwrite, last_modified=modified)
        notify(len(content))
    else:
        _upload_chunks(client, source, start, size, path, overwrite, modified, notify)


def _upload_chunks(
    client: Client,
    source: IO[bytes],
    start: int,
    size: int,
    path: str,
    overwrite: bool,
    modified: int | None,
    notify: Notify,
) -> None:
    snapshot = client.fs_multipart_init(
        file_path=quote(path), overwrite=overwrite, last_modified=modified, x_file_size=size, x_chunk_size=CHUNK_BYTES
    )
    upload_id, chunk_size = snapshot["upload_id"], snapshot["chunk_size"]
    received = {number for first, last in snapshot["received"] or () for number in range(first, last + 1)}
    notify(snapshot["received_bytes"])
    for index in range(snapshot["total_chunks"]):
        if index in received:
            continue
        source.seek(start + index * chunk_size)
        content = source.read(min(chunk_size, size - index * chunk_size))
        send_chunk(client, snapshot, index, content)
        notify(len(content))
    answer = client.fs_multipart_complete(x_upload_id=upload_id)
    if task := answer.get("task"):
        client.wait("upload", task["id"])
    elif answer["state"] != COMPLETED:
        raise ClientError(answer.get("error") or f"the upload is {answer['state']}")


def send_chunk(client: Client, snapshot: models.UploadSnapshot, index: int, content: bytes) -> None:
    """Send a chunk of an upload, to the storage itself if the service says so."""
    crc32 = base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()
    upload_id = snapshot["upload_id"]
    if not snapshot["direct"]:
        client.fs_multipart_chunk(content, x_upload_id=upload_id, x_chunk_index=index, x_chunk_crc32=crc32)
        return
    (signed,) = client.fs_multipart_sign(upload_id=upload_id, chunks=[{"index": index, "crc32": crc32}])["chunks"]
    try:
        answer = httpx.request(signed["method"], signed["url"], headers=signed["headers"], content=content, timeout=60)
    except httpx.HTTPError as error:
        raise ConnectionFailed(f"the storage does not answer: {error}") from None
    if not answer.is_success:
        raise ClientError(f"the storage answers {answer.status_code} to a chunk", answer.status_code)


def download(client: Client, path: str, target: Path, *, notify: Notify = IDLE) -> None:
    """Store a file at a local path with its time of change; an existing file is replaced at the end.

    The bytes are collected in a hidden file beside the target. It stays after an interruption, and the next call
    continues it if the file is the same.
    """
    entry = client.info(path)
    if entry["is_dir"]:
        raise ClientError(f"{path} is a folder")
    version = hashlib.sha256(f"{path}\n{entry['size']}\n{entry['modified']}".encode()).hexdigest()[:16]
    part = target.with_name(f".mangrove-{version}.part")
    size = part.stat().st_size if part.exists() else 0
    if size > entry["size"]:
        part.unlink()
        size = 0
    notify(size)
    with part.open("ab") as file:
        if size < entry["size"]:
            for block in iter_blocks(client, path, size):
                file.write(block)
                notify(len(block))
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    if size != entry["size"]:
        part.unlink()
        raise ClientError(f"{path} changed while it was read")
    seconds = read_time(entry["modified"])
    os.utime(part, (seconds, seconds))
    os.replace(part, target)


def iter_blocks(client: Client, path: str, start: int) -> Iterator[bytes]:
    """Yield the bytes of a file from `start`."""
    with client.stream(path, start) as response:
        if start and response.status_code != 206:
            raise ClientError(f"{path} cannot be read from the byte {start}: remove the hidden .part file")
        yield from response.iter_bytes(BLOCK_BYTES)


def read_time(text: str) -> float:
    """Return a time of an answer in seconds since 1970."""
    return max(datetime.fromisoformat(text).timestamp(), 0.0)
