"""The driver suite on Crypt over storages of real servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Driver
from tests.contract.drivers import suite
from tests.contract.drivers.trees import Tree
from tests.servers import dav, ftp, smb, ssh

pytestmark = pytest.mark.xdist_group("nested_remote")
Options = dict[str, Any]
# what a listing or a file of many blocks is like is tried where no server is asked
MODULES = ("file_cases", "folder_cases", "name_cases", "read_cases", "change_cases")
SHORT = "folder_cases"  # what every run tries; the others are marked `long`


@contextmanager
def serve_ftp(folder: Path) -> Iterator[Options]:
    with ftp.open_folder() as root, ftp.pyftpdlib(root) as server:
        yield server.options()


@contextmanager
def serve_sftp(folder: Path) -> Iterator[Options]:
    (folder / "data").mkdir()
    with ssh.openssh(folder) as server:
        yield server.options(folder / "data")


@contextmanager
def serve_smb(folder: Path) -> Iterator[Options]:
    with smb.samba(folder) as server:
        yield dict(server.options())


@contextmanager
def serve_dav(folder: Path) -> Iterator[Options]:
    with dav.wsgidav() as server:
        yield server.make_options()


SERVERS: dict[str, tuple[Callable[[Path], Any], str, bool]] = {
    "FTP": (serve_ftp, "pyftpdlib", True),
    "SFTP": (serve_sftp, "OpenSSH", ssh.SSHD is not None),
    "SMB": (serve_smb, "Samba", bool(smb.CAN_RUN)),
    "WebDav": (serve_dav, "wsgidav", True),
}


def list_runs() -> Iterator[Any]:
    """Of the cases for Crypt those for which the remote has the capabilities, too."""
    for remote, (_, server, can_run) in SERVERS.items():
        marks = [
            pytest.mark.driver("Crypt", f"{remote} on {server}"),
            pytest.mark.skipif(not can_run, reason=f"{server} is not installed"),
        ]
        possible = suite.list_cases(remote)
        for case in suite.list_cases("Crypt"):
            module = suite.CASES[case].function.__module__.rpartition(".")[2]
            if case in possible and module in MODULES:
                length = [] if module == SHORT else [pytest.mark.long]
                yield pytest.param(remote, case, id=f"{remote}-{case}", marks=[*marks, *length])


@pytest.fixture(scope="module")
def remote(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Options]]:
    with SERVERS[request.param][0](tmp_path_factory.mktemp(request.param)) as options:
        yield request.param, options


@pytest.mark.parametrize(("remote", "case"), [*list_runs()], indirect=["remote"])
def test_contract(remote: tuple[str, Options], case: str) -> None:
    name, options = remote

    async def start() -> Driver:
        tree = Tree()
        folder = token_hex(8)
        await (await tree.mount("/remote", name, **options)).makedirs(TreePath(f"/{folder}"))
        await tree.crypt("/top", f"/remote/{folder}", filename_encoding="base32")
        driver: Driver = tree.hand_over("/top")
        return driver

    suite.run(start, case)
