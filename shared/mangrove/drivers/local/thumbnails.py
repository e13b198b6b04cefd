"""Thumbnails of pictures, decoded in processes with limits, and cached in a folder if there is one.

The processes are not those of a library: a result of `multiprocessing` or pebble is a pickle, which the service
evaluates, and their processes inherit the environment with its secrets. A hostile picture that takes over a process of
this module can only send bytes of a picture.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from mangrove.core import runtime
from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.paths import TreePath
from mangrove.core.problems import NotSupported, StorageProblem
from mangrove.core.telemetry import log_event
from mangrove.drivers.local.decoder import HEAD, MAX_PIXELS, DecoderOutcome
from mangrove.drivers.local.rooted import Root
from mangrove.drivers.picture_types import PICTURES
from mangrove.drivers.threads import StorageThreads

PROGRAM = Path(__file__).with_name("decoder.py")
LARGE = 4_000_000  # pixels above which a picture waits for other large ones
MAX_THUMBNAIL_BYTES = 4 << 20  # bytes of a thumbnail
SPENT = (-signal.SIGPROF, -signal.SIGKILL)  # exit statuses of a process that computed for too long, or was ended
EXIT_TIMEOUT_SECONDS = 1.0  # for a process that closed its socket to end
MAX_SVG_BYTES = 1 << 20  # bytes


class DecoderGone(Exception):
    """The process has ended."""


class DecoderLate(DecoderGone):
    """The process did not answer in time."""


class Decoder:
    """A process that decodes one picture after the other, within `mebibytes` and `seconds` of computing for each."""

    def __init__(self, mebibytes: int, seconds: int, pixels: int) -> None:
        self._seconds = seconds
        self._socket, theirs = socket.socketpair()
        bounds = json.dumps([[folder for folder in sys.path if folder], mebibytes, seconds, pixels])
        # of the environment, with its secrets, it needs only the location of the interpreter's libraries
        environment = {"MALLOC_ARENA_MAX": "1", "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
        with theirs:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - own program, own input
                [sys.executable, "-I", "-S", str(PROGRAM), bounds],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
            )

    def is_running(self) -> bool:
        return self._process.poll() is None

    def decode(self, file: BinaryIO) -> tuple[DecoderOutcome, bytes]:
        """Return the outcome for a picture, and its thumbnail. Raise DecoderGone."""
        end = time.monotonic() + self._seconds * 3
        try:
            socket.send_fds(self._socket, [b"?"], [file.fileno()])
            outcome, size = HEAD.unpack(self._receive(HEAD.size, end))
            if size > MAX_THUMBNAIL_BYTES:
                raise DecoderGone
            return DecoderOutcome(outcome), self._receive(size, end)
        except TimeoutError:
            raise DecoderLate from None
        except (OSError, ValueError):
            raise DecoderGone from None

    def _receive(self, size: int, end: float) -> bytes:
        received = bytearray()
        while len(received) < size:
            self._socket.settimeout(max(end - time.monotonic(), 0.001))
            block = self._socket.recv(size - len(received))
            if not block:
                raise DecoderGone
            received += block
        return bytes(received)

    def stop(self, patience: float = 0.0) -> int:
        """End it, unless it ends itself within `patience` seconds. Return its exit status.

        One that hangs in the kernel ends when the storage answers.
        """
        self._socket.close()
        for seconds in (patience, 1.0):
            try:
                return self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
        return -1


class DecoderPool:
    """At most `size` processes, which start on demand and end when they are idle."""

    def __init__(self, size: int, mebibytes: int, seconds: int, pixels: int) -> None:
        self._bounds = (mebibytes, seconds, pixels)
        self._threads = ThreadPoolExecutor(size, "thumbnails")  # each with a process while it works
        self._idle: deque[Decoder] = deque()
        self._working: set[Decoder] = set()

    async def decode(self, file: BinaryIO) -> tuple[DecoderOutcome, bytes] | None:
        """Return the outcome for a picture, and its thumbnail; None if it exceeded the limits of a process."""
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._decode, file)
        return await finish_despite_cancel(work)  # the file stays open for so long

    def _decode(self, file: BinaryIO) -> tuple[DecoderOutcome, bytes] | None:
        was_late = False
        while True:
            file.seek(0)
            decoder, is_new = self._take()
            try:
                outcome = decoder.decode(file)
            except DecoderGone as gone:
                is_late = isinstance(gone, DecoderLate)
                status = decoder.stop(0.0 if is_late else EXIT_TIMEOUT_SECONDS)
                # late, although the kernel limits its computing: the disk or the machine stalled once;
                # or it ended itself, because it was idle
                if not was_late if is_late else status not in SPENT and not is_new:
                    was_late = is_late
                    continue
                log_event(
                    "picture exceeds the limits of the thumbnail process", status=status, is_late=is_late, is_new=is_new
                )
                return None
            finally:
                self._working.discard(decoder)
            self._idle.append(decoder)
            return outcome

    def _take(self) -> tuple[Decoder, bool]:
        """Return a free process, and True if it is new."""
        decoder: Decoder | None = None
        while self._idle and decoder is None:
            decoder = self._idle.pop()
            if not decoder.is_running():
                decoder.stop()
                decoder = None
        is_new = decoder is None
        if decoder is None:
            try:
                decoder = Decoder(*self._bounds)
            except OSError:
                raise StorageProblem("no thumbnail: the process that makes it cannot be started") from None
        self._working.add(decoder)
        return decoder, is_new

    def close(self) -> None:
        """End all processes; their pictures fail."""
        for decoder in [*self._working, *self._idle]:
            decoder.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)


class Decoders:
    """The processes that decode pictures for all storages.

    Large pictures wait only for each other, so that a few of them do not block other thumbnails, and need the memory of
    one.
    """

    def __init__(self) -> None:
        self._small = DecoderPool(2, mebibytes=160, seconds=5, pixels=LARGE)
        self._large = DecoderPool(1, mebibytes=640, seconds=15, pixels=MAX_PIXELS)

    async def make_thumbnail(self, file: BinaryIO) -> bytes:
        """Return a PNG of the picture in `file`. Raise NotSupported if there is none."""
        decoded = await self._small.decode(file)
        if decoded is not None and decoded[0] is DecoderOutcome.NEEDS_MORE:
            decoded = await self._large.decode(file)
        if decoded is None:
            raise NotSupported("the picture is too complex for a thumbnail")
        outcome, picture = decoded
        if outcome is DecoderOutcome.NOT_A_PICTURE:
            raise NotSupported("not a picture")
        if outcome is not DecoderOutcome.MADE:
            raise NotSupported("the picture is too large for a thumbnail")
        return picture

    def close(self) -> None:
        self._small.close()
        self._large.close()


def is_picture(name: str) -> bool:
    """True if a file of this name may have a thumbnail."""
    return name.rpartition(".")[2].lower() in PICTURES


class ThumbnailMaker:
    """Makes thumbnails for a storage, `at_once` concurrently; stores them in `folder` unless that is ""."""

    def __init__(self, threads: StorageThreads, at_once: str, folder: str) -> None:
        self._threads = threads
        number = int(at_once) if at_once.isdecimal() else 16
        self._limit = asyncio.Semaphore(min(max(number, 1), 64))
        self._folder = Path(folder) if folder else None

    async def make(self, root: Root, path: TreePath) -> tuple[bytes, str]:
        """Return the thumbnail of a file and its MIME type. Raise NotSupported if it is not a picture."""
        if path.name.lower().endswith(".svg"):
            return await self._threads.run(_read_svg, root, path), "image/svg+xml"
        async with self._limit:
            return await self._make(root, path), "image/png"

    async def _make(self, root: Root, path: TreePath) -> bytes:
        opened: list[BinaryIO] = []
        try:
            known, cached = await self._threads.run_to_completion(self._open, root, path, opened)
            if known is not None:
                return known
            picture = await runtime.get(Decoders).make_thumbnail(opened[0])
        finally:
            for file in opened:
                file.close()
        if cached is not None:
            await self._threads.run_to_completion(_keep, cached, picture)
        return picture

    def _open(self, root: Root, path: TreePath, opened: list[BinaryIO]) -> tuple[bytes | None, Path | None]:
        """Return the stored thumbnail, if there is one, and its location; the file is added to `opened`."""
        file = os.fdopen(root.open(path), "rb", buffering=0)
        opened.append(file)
        cached = self._find_cache_path(os.fstat(file.fileno()))
        return (cached.read_bytes() if cached is not None and cached.is_file() else None), cached

    def _find_cache_path(self, status: os.stat_result) -> Path | None:
        if self._folder is None:
            return None
        version = f"{status.st_dev}:{status.st_ino}:{status.st_mtime_ns}:{status.st_size}"
        return self._folder / f"mangrove_thumb_{hashlib.sha256(version.encode()).hexdigest()}.png"


def _read_svg(root: Root, path: TreePath) -> bytes:
    with os.fdopen(root.open(path), "rb") as file:
        return file.read(MAX_SVG_BYTES)


def _keep(cached: Path, picture: bytes) -> None:
    """Store a thumbnail atomically."""
    cached.parent.mkdir(parents=True, exist_ok=True)
    part = cached.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(picture)
    part.replace(cached)
