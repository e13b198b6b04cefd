"""Thumbnails: of any kind of picture, in processes that begin, are used again, and end."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import socket
import time
from pathlib import Path
from typing import BinaryIO

import pytest
from PIL import Image

from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import NotSupported
from mangrove.core.runtime import Runtime
from mangrove.drivers.local.decoder import MAX_PIXELS, WIDTH, DecoderOutcome
from mangrove.drivers.local.rooted import Root
from mangrove.drivers.local.thumbnails import LARGE, Decoder, DecoderGone, DecoderPool, Decoders, ThumbnailMaker
from mangrove.drivers.threads import StorageThreads
from tests.support import proc


def write(path: Path, size: tuple[int, int]) -> Path:
    Image.new("RGB", size, "teal").save(path)
    return path


def make(path: Path, cache: str = "") -> Image.Image:
    maker = ThumbnailMaker(StorageThreads("test"), "", cache)
    picture, mime = asyncio.run(maker.make(Root(str(path.parent)), TreePath(f"/{path.name}")))
    assert mime == "image/png"
    return Image.open(io.BytesIO(picture))


def list_children() -> set[int]:
    """The numbers of the processes that this one has and that have not ended."""
    return {pid for pid in proc.list_children(os.getpid()) if not proc.is_gone(pid)}


def test_small_and_large_pictures_have_a_thumbnail_of_their_shape(tmp_path: Path) -> None:
    assert 2400 * 1800 > LARGE > 600 * 450
    assert make(write(tmp_path / "large.png", (2400, 1800))).size == (WIDTH, 108)
    assert make(write(tmp_path / "small.png", (600, 450))).size == (WIDTH, 108)


def test_a_thumbnail_is_kept_in_the_folder_for_them(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "a.png", (600, 450)), tmp_path / "cache"
    assert make(path, str(cache)).size == (WIDTH, 108)
    (cached,) = cache.iterdir()
    write(cached, (7, 7))
    assert make(path, str(cache)).size == (7, 7)


@pytest.mark.parametrize("at_once", [1, 3])
def test_no_more_thumbnails_are_made_at_once_than_the_storage_says(tmp_path: Path, at_once: int) -> None:
    full = asyncio.Event()

    class CountingDecoders(Decoders):
        running = most = 0

        async def make_thumbnail(self, file: BinaryIO) -> bytes:
            self.running += 1
            self.most = max(self.most, self.running)
            async with asyncio.timeout(120):
                await (full.wait() if self.most < at_once else asyncio.sleep(0.02))  # so that others could come
            full.set()
            self.running -= 1
            return b""

    path, counting = write(tmp_path / "a.png", (60, 60)), CountingDecoders()

    async def make_many() -> None:
        maker, root = ThumbnailMaker(StorageThreads("test"), str(at_once), ""), Root(str(path.parent))
        await asyncio.gather(*(maker.make(root, TreePath("/a.png")) for _ in range(10)))

    with runtime.use(Runtime()):
        runtime.put(Decoders, counting)
        asyncio.run(make_many())
    assert counting.most == at_once


def test_process_decodes_several_pictures_and_ends_with_service(tmp_path: Path) -> None:
    before, path = list_children(), write(tmp_path / "a.png", (600, 450))
    for _ in range(3):
        make(path)
    assert len(list_children() - before) == 1
    runtime.get(Decoders).close()
    assert list_children() == before


def test_a_process_that_computes_or_waits_for_too_long_is_ended(tmp_path: Path) -> None:
    decoder, read, write = Decoder(160, 1, MAX_PIXELS), *os.pipe()
    with os.fdopen(read, "rb") as endless, os.fdopen(write, "wb"), pytest.raises(DecoderGone):
        decoder.decode(endless)
    assert decoder.stop() == -signal.SIGKILL


def test_one_that_has_ended_meanwhile_is_replaced(tmp_path: Path) -> None:
    before, path, pool = list_children(), write(tmp_path / "a.png", (600, 450)), DecoderPool(1, 160, 60, MAX_PIXELS)
    for _ in range(2):
        with path.open("rb") as file:
            outcome = asyncio.run(pool.decode(file))
        assert outcome is not None and outcome[0] is DecoderOutcome.MADE
        (child,) = list_children() - before
        os.kill(child, signal.SIGKILL)
        while list_children() != before:
            time.sleep(0.01)
    pool.close()


def test_one_that_is_about_to_end_is_replaced(tmp_path: Path) -> None:
    """As after a while without work: it has closed its socket and still runs for some milliseconds."""
    path, pool = write(tmp_path / "a.png", (600, 450)), DecoderPool(1, 160, 60, MAX_PIXELS)
    for _ in range(10):
        with path.open("rb") as file:
            outcome = asyncio.run(pool.decode(file))
        assert outcome is not None and outcome[0] is DecoderOutcome.MADE
        (idle,) = pool._idle
        idle._socket.shutdown(socket.SHUT_WR)
    pool.close()


@pytest.mark.parametrize(("how", "count", "seconds"), [(signal.SIGTERM, 5, 5), (signal.SIGSTOP, 2, 1)])
def test_one_that_is_ended_or_stands_still_is_replaced(
    tmp_path: Path, how: signal.Signals, count: int, seconds: float
) -> None:
    """The disk or the machine stopped for a while, or somebody ended it: nothing is wrong with the picture."""
    before, path, pool = (
        list_children(),
        write(tmp_path / "a.png", (600, 450)),
        DecoderPool(1, 160, seconds, MAX_PIXELS),
    )
    for _ in range(count):
        with path.open("rb") as file:
            outcome = asyncio.run(pool.decode(file))
        assert outcome is not None and outcome[0] is DecoderOutcome.MADE
        (child,) = list_children() - before
        os.kill(child, how)
    pool.close()


def test_picture_that_kills_its_process_is_logged_and_next_works(tmp_path: Path) -> None:
    path, pool = write(tmp_path / "a.png", (600, 450)), DecoderPool(1, 160, 20, MAX_PIXELS)
    read, write_end = os.pipe()

    async def both() -> tuple[object, object]:
        with os.fdopen(read, "rb", buffering=0) as stuck, os.fdopen(write_end, "wb"), path.open("rb") as good:
            with pytest.raises(OSError, match="seek"):
                await pool.decode(stuck)
            return None, await pool.decode(good)

    _, made = asyncio.run(both())
    assert isinstance(made, tuple) and made[0] is DecoderOutcome.MADE
    pool.close()


def test_large_pictures_keep_no_small_one_waiting(tmp_path: Path) -> None:
    large, small = write(tmp_path / "large.png", (5000, 4500)), write(tmp_path / "small.png", (60, 60))
    order: list[str] = []

    async def make_one(path: Path) -> None:
        with path.open("rb") as file:
            await runtime.get(Decoders).make_thumbnail(file)
        order.append(path.name)

    async def make_all() -> None:
        await make_one(small)
        await asyncio.gather(*(make_one(large) for _ in range(2)), make_one(small))

    asyncio.run(make_all())
    assert order[:2] == ["small.png", "small.png"]


@pytest.mark.parametrize("name", ["a.ico", "a.png"])
def test_an_icon_is_no_picture(tmp_path: Path, name: str) -> None:
    Image.new("RGB", (64, 64)).save(tmp_path / name, "ICO")
    with pytest.raises(NotSupported, match="not a picture"):
        make(tmp_path / name)
