"""SMB with wrong credentials, wrong names, failing servers and lost connections."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from smbprotocol.connection import Request
from smbprotocol.exceptions import SharingViolation

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, StorageForbidden, StorageProblem, Unreachable
from mangrove.drivers import connections, threads
from mangrove.drivers.base import Driver, DriverContext
from mangrove.drivers.smb.client import Share
from mangrove.drivers.smb.driver import SMB
from mangrove.drivers.smb.files import FileReader, FolderQuery
from mangrove.drivers.smb.messages import Access, Sharing, SmbMessage
from mangrove.drivers.smb.options import ShareAddress, SMBOptions, parse_share_address
from mangrove.drivers.threads import StorageThreads
from tests.contract.drivers.actions import content, fails, names, put
from tests.contract.drivers.test_suite import start_driver
from tests.servers import closed_port, smb
from tests.support.running_clock import RunningClock

P = TreePath
pytestmark = [pytest.mark.xdist_group("samba"), pytest.mark.skipif(not smb.CAN_RUN, reason=smb.REASON)]
RECOVERY_SECONDS = 120.0


@pytest.fixture(scope="module")
def samba(tmp_path_factory: pytest.TempPathFactory) -> Iterator[smb.Samba]:
    with smb.samba(tmp_path_factory.mktemp("samba")) as server:
        yield server


@pytest.fixture
def root(samba: smb.Samba) -> Path:
    folder = samba.folder / uuid4().hex
    folder.mkdir()
    return folder


def make_driver(options: dict[str, object]) -> SMB:
    return SMB(SMBOptions(**options), DriverContext())


async def until_it_works(call: Callable[[], Awaitable[object]]) -> None:
    end = time.monotonic() + RECOVERY_SECONDS
    while True:
        try:
            await call()
            return
        except Unreachable:
            assert time.monotonic() < end
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        ({"password": "wrong"}, StorageForbidden, "password"),
        ({"password": ""}, StorageForbidden, ""),
        ({"username": "nobody-here"}, StorageForbidden, "password"),
        ({"share_name": "nosuch"}, StorageProblem, "share"),
        ({"root_folder_path": "/no/such"}, StorageProblem, "/no/such not exists"),
        ({"address": "127.0.0.1:{free}"}, Unreachable, "refuses the connection"),
        ({"address": "no-such-host.invalid"}, Unreachable, "no connection"),
    ],
)
def test_what_is_wrong_is_said_at_the_start(
    samba: smb.Samba, wrong: dict[str, str], kind: type[StorageProblem], text: str
) -> None:
    async def started() -> None:
        with closed_port() as free:
            options = {key: value.format(free=free) for key, value in wrong.items()}
            driver = make_driver(samba.options() | options)
            with pytest.raises(kind) as raised:
                await driver.start()
        assert text in str(raised.value)
        assert smb.PASSWORD not in str(raised.value)
        await driver.stop()

    asyncio.run(started())


def test_a_wrong_password_is_refused_beside_a_storage_with_the_right_one(samba: smb.Samba, root: Path) -> None:
    async def used() -> None:
        good = await start_driver("SMB", samba.options(root.name))
        bad = make_driver(samba.options(root.name, password="wrong"))
        await fails(bad.start(), StorageForbidden)
        await fails(bad.stat(P("/")), StorageForbidden)
        await put(good, "/f")
        assert await names(good, "/") == ["f"]
        await good.stop()
        await bad.stop()

    asyncio.run(used())


def test_a_domain_may_stand_before_the_user(samba: smb.Samba, root: Path) -> None:
    async def used() -> None:
        driver = await start_driver("SMB", samba.options(root.name, username="WORKGROUP\\root"))
        assert await names(driver, "/") == []
        await driver.stop()

    asyncio.run(used())


def test_a_share_that_is_read_only_is_read(samba: smb.Samba, root: Path) -> None:
    (root / "f").write_bytes(b"f")

    async def used() -> None:
        driver = await start_driver("SMB", samba.options(root.name, share_name="readonly"))
        assert await names(driver, "/") == ["f"]
        assert await content(driver, "/f") == b"f"
        assert (await driver.get_space()).total > 0  # type: ignore[attr-defined]
        for change in (
            put(driver, "/g"),
            driver.makedirs(P("/d")),  # type: ignore[attr-defined]
            driver.rename(P("/f"), P("/g")),  # type: ignore[attr-defined]
            driver.remove(P("/f")),  # type: ignore[attr-defined]
        ):
            await fails(change, StorageForbidden)
        await driver.stop()

    asyncio.run(used())
    assert [path.name for path in root.iterdir()] == ["f"]


def test_a_server_that_is_down_at_the_start_is_used_when_it_is_back(tmp_path: Path) -> None:
    async def used(server: smb.Samba) -> None:
        server.kill()
        driver = make_driver(server.options())
        await fails(driver.start(), Unreachable)
        await asyncio.to_thread(server.start)
        await until_it_works(lambda: driver.stat(P("/")))
        await driver.stop()

    with smb.samba(tmp_path) as server:
        asyncio.run(used(server))


def test_a_read_continues_after_the_server_died_and_came_back(tmp_path: Path) -> None:
    written = bytes(range(256)) * 40_000

    async def used(server: smb.Samba) -> None:
        (server.folder / "f").write_bytes(written)
        for number in range(20_000):  # more than one answer of the server has
            (server.folder / f"{number}").touch()
        driver = await start_driver("SMB", server.options())
        listing, reading = aiter(driver.list(P("/"))), aiter(await driver.read(P("/f")))
        await anext(listing)
        first = await anext(reading)
        server.kill()
        with pytest.raises(Unreachable):
            while True:
                await anext(listing)
        await fails(driver.stat(P("/f")), Unreachable)
        await fails(put(driver, "/g"), Unreachable)
        await asyncio.to_thread(server.start)
        await until_it_works(lambda: driver.stat(P("/f")))
        assert first + b"".join([block async for block in reading]) == written
        await driver.stop()

    with smb.samba(tmp_path) as server:
        asyncio.run(used(server))


def test_a_file_that_was_replaced_meanwhile_is_not_read_on(tmp_path: Path) -> None:
    async def used(server: smb.Samba) -> None:
        (server.folder / "f").write_bytes(b"a" * 3_000_000)
        driver = await start_driver("SMB", server.options())
        reading = aiter(await driver.read(P("/f")))
        await anext(reading)
        server.kill()
        (server.folder / "f").unlink()
        (server.folder / "f").write_bytes(b"b" * 3_000_000)
        await asyncio.to_thread(server.start)
        await until_it_works(lambda: driver.stat(P("/f")))
        with pytest.raises(StorageProblem):
            await anext(reading)
        await driver.stop()

    with smb.samba(tmp_path) as server:
        asyncio.run(used(server))


async def fail_alone(hung: Any, other: Any, clock: RunningClock) -> None:
    """Calls of a storage whose server hangs wait and fail; meanwhile the other storage and the event loop go on."""
    stop = asyncio.Event()
    watching = asyncio.create_task(clock.measure_stalls(stop))
    calls = [asyncio.create_task(hung.stat(P("/f"))) for _ in range(20)]
    for _ in range(20):
        await other.stat(P("/"))
    assert not any(call.done() for call in calls)
    with pytest.MonkeyPatch.context() as impatient:
        for name, seconds in {"PROBE_AFTER": 0.6, "PROBE_TIMEOUT": 1.2, "STILL_TIMEOUT": 2.5}.items():
            impatient.setattr(threads, f"{name}_SECONDS", seconds)
        assert {type(result) for result in await asyncio.gather(*calls, return_exceptions=True)} == {Unreachable}
        assert clock.seconds < 30
        again = clock.seconds
        await fails(hung.stat(P("/f")), Unreachable)
        assert clock.seconds - again < 5
    stop.set()
    assert await watching < 2


def test_a_hung_server_fails_its_own_storage_only_and_is_used_again(
    samba: smb.Samba, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def used(server: smb.Samba) -> None:
        hung = await start_driver("SMB", server.options())
        other = await start_driver("SMB", samba.options())
        await put(hung, "/f")
        server.freeze()
        try:
            with RunningClock() as clock:
                await fail_alone(hung, other, clock)
        finally:
            server.signal(signal.SIGCONT)
        await until_it_works(lambda: hung.stat(P("/f")))
        assert await content(hung, "/f") == b"x"
        await hung.stop()
        await other.stop()

    with smb.samba(tmp_path) as server:
        asyncio.run(used(server))


async def check_unreachable(driver: Driver) -> None:
    await fails(driver.start(), Unreachable)
    await driver.stop()


def test_a_server_that_is_not_smb_is_unreachable(samba: smb.Samba) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        async def used() -> None:
            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.write(b"220 this is another protocol entirely\r\n" * 9)
                await reader.read()
                writer.close()

            server = await asyncio.start_server(answer, sock=listener)
            await check_unreachable(make_driver(samba.options(address=f"127.0.0.1:{listener.getsockname()[1]}")))
            server.close()

        asyncio.run(used())


async def check_use(options: dict[str, object]) -> None:
    driver = await start_driver("SMB", options)
    written = bytes(range(256)) * 10_000
    await put(driver, "/f", written)
    assert await content(driver, "/f") == written
    assert "f" in await names(driver, "/")
    await driver.stop()


def test_a_share_that_wants_encryption_gets_it(tmp_path: Path) -> None:
    with smb.samba(tmp_path, shares={"secret": "server smb encrypt = required"}) as server:
        asyncio.run(check_use(server.options(share_name="secret")))


def test_the_oldest_version_that_is_spoken_serves(tmp_path: Path) -> None:
    with smb.samba(tmp_path, "server max protocol = SMB2_10") as server:
        asyncio.run(check_use(server.options()))


def test_a_server_that_never_answers_is_unreachable(samba: smb.Samba, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "OPEN_TIMEOUT_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        driver = make_driver(samba.options(address=f"127.0.0.1:{listener.getsockname()[1]}"))
        asyncio.run(check_unreachable(driver))


def test_a_pausing_reader_occupies_no_connection(samba: smb.Samba, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_TIMEOUT_SECONDS", 0.1)
    written = bytes(range(256)) * 10_000
    (root / "f").write_bytes(written)

    async def used() -> None:
        driver = make_driver(samba.options(root.name))
        readers = [aiter(await driver.read(P("/f"))) for _ in range(20)]
        firsts = [await anext(reader) for reader in readers]

        async def see_it_closed() -> None:
            if driver._pool.size:
                raise Unreachable

        await until_it_works(see_it_closed)
        for first, reader in zip(firsts, readers, strict=True):
            assert first + b"".join([block async for block in reader]) == written
        await driver.stop()

    asyncio.run(used())


def test_a_file_that_is_read_in_part_is_closed(samba: smb.Samba, root: Path) -> None:
    (root / "f").write_bytes(b"x" * 3_000_000)

    async def used() -> None:
        driver = make_driver(samba.options(root.name))
        await driver.read(P("/f"))
        reader = aiter(await driver.read(P("/f")))
        await anext(reader)
        del reader
        gc.collect()
        share = await driver._pool._slots[0].opening

        async def have_it_alone() -> None:
            try:
                share.close_handle(share.open(f"{root.name}\\f", Access.DELETE, sharing=Sharing.NONE))
            except SharingViolation:
                raise Unreachable from None

        await until_it_works(have_it_alone)
        await driver.stop()

    asyncio.run(used())


def test_names_that_no_server_holds_are_refused_by_name(samba: smb.Samba, root: Path) -> None:
    async def used() -> None:
        driver = await start_driver("SMB", samba.options(root.name))
        for name in ("a?", "a:b", "*", "a|b", "<", ">", 'say "hi"', "dot.", "space ", "nul.txt", "n" * 256):
            with pytest.raises(StorageProblem) as raised:
                await put(driver, f"/{name}")
            assert name in str(raised.value)
            await fails(driver.makedirs(P(f"/{name}/d")), StorageProblem)  # type: ignore[attr-defined]
            await fails(driver.stat(P(f"/{name}")), EntryNotFound)
        assert await names(driver, "/") == []
        await driver.stop()

    asyncio.run(used())


class SlowShare(Share):
    """Send a request only when `may_send` is set; `has_request` is set when there is one."""

    def __init__(self, target: ShareAddress) -> None:
        super().__init__(target)
        self.has_request, self.may_send = threading.Event(), threading.Event()
        self.may_send.set()

    def send(self, message: SmbMessage) -> Request:
        self.has_request.set()
        assert self.may_send.wait(60)
        return super().send(message)


def open_scan(share: Share, root: str, pool: StorageThreads) -> tuple[FolderQuery, Callable[[], object]]:
    scan = FolderQuery(share, root, pool)
    return scan, lambda: scan.read_batch(share)


def open_reader(share: Share, root: str, pool: StorageThreads) -> tuple[FileReader, Callable[[], object]]:
    reader = FileReader(share, f"{root}\\f", pool, None)
    return reader, lambda: reader.read(share, 0, 10)


@pytest.mark.parametrize("start", [open_scan, open_reader])
def test_closing_during_a_cancelled_call_keeps_the_connection(
    samba: smb.Samba, root: Path, start: Callable[[Share, str, StorageThreads], tuple[FolderQuery | FileReader, Any]]
) -> None:
    (root / "f").write_bytes(b"written")
    share = SlowShare(parse_share_address(SMBOptions(**samba.options(root.name))))
    share.connect()
    opened, call = start(share, root.name, StorageThreads("smb"))
    share.has_request.clear()
    share.may_send.clear()
    with ThreadPoolExecutor() as pool:
        calling = pool.submit(call)
        assert share.has_request.wait(60)
        opened.close()
        time.sleep(0.2)  # for a thread that would close it now
        share.may_send.set()
        assert calling.result(120)
    assert share.is_open
    assert share.get_status(f"{root.name}\\f").size == 7
    share.close()
