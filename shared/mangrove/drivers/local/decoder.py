"""The program that decodes pictures, in a process with limits: no picture can cost more than they allow.

The service runs this file by its path. Its one argument is JSON: `[sys.path, MiB of memory, seconds of computing for
one picture, pixels]`. Its standard input is a socket: for every byte with the descriptor of a file it answers
DecoderOutcome in one byte, the size of the thumbnail in four, and the thumbnail, a PNG.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import socket
import struct
import sys
import warnings
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from PIL import Image as Pillow

WIDTH = 144  # pixels of a thumbnail
HEIGHT = WIDTH * 20  # pixels that it has at most
MAX_PIXELS = 64_000_000  # of a picture, inside containers too
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "WEBP", "TIFF", "AVIF")  # no other decoder, so none that calls a program
IDLE_TIMEOUT_SECONDS = 60.0  # without a picture, after which the process ends
HEAD = struct.Struct("!BI")


class DecoderOutcome(IntEnum):
    MADE = 0
    NOT_A_PICTURE = 1
    TOO_LARGE = 2
    NEEDS_MORE = 3  # more pixels than this process may decode, but not too many


class _NeedsMore(Exception):
    """The picture has more pixels than this process may decode."""


class _TooLarge(Exception):
    """The picture has more than MAX_PIXELS."""


def load_decoders() -> None:
    """Import the decoders, and nothing else."""
    from PIL import AvifImagePlugin, Image

    for name in ("Jpeg", "Png", "Gif", "Bmp", "WebP", "Tiff", "Avif"):
        __import__(f"PIL.{name}ImagePlugin")
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1  # every thread takes address space of its own
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS


def decode(file: BinaryIO, most_pixels: int) -> tuple[DecoderOutcome, bytes]:
    """Return a thumbnail of the picture in `file`; `most_pixels`: the maximum to decode in this process."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return DecoderOutcome.MADE, shrink(file, most_pixels)
    except _NeedsMore:
        return DecoderOutcome.NEEDS_MORE, b""
    except MemoryError:
        return (DecoderOutcome.NEEDS_MORE if most_pixels < MAX_PIXELS else DecoderOutcome.TOO_LARGE), b""
    except (_TooLarge, Image.DecompressionBombWarning, Image.DecompressionBombError):
        return DecoderOutcome.TOO_LARGE, b""
    except Exception:  # a decoder may raise anything for malicious bytes
        return DecoderOutcome.NOT_A_PICTURE, b""


def shrink(file: BinaryIO, most_pixels: int) -> bytes:
    """Return a PNG of the picture, WIDTH pixels wide and turned as its metadata says."""
    from PIL import Image, ImageOps

    _check_pixels(read_webp_pixels(file.read(30)), most_pixels)
    file.seek(0)
    with Image.open(file, formats=FORMATS) as image:
        image.draft("RGB", (WIDTH * 2, WIDTH * 2 * image.height // max(image.width, 1) + 1))
        _check_pixels(image.width * image.height, most_pixels)
        _decode_reduced(image)
        turned = ImageOps.exif_transpose(image)
        height = max(1, round(turned.height * WIDTH / turned.width))
        small = turned.convert("RGBA").resize((WIDTH, min(height, HEIGHT)))
    out = io.BytesIO()
    small.save(out, "PNG")
    return out.getvalue()


def _check_pixels(pixels: int, most_pixels: int) -> None:
    if pixels > MAX_PIXELS:
        raise _TooLarge
    if pixels > most_pixels:
        raise _NeedsMore


def read_webp_pixels(head: bytes) -> int:
    """Return the pixels of the canvas of a WebP file, by its first 30 bytes; 0 for another file.

    Its decoder allocates memory for all of them before it reports their number.
    """
    if len(head) < 30 or head[:4] != b"RIFF" or head[8:12] != b"WEBP":
        return 0
    kind = head[12:16]
    if kind == b"VP8X":
        return (int.from_bytes(head[24:27], "little") + 1) * (int.from_bytes(head[27:30], "little") + 1)
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return ((bits & 0x3FFF) + 1) * ((bits >> 14 & 0x3FFF) + 1)
    return (int.from_bytes(head[26:28], "little") & 0x3FFF) * (int.from_bytes(head[28:30], "little") & 0x3FFF)


def _decode_reduced(image: Pillow.Image) -> None:
    """Decode to twice the thumbnail's size: the following steps copy the whole picture several times."""
    factor = min(image.width, image.height) / (WIDTH * 2)
    if factor > 1:
        gap = None if image.mode.startswith("I;16") else 2.0  # Pillow cannot reduce these
        image.thumbnail((image.width / factor, image.height / factor), reducing_gap=gap)


def limit_process(mebibytes: int) -> None:
    """Limit the memory of this process in addition to its present memory. It writes no file and leaves no core dump."""
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    most = pages * resource.getpagesize() + (mebibytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_work(seconds: int) -> None:
    """Let the kernel end this process if it computes for so long from now on.

    RLIMIT_CPU is not suitable: it counts from the start of the process, and by ticks, which on a busy machine run ahead
    of the process's own time by several seconds per minute.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)


def main() -> None:
    path, mebibytes, seconds, most_pixels = json.loads(sys.argv[1])
    sys.path[:] = path
    load_decoders()
    limit_process(mebibytes)
    with socket.socket(fileno=0) as service:
        service.settimeout(IDLE_TIMEOUT_SECONDS)
        while True:
            try:
                _, descriptors, _, _ = socket.recv_fds(service, 1, 1)
            except TimeoutError:
                return
            if not descriptors:
                return  # the service has ended
            limit_work(seconds)
            with os.fdopen(descriptors[0], "rb") as file:
                outcome, picture = decode(file, most_pixels)
            service.sendall(HEAD.pack(outcome, len(picture)) + picture)


if __name__ == "__main__":
    main()
