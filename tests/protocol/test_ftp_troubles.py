"""Failures of real FTP servers, and features that only FTP has."""

from __future__ import annotations

import asyncio
import ftplib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageForbidden, StorageProblem, Unreachable
from mangrove.drivers import base
from mangrove.drivers.base import DriverContext
from mangrove.drivers.ftp import client
from mangrove.drivers.ftp.driver import FTP, MAX_READ_CONNECTIONS, MAX_WRITE_CONNECTIONS
from mangrove.drivers.ftp.options import FTPOptions
from tests import servers
from tests.contract.drivers import actions
from tests.servers import ftp
from tests.support.running_clock import RunningClock

P = TreePath
pytestmark = pytest.mark.xdist_group("ftp-troubles")
Work = Callable[[FTP], Awaitable[Any]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ftp.FtpServer]:
    with ftp.pyftpdlib(tmp_path_factory.mktemp("ftp")) as started:
        yield started


def use(options: dict[str, Any], work: Work, *, is_started: bool = True) -> None:
    async def used() -> None:
        all_options = {"cwd_list": False, "explicit_tls": False, "tls_insecure_skip_verify": False} | options
        driver = FTP(FTPOptions(**all_options), DriverContext())
        try:
            if is_started:
                await driver.start()
            await work(driver)
        finally:
            await driver.stop()

    asyncio.run(used())


def refused_at_the_start(options: dict[str, Any], kind: type[Exception], match: str) -> None:
    async def work(driver: FTP) -> None:
        with pytest.raises(kind, match=match) as caught:
            await driver.start()
        assert str(options["password"]) not in str(caught.value)

    use(options, work, is_started=False)


def test_wrong_options_are_refused_at_the_start(server: ftp.FtpServer) -> None:
    options = server.options()
    refused_at_the_start(options | {"password": "wrong one"}, StorageForbidden, "refuses the sign-in")
    refused_at_the_start(options | {"username": "nobody"}, StorageForbidden, "refuses the sign-in")
    with servers.closed_port() as port:
        refused_at_the_start(options | {"address": f"127.0.0.1:{port}"}, Unreachable, "does not answer")
    refused_at_the_start(options | {"address": "no-such-host.invalid"}, Unreachable, "does not answer")
    refused_at_the_start(options | {"address": "a b"}, StorageProblem, "address")
    refused_at_the_start(options | {"encoding": "nonsense"}, StorageProblem, "encoding")
    refused_at_the_start(options | {"root_folder_path": "/no/such"}, StorageProblem, "not found")
    refused_at_the_start(options | {"password": "x\r\nDELE y"}, StorageProblem, "password has a character")


def test_a_user_who_may_only_read_lists_and_reads(tmp_path: Path) -> None:
    with ftp.pyftpdlib(tmp_path, may="elr") as server:
        folder = server.folder / "d"
        folder.mkdir()
        (folder / "f").write_bytes(b"content")

        async def work(driver: FTP) -> None:
            assert await actions.names(driver, "/") == ["f"]
            assert await actions.content(driver, "/f", 2, 3) == b"nte"
            for change in (
                actions.put(driver, "/g"), driver.remove(P("/f")), driver.makedirs(P("/d")),
                driver.rename(P("/f"), P("/g")),
            ):  # fmt: skip
                with pytest.raises(StorageForbidden):
                    await change
            assert await actions.content(driver, "/f") == b"content"

        use(server.options(folder), work)


def test_more_copies_than_connections_end(server: ftp.FtpServer) -> None:
    folder = server.make_folder()
    (folder / "f").write_bytes(b"content")

    async def work(driver: FTP) -> None:
        async def copy(number: int) -> None:
            body = await driver.read(P("/f"))
            await driver.write(P(f"/copy {number}"), body, actions.upload_of(b"content"))

        await asyncio.gather(*(copy(number) for number in range(MAX_READ_CONNECTIONS + MAX_WRITE_CONNECTIONS)))
        assert len(await actions.names(driver, "/")) == 1 + MAX_READ_CONNECTIONS + MAX_WRITE_CONNECTIONS

    use(server.options(folder), work)


