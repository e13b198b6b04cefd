"""WebDAV servers that are down, come back, hang, or do not know the user."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import NotAFile, StorageForbidden, Unreachable
from mangrove.drivers.base import ROOT, Upload, list_all
from mangrove.drivers.webdav import client
from tests.contract.drivers.actions import body, content, fails, names, put
from tests.contract.drivers.test_suite import start_driver
from tests.servers import dav
from tests.servers.dav import DavServer

P = TreePath
pytestmark = [
    pytest.mark.xdist_group("webdav"),
    pytest.mark.skipif(bool(dav.find_missing("apache2")), reason=dav.find_missing("apache2")),
]
OTHER_SERVERS: dict[str, Callable[[], AbstractContextManager[DavServer]]] = {
    "Apache-Digest": lambda: dav.apache("Digest"),
    "nginx": dav.nginx,
    "wsgidav-Digest": lambda: dav.wsgidav("Digest"),
    "rclone": dav.rclone_dav,
}


@pytest.fixture(scope="module")
def apache() -> Iterator[DavServer]:
    with dav.apache() as running:
        yield running


async def refuse_all(driver: Any, kind: type[Exception]) -> None:
    for work in (
        driver.stat(P("/f")),
        list_all(driver, ROOT),
        driver.read(P("/f")),
        put(driver, "/f"),
        driver.makedirs(P("/d")),
        driver.remove(P("/f")),
        driver.move(P("/f"), P("/g")),
    ):
        await fails(work, kind)


@pytest.mark.parametrize("kind", OTHER_SERVERS)
def test_who_is_not_known_and_what_is_a_folder(kind: str) -> None:
    if kind == "nginx" and (reason := dav.find_missing("nginx")):
        pytest.skip(reason)
    with OTHER_SERVERS[kind]() as server:

        async def used() -> None:
            for other in ({"password": "wrong"}, {"username": "nobody"}, {"username": "", "password": ""}):
                driver: Any = await start_driver("WebDav", server.make_options(**other))
                await refuse_all(driver, StorageForbidden)
                await driver.stop()
            driver = await start_driver("WebDav", server.make_options())
            await driver.makedirs(P("/d"))
            await fails(driver.read(P("/d")), NotAFile)
            await driver.stop()

        asyncio.run(used())


def test_a_server_that_is_down_is_said_to_be_and_serves_when_it_is_back(apache: DavServer) -> None:
    name = apache.make_folder()

    async def used() -> None:
        driver: Any = await start_driver("WebDav", apache.make_options(name))
        await put(driver, "/f", b"kept")
        apache.child.stop(kill=True)
        await refuse_all(driver, Unreachable)
        fresh: Any = await start_driver("WebDav", apache.make_options(name))
        await fails(fresh.stat(P("/f")), Unreachable)
        apache.child.start()
        for storage in (driver, fresh):
            assert await content(storage, "/f") == b"kept"
            await storage.stop()

    asyncio.run(used())


def test_a_server_that_hangs_is_unreachable_in_time(apache: DavServer, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = apache.make_folder()

    async def used() -> None:
        driver: Any = await start_driver("WebDav", apache.make_options(folder))
        await put(driver, "/f", b"kept")
        apache.child.freeze()
        try:
            with monkeypatch.context() as impatient:
                for name in ("ANSWER", "LISTING", "CHANGE", "STORE"):
                    impatient.setattr(client, f"{name}_TIMEOUT_SECONDS", 0.3)
                await refuse_all(driver, Unreachable)
        finally:
            apache.child.signal(signal.SIGCONT)
        assert await content(driver, "/f") == b"kept"
        await driver.stop()

    asyncio.run(used())


def test_a_server_that_dies_in_the_middle_of_a_file(apache: DavServer) -> None:
    """Reading fails; a write leaves the old file."""
    name = apache.make_folder()

    async def used() -> None:
        driver: Any = await start_driver("WebDav", apache.make_options(name))
        await put(driver, "/big", b"x" * 50_000_000)
        await put(driver, "/f", b"old")
        stream = await driver.read(P("/big"))
        await anext(stream)

        async def dying() -> Any:
            yield b"x" * 1_000_000
            apache.child.stop(kill=True)
            while True:
                yield b"x" * 1_000_000

        await fails(driver.write(P("/f"), dying(), Upload(1 << 40, 0.0)), Unreachable)
        with pytest.raises(Unreachable):
            while True:
                await anext(stream)
        await stream.aclose()
        apache.child.start()
        assert await content(driver, "/f") == b"old"
        assert await names(driver, "/") == ["big", "f"]
        await driver.stop()

    asyncio.run(used())


def test_a_folder_is_removed_with_links_but_not_what_they_lead_to(apache: DavServer) -> None:
    name = apache.make_folder()
    (apache.files / name / "d").mkdir()
    (apache.files / name / "kept").mkdir()
    (apache.files / name / "kept" / "f").write_bytes(b"kept")
    (apache.files / name / "d" / "link").symlink_to(apache.files / name / "kept")
    for folder in ("d", "kept"):
        (apache.files / name / folder).chmod(0o777)

    async def used() -> None:
        driver: Any = await start_driver("WebDav", apache.make_options(name))
        assert (await driver.stat(P("/d/link"))).is_dir
        with suppress(StorageForbidden):  # Apache removes no folder in which there is a link
            await driver.remove(P("/d"))
        assert await content(driver, "/kept/f") == b"kept"
        await driver.stop()

    asyncio.run(used())


def test_what_a_failing_body_leaves_is_removed(apache: DavServer) -> None:
    name = apache.make_folder()

    async def used() -> None:
        driver: Any = await start_driver("WebDav", apache.make_options(name))
        await fails(driver.write(P("/f"), body(b"x" * 2_000_000), Upload(2_000_001, 0.0)), Exception)
        assert os.listdir(apache.files / name) == []
        await driver.stop()

    asyncio.run(used())
