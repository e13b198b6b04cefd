"""Small files cost few calls of their storage, and are what they were when they were opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from mangrove.drivers.threads import StorageThreads
from mangrove.protocols.sftp.handles import MAX_SMALL_FILE_BYTES
from mangrove.tree.listing import listing
from tests.unit.protocols.sftp_scene import Client, Scene, open_scene


@pytest.fixture
def scene(records: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(listing, "TOKEN_SECONDS", 60.0)  # however slow the machine is
    with open_scene(tmp_path) as opened:
        yield opened


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that threads of a storage run."""
    names: list[str] = []
    start = StorageThreads.start

    def count(self: StorageThreads, function: Any, *args: Any) -> Any:
        names.append(function.__name__)
        return start(self, function, *args)

    monkeypatch.setattr(StorageThreads, "start", count)
    return names


async def _put(client: Client, path: str, content: bytes) -> None:
    async with client.open(path, "wb") as file:
        await file.write(content)


def test_new_small_file_is_looked_up_once_and_stored_in_one_call(scene: Scene, calls: list[str]) -> None:
    async def work() -> None:
        async with scene.enter() as client:
            await _put(client, "/sub/first", b"1")
            calls.clear()
            await _put(client, "/sub/second", b"22")

    scene.tree.run(work())
    assert calls == ["_stat", "write"]
    assert (scene.home / "sub/second").read_bytes() == b"22"


def test_new_small_file_is_not_looked_up_again_at_close(scene: Scene, calls: list[str]) -> None:
    async def work() -> None:
        async with scene.enter() as client:
            async with client.open("/sub/first", "wb") as file:
                await file.write(b"1")
                await _put(client, "/sub/second", b"22")
                calls.clear()
            assert calls == ["write"]

    scene.tree.run(work())
    assert (scene.home / "sub/first").read_bytes() == b"1"


def test_file_that_appears_before_close_is_replaced(scene: Scene) -> None:
    async def work() -> None:
        async with scene.enter() as client, client.open("/sub/file", "wb") as file:
            await file.write(b"new")
            (scene.home / "sub/file").write_bytes(b"of another program")

    scene.tree.run(work())
    assert (scene.home / "sub/file").read_bytes() == b"new"


def test_time_and_name_of_a_file_take_few_calls(scene: Scene, calls: list[str]) -> None:
    async def work() -> None:
        async with scene.enter() as client:
            await _put(client, "/sub/old", b"1")
            calls.clear()
            await client.utime("/sub/old", (1_500_000_000, 1_400_000_000))
            assert calls == ["_set_modified"]
            calls.clear()
            await client.posix_rename("/sub/old", "/sub/new")
            assert calls == ["_stat", "_move"]
            assert (await client.stat("/sub/new")).mtime == 1_400_000_000

    scene.tree.run(work())


def test_small_file_is_read_in_one_call(scene: Scene, calls: list[str]) -> None:
    content = bytes(range(256)) * 200
    (scene.home / "small").write_bytes(content)

    async def work() -> bytes:
        async with scene.enter() as client, client.open("/small", "rb", block_size=10_000) as file:
            calls.clear()
            parts = [await file.read(10_000, offset) for offset in (20_000, 0, 50_000)]
            assert parts == [content[20_000:30_000], content[:10_000], content[50_000:]]
            return bytes(await file.read(len(content), 0))

    assert scene.tree.run(work()) == content
    assert calls == ["read_whole"]


@pytest.mark.parametrize("size", [MAX_SMALL_FILE_BYTES, MAX_SMALL_FILE_BYTES + 1])
def test_file_replaced_after_it_was_opened_is_refused(scene: Scene, size: int) -> None:
    (scene.home / "file").write_bytes(bytes(size))

    async def work() -> None:
        async with scene.enter() as client, client.open("/file", "rb") as file:
            (scene.home / "other").write_bytes(b"1" * size)
            (scene.home / "other").rename(scene.home / "file")
            with pytest.raises(asyncssh.SFTPFailure, match="changed"):
                await file.read()

    scene.tree.run(work())


def test_folder_removed_a_moment_ago_takes_no_file(scene: Scene) -> None:
    async def work() -> None:
        async with scene.enter() as client:
            await _put(client, "/sub/file", b"1")
            await client.remove("/sub/file")
            await client.rmdir("/sub")
            with pytest.raises(asyncssh.SFTPNoSuchFile):
                await _put(client, "/sub/file", b"2")

    scene.tree.run(work())
    assert not (scene.home / "sub").exists()