def test_slow_readers_do_not_delay_listings_and_writes(server: ftp.FtpServer) -> None:
    folder = server.make_folder()
    (folder / "large").write_bytes(bytes(20 << 20))

    async def work(driver: FTP) -> None:
        readers: list[Any] = [await driver.read(P("/large")) for _ in range(MAX_READ_CONNECTIONS)]
        for reader in readers:
            await anext(reader)
        async with asyncio.timeout(60):
            assert await actions.names(driver, "/") == ["large"]
            await asyncio.gather(*(driver.stat(P("/large")) for _ in range(20)))
            await driver.makedirs(P("/d"))
            await actions.put(driver, "/d/f", b"beside")
        for reader in readers:
            await reader.aclose()
        assert len(await actions.content(driver, "/large")) == 20 << 20

    use(server.options(folder), work)


def test_a_read_that_is_left_early_leaves_a_connection_fit_for_use(server: ftp.FtpServer) -> None:
    folder = server.make_folder()
    (folder / "large").write_bytes(os.urandom(1 << 20) * 20)
    written = (folder / "large").read_bytes()

    async def work(driver: FTP) -> None:
        for number in range(10):
            reader: Any = await driver.read(P("/large"), number)
            assert written[number:].startswith(await anext(reader))
            await reader.aclose()
            assert await actions.content(driver, "/large", 5_000_000 + number, 7) == written[5_000_000 + number :][:7]
        assert driver._reads.size == 1

    use(server.options(folder), work)


def test_a_read_that_nobody_begins_or_ends_frees_its_connection(server: ftp.FtpServer) -> None:
    folder = server.make_folder()
    (folder / "large").write_bytes(bytes(20 << 20))

    async def work(driver: FTP) -> None:
        for _ in range(MAX_READ_CONNECTIONS + 2):
            reader: Any = await driver.read(P("/large"))
            del reader
            await asyncio.sleep(0)
        assert len(await actions.content(driver, "/large")) == 20 << 20

    use(server.options(folder), work)


def test_a_time_is_set_where_the_server_can(server: ftp.FtpServer) -> None:
    folder = server.make_folder()

    async def work(driver: FTP) -> None:
        entry = await actions.put(driver, "/f")
        assert entry.modified == actions.SENT_AT
        assert (folder / "f").stat().st_mtime == actions.SENT_AT

    use(server.options(folder), work)


def test_a_removal_takes_links_and_leaves_what_is_behind_them(server: ftp.FtpServer) -> None:
    folder = server.make_folder()
    (folder / "behind").mkdir()
    (folder / "behind" / "precious").write_bytes(b"x")
    (folder / "d" / "sub").mkdir(parents=True)
    for name, target in (("to folder", "../../behind"), ("to file", "../../behind/precious"), ("nowhere", "none")):
        (folder / "d" / "sub" / name).symlink_to(target)
    (folder / "link").symlink_to("behind")

    async def work(driver: FTP) -> None:
        assert await actions.names(driver, "/d/sub") == ["to file", "to folder"]
        await driver.remove(P("/link"))
        await driver.remove(P("/d/sub/to folder"))
        (folder / "d" / "sub" / "to folder").symlink_to("../../behind")
        (folder / "d" / "sub" / "nowhere").unlink()  # pyftpdlib shows no name of such a link, and keeps its folder
        await driver.remove(P("/d"))
        assert await actions.names(driver, "/") == ["behind"]
        assert await actions.names(driver, "/behind") == ["precious"]

    use(server.options(folder), work)


