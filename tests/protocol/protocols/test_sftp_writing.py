"""Files that are written by SFTP: whole when they are closed, or not at all, whatever the order."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

import asyncssh
import pytest

from tests.protocol.protocols.people import Place, open_place
from tests.servers import wait_for
from tests.support.service import fork_service
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("doors")
LARGE = (256 << 20) + (3 << 20)  # more than is kept on the side

Work = Callable[[asyncssh.SSHClientConnection, asyncssh.SFTPClient], Awaitable[Any]]


@pytest.fixture(scope="module")
def writer(place: Place) -> str:
    place.create_user("writer")
    return "writer"


def run(place: Place, name: str, work: Work) -> Any:
    async def main() -> Any:
        async with await place.connect(name) as connection, connection.start_sftp_client() as client:
            return await work(connection, client)

    return asyncio.run(main())


def list_parts(place: Place) -> list[str]:
    return place.service.find_unfinished(place.root)


def test_changer_of_a_written_file_is_its_user(place: Place, writer: str) -> None:
    async def work(_: Any, client: asyncssh.SFTPClient) -> None:
        async with client.open("/disk/changed", "wb") as file:
            await file.write(b"content")

    run(place, writer, work)
    assert place.admin.ok("/api/fs/changer", path="/disk/changed") == {"username": writer}


def test_bytes_in_any_order_and_what_was_there_between_them(place: Place, writer: str) -> None:
    (place.root / "mixed").write_bytes(b"0123456789" * 10)

    async def work(_: Any, client: asyncssh.SFTPClient) -> None:
        async with client.open("/disk/mixed", "r+b") as file:
            await file.write(b"ZZ", 50)
            await file.write(b"AA", 0)
            assert await file.read(6, 48) == b"89ZZ23"
            await file.write(b"end", 110)
        async with client.open("/disk/appended", "ab") as file:
            await file.write(b"one ")
        async with client.open("/disk/appended", "ab") as file:
            await file.write(b"two")
        async with client.open("/disk/mixed2", "wb") as file:
            await file.write(b"x" * 10)
            await file.truncate(4)

    run(place, writer, work)
    expected = bytearray(b"0123456789" * 10 + b"\0" * 10 + b"end")
    expected[50:52], expected[0:2] = b"ZZ", b"AA"
    assert (place.root / "mixed").read_bytes() == bytes(expected)
    assert (place.root / "appended").read_bytes() == b"one two"
    assert (place.root / "mixed2").read_bytes() == b"xxxx"


def test_file_appears_at_close_and_not_after_disconnect(place: Place, writer: str) -> None:
    (place.root / "old").write_bytes(b"old")

    async def leave(connection: asyncssh.SSHClientConnection, client: asyncssh.SFTPClient) -> None:
        for name in ("old", "new"):
            file = await client.open(f"/disk/{name}", "wb")
            await file.write(b"n" * 500_000)
        assert not (place.root / "new").exists() and (place.root / "old").read_bytes() == b"old"
        connection.abort()

    with pytest.raises((asyncssh.Error, OSError)):
        run(place, writer, leave)
        raise ConnectionResetError
    wait_until(lambda: not list_parts(place))
    assert (place.root / "old").read_bytes() == b"old" and not (place.root / "new").exists()


def test_a_file_that_is_to_be_new_replaces_nothing(place: Place, writer: str) -> None:
    async def work(_: Any, client: asyncssh.SFTPClient) -> None:
        (place.root / "there").write_bytes(b"first")
        with pytest.raises(asyncssh.SFTPError):
            await client.open("/disk/there", "xb")
        file = await client.open("/disk/appears", "xb")
        await file.write(b"second")
        (place.root / "appears").write_bytes(b"first")
        with pytest.raises(asyncssh.SFTPError):
            await file.close()

    run(place, writer, work)
    assert (place.root / "there").read_bytes() == b"first" == (place.root / "appears").read_bytes()


def test_large_file_is_written_once_in_any_order(place: Place, writer: str) -> None:
    async def work(_: Any, client: asyncssh.SFTPClient) -> None:
        file = await client.open("/disk/large", "wb")
        await file.write(b"middle", 128 << 20)
        await file.write(b"end", LARGE)
        await file.write(b"begin", 0)
        assert await file.read(3, LARGE) == b"end"
        await file.close()

    run(place, writer, work)
    with (place.root / "large").open("rb") as file:
        assert os.fstat(file.fileno()).st_size == LARGE + 3 and file.read(7) == b"begin\0\0"
    (place.root / "large").unlink()


@pytest.mark.long
def test_elsewhere_a_large_file_goes_through_in_order_and_not_otherwise(place: Place, writer: str) -> None:
    """Through an alias, which has no such files."""
    block = os.urandom(1 << 20)
    addition = json.dumps({"paths": "/disk", "write_conflict_policy": "all", "put_conflict_policy": "all"})
    made = place.admin.ok("/api/admin/storage/create", mount_path="/aliased", driver="Alias", addition=addition)

    async def work(_: Any, client: asyncssh.SFTPClient) -> None:
        file = await client.open("/aliased/large", "wb")
        for offset in range(0, LARGE, len(block)):
            await file.write(block, offset)
        with pytest.raises(asyncssh.SFTPError):
            await file.write(b"back", 5)
        await file.close()

    run(place, writer, work)
    place.admin.ok("/api/admin/storage/delete", params={"id": made["id"]})
    with (place.root / "large").open("rb") as file:
        assert os.fstat(file.fileno()).st_size == LARGE
        while content := file.read(1 << 20):
            assert content == block
    (place.root / "large").unlink()


def test_offsets_that_no_file_has_and_names_that_are_no_utf_8_are_refused(place: Place, writer: str) -> None:
    async def work(_: Any, client: asyncssh.SFTPClient) -> None:
        file = await client.open("/disk/odd", "wb")
        for offset in ((1 << 63) - 1, 1 << 63, 1 << 40):
            with pytest.raises(asyncssh.SFTPError):
                await file.write(b"xx", offset)
        await file.write(b"fine", 0)
        await file.close()
        for name in (b"/disk/\xff\xfe", b"/disk/a\\b", b"/disk/" + b"n" * 300, b"/disk/a\nb"):
            with pytest.raises(asyncssh.SFTPError):
                await client.open(name, "wb")

    run(place, writer, work)
    assert (place.root / "odd").read_bytes() == b"fine"


def test_names_move_as_posix_has_it(place: Place, writer: str) -> None:
    async def work(_: Any, client: asyncssh.SFTPClient) -> None:
        await client.mkdir("/disk/from")
        await client.mkdir("/disk/to")
        for name in ("a", "b"):
            async with client.open(f"/disk/from/{name}", "wb") as file:
                await file.write(name.encode())
        with pytest.raises(asyncssh.SFTPError):
            await client.rename("/disk/from/a", "/disk/from/b")
        await client.posix_rename("/disk/from/a", "/disk/from/b")
        await client.rename("/disk/from/b", "/disk/to/c")
        for wrong in ("/disk/to", "/disk/none"):
            with pytest.raises(asyncssh.SFTPError):
                await client.rmdir(wrong)
        with pytest.raises(asyncssh.SFTPError):
            await client.mkdir("/disk/to")
        with pytest.raises(asyncssh.SFTPError):
            await client.mkdir("/disk/none/below")
        with pytest.raises(asyncssh.SFTPError):
            await client.symlink("/disk/to/c", "/disk/link")
        with pytest.raises(asyncssh.SFTPOpUnsupported):
            await client.rename("/disk/to/c", "/files/c")  # another storage: that takes a task
        await client.utime("/disk/to/c", (1_500_000_000, 1_500_000_000))
        assert (await client.stat("/disk/to/c")).mtime == 1_500_000_000
        space = await client.statvfs("/disk")
        assert space.blocks > space.bavail > 0
        await client.remove("/disk/to/c")
        await client.rmdir("/disk/to")
        await client.rmdir("/disk/from")

    run(place, writer, work)
    assert not (place.root / "to").exists() and not (place.root / "from").exists()


def test_a_kill_in_the_middle_of_an_upload_leaves_the_old_file(place: Place, tmp_path: Any) -> None:
    other = open_place(fork_service(tmp_path / "data"), tmp_path)
    old_file = other.root / "kept"
    old_file.write_bytes(b"old")
    other.create_user("kim")

    async def work(_: Any, client: asyncssh.SFTPClient) -> None:
        file = await client.open("/disk/kept", "wb")
        await file.write(b"n" * 300_000)
        other.service.kill()
        with pytest.raises((asyncssh.Error, OSError)):
            await file.close()
            raise ConnectionResetError

    with pytest.raises((asyncssh.Error, OSError)):
        run(other, "kim", work)
        raise ConnectionResetError
    key = (tmp_path / "data/ssh/ssh_host_ed25519_key").read_bytes()
    service = fork_service(tmp_path / "data")
    wait_for(other.port)
    try:
        assert old_file.read_bytes() == b"old" and os.listdir(other.root) == ["kept"]
        assert (tmp_path / "data/ssh/ssh_host_ed25519_key").read_bytes() == key
        assert (tmp_path / "data/ssh").stat().st_mode & 0o077 == 0
    finally:
        service.kill()
