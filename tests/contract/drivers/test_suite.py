"""The driver suite on every driver that runs without a server of its own, and on S3 as moto speaks it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from mangrove.drivers import registry
from mangrove.drivers.base import Driver, DriverContext
from mangrove.paths import TreePath
from tests import servers
from tests.contract.drivers import suite

Start = Callable[[], Awaitable[Driver]]
NOT_ON_MOTO = {"parts_that_are_not_known_are_not_found"}  # it breaks with an error of its own; rclone's S3 answers


async def start_driver(name: str, options: dict[str, object], context: DriverContext | None = None) -> Driver:
    kind = registry.load(name)
    driver = kind(kind.Options.parse(json.dumps(options)), context or DriverContext())
    await driver.start()
    return driver


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with servers.moto_s3() as endpoint:
        yield endpoint


class MountResolver:
    """A tree with one storage."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    async def resolve(self, path: TreePath) -> tuple[Driver, TreePath]:
        return self.driver, path

    def folders(self, path: TreePath) -> list[str]:
        return []


@pytest.fixture(params=["Local", "S3-v1", "S3-v2", "Alias"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    async def local() -> Driver:
        return await start_driver("Local", {"root_folder_path": str(tmp_path), "show_hidden": True})

    async def s3() -> Driver:
        endpoint = request.getfixturevalue("moto")
        bucket = servers.make_bucket(endpoint)
        version = request.param.partition("-")[2]
        return await start_driver(
            "S3", servers.s3_options(endpoint, bucket, list_object_version=version, root_folder_path="/in/side")
        )

    async def alias() -> Driver:
        options = {"paths": "/real", "write_conflict_policy": "first", "put_conflict_policy": "first"}
        inner = await local()
        await inner.makedirs(TreePath("/real"))  # type: ignore[attr-defined]
        return await start_driver(
            "Alias", options, DriverContext(mount_path=TreePath("/alias"), resolver=MountResolver(inner))
        )

    return {"Local": local, "Alias": alias}.get(request.param, s3)


@pytest.mark.parametrize("case", suite.CASES)
def test_contract(request: pytest.FixtureRequest, start: Start, case: str) -> None:
    if case in NOT_ON_MOTO and "S3" in request.node.name:
        pytest.skip("moto cannot")
    suite.run(start, case)
