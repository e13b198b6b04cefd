"""FTP servers that lie, stall, die, or do not speak FTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryNotFound, StorageForbidden, StorageProblem, Unreachable
from mangrove.drivers import base
from mangrove.drivers.base import Entry
from mangrove.drivers.ftp import client
from mangrove.drivers.ftp.driver import FTP
from tests.unit.drivers.ftp.server import FakeServer, Session, fake_ftp

P = TreePath


def use(server: FakeServer, work: Callable[[FTP], Awaitable[Any]], **more: Any) -> None:
    async def used() -> None:
        async with fake_ftp(server, **more) as driver:
            await work(driver)

    asyncio.run(used())


async def read(driver: FTP, path: str = "/f", offset: int = 0, length: int | None = None) -> bytes:
    return b"".join([block async for block in await driver.read(P(path), offset, length)])


def test_data_comes_from_the_host_of_the_control_connection() -> None:
    server = FakeServer(data={"RETR": b"12345"})

    async def lie(session: Session) -> bytes:
        port = await server.open_passive()
        return b"227 there (198,51,100,7,%d,%d)" % divmod(port, 256)

    server.replies |= {"EPSV": b"500 what?", "PASV": lie}

    async def work(driver: FTP) -> None:
        assert await read(driver) == b"12345"

    use(server, work)


def test_an_offset_is_sent_right_before_the_transfer() -> None:
    server = FakeServer(data={"RETR": b"45"})

    async def work(driver: FTP) -> None:
        assert await read(driver, offset=3) == b"45"

    use(server, work)
    assert server.log[server.log.index("REST 3") + 1] == "RETR /f"


@pytest.mark.parametrize("name", ["a\rDELE b", "a\nDELE b", "a\xffb"])
def test_a_name_cannot_hold_a_command(name: str) -> None:
    server = FakeServer()

    async def work(driver: FTP) -> None:
        for verb in (driver.stat, driver.remove, driver.makedirs):
            with pytest.raises(StorageProblem, match="cannot send a name"):
                await verb(P(f"/{name}"))

    use(server, work, encoding="latin-1")
    assert server.log == []


def test_a_name_that_the_charset_cannot_hold_is_refused_by_name() -> None:
    async def work(driver: FTP) -> None:
        with pytest.raises(StorageProblem, match="日本"):
            await driver.stat(P("/日本"))

    use(FakeServer(), work, encoding="windows-1252")


def test_a_file_that_ends_early_is_a_failure() -> None:
    async def work(driver: FTP) -> None:
        with pytest.raises(Unreachable):
            await read(driver)

    for after in (b"226 done", b"426 broken"):
        use(FakeServer(data={"RETR": b"123"}, after=after), work)


def test_a_server_that_dies_in_a_listing_gives_no_listing() -> None:
    server = FakeServer()

    async def die(session: Session) -> None:
        session.control.write(b"150 coming\r\n")
        await server.send(b"type=file;size=1; a\r\ntype=fi")

    server.replies["MLSD"] = die

    async def work(driver: FTP) -> None:
        with pytest.raises(Unreachable):
            await base.list_all(driver, P("/"))

    use(server, work)


def test_a_listing_leaves_out_what_is_not_a_name() -> None:
    lines = [
        b"type=cdir; .", b"type=pdir; ..", b"type=dir; .", b"type=file;size=1; ../up", b"type=file; a\\b", b"noise",
        b"", b"type=file;size=1; \xff\xfe", b"type=file;size=2; .mangrove-1.part",
        b"Type=File;Size=3;Modify=20260102030405; b",
        b"type=OS.unix=chr-1/2; device", b"type=file;size=9; \x00", b"type=dir; d ",
    ]  # fmt: skip

    async def work(driver: FTP) -> None:
        entries = await base.list_all(driver, P("/"))
        assert entries == [Entry("b", 3, 1767323045.0, False), Entry("d ", 0, 0.0, True)]

    use(FakeServer(data={"MLSD": b"\r\n".join(lines)}), work)


def test_a_link_is_shown_as_its_target_or_left_out() -> None:
    server = FakeServer(
        data={"MLSD": b"type=OS.unix=slink:/x; to file\ntype=OS.unix=slink:; to folder\ntype=OS.unix=symlink; gone\n"}
    )

    async def enter(session: Session) -> bytes:
        return b"250 ok" if server.log[-1].endswith("to folder") else b"550 no"

    async def measure(session: Session) -> bytes:
        return b"213 7" if server.log[-1].endswith("to file") else b"550 no"

    server.replies |= {"CWD": enter, "SIZE": measure}

    async def work(driver: FTP) -> None:
        entries = await base.list_all(driver, P("/"))
        assert {entry.name: (entry.is_dir, entry.size, entry.is_link) for entry in entries} == {
            "to file": (False, 7, True), "to folder": (True, 0, True),
        }  # fmt: skip

    use(server, work)


def test_a_folder_that_is_removed_as_a_file_is_not_listed() -> None:
    """Some servers show a link to a folder as a folder."""
    server = FakeServer()

    async def work(driver: FTP) -> None:
        await driver.remove(P("/link"))

    use(server, work)
    assert [line for line in server.log if line[:4] in ("DELE", "RMD ", "MLSD")] == ["DELE /link"]


@pytest.mark.parametrize(
    "reply", [b"229 no port", b"229 (|||99999999|)", b"garbage", b"999", b"229-(|||1|)\r\n" * 2000]
)
def test_an_answer_that_is_not_ftp_is_a_problem(reply: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "REPLY_TIMEOUT_SECONDS", 0.3)

    async def work(driver: FTP) -> None:
        with pytest.raises(StorageProblem):
            await base.list_all(driver, P("/"))

    use(FakeServer(replies={"EPSV": reply}), work)


def test_a_server_that_stalls_is_unreachable_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    async def stall(session: Session) -> bytes:
        await asyncio.sleep(1)
        return b"250 late"

    async def work(driver: FTP) -> None:
        assert (await driver.stat(P("/f"))).size == 5
        server.replies["MLST"] = stall
        with monkeypatch.context() as quick:
            for name in ("REPLY_TIMEOUT_SECONDS", "DATA_TIMEOUT_SECONDS", "SETTLE_TIMEOUT_SECONDS"):
                quick.setattr(client, name, 0.2)
            with pytest.raises(Unreachable, match="in time"):
                await driver.stat(P("/f"))
        server.replies.clear()
        assert (await driver.stat(P("/f"))).size == 5  # on another connection: no call receives the late answer

    server = FakeServer()
    use(server, work)
    assert server.opened == 2


def test_a_password_in_an_answer_is_not_shown() -> None:
    async def work(driver: FTP) -> None:
        with pytest.raises(StorageForbidden) as caught:
            await driver.start()
        assert "pass word" not in str(caught.value)

    use(FakeServer(replies={"PASS": b"530 no such password: pass word"}), work)


def test_a_file_that_changed_between_is_not_read() -> None:
    async def work(driver: FTP) -> None:
        shown = await driver.stat(P("/f"))
        with pytest.raises(EntryChanged):
            await driver.read(P("/f"), 0, None, shown._replace(size=6))

    use(FakeServer(data={"RETR": b"12345"}), work)


def test_a_server_that_takes_no_more_connections_is_waited_for() -> None:
    server = FakeServer(data={"MLSD": b""}, replies={"CWD": b"550 no"})

    async def work(driver: FTP) -> None:
        await driver.stat(P("/f"))
        server.greeting = b"421 too many"
        async with driver._commands.use():
            waiting = asyncio.create_task(driver.stat(P("/f")))
            await asyncio.sleep(0.05)
            assert not waiting.done()
        assert (await waiting).size == 5

    use(server, work)


def test_no_connection_at_all_is_said_at_once() -> None:
    async def work(driver: FTP) -> None:
        with pytest.raises(Unreachable, match="no further connection"):
            await driver.start()

    use(FakeServer(greeting=b"421 too many"), work)


def test_lines_before_the_encryption_are_no_answers() -> None:
    """Somebody between could have added them."""

    async def work(driver: FTP) -> None:
        with pytest.raises(Unreachable, match="more lines than requested"):
            await driver.stat(P("/x"))

    server = FakeServer(replies={"AUTH": b"234 encrypt\r\n200 injected"})
    use(server, work, explicit_tls=True)
    assert server.log == ["AUTH TLS"]


def test_a_root_that_is_not_there_is_said_at_the_start() -> None:
    async def work(driver: FTP) -> None:
        with pytest.raises(EntryNotFound):
            await driver.start()

    use(FakeServer(replies={"MLST": b"550 no", "CWD": b"550 no"}), work, root_folder_path="/none")
