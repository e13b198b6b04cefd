"""SSH servers on loopback for the tests: OpenSSH's, and asyncssh's own for what that cannot be made to do."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import asyncssh

from tests.servers import free_port, rclone, wait_for
from tests.support.proc import list_descendants

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/usr/local/sbin")
USER, PASSWORD = "me", "hush hush"
CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
Subsystem sftp internal-sftp
MaxStartups 100
"""


@cache
def make_key(name: str = "") -> asyncssh.SSHKey:
    """A key; the same for the same name."""
    kind = "ecdsa-sha2-nistp256" if "ecdsa" in name else "ssh-ed25519"
    return asyncssh.generate_private_key(kind, comment=name)


def make_host_key(name: str = "host") -> str:
    """The public half of `make_key(name)`, as the option host_key has it."""
    return " ".join(make_key(name).export_public_key("openssh").decode().split()[:2])


def export(key: asyncssh.SSHKey, **more: Any) -> str:
    return key.export_private_key("openssh", **more).decode()


@dataclass
class OpenSSH:
    """A running sshd, whose user root signs in with `make_key("client")`."""

    port: int
    folder: Path
    child: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def write_host_key(self, name: str) -> None:
        path = self.folder / "host_key"
        path.write_text(export(make_key(name)))
        path.chmod(0o600)

    def start(self) -> None:
        log = (self.folder / "log").open("ab")
        command = [str(SSHD), "-D", "-e", "-f", str(self.folder / "sshd_config")]
        with log:
            self.child = subprocess.Popen(command, stderr=log, start_new_session=True)
        wait_for(self.port)

    def list_sessions(self) -> list[int]:
        """The processes that serve connections."""
        assert self.child is not None
        return list_descendants(self.child.pid)

    def signal_all(self, number: int) -> None:
        """A signal for the server and all that serve connections."""
        assert self.child is not None
        for pid in [self.child.pid, *self.list_sessions()]:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def stop(self) -> None:
        if self.child is not None:
            self.signal_all(signal.SIGKILL)
            self.child.wait()
            self.child = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def options(self, root: Path | str, **more: Any) -> dict[str, Any]:
        return {
            "address": f"127.0.0.1:{self.port}",
            "username": "root",
            "private_key": export(make_key("client")),
            "root_folder_path": str(root),
            "host_key": make_host_key(),
            **more,
        }


@contextmanager
def openssh(folder: Path, config: str = "") -> Iterator[OpenSSH]:
    """sshd with its state in `folder`; `config`: further lines."""
    Path("/run/sshd").mkdir(exist_ok=True)  # where it separates its privileges, which cannot be set
    server = OpenSSH(free_port(), folder)
    (folder / "sshd_config").write_text(CONFIG.format(port=server.port, folder=folder) + config)
    (folder / "authorized_keys").write_bytes(make_key("client").export_public_key("openssh"))
    server.write_host_key("host")
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def rclone_sftp(folder: Path, *more: str, port: int = 0) -> Iterator[int]:
    """rclone's SFTP on `folder`; its port."""
    key = folder.parent / "host_key"
    key.write_text(export(make_key("host")))
    key.chmod(0o600)
    sign_in = ("--user", USER, "--pass", PASSWORD, "--key", str(key), "--cache-dir", str(folder.parent / "cache"))
    # what it is told of authorised keys keeps it from reading those of the user who runs the tests
    none = folder.parent / "authorized_keys"
    none.write_text("")
    with rclone("sftp", folder, *sign_in, "--authorized-keys", str(none), *more, port=port) as chosen:
        yield chosen


def rclone_options(port: int) -> dict[str, Any]:
    """The options of a storage in rclone's SFTP."""
    address = f"127.0.0.1:{port}"
    return {
        "address": address, "username": USER, "password": PASSWORD, "root_folder_path": "/",
        "host_key": make_host_key(),
    }  # fmt: skip


class Accounts(asyncssh.SSHServer):
    """Decide about sign-ins to `PythonSSH` and record the attempts."""

    def __init__(self, server: PythonSSH) -> None:
        self._server = server

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._server.connections.append(conn)

    def begin_auth(self, username: str) -> bool:
        self._server.tried.append(f"user {username}")
        return True

    def public_key_auth_supported(self) -> bool:
        return "publickey" in self._server.methods

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        self._server.tried.append("publickey")
        return key == make_key("client").convert_to_public() or key in self._server.keys

    def password_auth_supported(self) -> bool:
        return "password" in self._server.methods

    def validate_password(self, username: str, password: str) -> bool:
        self._server.tried.append("password")
        return (username, password) == (USER, PASSWORD)

    def kbdint_auth_supported(self) -> bool:
        return "keyboard-interactive" in self._server.methods

    def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> Any:
        return "", "", "", [("Kennwort: ", False)]

    def validate_kbdint_response(self, username: str, responses: Any) -> bool:
        self._server.tried.append("keyboard-interactive")
        return list(responses) == [PASSWORD]


@dataclass
class PythonSSH:
    """asyncssh's server in a thread of its own."""

    folder: Path
    methods: tuple[str, ...] = ("publickey", "password")
    sftp: Callable[..., Any] = asyncssh.SFTPServer
    keys: list[asyncssh.SSHKey] = field(default_factory=list)
    host_keys: tuple[str, ...] = ("host",)
    port: int = 0
    tried: list[str] = field(default_factory=list)
    connections: list[asyncssh.SSHServerConnection] = field(default_factory=list)
    loop: asyncio.AbstractEventLoop = field(init=False)
    thread: threading.Thread = field(init=False)
    end: asyncio.Event = field(init=False)

    def options(self, **more: Any) -> dict[str, Any]:
        return {
            "address": f"127.0.0.1:{self.port}", "username": USER, "password": PASSWORD, "root_folder_path": "/",
            "host_key": make_host_key(), **more,
        }  # fmt: skip

    def start(self) -> None:
        started, self.end = threading.Event(), asyncio.Event()
        self.loop = asyncio.new_event_loop()

        def run() -> None:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                runner.run(self.serve(started))

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        assert started.wait(10)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.end.set)
        self.thread.join(10)

    def restart(self, **more: Any) -> None:
        """Stop, and start again with other fields."""
        self.stop()
        vars(self).update(more)
        self.start()

    async def serve(self, started: threading.Event) -> None:
        acceptor = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_factory=lambda: Accounts(self),
            server_host_keys=[make_key(name) for name in self.host_keys],
            sftp_factory=lambda channel: self.sftp(channel, chroot=str(self.folder)),
            config=None,
            allow_scp=False,
        )
        self.port = acceptor.get_port()
        started.set()
        await self.end.wait()
        acceptor.close()
        for connection in self.connections:
            connection.abort()
        self.connections.clear()
        await acceptor.wait_closed()
        await asyncio.sleep(0)


@contextmanager
def python_ssh(folder: Path, **more: Any) -> Iterator[PythonSSH]:
    """asyncssh's own server, whose root is `folder`; `more`: fields of `PythonSSH`."""
    server = PythonSSH(folder, **more)
    server.start()
    try:
        yield server
    finally:
        server.stop()
