"""Bounds of what a client takes of the service by SFTP, and the rights of an open handle."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from asyncssh.connection import SSHServerConnection
from asyncssh.constants import FXP_INIT, FXP_OPENDIR, FXP_READ, FXP_WRITE
from asyncssh.packet import Byte, String, UInt32, UInt64
from asyncssh.sftp import SFTPServerHandler
from asyncssh.stream import SSHServerStreamSession

from mangrove import configuration
from mangrove.configuration.values import Settings
from mangrove.core.problems import TooMany
from mangrove.protocols.sftp import flow, handles, server, writing
from mangrove.protocols.sftp.handles import READ_BYTES, ConnectionHandles, OpenedFile, SftpBudget
from mangrove.protocols.sftp.protocol import MAX_PACKET_BYTES
from mangrove.protocols.sftp.writing import Spool
from tests.servers import ssh
from tests.unit.protocols.sftp_scene import DOOR, EVERYTHING, Scene, open_nothing, open_scene

MAX_GAP_BYTES = Settings({}).sftp_max_gap_mb
UNREAD_READS = 400  # of 256 KiB each
MAX_UNREAD_BYTES = 24 << 20  # what is in the buffers of the kernel, the client's window and ours


@pytest.fixture
def scene(records: None, tmp_path: Path) -> Iterator[Scene]:
    with open_scene(tmp_path) as opened:
        yield opened


async def request(client: asyncssh.SFTPClient, kind: int, *parts: bytes) -> Any:
    return await client._handler._make_request(kind, *parts)


def test_a_read_of_700_megabytes_gets_256_kib(scene: Scene) -> None:
    """A3."""
    (scene.home / "large").write_bytes(os.urandom(1 << 20))

    async def work() -> None:
        async with scene.enter() as client, client.open("/large", "rb") as file:
            data, _ = await request(client, FXP_READ, String(file._handle), UInt64(0), UInt32(700 << 20))
            assert data == (scene.home / "large").read_bytes()[:READ_BYTES]
            content = await file.read()
            assert content == (scene.home / "large").read_bytes()

    scene.tree.run(work())


@pytest.mark.parametrize("window", [2 << 20, 1 << 31])
def test_reads_wait_while_answers_are_not_taken(scene: Scene, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A3: by the window of the channel, and where that is without bound by the connection."""
    (scene.home / "large").write_bytes(bytes(READ_BYTES))
    sizes: list[int] = []
    read = OpenedFile.read

    async def count(self: OpenedFile, offset: int, size: int) -> bytes:
        data = await read(self, offset, size)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(OpenedFile, "read", count)

    async def work() -> None:
        async with scene.enter() as client:
            connection = client._handler._writer.channel.get_connection()  # type: ignore[union-attr]
            writer, reader, _ = await connection.open_session(subsystem="sftp", encoding=None, window=window)
            writer.write(String(Byte(FXP_INIT) + UInt32(3)))
            writer.write(String(Byte(3) + UInt32(1) + String(b"/large") + UInt32(1) + UInt32(0)))
            for _ in range(2):  # the version, and the handle of the file
                await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            connection._transport.pause_reading()
            body = Byte(FXP_READ) + UInt32(2) + String(bytes(4)) + UInt64(0) + UInt32(READ_BYTES)
            writer.write(String(body) * UNREAD_READS)
            async with asyncio.timeout(120):
                while not sizes:  # noqa: ASYNC110 - of another task
                    await asyncio.sleep(0.01)
            await asyncio.sleep(1)  # for reads above the bound
            assert sum(sizes) <= MAX_UNREAD_BYTES
            connection._transport.resume_reading()
            end = asyncio.get_running_loop().time() + 60
            while len(sizes) < UNREAD_READS and asyncio.get_running_loop().time() < end:
                await reader.read(1 << 20)
            assert len(sizes) == UNREAD_READS

    scene.tree.run(work())


def test_a_packet_above_its_bound_ends_the_session(scene: Scene) -> None:
    """A3."""

    async def work() -> None:
        async with scene.enter() as client:
            file = await client.open("/new", "wb")
            head = UInt32(1) + String(file._handle) + UInt64(0)
            room = MAX_PACKET_BYTES - 1 - len(head) - 4
            await request(client, FXP_WRITE, String(file._handle), UInt64(0), String(bytes(room)))
            with pytest.raises(asyncssh.SFTPError):
                await request(client, FXP_WRITE, String(file._handle), UInt64(0), String(bytes(room + 1)))

    scene.tree.run(work())
    assert not (scene.home / "new").exists()


