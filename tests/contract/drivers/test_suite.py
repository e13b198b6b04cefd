"""The driver suite on every driver that runs without a server of its own, and on S3 as moto speaks it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers import base, registry
from mangrove.drivers.base import Driver, DriverContext
from mangrove.drivers.shown_names import show_names
from tests import servers
from tests.contract.drivers import suite

Start = Callable[[], Awaitable[Driver]]
NOT_ON_S3 = {
    # an object can be beside the folder of its name: whether there is one the tree looks before
    "a_write_does_not_replace_a_folder",
    "parts_do_not_replace_a_folder",
}
NOT_ON_MOTO = NOT_ON_S3 | {"parts_that_are_not_known_are_not_found"}  # it breaks with an error of its own


async def start_driver(name: str, options: dict[str, object], context: DriverContext | None = None) -> Driver:
    kind = registry.load(name)
    driver = kind(kind.Options.parse(json.dumps(options)), context or DriverContext())
    await driver.start()
    return driver


@pytest.fixture(scope="module")
def clients() -> Iterator[tuple[str, Callable[[], None]]]:
    with servers.moto_s3() as endpoint, servers.hold_s3_clients(endpoint) as share:
        yield endpoint, share


@pytest.fixture
def moto(clients: tuple[str, Callable[[], None]]) -> str:
    endpoint, share = clients
    share()
    return endpoint


class MountResolver:
    """A tree with one storage."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    async def resolve(self, path: TreePath) -> tuple[Driver, TreePath]:
        return self.driver, path

    def folders(self, path: TreePath) -> list[str]:
        return []


def fill_bucket(driver: Any, path: str, names: Sequence[str]) -> None:
    """Objects of one byte, put into moto in this process."""
    from moto.s3.models import s3_backends

    backend = s3_backends["123456789012"]["aws"]
    for name in names:
        backend.put_object(driver.options.bucket, driver.get_key(TreePath(path)) + "/" + name, b"x")


def local(folder: Path) -> tuple[Start, suite.Server]:
    async def start() -> Driver:
        return await start_driver("Local", {"root_folder_path": str(folder), "show_hidden": True})

    return start, suite.on_disk(folder)


def alias(folder: Path) -> tuple[Start, suite.Server]:
    """One folder of a Local storage."""
    (folder / "real").mkdir()

    async def start() -> Driver:
        options = {"paths": "/real", "write_conflict_policy": "first", "put_conflict_policy": "first"}
        inner, _ = local(folder)
        context = DriverContext(mount_path=TreePath("/alias"), resolver=MountResolver(await inner()))
        return await start_driver("Alias", options, context)

    return start, suite.on_disk(folder / "real")


def shown(folder: Path) -> tuple[Start, suite.Server]:
    """A Local storage, any name of which might be shown instead of another one."""

    async def start() -> Driver:
        return show_names(await local(folder)[0](), {"@@": "e", "§§": "o"})

    return start, suite.on_disk(folder)


def s3(endpoint: str, version: str) -> tuple[Start, suite.Server]:
    async def start() -> Driver:
        more = {"list_object_version": version, "root_folder_path": "/in/side"}
        return await start_driver("S3", servers.s3_options(endpoint, servers.make_bucket(endpoint), **more))

    async def fill(driver: Any, path: str, names: Sequence[str]) -> None:
        fill_bucket(driver, path, names)

    return start, suite.Server(fill, many=2500)


def virtual() -> tuple[Start, suite.Server]:
    """Without its random files."""

    async def start() -> Driver:
        return await start_driver("Virtual", {"num_file": 0, "num_folder": 0})

    return start, suite.Server(keeps_bytes=False)


def url_tree() -> tuple[Start, suite.Server]:
    async def start() -> Driver:
        return await start_driver("UrlTree", {"url_structure": "", "writable": True})

    return start, suite.Server()


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Start, suite.Server]:
    """Return the start of a driver, and the actions on its storage."""
    kind, _, version = str(request.param).partition("-")
    if kind == "S3":
        return s3(request.getfixturevalue("moto"), version)
    if kind == "Local" and version:
        return shown(tmp_path)
    if kind in ("Local", "Alias"):
        return {"Local": local, "Alias": alias}[kind](tmp_path)
    return {"Virtual": virtual, "UrlTree": url_tree}[kind]()


NOT_UNDER_SHOWN_NAMES = frozenset(
    name
    for name in suite.list_cases("Local")
    if {"copy_from", "read_whole", "list_folders", "list_names", "write_whole", "set_many_aside"}
    & {*suite.CASES[name].needs}
)
RUNS = {
    "Local": ("disk", suite.list_cases("Local")),
    "Local-shown": ("other names", suite.list_cases("Local", NOT_UNDER_SHOWN_NAMES)),
    "Alias": ("Local", suite.list_cases("Alias")),
    "Virtual": ("memory", suite.list_cases("Virtual", keeps_bytes=False)),
    "UrlTree": ("memory", suite.list_cases("UrlTree")),
    "S3-v1": ("moto", suite.list_cases("S3", NOT_ON_MOTO)),
    "S3-v2": ("moto", suite.list_cases("S3", NOT_ON_MOTO)),
}


def list_runs() -> Iterator[Any]:
    """Every driver with its cases; of S3 with the older listings those that are about listings."""
    for kind, (server, names) in RUNS.items():
        driver, _, version = kind.partition("-")
        for name in names:
            module = suite.CASES[name].function.__module__.rpartition(".")[2]
            if version != "v1" or module == "listing_cases":
                yield pytest.param(kind, name, id=f"{kind}-{name}", marks=pytest.mark.driver(driver, server))


@pytest.mark.parametrize(("made", "case"), [*list_runs()], indirect=["made"])
def test_contract(made: tuple[Start, suite.Server], case: str) -> None:
    start, server = made
    suite.run(start, case, server)


WITHOUT_CASES = {"find_others", "make_thumbnail", "list_page", "list_range", "direct_uploads"}  # drivers' own tests


def test_every_capability_of_a_driver_has_cases() -> None:
    needed = {need for case in suite.CASES.values() for need in case.needs if isinstance(need, str)}
    assert {field.name for field in fields(base.Capabilities)} - needed == WITHOUT_CASES
    assert len(suite.CASES) >= 80