def test_names_are_in_the_charset_of_the_option(tmp_path: Path) -> None:
    with ftp.pyftpdlib(tmp_path, encoding="cp1252") as server:

        async def work(driver: FTP) -> None:
            await actions.put(driver, "/süß €", b"sweet")
            assert await actions.names(driver, "/") == ["süß €"]
            assert await actions.content(driver, "/süß €") == b"sweet"
            with pytest.raises(StorageProblem, match="日本"):
                await actions.put(driver, "/日本")

        async def other_work(driver: FTP) -> None:
            assert await actions.names(driver, "/") == []  # its bytes are not UTF-8
            await actions.put(driver, "/plain")
            assert await actions.names(driver, "/") == ["plain"]

        folder = server.make_folder()
        use(server.options(folder, encoding="windows-1252"), work)
        use(server.options(folder), other_work)


def test_the_option_cwd_list_enters_a_folder_before_listing(tmp_path: Path) -> None:
    """vsftpd takes a name with a star in LIST for all that fit."""
    if ftp.VSFTPD is None:
        pytest.skip("vsftpd is not installed")
    with ftp.open_folder() as base_folder, ftp.vsftpd(base_folder) as server:
        folder = server.make_folder()

        async def work(driver: FTP) -> None:
            for name in ("d[1]", "{a,b}", "*"):
                await driver.makedirs(P(f"/{name}"))
                await actions.put(driver, f"/{name}/f", name.encode())
                assert await actions.names(driver, f"/{name}") == ["f"]
                assert await actions.content(driver, f"/{name}/f") == name.encode()

        use(server.options(folder, cwd_list=True), work)


def test_connections_beyond_what_the_server_takes_are_waited_for(tmp_path: Path) -> None:
    with ftp.pyftpdlib(tmp_path, most=3) as server:
        options = server.options()

        async def work(driver: FTP) -> None:
            await actions.put(driver, "/f", b"content")
            contents = await asyncio.gather(*(actions.content(driver, "/f") for _ in range(8)))
            assert contents == [b"content"] * 8

        use(options, work)


def test_a_server_that_stands_still_is_unreachable_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ftp.pyftpdlib(tmp_path) as server:
        (server.folder / "large").write_bytes(bytes(30 << 20))

        async def work(driver: FTP) -> None:
            reader: Any = await driver.read(P("/large"))
            await anext(reader)
            os.kill(server.process, signal.SIGSTOP)
            with monkeypatch.context() as impatient, RunningClock() as clock:
                for name, seconds in (("REPLY", 0.5), ("DATA", 0.5), ("SETTLE", 0.2)):
                    impatient.setattr(client, f"{name}_TIMEOUT_SECONDS", seconds)
                with pytest.raises(Unreachable):
                    await driver.stat(P("/large"))
                with pytest.raises(Unreachable):
                    [block async for block in reader]
                assert clock.seconds < 8
            os.kill(server.process, signal.SIGCONT)
            assert (await driver.stat(P("/large"))).size == 30 << 20

        use(server.options() | {"root_folder_path": "/"}, work)


def test_a_server_that_was_dead_serves_when_it_is_back(tmp_path: Path) -> None:
    port = servers.free_port()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "large").write_bytes(bytes(30 << 20))
    options = ftp.FtpServer(port, tmp_path / "data").options(tmp_path / "data")

    async def work(driver: FTP) -> None:
        with pytest.raises(Unreachable):
            await driver.start()
        with ftp.pyftpdlib(tmp_path, port=port) as server:
            while True:
                try:
                    reader: Any = await driver.read(P("/large"))
                    break
                except Unreachable:  # that it could not be opened is remembered for a moment
                    await asyncio.sleep(0.05)
            await anext(reader)
            os.kill(server.process, signal.SIGKILL)
            with pytest.raises(Unreachable):
                [block async for block in reader]

    use(options, work, is_started=False)


def test_a_password_may_have_spaces_and_letters_of_the_charset(server: ftp.FtpServer) -> None:
    with ftplib.FTP() as client:
        client.connect("127.0.0.1", server.port)
        client.login(server.username, server.password)  # "p w"

    async def work(driver: FTP) -> None:
        assert await base.list_all(driver, P("/")) == []

    use(server.options(), work)
