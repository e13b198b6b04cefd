"""Sign-in of an SFTP storage, and its check of the server's key: on asyncssh's own server, which needs no accounts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageForbidden, StorageProblem, Unreachable
from mangrove.drivers.base import DriverContext
from mangrove.drivers.options import Options
from mangrove.drivers.sftp.driver import SFTP
from mangrove.drivers.sftp.options import SFTPOptions
from tests.contract.drivers.actions import names
from tests.contract.drivers.test_suite import start_driver
from tests.servers import ssh

pytestmark = pytest.mark.xdist_group("sftp")


async def sign_in(options: dict[str, Any], context: DriverContext | None = None) -> list[str]:
    driver = await start_driver("SFTP", options, context)
    try:
        return await names(driver, "/")
    finally:
        await driver.stop()


class Records:
    """Keeps what a driver stores."""

    def __init__(self) -> None:
        self.saved: list[str] = []
        self.before_saving: Callable[[], None] = lambda: None

    async def save(self, options: Options) -> None:
        assert isinstance(options, SFTPOptions)
        self.before_saving()
        await asyncio.sleep(0.01)
        self.saved.append(options.host_key)

    @property
    def context(self) -> DriverContext:
        return DriverContext(save_options=self.save)


def test_a_password_opens_the_storage_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with ssh.python_ssh(tmp_path, methods=("password",)) as server:
        assert asyncio.run(sign_in(server.options())) == ["f"]
        for wrong in ({"password": "wrong"}, {"password": ""}, {"username": "nobody"}):
            with pytest.raises(StorageForbidden) as refused:
                asyncio.run(sign_in(server.options(**wrong)))
            assert "wrong" not in str(refused.value)


def test_a_server_that_asks_is_answered_with_the_password(tmp_path: Path) -> None:
    with ssh.python_ssh(tmp_path, methods=("keyboard-interactive",)) as server:
        assert asyncio.run(sign_in(server.options())) == []
        with pytest.raises(StorageForbidden):
            asyncio.run(sign_in(server.options(password="wrong")))


def test_a_private_key_wins_over_the_password(tmp_path: Path) -> None:
    key = ssh.export(ssh.make_key("client"))
    with ssh.python_ssh(tmp_path) as server:
        assert asyncio.run(sign_in(server.options(private_key=key.replace("\n", "\r\n")))) == []
        assert "password" not in server.tried
        with pytest.raises(StorageForbidden):
            asyncio.run(sign_in(server.options(private_key=ssh.export(ssh.make_key("other")))))
        assert "password" not in server.tried


def test_a_private_key_with_a_passphrase(tmp_path: Path) -> None:
    sealed = ssh.make_key("client").export_private_key("pkcs8-pem", "open sesame").decode()
    with ssh.python_ssh(tmp_path, methods=("publickey",)) as server:
        assert asyncio.run(sign_in(server.options(private_key=sealed, passphrase="open sesame"))) == []
        for wrong in ("", "sesame"):
            with pytest.raises(StorageProblem, match="passphrase") as refused:
                asyncio.run(sign_in(server.options(private_key=sealed, passphrase=wrong)))
            assert sealed[40:60] not in str(refused.value)


@pytest.mark.skipif(find_spec("bcrypt") is None, reason="bcrypt is not installed")
def test_a_private_key_with_a_passphrase_as_ssh_keygen_makes_it(tmp_path: Path) -> None:
    sealed = ssh.export(ssh.make_key("client"), passphrase="open sesame")
    with ssh.python_ssh(tmp_path, methods=("publickey",)) as server:
        assert asyncio.run(sign_in(server.options(private_key=sealed, passphrase="open sesame"))) == []


def test_nothing_of_the_user_who_runs_the_service_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, files = tmp_path / "home", tmp_path / "files"
    (home / ".ssh").mkdir(parents=True)
    files.mkdir()
    (home / ".ssh" / "id_ed25519").write_text(ssh.export(ssh.make_key("client")))
    (home / ".ssh" / "config").write_text("Host *\n  ProxyCommand false\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(home / "agent"))
    with ssh.python_ssh(files) as server:
        with pytest.raises(StorageForbidden):
            asyncio.run(sign_in(server.options(password="wrong")))
        assert "publickey" not in server.tried


def test_the_first_key_is_pinned_before_anything_secret_is_sent(tmp_path: Path) -> None:
    records = Records()
    with ssh.python_ssh(tmp_path) as server:
        records.before_saving = lambda: server.tried.append("pinned")
        assert asyncio.run(sign_in(server.options(host_key=""), records.context)) == []
        assert server.tried[0] == "pinned"
        assert records.saved == [ssh.make_host_key()]
        asyncio.run(sign_in(server.options(host_key=records.saved[0]), records.context))
        assert len(records.saved) == 1


def test_of_many_first_uses_one_pins_the_key(tmp_path: Path) -> None:
    records = Records()

    async def use_all(options: dict[str, Any]) -> None:
        driver = SFTP(SFTPOptions(**options), records.context)
        await asyncio.gather(*(names(driver, "/") for _ in range(20)), driver.start())
        await driver.stop()

    with ssh.python_ssh(tmp_path) as server:
        asyncio.run(use_all(server.options(host_key="", private_key="", passphrase="", ignore_symlink_error=False)))
    assert records.saved == [ssh.make_host_key()]


def test_a_key_that_cannot_be_stored_is_not_trusted(tmp_path: Path) -> None:
    records = Records()

    def refuse() -> None:
        raise StorageForbidden("changed meanwhile")

    records.before_saving = refuse
    with ssh.python_ssh(tmp_path) as server:
        with pytest.raises(Unreachable, match="could not be stored"):
            asyncio.run(sign_in(server.options(host_key=""), records.context))
        assert server.tried == []


def test_another_key_is_refused_until_it_is_accepted(tmp_path: Path) -> None:
    old, new = (ssh.make_key(name).get_fingerprint() for name in ("host", "new host"))
    with ssh.python_ssh(tmp_path, host_keys=("new host",)) as server:
        for pinned in (ssh.make_host_key(), old):
            with pytest.raises(StorageProblem, match="host key has changed") as refused:
                asyncio.run(sign_in(server.options(host_key=pinned)))
            assert type(refused.value) is StorageProblem  # not one that is tried again with every use
            assert old in refused.value.message and new in refused.value.message
        assert server.tried == []
        for accepted in (new, "", f"[127.0.0.1]:{server.port} {ssh.make_host_key('new host')}"):
            assert asyncio.run(sign_in(server.options(host_key=accepted))) == []


def test_a_server_with_several_keys_is_known_by_any_of_them(tmp_path: Path) -> None:
    with ssh.python_ssh(tmp_path, host_keys=("ecdsa host", "host")) as server:
        for name in ("host", "ecdsa host"):
            for pinned in (ssh.make_host_key(name), ssh.make_key(name).get_fingerprint()):
                assert asyncio.run(sign_in(server.options(host_key=pinned))) == []


def test_a_driver_that_runs_refuses_a_server_whose_key_changes(tmp_path: Path) -> None:
    async def use(server: ssh.PythonSSH) -> None:
        driver = await start_driver("SFTP", server.options())
        await asyncio.to_thread(server.restart, host_keys=("new host",))
        with pytest.raises(StorageProblem, match="host key has changed"):
            await driver.stat(TreePath("/"))
        await asyncio.to_thread(server.restart, host_keys=("host",))
        await asyncio.sleep(1.1)  # a failure to connect stands for a second
        assert (await driver.stat(TreePath("/"))).is_dir
        await driver.stop()

    with ssh.python_ssh(tmp_path) as server:
        asyncio.run(use(server))
