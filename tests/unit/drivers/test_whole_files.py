"""A file that appears whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, EntryExists, Problem, StorageForbidden, Unreachable
from mangrove.drivers.base import Upload
from mangrove.drivers.whole_files import write_whole
from tests.contract.drivers.actions import body, cut

TARGET = TreePath("/d/f")


class Disk:
    """Files by path."""

    def __init__(self, refusal: Problem | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.refusal = refusal
        self.is_gone = False
        self.renaming = asyncio.Event()

    async def store(self, path: TreePath, body: AsyncIterator[bytes]) -> None:
        self.files[path] = b""
        async for block in body:
            self.files[path] += block

    async def publish(self, path: TreePath) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.renaming.set()
        await asyncio.sleep(0.01)
        self.files[TARGET] = self.files.pop(path)

    async def discard(self, path: TreePath) -> None:
        if self.is_gone:
            raise Unreachable
        self.files.pop(path, None)

    async def write(self, content: AsyncIterator[bytes], size: int | None, path: TreePath = TARGET) -> int:
        return await write_whole(
            path, content, Upload(size, 0.0), store=self.store, publish=self.publish, discard=self.discard
        )


@pytest.mark.parametrize("size", [None, 3])
def test_a_body_gets_its_name_when_it_is_whole(size: int | None) -> None:
    disk = Disk()
    assert asyncio.run(disk.write(body(b"a", b"bc"), size)) == 3
    assert disk.files == {TARGET: b"abc"}


@pytest.mark.parametrize(("size", "said"), [(2, 3), (9, 3)])
def test_a_body_of_another_size_leaves_nothing(size: int, said: int) -> None:
    disk = Disk()
    with pytest.raises(BadRequest, match=rf"^the body has {said} bytes instead of the announced {size}$"):
        asyncio.run(disk.write(body(b"a", b"bc"), size))
    assert disk.files == {}


def test_what_fails_at_the_end_or_on_the_way_leaves_nothing() -> None:
    disk = Disk(EntryExists())
    with pytest.raises(EntryExists):
        asyncio.run(disk.write(body(b"abc"), 3))
    with pytest.raises(ConnectionResetError):
        asyncio.run(disk.write(cut(b"abc"), None))
    assert disk.files == {}


def test_the_first_failure_is_told_when_the_storage_is_gone_after_it() -> None:
    disk = Disk()
    disk.is_gone = True
    with pytest.raises(ConnectionResetError):
        asyncio.run(disk.write(cut(b"abc"), None))


def test_a_cancellation_in_the_last_step_waits_for_its_end() -> None:
    async def cancelled() -> dict[str, bytes]:
        disk = Disk()
        writing = asyncio.create_task(disk.write(body(b"abc"), 3))
        await disk.renaming.wait()
        writing.cancel()
        await asyncio.wait([writing])
        assert writing.cancelled()
        return disk.files

    assert asyncio.run(cancelled()) == {TARGET: b"abc"}


def test_the_names_of_unfinished_files_are_refused() -> None:
    disk = Disk()
    for path in ("/.mangrove-1.part", "/.mangrove-x/f"):
        with pytest.raises(StorageForbidden):
            asyncio.run(disk.write(body(b"abc"), 3, TreePath(path)))
    assert disk.files == {}
