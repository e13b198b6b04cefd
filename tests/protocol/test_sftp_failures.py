"""SFTP servers that are not there, hang, end in the middle or refuse: each gives a problem that says so, in seconds."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    BadRequest,
    EntryNotFound,
    NotAFile,
    NotAFolder,
    StorageForbidden,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers import connections
from mangrove.drivers.base import BLOCK, Driver, DriverContext, Upload, list_all
from mangrove.drivers.sftp import client
from mangrove.drivers.sftp.driver import SFTP
from mangrove.drivers.sftp.options import SFTPOptions
from tests.contract.drivers.actions import body, content, fails, names, put, upload_of
from tests.contract.drivers.test_suite import start_driver
from tests.servers import closed_port, ssh
from tests.support.running_clock import RunningClock

P = TreePath
pytestmark = [
    pytest.mark.skipif(ssh.SSHD is None, reason="sshd is not installed"),
    pytest.mark.xdist_group("openssh"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh.OpenSSH]:
    with ssh.openssh(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def use(options: dict[str, Any], work: Callable[[Any], Awaitable[None]]) -> None:
    async def run() -> None:
        driver = await start_driver("SFTP", options)
        try:
            await work(driver)
        finally:
            await driver.stop()

    asyncio.run(run())


async def within(seconds: float, work: Awaitable[Any], kind: type[Exception]) -> str:
    """The text of the problem that comes of it, with the loop free all the time."""
    longest, running = 0.0, asyncio.ensure_future(work)
    with RunningClock() as clock:
        while not running.done():
            turn = clock.seconds
            await asyncio.sleep(0.01)
            longest = max(longest, clock.seconds - turn)
        with pytest.raises(kind) as refused:
            await running
        assert clock.seconds < seconds
    assert longest < 2
    return str(refused.value)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1:{free}", Unreachable), ("no.such.host.invalid", Unreachable), ("", StorageProblem),
        ("127.0.0.1:port", StorageProblem), ("127.0.0.1:99999", StorageProblem), ("a/b", StorageProblem),
    ],
)  # fmt: skip
def test_a_server_that_is_not_there(server: ssh.OpenSSH, address: str, kind: type[StorageProblem]) -> None:
    with closed_port() as free:
        options = server.options("/", address=address.format(free=free))
        text = asyncio.run(within(10, start_driver("SFTP", options), kind))
    assert "SFTP server" in text or "address" in text


def test_what_is_no_ssh_server(server: ssh.OpenSSH) -> None:
    async def run() -> None:
        async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3000)
            await writer.drain()
            writer.close()

        web = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = web.sockets[0].getsockname()[1]
        await within(10, start_driver("SFTP", server.options("/", address=f"127.0.0.1:{port}")), StorageProblem)
        web.close()
        await web.wait_closed()

    asyncio.run(run())


def test_a_server_that_takes_connections_and_says_nothing(server: ssh.OpenSSH, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "OPEN_TIMEOUT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = server.options("/", address=f"127.0.0.1:{silent.getsockname()[1]}")
        for host_key in (ssh.make_host_key(), ""):
            asyncio.run(within(5, start_driver("SFTP", options | {"host_key": host_key}), Unreachable))


def test_options_that_lead_nowhere(server: ssh.OpenSSH, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    for root in (tmp_path / "missing", tmp_path / "f"):
        text = asyncio.run(within(10, start_driver("SFTP", server.options(root)), StorageProblem))
        assert text == f"root folder {root} not exists"
    for wrong in ({"private_key": "nonsense"}, {"username": ""}, {"host_key": "nonsense"}):
        asyncio.run(within(10, start_driver("SFTP", server.options(tmp_path, **wrong)), StorageProblem))


def test_a_server_that_hangs_is_given_up_and_used_when_it_is_back(
    server: ssh.OpenSSH, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"f" * (8 << 20))

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"z" * BLOCK

    async def hang(driver: Any) -> None:
        stream = await driver.read(P("/f"))
        await anext(stream)
        await names(driver, "/")
        server.signal_all(signal.SIGSTOP)
        monkeypatch.setattr(client, "ANSWER_TIMEOUT_SECONDS", 0.5)
        monkeypatch.setattr(connections, "OPEN_TIMEOUT_SECONDS", 1.0)
        try:

            async def rest() -> None:
                async for _ in stream:
                    pass

            upload = Upload(None, 1.7e9)
            works = (
                rest(), driver.stat(P("/f")), list_all(driver, P("/")), driver.makedirs(P("/d")),
                driver.write(P("/g"), endless(), upload), driver.remove(P("/f")),
            )  # fmt: skip
            await asyncio.gather(*(within(30, work, Unreachable) for work in works))
            await within(5, driver.stat(P("/f")), Unreachable)
        finally:
            server.signal_all(signal.SIGCONT)
            monkeypatch.undo()
        await asyncio.sleep(1.1)  # a failure to connect stands for a second
        await put(driver, "/h", b"back")
        assert await content(driver, "/h") == b"back"

    use(server.options(tmp_path), hang)


def test_a_connection_that_ends_in_the_middle_ends_what_is_under_way(server: ssh.OpenSSH, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"f" * (16 << 20))
    for number in range(5000):
        (tmp_path / str(number)).touch()

    def kill_sessions() -> None:
        for pid in server.list_sessions():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    async def cut(driver: Any) -> None:
        stream, listing = await driver.read(P("/f")), driver.list(P("/"))
        await anext(stream)
        await anext(listing)
        kill_sessions()

        async def rest(of: AsyncIterator[Any]) -> None:
            async for _ in of:
                pass

        await within(10, rest(stream), Unreachable)
        await within(10, rest(listing), Unreachable)
        assert len(await names(driver, "/")) == 5001
        assert await content(driver, "/f", 5, 3) == b"fff"

    use(server.options(tmp_path), cut)


def test_a_storage_works_once_its_server_is_there(tmp_path: Path) -> None:
    async def wait(server: ssh.OpenSSH) -> None:
        driver = SFTP(SFTPOptions.parse(json.dumps(server.options(tmp_path))), DriverContext())  # type: ignore[arg-type]
        server.stop()
        await within(5, driver.start(), Unreachable)
        await asyncio.to_thread(server.start)
        await asyncio.sleep(1.1)  # a failure to connect stands for a second
        await driver.start()
        assert "sshd" in await names(driver, "/")
        await driver.stop()

    folder = tmp_path / "sshd"
    folder.mkdir()
    with ssh.openssh(folder) as server:
        asyncio.run(wait(server))


def test_names_that_the_server_cannot_hold_are_named(server: ssh.OpenSSH, tmp_path: Path) -> None:
    async def use_them(driver: Any) -> None:
        long = "n" * 256
        for work in (put(driver, f"/{long}"), driver.makedirs(P(f"/{long}"))):
            assert long in await within(10, work, StorageProblem)
        await put(driver, "/f")
        assert long in await within(10, driver.rename(P("/f"), P(f"/{long}")), StorageProblem)
        assert await names(driver, "/") == ["f"]

    use(server.options(tmp_path), use_them)


def test_names_that_no_path_can_hold_are_left_out_and_removed(server: ssh.OpenSSH, tmp_path: Path) -> None:
    folder = tmp_path / "d"
    folder.mkdir()
    for name in (b"latin-\xe4", b"back\\slash", b"fine"):
        (Path(str(folder).encode().decode()) / name.decode(errors="surrogateescape")).touch()

    async def look(driver: Any) -> None:
        assert await names(driver, "/d") == ["fine"]
        assert not await driver.remove_empty(P("/d"))
        await driver.remove(P("/d"))
        assert await names(driver, "/") == []

    use(server.options(tmp_path), look)


def test_what_a_user_may_not_change_is_read(tmp_path: Path) -> None:
    (tmp_path / "files" / "d").mkdir(parents=True)
    (tmp_path / "files" / "f").write_bytes(b"f")
    (tmp_path / "sshd").mkdir()

    async def read(driver: Any) -> None:
        assert await names(driver, "/") == ["d", "f"]
        assert await content(driver, "/f") == b"f"
        assert not await driver.can_refuse_existing()
        upload = upload_of(b"x")
        for work in (
            put(driver, "/g"), driver.makedirs(P("/e")), driver.rename(P("/f"), P("/g")), driver.remove(P("/f")),
            driver.write(P("/g"), body(b"x"), upload), driver.begin(P("/g"), upload, "1-a"),
            driver.remove_empty(P("/d")),
        ):  # fmt: skip
            await fails(work, StorageForbidden)
        assert await names(driver, "/") == ["d", "f"]

    with ssh.openssh(tmp_path / "sshd", "ForceCommand internal-sftp -R\n") as server:
        use(server.options(tmp_path / "files"), read)


def test_the_root_stays_where_it_is(server: ssh.OpenSSH, tmp_path: Path) -> None:
    (tmp_path / "f").touch()

    async def try_all(driver: Driver | Any) -> None:
        for work in (
            driver.remove(P("/")), driver.remove_empty(P("/")), driver.rename(P("/"), P("/x")),
            driver.move(P("/f"), P("/")), driver.rename(P("/f"), P("/.mangrove-x")),
        ):  # fmt: skip
            await fails(work, StorageForbidden)
        await fails(driver.read(P("/")), NotAFile)
        await fails(list_all(driver, P("/f")), (NotAFolder, EntryNotFound))
        await fails(driver.write(P("/g"), body(b"abc"), Upload(2, 1.7e9)), BadRequest)
        assert await names(driver, "/") == ["f"]

    use(server.options(tmp_path), try_all)
