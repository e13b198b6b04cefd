"""Thumbnails: of any kind of picture, turned as it says, and of huge ones without much memory."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from mangrove.drivers.local.thumbnails import LARGE, WIDTH, ThumbnailMaker

MEASURED = """
import resource, sys
from concurrent.futures import ThreadPoolExecutor
from mangrove.drivers.local import thumbnails
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with ThreadPoolExecutor(4) as pool:
    made = list(pool.map(lambda _: thumbnails.shrink(open(sys.argv[1], "rb")), range(4)))
assert len(set(made)) == 1
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def made(path: Path) -> Image.Image:
    picture, mime = asyncio.run(ThumbnailMaker("", "").make(os.open(path, os.O_RDONLY), path.name))
    assert mime == "image/png"
    return Image.open(io.BytesIO(picture))


@pytest.mark.parametrize("size", [(2400, 1800), (600, 450)])
@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "I;16", "CMYK"])
def test_a_picture_of_any_kind_has_a_thumbnail_of_its_shape(tmp_path: Path, mode: str, size: tuple[int, int]) -> None:
    assert 2400 * 1800 > LARGE > 600 * 450
    path = tmp_path / f"a.{'jpg' if mode == 'CMYK' else 'png'}"
    Image.new(mode, size, 1).save(path)
    assert made(path).size == (WIDTH, 108)


@pytest.mark.parametrize(("size", "high"), [((5000, 900), 800), ((900, 5000), 26), ((900, 600), 216)])
def test_a_turned_picture_is_turned_back(tmp_path: Path, size: tuple[int, int], high: int) -> None:
    path = tmp_path / "a.png"
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    Image.new("RGB", size, (200, 10, 10)).save(path, exif=exif)
    assert made(path).size == (WIDTH, high)


def test_huge_pictures_asked_for_at_once_take_the_memory_of_one(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.new("RGB", (5000, 5000), (200, 10, 10)).save(path)
    command = [sys.executable, "-c", MEASURED, str(path)]
    megabytes = int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert megabytes < 400
