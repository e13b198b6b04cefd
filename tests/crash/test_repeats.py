"""Repeated work when a large file is cut off again and again: of a copy at most one part for each kill."""

from __future__ import annotations

import time
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from moto.s3.models import S3Backend
from moto.s3.responses import S3Response

from mangrove.tasks.core.file_copy import IN_FLIGHT_BYTES
from tests.crash import trees
from tests.crash.harness import World
from tests.crash.jobs import make_incoming, make_transfer
from tests.support.origin import Request

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("repeats")]  # one world

SIZE = 120 << 20  # bytes
KILLS = (20, 55)  # percent of it that the task has told of by then
READ_AHEAD = 8 << 20  # bytes that buffers between two processes may hold


def kill_midway(world: World, kind: str) -> list[int]:
    """Kill the service as its one task passes each of KILLS; how many bytes the task had told of each time."""
    shown = []
    for percent in KILLS:
        end = time.monotonic() + 30
        while (progress := world.tasks(kind, "undone")[0]["progress"]) < percent:
            assert time.monotonic() < end, progress
            time.sleep(0.002)
        world.kill()
        assert progress < 100
        shown.append(int((progress - 0.0001) * SIZE / 100))  # it is rounded
        world.restart()
    world.settle()
    return shown


def test_a_copy_into_a_bucket_stores_at_most_one_part_again(world: World) -> None:
    world.clear()
    stored: list[int] = []
    store = S3Backend.upload_part

    def count(backend: Any, bucket: str, upload: str, number: int, value: bytes) -> Any:
        stored.append(len(value))
        return store(backend, bucket, upload, number, value)

    body = trees.unlike(Random(1), SIZE)
    job = make_transfer("copy", world.backends["files"], world.backends["bucket"], "up", "large.bin", {"": body})
    with patch.object(S3Backend, "upload_part", count):
        world.begin([job])
        kill_midway(world, "copy")
    world.check_done([job])
    again = sum(stored) - SIZE
    print(f"stored again: {again / len(KILLS) / (1 << 20):.1f} MiB for each kill")
    assert 0 <= again <= len(KILLS) * IN_FLIGHT_BYTES


def test_a_copy_out_of_a_bucket_reads_at_most_one_part_again(world: World) -> None:
    world.clear()
    body = trees.unlike(Random(2), SIZE)
    job = make_transfer("copy", world.backends["bucket"], world.backends["second"], "down", "large.bin", {"": body})
    sizes: list[int] = []
    ranged = S3Response._handle_range_header

    def count(response: Any, request: Any, headers: Any, content: Any) -> Any:
        answer = ranged(response, request, headers, content)
        sizes.append(int(answer[1]["content-length"]))
        return answer

    with patch.object(S3Response, "_handle_range_header", count):
        world.begin([job])
        kill_midway(world, "copy")
        again = sum(sizes) - SIZE
    world.check_done([job])
    print(f"read again: {again / len(KILLS) / (1 << 20):.1f} MiB for each kill")
    assert 0 <= again <= len(KILLS) * IN_FLIGHT_BYTES


def test_a_download_goes_on_behind_the_last_part_it_told_of(world: World) -> None:
    world.clear()
    body, begun, sent = trees.unlike(Random(3), SIZE), [0], [0]

    def slowly(request: Request) -> None:
        start = int(request.headers.get("range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        head: dict[str, str | int] = {"etag": '"one"', "accept-ranges": "bytes", "content-length": SIZE - start}
        if start:
            head["content-range"] = f"bytes {start}-{SIZE - 1}/{SIZE}"
            begun.append(start)
        request.head(206 if start else 200, head)
        for offset in range(start, SIZE, 1 << 20):
            sent[0] += request.wfile.write(body[offset : offset + (1 << 20)])
            time.sleep(0.002)

    job = make_incoming("offline_download", world.backends["second"], "web", "to-web", body)  # named as its address is
    world.begin([job])
    (address,) = world.web.pages
    world.web.at(address, slowly)
    shown = kill_midway(world, "offline_download")
    world.check_done([job])
    print(f"sent again: {(sent[0] - SIZE) / len(KILLS) / (1 << 20):.1f} MiB for each kill")
    assert len(begun) == len(KILLS) + 1
    assert all(start >= stored for start, stored in zip(begun[1:], shown, strict=True)), (begun, shown)
    # one part that was stored and not kept, and one that was read meanwhile
    assert sent[0] - SIZE <= len(KILLS) * (2 * IN_FLIGHT_BYTES + READ_AHEAD)
