"""The driver suite and what is S3's own, on `rclone serve s3`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryExists, StorageForbidden, Unreachable
from mangrove.drivers import base
from mangrove.drivers.base import Driver, Upload
from mangrove.drivers.s3.driver import S3
from tests import servers
from tests.contract.drivers import actions, suite
from tests.contract.drivers.test_suite import NOT_ON_S3, start_driver
from tests.support.running_clock import RunningClock
from tests.unit.drivers.s3 import damage
from tests.unit.drivers.s3.proxy import Proxy, proxied

P = TreePath
pytestmark = [pytest.mark.driver("S3", "rclone"), pytest.mark.xdist_group("rclone")]  # one rclone

NOT_ON_RCLONE = {
    # it keeps no object at `d/` apart from its folder, and its folders stay or go as the local disk's do
    "a_file_is_no_folder_and_a_folder_no_file",
    "a_folder_does_not_replace_a_file",
    # it refuses a part that it has already joined to the one before
    "a_file_is_made_of_parts_in_any_order_and_repeated",
    # it keeps parts in its memory
    "a_file_of_parts_goes_on_after_a_restart",
    # it lists a name that its disk has refused
    "names_that_are_too_long_are_kept_or_refused",
    # it takes one for the other
    "folders_with_composed_and_decomposed_names_are_kept_apart_or_refused",
    # it lists a name twice that two requests create at the same time
    "of_writers_to_one_name_one_wins_whole",
    # its buckets keep no versions
    "versions_of_a_file_are_listed_and_come_back",
    "what_was_removed_comes_back_from_its_versions",
    "what_was_removed_and_purged_does_not_come_back",
}


class Rclone(NamedTuple):
    """Its address, the folder of its buckets, how to restart it and how to share its clients."""

    endpoint: str
    folder: Path
    restart: Callable[[], None]
    share: Callable[[], None]


@pytest.fixture(scope="module")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rclone]:
    folder, port = tmp_path_factory.mktemp("rclone") / "buckets", servers.free_port()
    folder.mkdir()
    endpoint = f"http://127.0.0.1:{port}"
    with servers.restartable(lambda: servers.rclone_s3(folder, port=port)) as restart:
        with servers.hold_s3_clients(endpoint) as share:
            yield Rclone(endpoint, folder, restart, share)


def bucket(rclone: Rclone, **more: object) -> dict[str, object]:
    return servers.s3_options(rclone.endpoint, servers.make_bucket(rclone.endpoint), **more)


@pytest.mark.long  # the suite runs on moto's server in `make test`
@pytest.mark.parametrize("case", suite.list_cases("S3", NOT_ON_S3 | NOT_ON_RCLONE))
def test_contract(rclone: Rclone, case: str) -> None:
    options = bucket(rclone)
    rclone.share()

    async def start() -> Driver:
        return await start_driver("S3", options)

    suite.run(start, case, suite.on_disk(rclone.folder / str(options["bucket"]), rclone.restart, many=2500))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_many_keys_come_in_pages(rclone: Rclone, version: str) -> None:
    options = bucket(rclone, list_object_version=version)
    folder = rclone.folder / str(options["bucket"]) / "many"
    folder.mkdir()
    expected = [f"file {number:05}+%.txt" for number in range(2500)]
    for name in expected:
        (folder / name).write_text("x")

    async def listed() -> list[base.Entry]:
        driver = await start_driver("S3", options)
        batches = [batch async for batch in driver.list(P("/many"))]
        await driver.stop()
        assert len(batches) >= 3
        return [entry for batch in batches for entry in batch]

    entries = asyncio.run(listed())
    assert sorted(entry.name for entry in entries) == expected
    assert {entry.size for entry in entries} == {1}
    assert all(abs(entry.modified - time.time()) < 600 for entry in entries)


def test_a_presigned_link_gives_the_bytes(rclone: Rclone) -> None:
    async def link() -> str:
        driver = await start_driver("S3", bucket(rclone, add_filename_to_disposition=True))
        await actions.put(driver, "/a b+c%.txt", b"linked")
        link = await driver.link(P("/a b+c%.txt"))  # type: ignore[attr-defined]
        assert link.lifetime == 4 * 3600
        await driver.stop()
        return str(link.url)

    answer = httpx.get(asyncio.run(link()), timeout=60)
    assert (answer.status_code, answer.content) == (200, b"linked")


def test_wrong_keys_are_forbidden(rclone: Rclone) -> None:
    async def listed() -> None:
        driver = await start_driver("S3", bucket(rclone, secret_access_key="wrong"))
        with pytest.raises(StorageForbidden):
            await base.list_all(driver, P("/"))
        await driver.stop()

    asyncio.run(listed())


def test_a_dead_server_is_said_to_be_unreachable() -> None:
    async def used(port: int) -> None:
        driver = await start_driver("S3", servers.s3_options(f"http://127.0.0.1:{port}", "bucket"))
        with pytest.raises(Unreachable):
            await base.list_all(driver, P("/"))
        with pytest.raises(Unreachable):
            await actions.put(driver, "/f")
        with pytest.raises(Unreachable):
            await driver.stat(P("/f"))
        await driver.stop()

    with servers.closed_port() as port, RunningClock() as clock:
        asyncio.run(used(port))
        assert clock.seconds < 30


@pytest.mark.parametrize("case", damage.CASES)
def test_bytes_damaged_on_the_way_are_noticed(rclone: Rclone, case: Callable[[S3, Proxy], Awaitable[None]]) -> None:
    async def used(proxy: Proxy) -> None:
        driver = await start_driver("S3", bucket(rclone) | {"endpoint": proxy.endpoint})
        assert isinstance(driver, S3)
        await case(driver, proxy)
        assert await driver.proves_writes()
        await driver.stop()

    with proxied(rclone.endpoint) as proxy:
        asyncio.run(used(proxy))


def test_a_server_that_ignores_conditions_is_said_to_and_looked_at_before(rclone: Rclone) -> None:
    async def used() -> None:
        driver = await start_driver("S3", bucket(rclone))
        assert isinstance(driver, S3)
        assert not await driver.can_refuse_existing()
        assert await actions.names(driver, "/") == []
        await actions.put(driver, "/a", b"a")
        await actions.put(driver, "/b", b"bb")
        once = Upload(1, 0.0, overwrite=False)
        await actions.fails(driver.write(P("/b"), actions.body(b"x"), once), EntryExists)
        for verb in (driver.copy, driver.move, driver.rename):
            await actions.fails(verb(P("/a"), P("/b"), overwrite=False), EntryExists)
        await driver.write(P("/c"), actions.body(b"x"), once)
        await driver.move(P("/c"), P("/d"), overwrite=False)
        entry = await driver.stat(P("/b"))
        await actions.put(driver, "/b", b"newer")
        await actions.fails(driver.remove_unchanged(P("/b"), entry), EntryChanged)
        await actions.fails(driver.read(P("/b"), 1, 1, entry), EntryChanged)
        await driver.remove_unchanged(P("/b"), (await base.list_all(driver, P("/")))[1])
        assert await actions.names(driver, "/") == ["a", "d"]
        await driver.stop()

    asyncio.run(used())
