"""The driver suite and what is S3's own, on `rclone serve s3`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from mangrove.drivers import base
from mangrove.drivers.base import Driver
from mangrove.paths import TreePath
from mangrove.problems import Forbidden, Unreachable
from tests import servers
from tests.contract.drivers import actions, suite
from tests.contract.drivers.test_suite import start_driver

pytestmark = pytest.mark.xdist_group("rclone")  # one rclone

# rclone keeps no object at `d/` apart from its folder, and its folders stay or go as the local disk's do; it refuses
# a part that it has already joined to the one before.
NOT_ON_RCLONE = {
    "a_file_is_no_folder_and_a_folder_no_file",
    "a_folder_does_not_replace_a_file",
    "a_file_is_made_of_parts_in_any_order_and_repeated",
}


@pytest.fixture(scope="module")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("rclone") / "buckets"
    folder.mkdir()
    with servers.rclone_s3(folder) as endpoint:
        yield endpoint, folder


def bucket(rclone: tuple[str, Path], **more: object) -> dict[str, object]:
    return servers.s3_options(rclone[0], servers.make_bucket(rclone[0]), **more)


@pytest.mark.parametrize("case", [name for name in suite.CASES if name not in NOT_ON_RCLONE])
def test_contract(rclone: tuple[str, Path], case: str) -> None:
    async def start() -> Driver:
        return await start_driver("S3", bucket(rclone))

    suite.run(start, case)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_many_keys_come_in_pages(rclone: tuple[str, Path], version: str) -> None:
    options = bucket(rclone, list_object_version=version)
    folder = rclone[1] / str(options["bucket"]) / "many"
    folder.mkdir()
    wanted = [f"file {number:05}+%.txt" for number in range(2500)]
    for name in wanted:
        (folder / name).write_text("x")

    async def listed() -> list[base.Entry]:
        driver = await start_driver("S3", options)
        batches = [batch async for batch in driver.list(TreePath("/many"))]
        await driver.stop()
        assert len(batches) >= 3
        return [entry for batch in batches for entry in batch]

    entries = asyncio.run(listed())
    assert sorted(entry.name for entry in entries) == wanted
    assert {entry.size for entry in entries} == {1}
    assert all(abs(entry.modified - time.time()) < 600 for entry in entries)


def test_a_presigned_link_gives_the_bytes(rclone: tuple[str, Path]) -> None:
    async def link() -> str:
        driver = await start_driver("S3", bucket(rclone, add_filename_to_disposition=True))
        await actions.put(driver, "/a b+c%.txt", b"linked")
        found = await driver.link(TreePath("/a b+c%.txt"))  # type: ignore[attr-defined]
        assert found.lifetime == 4 * 3600
        await driver.stop()
        return str(found.url)

    answer = httpx.get(asyncio.run(link()))
    assert (answer.status_code, answer.content) == (200, b"linked")


def test_wrong_keys_are_forbidden(rclone: tuple[str, Path]) -> None:
    async def listed() -> None:
        driver = await start_driver("S3", bucket(rclone, secret_access_key="wrong"))
        with pytest.raises(Forbidden):
            await base.list_all(driver, TreePath("/"))
        await driver.stop()

    asyncio.run(listed())


def test_a_dead_server_is_said_to_be_unreachable() -> None:
    async def used() -> None:
        driver = await start_driver("S3", servers.s3_options(f"http://127.0.0.1:{servers.free_port()}", "bucket"))
        with pytest.raises(Unreachable):
            await base.list_all(driver, TreePath("/"))
        with pytest.raises(Unreachable):
            await actions.put(driver, "/f")
        with pytest.raises(Unreachable):
            await driver.stat(TreePath("/f"))
        await driver.stop()

    began = time.monotonic()
    asyncio.run(used())
    assert time.monotonic() - began < 30
