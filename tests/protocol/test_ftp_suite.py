"""The driver suite on FTP servers that differ in what they offer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import pytest

from mangrove.drivers.base import Driver
from tests import servers
from tests.contract.drivers import suite
from tests.contract.drivers.test_suite import start_driver
from tests.servers import ftp

pytestmark = pytest.mark.xdist_group("ftp")

has_vsftpd = pytest.mark.skipif(ftp.VSFTPD is None, reason="vsftpd is not installed")
SERVERS: dict[str, ftp.Start] = {
    "rclone": ftp.rclone_ftp,
    "vsftpd": ftp.vsftpd,
    "pyftpdlib": ftp.pyftpdlib,
    "pyftpdlib without MLSD": partial(ftp.pyftpdlib, facts=False),
    "pyftpdlib that does not replace": partial(ftp.pyftpdlib, replaces=False),
}
SERVER_OPTIONS: dict[str, dict[str, Any]] = {"pyftpdlib without MLSD": {"cwd_list": True}}
# vsftpd tells the time of a file by LIST alone: to the day when it is older than half a year
NOT_ON: dict[str, set[str]] = {
    "rclone": {"of_writers_to_one_name_one_wins_whole"},  # it then lists the one file twice
    "vsftpd": {"a_time_is_that_of_the_sender_or_of_the_storage"},
    "pyftpdlib without MLSD": {"a_time_is_that_of_the_sender_or_of_the_storage"},
}
CASE_WORDS = {"pyftpdlib that does not replace": ("replace", "overwrit", "rename", "move", "write")}  # words of cases
DEFAULT_SERVERS = ("pyftpdlib", "pyftpdlib that does not replace", "vsftpd")  # the others: `make crash`


def list_marks(name: str) -> list[pytest.MarkDecorator]:
    own = [has_vsftpd] if name == "vsftpd" else []
    return [pytest.mark.driver("FTP", name), *own, *([] if name in DEFAULT_SERVERS else [pytest.mark.long])]


PARAMETERS = [pytest.param(name, marks=list_marks(name)) for name in SERVERS]


class Running(NamedTuple):
    name: str
    server: ftp.FtpServer
    restart: Callable[[], None]


@pytest.fixture(scope="module", params=PARAMETERS)
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    start, port = SERVERS[request.param], servers.free_port()
    with ftp.open_folder() as folder:
        started: list[ftp.FtpServer] = []

        @contextmanager
        def opened() -> Iterator[None]:
            with start(folder, port=port) as server:
                started.append(server)
                yield

        with servers.restartable(opened) as restart:
            yield Running(request.param, started[0], restart)


@pytest.mark.parametrize("case", suite.list_cases("FTP"))
def test_contract(running: Running, case: str) -> None:
    if case in NOT_ON.get(running.name, set()) or not any(word in case for word in CASE_WORDS.get(running.name, ("",))):
        pytest.skip(f"{running.name} cannot")
    folder = running.server.make_folder()

    async def start() -> Driver:
        return await start_driver("FTP", running.server.options(folder, **SERVER_OPTIONS.get(running.name, {})))

    suite.run(start, case, suite.on_disk(folder, running.restart))
