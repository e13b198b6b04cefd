"""The driver suite on OpenSSH."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mangrove.drivers.base import Driver
from tests.contract.drivers import suite
from tests.contract.drivers.test_suite import start_driver
from tests.servers import ssh

pytestmark = [
    pytest.mark.skipif(ssh.SSHD is None, reason="sshd is not installed"),
    pytest.mark.driver("SFTP", "OpenSSH"),
    pytest.mark.xdist_group("openssh"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh.OpenSSH]:
    with ssh.openssh(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.mark.parametrize("case", suite.list_cases("SFTP"))
def test_contract(server: ssh.OpenSSH, tmp_path: Path, case: str) -> None:
    async def start() -> Driver:
        return await start_driver("SFTP", server.options(tmp_path))

    suite.run(start, case, suite.on_disk(tmp_path, server.restart))
