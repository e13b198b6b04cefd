"""Thumbnails of pictures on storages that make none.

The service reads the picture into a file without a name, decodes it in a process with limits, and stores the thumbnail.
Another version of the picture has another thumbnail.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import aclosing
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from mangrove.core import runtime
from mangrove.core.platform import platform
from mangrove.core.problems import NotSupported
from mangrove.core.telemetry import log_warning
from mangrove.drivers.base import Entry
from mangrove.tree.listing.rows import find_picture_limit, gets_thumbnail
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations.downloads import Download

MAX_CACHED_THUMBNAILS = 20_000
MAX_CACHED_THUMBNAIL_BYTES = 512 << 20
SWEPT_PREFIX = "00"  # a thumbnail whose name begins with it, one of 256, is followed by a sweep
PICTURE_TYPE = "image/png"


async def make(file: Download) -> tuple[bytes, str]:
    """Return the thumbnail of a file, and its MIME type. Raise NotSupported if there is none."""
    storage_path = file.storage_path
    folder = platform().thumbnails_folder
    limit = find_picture_limit(file.settings, storage_path.driver)
    entry = await file.stat()
    if folder is None or not gets_thumbnail(entry._replace(name=file.path.name), limit):
        raise NotSupported
    stored = folder / f"{_make_key(storage_path, entry)}.png"
    picture = await asyncio.to_thread(_read, stored)
    if picture is None:
        picture = await _decode(storage_path, entry, limit)
        await asyncio.to_thread(_store, stored, picture)
    return picture, PICTURE_TYPE


def _make_key(storage_path: StoragePath, entry: Entry) -> str:
    storage = storage_path.mount.storage
    version = (storage.id, str(storage.modified), str(storage_path.path), entry.etag, entry.modified, entry.size)
    return sha256(repr(version).encode(errors="surrogatepass")).hexdigest()


def _read(stored: Path) -> bytes | None:
    """Return a stored thumbnail, and record its use."""
    try:
        picture = stored.read_bytes()
        os.utime(stored)
        return picture
    except OSError:
        return None


async def _decode(storage_path: StoragePath, entry: Entry, limit: int) -> bytes:
    """Read a picture and return its thumbnail. Raise NotSupported if it is not a picture, or larger than it says."""
    source: Any = await storage_path.driver.read(storage_path.path, if_match=entry)
    read = 0
    with await asyncio.to_thread(tempfile.TemporaryFile) as picture:
        async with aclosing(source):
            async for block in source:
                read += len(block)
                if read > limit:
                    raise NotSupported("the picture is too large for a thumbnail")
                await asyncio.to_thread(picture.write, block)
        return await _make_small(picture)


async def _make_small(picture: BinaryIO) -> bytes:
    await asyncio.to_thread(picture.flush)
    from mangrove.drivers.local.thumbnails import Decoders  # no function makes thumbnails

    return await runtime.get(Decoders).make_thumbnail(picture)


def _store(stored: Path, picture: bytes) -> None:
    """Store a thumbnail atomically. Without space it is made again the next time."""
    try:
        stored.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=stored.parent, suffix=".part", delete=False) as part:
            part.write(picture)
        Path(part.name).replace(stored)
    except OSError as error:
        log_warning("a thumbnail is not stored", reason=str(error))
    if stored.name.startswith(SWEPT_PREFIX):
        sweep()


def sweep() -> None:
    """Delete the thumbnails that were not used for longest, until the others are within the bounds."""
    folder = platform().thumbnails_folder
    if folder is None or not folder.is_dir():
        return
    with os.scandir(folder) as files:
        stored = sorted(((file.stat(), file.path) for file in files), key=lambda pair: pair[0].st_mtime, reverse=True)
    count = size = 0
    for status, path in stored:
        count, size = count + 1, size + status.st_size
        if count > MAX_CACHED_THUMBNAILS or size > MAX_CACHED_THUMBNAIL_BYTES:
            Path(path).unlink(missing_ok=True)
