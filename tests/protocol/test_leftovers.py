"""Servers that are cut off while a file is stored: nothing unfinished stays on them once they answer again.

D3: 3 to 8 files stayed for each fault of 8 s.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem
from mangrove.drivers.base import Upload
from mangrove.drivers.part_names import PART
from tests.contract.drivers.actions import content, put
from tests.contract.drivers.test_suite import start_driver
from tests.servers import dav, ftp, ssh
from tests.servers.relay import Relay, relay

P = TreePath
FILES = 4
Start = tuple[str, dict[str, Any], Path, Relay]


@contextmanager
def cut_wsgidav(folder: Path) -> Iterator[Start]:
    with dav.wsgidav() as server:
        name = server.make_folder()
        with relay(int(server.address.rpartition(":")[2])) as way:
            options = server.make_options(name) | {"address": f"http://127.0.0.1:{way.port}"}
            yield "WebDav", options, server.files / name, way


@contextmanager
def cut_ftp(folder: Path) -> Iterator[Start]:
    with ftp.pyftpdlib(folder) as server:
        served = server.make_folder()
        with relay(server.port) as way:
            yield "FTP", server.options(served) | {"address": f"127.0.0.1:{way.port}"}, served, way


@contextmanager
def cut_sftp(folder: Path) -> Iterator[Start]:
    with ssh.openssh(folder) as server:
        served = folder / "served"
        served.mkdir()
        with relay(server.port) as way:
            yield "SFTP", server.options(served, address=f"127.0.0.1:{way.port}"), served, way


SERVERS = [
    pytest.param(cut_wsgidav, marks=pytest.mark.xdist_group("webdav"), id="WebDav"),
    pytest.param(cut_ftp, marks=pytest.mark.xdist_group("ftp-troubles"), id="FTP"),
    pytest.param(
        cut_sftp,
        marks=[
            pytest.mark.xdist_group("openssh"),
            pytest.mark.skipif(ssh.SSHD is None, reason="sshd is not installed"),
        ],
        id="SFTP",
    ),
]


@pytest.mark.parametrize("serve", SERVERS)
def test_server_that_was_cut_off_keeps_no_unfinished_file(serve: Callable[..., Any], tmp_path: Path) -> None:
    with serve(tmp_path) as (name, options, folder, way):

        def list_unfinished() -> list[str]:
            return [path for path in os.listdir(folder) if path.startswith(PART)]

        async def write(driver: Any, number: int, is_cut: asyncio.Event) -> None:
            async def blocks() -> AsyncIterator[bytes]:
                yield b"x" * (3 << 20)
                if number == 0:
                    async with asyncio.timeout(120):
                        while len(list_unfinished()) < FILES:  # noqa: ASYNC110  # nothing says when
                            await asyncio.sleep(0.01)
                    way.stop()
                    is_cut.set()
                else:
                    await is_cut.wait()
                yield b"x"

            with pytest.raises(Problem):
                await driver.write(P(f"/{number}"), blocks(), Upload((3 << 20) + 1, 1.0))

        async def work() -> None:
            driver = await start_driver(name, options)
            try:
                await put(driver, "/before", b"before")
                is_cut = asyncio.Event()
                async with asyncio.timeout(180):
                    await asyncio.gather(*(write(driver, number, is_cut) for number in range(FILES)))
                assert list_unfinished()
                way.start()
                async with asyncio.timeout(180):
                    while list_unfinished():  # noqa: ASYNC110  # nothing says when
                        await asyncio.sleep(0.1)
                assert await content(driver, "/before") == b"before"
                assert os.listdir(folder) == ["before"]
            finally:
                await driver.stop()

        asyncio.run(work())
