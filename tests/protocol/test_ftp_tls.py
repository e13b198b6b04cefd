"""Explicit TLS of FTP, on a server that takes data only in the session of the control connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.problems import StorageForbidden, StorageProblem
from mangrove.drivers.base import Driver
from tests.contract.drivers import actions, suite
from tests.contract.drivers.test_suite import start_driver
from tests.servers import ftp

pytestmark = [
    pytest.mark.driver("FTP", "vsftpd, TLS"),
    pytest.mark.xdist_group("ftp-tls"),
    pytest.mark.skipif(ftp.VSFTPD is None, reason="vsftpd is not installed"),
]
CASES = [
    "a_file_comes_back_as_it_was_written", "a_reader_may_leave_early", "a_body_that_ends_early_leaves_the_old_file",
    "a_cancelled_write_leaves_nothing", "names_of_all_kinds_survive", "an_empty_file_and_an_unknown_size_are_fine",
    "removing_takes_all_below_and_nothing_else", "what_is_missing_is_not_found",
]  # fmt: skip


@pytest.fixture(scope="module")
def certificate() -> Iterator[Path]:
    with ftp.open_folder() as folder:
        yield ftp.make_certificate(folder)


@pytest.fixture(scope="module")
def server(certificate: Path) -> Iterator[ftp.FtpServer]:
    with ftp.open_folder() as folder, ftp.vsftpd(folder, **ftp.require_tls(certificate)) as started:
        yield started


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


def use(options: dict[str, Any]) -> None:
    """Write and read with a storage of these options."""

    async def used() -> None:
        driver: Any = await start_driver("FTP", options)
        try:
            await actions.put(driver, "/f", b"content")
            assert await actions.content(driver, "/f") == b"content"
            assert await actions.names(driver, "/") == ["f"]
        finally:
            await driver.stop()

    asyncio.run(used())


@pytest.mark.parametrize("case", CASES)
def test_contract(server: ftp.FtpServer, trusted: None, case: str) -> None:
    options = server.options(explicit_tls=True)

    async def start() -> Driver:
        return await start_driver("FTP", options)

    suite.run(start, case)


def test_an_untrusted_certificate_is_refused_unless_an_option_allows_it(server: ftp.FtpServer) -> None:
    with pytest.raises(StorageProblem, match="certificate is not trusted"):
        use(server.options(explicit_tls=True))
    use(server.options(explicit_tls=True, tls_insecure_skip_verify=True))


def test_a_certificate_of_another_host_is_refused(server: ftp.FtpServer, trusted: None) -> None:
    with pytest.raises(StorageProblem, match="certificate is not trusted"):
        use(server.options(explicit_tls=True) | {"address": f"localhost:{server.port}"})


def test_a_server_that_wants_tls_says_so(server: ftp.FtpServer) -> None:
    with pytest.raises(StorageForbidden, match="encryption"):
        use(server.options())


def test_a_server_without_tls_is_not_used_in_the_clear(tmp_path: Path) -> None:
    with ftp.pyftpdlib(tmp_path) as other, pytest.raises(StorageProblem, match="refuses the sign-in"):
        use(other.options(explicit_tls=True))
