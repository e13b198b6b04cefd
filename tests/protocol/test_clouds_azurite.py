"""The driver suite and what is Azure Blob's own, on azurite."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryChanged,
    EntryExists,
    EntryNotFound,
    StorageForbidden,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers import base
from mangrove.drivers.base import Driver, Upload
from mangrove.drivers.clouds import driver as cloud_driver
from mangrove.drivers.clouds import transfer
from tests import servers
from tests.contract.drivers import actions, suite
from tests.contract.drivers.cases import Server
from tests.contract.drivers.test_suite import start_driver
from tests.servers import azurite
from tests.servers.azurite import Azurite
from tests.servers.relay import Relay, relay

P = TreePath
pytestmark = [
    pytest.mark.long,
    pytest.mark.driver("AzureBlob", "azurite"),
    pytest.mark.xdist_group("azurite"),
    pytest.mark.skipif(bool(azurite.MISSING), reason=azurite.MISSING),
]
RACES = {name for name in suite.CASES if name.startswith("of_") and "one_wins" in name}  # the tree holds the names


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    with azurite.azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server


def container(server: Azurite, **more: object) -> dict[str, object]:
    return azurite.options(server.endpoint, server.make_container(), **more)


async def start(options: dict[str, object]) -> Any:
    return await start_driver("AzureBlob", options)


@pytest.fixture(scope="module")
def relayed(server: Azurite) -> Iterator[Relay]:
    with relay(server.port) as made:
        yield made


@pytest.mark.parametrize("case", [name for name in suite.CASES if name not in RACES])
def test_contract(server: Azurite, relayed: Relay, case: str) -> None:
    async def start_fresh() -> Driver:
        options = container(server) | {"endpoint": f"http://127.0.0.1:{relayed.port}/{azurite.ACCOUNT}"}
        driver: Driver = await start(options | {"root_folder_path": "/in/side"})
        return driver

    suite.run(start_fresh, case, Server(restart=relayed.restart))


def test_the_root_is_a_folder_of_the_container(server: Azurite) -> None:
    async def used() -> None:
        options = container(server)
        whole, part = await start(options), await start(options | {"root_folder_path": "/a/b"})
        await actions.put(whole, "/a/b/f", b"f")
        await actions.put(whole, "/a/bb", b"g")
        assert await actions.names(part, "/") == ["f"]
        assert await part.identify(P("/f")) == await whole.identify(P("/a/b/f"))
        other = await start(container(server))
        assert await other.identify(P("/f")) != await whole.identify(P("/f"))

    asyncio.run(used())


def test_a_folder_that_others_made_is_one_without_a_marker(server: Azurite) -> None:
    options = container(server)
    server.request("PUT", f"/{options['container']}/deep/er/f", b"x").raise_for_status()

    async def used() -> None:
        driver = await start(options)
        assert (await driver.stat(P("/deep"))).is_dir
        assert await actions.names(driver, "/deep") == ["er"]
        await driver.remove(P("/deep/er/f"))
        assert await actions.names(driver, "/deep/er") == []

    asyncio.run(used())


def test_a_name_that_ends_with_a_space_is_shown_and_refused_by_name(server: Azurite) -> None:
    """opendal would ask for the file without the space."""
    options = container(server)
    for name in ("d/a", "d/a "):
        server.request("PUT", f"/{options['container']}/{quote(name)}", name.encode()).raise_for_status()

    async def used() -> None:
        driver = await start(options)
        assert await actions.names(driver, "/d") == ["a", "a "]
        for work in (driver.stat(P("/d/a ")), driver.read(P("/d/a ")), driver.remove(P("/d/a "))):
            with pytest.raises(StorageProblem, match=r"^a : "):
                await work
        assert await actions.content(driver, "/d/a") == b"d/a"
        for verb in (driver.copy, driver.move):
            with pytest.raises(StorageProblem, match=r"^d/a : "):
                await verb(P("/d"), P("/e"))
        assert await actions.names(driver, "/") == ["d"]
        await driver.remove(P("/d"))
        assert await actions.names(driver, "/") == []

    asyncio.run(used())


@pytest.mark.parametrize("size", [10, 20_000_000])
def test_the_service_itself_refuses_to_replace_what_appears_meanwhile(server: Azurite, size: int) -> None:
    async def used() -> None:
        driver = await start(container(server))

        async def body() -> AsyncIterator[bytes]:
            yield b"x" * size
            await actions.put(driver, "/f", b"other")

        with pytest.raises(EntryExists):
            await driver.write(P("/f"), body(), Upload(size, 0.0, overwrite=False))
        assert await actions.content(driver, "/f") == b"other"
        assert not await driver.can_refuse_existing()  # copies and moves take no condition

    asyncio.run(used())


def test_a_file_that_is_replaced_while_it_is_read_is_noticed(server: Azurite) -> None:
    async def used() -> None:
        driver = await start(container(server))
        await actions.put(driver, "/f", b"1" * 30_000_000)
        stream = await driver.read(P("/f"))
        await anext(stream)
        await actions.put(driver, "/f", b"2" * 30_000_000)
        with pytest.raises(EntryChanged):
            async for block in stream:
                assert block.strip(b"1") == b""

    asyncio.run(used())


def test_a_wrong_key_is_forbidden(server: Azurite) -> None:
    async def used() -> None:
        driver = await start(container(server, account_key="c2VjcmV0"))
        works = [base.list_all(driver, P("/")), driver.stat(P("/f")), driver.read(P("/f")), driver.makedirs(P("/d"))]
        for work in [*works, actions.put(driver, "/f"), driver.remove(P("/f"))]:
            with pytest.raises(StorageForbidden) as caught:
                await work
            assert "c2VjcmV0" not in str(caught.value)

    asyncio.run(used())


def test_a_container_that_is_not_there_is_said_to_be(server: Azurite) -> None:
    async def used() -> None:
        driver = await start(azurite.options(server.endpoint, "nosuch"))
        with pytest.raises(StorageProblem, match="does not exist"):
            await base.list_all(driver, P("/"))
        with pytest.raises(StorageProblem, match="does not exist"):
            await actions.put(driver, "/f")
        with pytest.raises(EntryNotFound):
            await driver.stat(P("/f"))

    asyncio.run(used())


async def check_unreachable(driver: Any, within: float) -> None:
    """Every verb says so, and the event loop goes on meanwhile."""
    began = time.monotonic()
    ticks = asyncio.create_task(asyncio.sleep(0.05))
    works = [base.list_all(driver, P("/")), driver.stat(P("/f")), driver.read(P("/f")), driver.makedirs(P("/d"))]
    works += [actions.put(driver, "/f"), driver.remove(P("/f")), driver.move(P("/f"), P("/g"))]
    results = await asyncio.gather(*works, return_exceptions=True)
    assert [type(result) for result in results] == [Unreachable] * len(works)
    assert ticks.done()
    assert time.monotonic() - began < within


def test_missing_server_is_unreachable_and_used_when_it_starts(server: Azurite, relayed: Relay) -> None:
    async def used() -> None:
        options = container(server) | {"endpoint": f"http://127.0.0.1:{relayed.port}/{azurite.ACCOUNT}"}
        driver = await start(options)
        relayed.stop()
        dead = await start(options)
        await check_unreachable(driver, 20)
        relayed.start()
        for target_driver in (driver, dead):
            await actions.put(target_driver, "/f", b"f")
            assert await actions.content(target_driver, "/f") == b"f"

    asyncio.run(used())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_driver, "ANSWER_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(transfer, "WRITE_ANSWER_TIMEOUT_SECONDS", 1.0)


@pytest.mark.usefixtures("impatient")
def test_a_server_that_hangs_is_unreachable_in_seconds(server: Azurite) -> None:
    async def used() -> None:
        driver = await start(container(server))
        await actions.put(driver, "/f", b"f" * 5_000_000)
        stream = await driver.read(P("/f"))
        server.child.send_signal(signal.SIGSTOP)
        try:
            await check_unreachable(driver, 20)
            with pytest.raises(Unreachable):
                async for _ in stream:
                    pass
        finally:
            server.child.send_signal(signal.SIGCONT)
        assert len(await actions.content(driver, "/f")) == 5_000_000

    asyncio.run(used())


@pytest.mark.usefixtures("impatient")
def test_an_address_that_takes_connections_and_says_nothing_is_unreachable() -> None:
    async def used(port: int) -> None:
        driver = await start(azurite.options(f"http://127.0.0.1:{port}/x", "box"))
        await check_unreachable(driver, 20)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        asyncio.run(used(listener.getsockname()[1]))


def test_what_is_no_such_service_is_unreachable_or_refused(server: Azurite) -> None:
    async def used() -> None:
        driver = await start(azurite.options(f"http://127.0.0.1:{servers.free_port()}/x", "box"))
        with pytest.raises(Unreachable):
            await driver.stat(P("/f"))
        driver = await start(azurite.options(server.endpoint.replace("http:", "https:"), "box"))
        with pytest.raises(Unreachable):
            await driver.stat(P("/f"))

    asyncio.run(used())


def test_one_storage_serves_several_event_loops(server: Azurite) -> None:
    driver = asyncio.run(start(container(server)))
    for number in range(3):
        asyncio.run(actions.put(driver, f"/{number}", b"x"))
    assert asyncio.run(actions.names(driver, "/")) == ["0", "1", "2"]
