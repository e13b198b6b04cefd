"""Thumbnails of pictures: bounded in pixels and in number at once, and cached in a folder if there is one."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import threading
import warnings
from pathlib import Path

from PIL import Image, ImageOps, UnidentifiedImageError

from mangrove import runtime
from mangrove.problems import NotSupported

WIDTH = 144  # pixels
MOST_PIXELS = 64_000_000  # of the original
LARGE = 4_000_000  # pixels from which on one picture is decoded at a time
MOST_SVG = 1 << 20  # bytes
PICTURES = frozenset({"jpg", "jpeg", "png", "gif", "bmp", "webp", "tiff", "tif", "ico", "avif", "svg"})


class LargePictureLock:
    """Held while a large picture is decoded, so that the process holds the pixels of one only."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def is_picture(name: str) -> bool:
    """Whether a file of this name may have a thumbnail."""
    return name.rpartition(".")[2].lower() in PICTURES


class ThumbnailMaker:
    """Makes thumbnails, `at_once` at a time, and caches them in `folder` unless that is empty."""

    def __init__(self, at_once: str, folder: str) -> None:
        number = int(at_once) if at_once.isdecimal() else 16
        self._limit = asyncio.Semaphore(min(max(number, 1), 64))
        self._folder = Path(folder) if folder else None

    async def make(self, handle: int, name: str) -> tuple[bytes, str]:
        """The thumbnail and its MIME type; closes the handle. NotSupported when the file is no picture."""
        async with self._limit:
            return await asyncio.to_thread(self._make, handle, name)

    def _make(self, handle: int, name: str) -> tuple[bytes, str]:
        with os.fdopen(handle, "rb") as file:
            if name.lower().endswith(".svg"):
                return file.read(MOST_SVG), "image/svg+xml"
            cached = self._find_cache_path(os.fstat(file.fileno()))
            if cached is not None and cached.is_file():
                return cached.read_bytes(), "image/png"
            picture = shrink(file)
        if cached is not None:
            cached.parent.mkdir(parents=True, exist_ok=True)
            part = cached.with_suffix(f".{os.getpid()}.part")
            part.write_bytes(picture)
            part.replace(cached)
        return picture, "image/png"

    def _find_cache_path(self, status: os.stat_result) -> Path | None:
        if self._folder is None:
            return None
        version = f"{status.st_dev}:{status.st_ino}:{status.st_mtime_ns}:{status.st_size}"
        return self._folder / f"mangrove_thumb_{hashlib.sha256(version.encode()).hexdigest()}.png"


def shrink(file: io.BufferedReader) -> bytes:
    """A PNG of the picture in `file`, WIDTH pixels wide and turned as it says; NotSupported when it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # pixels are counted here
            with Image.open(file) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise NotSupported("the picture is too large for a thumbnail")
                image.draft("RGB", (WIDTH * 2, WIDTH * 2 * image.height // max(image.width, 1) + 1))
                if image.width * image.height > LARGE:
                    with runtime.get(LargePictureLock).lock:
                        _decode_reduced(image)
                turned = ImageOps.exif_transpose(image)
                height = max(1, round(turned.height * WIDTH / turned.width))
                small = turned.convert("RGBA").resize((WIDTH, min(height, WIDTH * 20)))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        raise NotSupported("not a picture") from None
    out = io.BytesIO()
    small.save(out, "PNG")
    return out.getvalue()


def _decode_reduced(image: Image.Image) -> None:
    """Decode to twice the thumbnail's size: what follows copies the whole picture several times."""
    factor = min(image.width, image.height) / (WIDTH * 2)
    if factor > 1:
        gap = None if image.mode.startswith("I;16") else 2.0  # Pillow cannot reduce these
        image.thumbnail((image.width / factor, image.height / factor), reducing_gap=gap)