def test_a_connection_has_four_channels(scene: Scene) -> None:
    """A4."""

    async def work() -> None:
        async with scene.enter() as client:
            connection = client._handler._writer.channel.get_connection()  # type: ignore[union-attr]
            more = [await connection.start_sftp_client() for _ in range(server.MAX_CHANNELS_PER_CONNECTION - 1)]
            with pytest.raises(asyncssh.ChannelOpenError):
                await connection.start_sftp_client()
            more[0].exit()
            await more[0].wait_closed()
            async with connection.start_sftp_client() as again:
                assert await again.isdir("/")

    scene.tree.run(work())


def test_a_connection_has_64_handles_over_all_channels(scene: Scene) -> None:
    """A4: folders count as files do."""

    async def work() -> None:
        async with scene.enter() as client:
            connection = client._handler._writer.channel.get_connection()  # type: ignore[union-attr]
            async with connection.start_sftp_client() as other:
                files = [await client.open("/f.txt", "rb") for _ in range(handles.MAX_HANDLES_PER_CONNECTION // 2)]
                for _ in range(handles.MAX_HANDLES_PER_CONNECTION // 2):
                    folder = await request(other, FXP_OPENDIR, String(b"/sub"))
                for refused in (client.open("/f.txt", "rb"), request(other, FXP_OPENDIR, String(b"/sub"))):
                    with pytest.raises(asyncssh.SFTPError, match="64 files and folders"):
                        await refused
                await files[0].close()
                await other._handler.close(folder)
                await client.open("/f.txt", "rb")
                await request(other, FXP_OPENDIR, String(b"/sub"))
            assert await client.listdir("/sub") == []  # the end of a channel has freed its handles

    scene.tree.run(work())


def test_handles_of_a_user_and_of_all_are_bounded() -> None:
    """A4."""
    budget = SftpBudget(None, 300)
    for _ in range(handles.MAX_HANDLES_PER_USER):
        budget.take_handle(1)
    with pytest.raises(TooMany, match="a user may have"):
        budget.take_handle(1)
    for _ in range(300 - handles.MAX_HANDLES_PER_USER):
        budget.take_handle(2)
    with pytest.raises(TooMany, match="too many files and folders are open"):
        budget.take_handle(2)
    budget.release_handle(1)
    budget.take_handle(2)


def test_few_descriptors_leave_few_handles(scene: Scene) -> None:
    """A4."""
    connections = server.SftpConnections(None, descriptors=80)
    for _ in range(10):
        connections.budget.take_handle(1)
    with pytest.raises(TooMany):
        connections.budget.take_handle(1)


def test_sign_ins_succeed_beside_a_flood_of_another_address(scene: Scene) -> None:
    """A7: bare connections from one address end only each other."""

    async def flood(port: int, opened: list[Any]) -> None:
        while True:
            opened.append(await asyncio.open_connection("127.0.0.1", port))
            await asyncio.sleep(1 / 110)

    async def work() -> None:
        connections = server.SftpConnections(None)
        acceptor = await server.listen("127.0.0.1", 0, asyncssh.generate_private_key("ssh-ed25519"), connections)
        opened: list[Any] = []
        flooding = asyncio.create_task(flood(acceptor.get_port(), opened))
        await asyncio.sleep(1)
        how: dict[str, Any] = {"client_keys": [ssh.make_key("u")], "known_hosts": None, "config": None}
        for _ in range(5):
            address = ("127.0.0.2", 0)
            async with asyncssh.connect(
                "127.0.0.1", acceptor.get_port(), username="u", agent_path=None, local_addr=address, **how
            ) as connection:
                await asyncio.sleep(0.2)
                assert not connection.is_closed()
        flooding.cancel()
        ended = [asyncio.wait_for(reader.read(), 10) for reader, _ in opened[: -server.MAX_STRANGERS_PER_SOURCE - 1]]
        await asyncio.gather(*ended, return_exceptions=True)
        assert not any(reader.at_eof() for reader, _ in opened[-server.MAX_STRANGERS_PER_SOURCE + 1 :])
        for _, writer in opened:
            writer.close()
        acceptor.close()
        connections.abort()

    scene.tree.run(work())


def test_a_file_has_gaps_of_a_bounded_size(scene: Scene) -> None:
    """A9: the largest gap is taken, one byte more is refused, also in steps and by a size that is set."""

    async def work() -> None:
        async with scene.enter() as client, client.open("/sparse", "wb") as file:
            half = MAX_GAP_BYTES // 2
            await file.write(b"x", half)
            await file.write(b"y", 2 * half + 1)
            for refused in (file.write(b"z", 2 * half + 4), file.truncate(2 * half + 3)):
                with pytest.raises(asyncssh.SFTPError, match="gaps of 512 MiB"):
                    await refused

    scene.tree.run(work())
    assert (scene.home / "sparse").stat().st_size == MAX_GAP_BYTES + 2
    (scene.home / "sparse").unlink()


def test_temporary_files_are_bounded_for_a_user_and_by_free_space(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A9."""

    async def work() -> None:
        budget = SftpBudget(None)
        await configuration.get()
        own = [Spool(ConnectionHandles(budget, 1), open_nothing) for _ in range(5)]
        size = writing.MAX_SPOOLED_BYTES_PER_FILE
        assert not await own[0].reserve(size + 1)
        count = configuration.cached().settings.sftp_max_temporary_mb_per_user // size
        assert [await spool.reserve(size) for spool in own] == [True] * count + [False]
        other = Spool(ConnectionHandles(budget, 2), open_nothing)
        assert await other.reserve(1)
        monkeypatch.setattr(handles, "SPOOL_RESERVE_BYTES", 1 << 60)
        assert not await other.reserve(size)
        monkeypatch.undo()
        await own[0].close()
        assert await own[4].reserve(size)
        for spool in (*own, other):
            await spool.close()
        assert not budget._spooled

    scene.tree.run(work())


async def reserve_for_both(budget: SftpBudget) -> list[bool]:
    """Ask for 16 MiB for a user, and 8 MiB for another one beside them."""
    await configuration.get()
    spools = [Spool(ConnectionHandles(budget, user_id), open_nothing) for user_id in (1, 2)]
    answers = [await spool.reserve(size << 20) for spool, size in zip(spools, (16, 8), strict=True)]
    for spool in spools:
        await spool.close()
    return answers


def test_temporary_files_are_bounded_by_the_settings(scene: Scene) -> None:
    """A9: what the defaults take is refused where less is set, also of a budget that is in use."""
    budget = SftpBudget(None)
    assert scene.tree.run(reserve_for_both(budget)) == [True, True]
    scene.tree.set(sftp_max_temporary_mb_per_user="8")
    assert scene.tree.run(reserve_for_both(budget)) == [False, True]
    scene.tree.set(sftp_max_temporary_mb_per_user="1024", sftp_max_temporary_mb="16")
    assert scene.tree.run(reserve_for_both(budget)) == [True, False]


def test_gaps_are_bounded_by_the_setting(scene: Scene) -> None:
    """A9: the setting binds a file that is open already."""

    async def work() -> None:
        async with scene.enter() as client, client.open("/sparse", "wb") as file:
            await file.write(b"x", 1 << 20)
            await asyncio.to_thread(scene.tree.set, sftp_max_gap_mb="1")
            await configuration.get()
            with pytest.raises(asyncssh.SFTPError, match="gaps of 1 MiB"):
                await file.write(b"y", (1 << 20) + 2)

    scene.tree.run(work())
    assert (scene.home / "sparse").stat().st_size == (1 << 20) + 1


CHANGES: dict[str, Callable[[Scene], None]] = {
    "right": lambda scene: scene.be(DOOR),
    "base path": lambda scene: scene.be(EVERYTHING, base_path="/disk/team/a/sub"),
    "rule": lambda scene: scene.tree.add_rule(
        "/disk/team/a", write_users=[999], write_users_sub=True, read_users=[999], read_users_sub=True
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_write_is_not_stored_after_the_right_is_gone(scene: Scene, change: str) -> None:
    """B1."""

    async def work() -> None:
        async with scene.enter() as client:
            file = await client.open("/new", "wb")
            await file.write(b"content")
            await asyncio.to_thread(CHANGES[change], scene)
            with pytest.raises(asyncssh.SFTPError):
                await file.close()

    before = scene.find_without()
    scene.tree.run(work())
    assert scene.find_without() == before


@pytest.mark.parametrize("change", ["base path", "rule"])
def test_an_open_file_is_not_read_after_the_right_is_gone(scene: Scene, change: str) -> None:
    """B1."""

    async def work() -> None:
        async with scene.enter() as client, client.open("/f.txt", "rb") as file:
            assert await file.read(2, 0) == b"mi"
            await asyncio.to_thread(CHANGES[change], scene)
            await asyncio.sleep(handles.EVALUATION_INTERVAL_SECONDS)
            with pytest.raises(asyncssh.SFTPError):
                await file.read(2, 0)

    scene.tree.run(work())


def test_asyncssh_has_the_names_that_this_package_relies_on() -> None:
    loop = asyncio.new_event_loop()
    connection: Any = SSHServerConnection(loop, asyncssh.SSHServerConnectionOptions(server_host_keys=[]))
    handler_names = [
        "_extensions",
        "_packet_handlers",
        "_return_types",
        "_cleanup",
        "_process_close",
        "_process_limits",
        "recv_packet",
        "log_received_packet",
        "log_sent_packet",
    ]
    names = {connection: ["_transport", "_inpbuf", "_deferred_packets"], SFTPServerHandler: handler_names}
    names[SSHServerStreamSession(None)] = ["_chan", "_conn", "_init_sftp_server"]
    for owner, own in names.items():
        for name in own:
            assert hasattr(owner, name), name
            assert f"`{name}`" in (flow.__doc__ or ""), name
    loop.close()
