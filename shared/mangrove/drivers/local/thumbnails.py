"""Small pictures of pictures: bounded in pixels, in number at once, and kept in a folder if there is one."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import threading
import warnings
from pathlib import Path

from PIL import Image, ImageOps, UnidentifiedImageError

from mangrove.problems import NotSupported

WIDTH = 144  # pixels
MOST_PIXELS = 64_000_000  # of the original
LARGE = 4_000_000  # pixels from which on one picture is decoded at a time
MOST_SVG = 1 << 20  # bytes
PICTURES = frozenset({"jpg", "jpeg", "png", "gif", "bmp", "webp", "tiff", "tif", "ico", "avif", "svg"})

_large = threading.Lock()


def can(name: str) -> bool:
    """Whether a file of this name may have a thumbnail."""
    return name.rpartition(".")[2].lower() in PICTURES


class Maker:
    """Makes thumbnails, `at_once` at a time."""

    def __init__(self, at_once: str, folder: str) -> None:
        number = int(at_once) if at_once.isdecimal() else 16
        self._turn = asyncio.Semaphore(min(max(number, 1), 64))
        self._folder = Path(folder) if folder else None

    async def make(self, handle: int, name: str) -> tuple[bytes, str]:
        """The picture and its MIME type; closes the handle. NotSupported for what is no picture."""
        async with self._turn:
            return await asyncio.to_thread(self._made, handle, name)

    def _made(self, handle: int, name: str) -> tuple[bytes, str]:
        with os.fdopen(handle, "rb") as file:
            if name.lower().endswith(".svg"):
                return file.read(MOST_SVG), "image/svg+xml"
            facts = os.fstat(file.fileno())
            key = hashlib.sha256(f"{facts.st_dev}:{facts.st_ino}:{facts.st_mtime_ns}:{facts.st_size}".encode())
            kept = self._folder / f"mangrove_thumb_{key.hexdigest()}.png" if self._folder else None
            if kept is not None and kept.is_file():
                return kept.read_bytes(), "image/png"
            picture = _shrunk(file)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            part = kept.with_suffix(f".{os.getpid()}.part")
            part.write_bytes(picture)
            part.replace(kept)
        return picture, "image/png"


def _halved(image: Image.Image) -> None:
    """Decode and make it twice as large as a thumbnail: what follows copies it whole, several times."""
    factor = min(image.width, image.height) / (WIDTH * 2)
    if factor > 1:
        gap = None if image.mode.startswith("I;16") else 2.0  # Pillow cannot reduce these
        image.thumbnail((image.width / factor, image.height / factor), reducing_gap=gap)


def _shrunk(file: io.BufferedReader) -> bytes:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # we count pixels ourselves
            with Image.open(file) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise NotSupported("the picture is too large for a thumbnail")
                image.draft("RGB", (WIDTH * 2, WIDTH * 2 * image.height // max(image.width, 1) + 1))
                if image.width * image.height > LARGE:
                    with _large:
                        _halved(image)
                turned = ImageOps.exif_transpose(image)
                height = max(1, round(turned.height * WIDTH / turned.width))
                small = turned.convert("RGBA").resize((WIDTH, min(height, WIDTH * 20)))
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        raise NotSupported("not a picture") from None
    out = io.BytesIO()
    small.save(out, "PNG")
    return out.getvalue()
