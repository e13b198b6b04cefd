"""The decoder of pictures: formats, number of pixels, and files that are no pictures."""

from __future__ import annotations

import io
import signal
import stat
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from PIL import Image

from mangrove.drivers.local import decoder
from mangrove.drivers.local.decoder import FORMATS, MAX_PIXELS, WIDTH, DecoderOutcome, read_webp_pixels

BOUNDED = """
import sys
from mangrove.drivers.local import decoder
decoder.load_decoders()
decoder.limit_process(int(sys.argv[2]))
print(decoder.decode(open(sys.argv[1], "rb"), decoder.MAX_PIXELS)[0].name)
"""

COMPUTING = """
import sys, time
from mangrove.drivers.local import decoder
for seconds in sys.argv[1:]:
    decoder.limit_work(1)
    end = time.process_time() + float(seconds)
    while time.process_time() < end:
        pass
    print(seconds, flush=True)
"""


@pytest.fixture(autouse=True)
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the process; the tests' own keeps what it has."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", MAX_PIXELS)


def decode(content: bytes, most_pixels: int = MAX_PIXELS) -> tuple[DecoderOutcome, bytes]:
    return decoder.decode(io.BytesIO(content), most_pixels)


def save(picture: Image.Image, kind: str, **more: object) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **more)
    return out.getvalue()


def measure(content: bytes) -> tuple[int, int]:
    """The size of a thumbnail."""
    outcome, picture = decode(content)
    assert outcome is DecoderOutcome.MADE
    return Image.open(io.BytesIO(picture)).size


def make_png(width: int, height: int, rows: int | None = None) -> bytes:
    """A PNG of one colour, however large, that no library has to hold; `rows`: those that are there."""
    compressor = zlib.compressobj(9)
    row = bytes(1 + width)
    data = b"".join(compressor.compress(row) for _ in range(height if rows is None else rows)) + compressor.flush()

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@pytest.mark.parametrize("kind", FORMATS)
def test_each_named_kind_is_decoded(kind: str) -> None:
    assert measure(save(Image.new("RGB", (300, 150), "teal"), kind)) == (WIDTH, 72)


@pytest.mark.parametrize("kind", ["ICO", "PPM", "PCX", "TGA", "JPEG2000", "DDS", "SGI", "PDF", "EPS", "ICNS"])
def test_no_other_kind_is_decoded_whatever_its_name(kind: str) -> None:
    assert decode(save(Image.new("RGB", (64, 64), "teal"), kind)) == (DecoderOutcome.NOT_A_PICTURE, b"")


@pytest.mark.parametrize("size", [(2400, 1800), (600, 450)])
@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "I;16", "CMYK"])
def test_a_picture_of_any_mode_has_a_thumbnail_of_its_shape(mode: str, size: tuple[int, int]) -> None:
    assert measure(save(Image.new(mode, size, 1), "JPEG" if mode == "CMYK" else "PNG")) == (WIDTH, 108)


@pytest.mark.parametrize(("size", "high"), [((5000, 900), 800), ((900, 5000), 26), ((900, 600), 216)])
def test_a_turned_picture_is_turned_back(size: tuple[int, int], high: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    assert measure(save(Image.new("RGB", size, (200, 10, 10)), "PNG", exif=exif)) == (WIDTH, high)


@pytest.mark.parametrize("content", [b"", b"<script>", b"\x89PNG\r\n\x1a\n", b"RIFF1234WEBPVP8X" + bytes(20)])
def test_what_is_no_picture_is_told(content: bytes) -> None:
    assert decode(content) == (DecoderOutcome.NOT_A_PICTURE, b"")


def test_a_picture_that_is_cut_off_is_none() -> None:
    assert decode(save(Image.effect_noise((500, 500), 9), "PNG")[:-5000]) == (DecoderOutcome.NOT_A_PICTURE, b"")


def test_a_picture_of_too_many_pixels_is_not_decoded() -> None:
    assert decode(make_png(8001, 8000, rows=1)) == (DecoderOutcome.TOO_LARGE, b"")


def test_the_bound_counts_what_is_inside_a_container_too() -> None:
    """An icon of 256 pixels, by its own words, with a picture of 169 millions in it: 600 MiB to decode."""
    inner = make_png(13000, 13000, rows=1)
    icon = struct.pack("<HHHBBBBHHII", 0, 1, 1, 0, 0, 0, 0, 1, 32, len(inner), 22) + inner
    assert decode(icon) == (DecoderOutcome.NOT_A_PICTURE, b"")
    gif = bytearray(save(Image.new("L", (16, 16)), "GIF"))
    at = gif.index(b",", 13)  # its one frame, which says itself how large it is
    gif[at + 5 : at + 9] = struct.pack("<HH", 65535, 65535)
    assert decode(bytes(gif)) == (DecoderOutcome.TOO_LARGE, b"")


def test_picture_over_pixel_limit_needs_another_process() -> None:
    content = save(Image.new("RGB", (400, 300), "teal"), "PNG")
    assert decode(content, 400 * 300 - 1) == (DecoderOutcome.NEEDS_MORE, b"")
    assert decode(content, 400 * 300)[0] is DecoderOutcome.MADE


@pytest.mark.parametrize("lossless", [False, True])
@pytest.mark.parametrize("exif", [b"", b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0"])
def test_the_pixels_of_a_webp_are_read_from_its_head(lossless: bool, exif: bytes) -> None:
    content = save(Image.new("RGB", (301, 77), "teal"), "WEBP", lossless=lossless, exif=exif)
    assert read_webp_pixels(content[:30]) == 301 * 77
    assert decode(content, 301 * 77 - 1) == (DecoderOutcome.NEEDS_MORE, b"")
    assert read_webp_pixels(make_png(5, 5)[:30]) == read_webp_pixels(content[:29]) == 0


def test_no_other_program_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow gives PostScript to a program of this name; it is left a mark if it is called."""
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    document = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
    assert decode(document) == (DecoderOutcome.NOT_A_PICTURE, b"")
    assert not (tmp_path / "called").exists()


def test_what_takes_more_memory_than_the_process_may_have_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(make_png(5000, 5000))
    outcomes = {
        mebibytes: subprocess.run(
            [sys.executable, "-c", BOUNDED, str(tmp_path / "a.png"), str(mebibytes)],
            capture_output=True, check=True, text=True,
        ).stdout.strip()
        for mebibytes in (12, 200)
    }  # fmt: skip
    assert outcomes == {12: "TOO_LARGE", 200: "MADE"}


def test_each_picture_has_its_own_time() -> None:
    done = subprocess.run([sys.executable, "-c", COMPUTING, "0.6", "0.6", "0.6", "3"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (-signal.SIGPROF, ["0.6"] * 3)
