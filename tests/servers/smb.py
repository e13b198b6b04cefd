"""Samba on loopback, with its state below a folder of the test's."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.servers import free_port, wait_for
from tests.support.proc import stop_group

PASSWORD = "hush hush"
SMBD = shutil.which("smbd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
SMBPASSWD = shutil.which("smbpasswd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
CAN_RUN = SMBD is not None and SMBPASSWD is not None and os.geteuid() == 0
REASON = "smbd is not installed, or this is not root"
_GLOBAL = """[global]
server role = standalone server
bind interfaces only = yes
interfaces = 127.0.0.1/8
smb ports = {port}
private dir = {state}/private
lock directory = {state}/lock
state directory = {state}/state
cache directory = {state}/cache
pid directory = {state}/pid
ncalrpc dir = {state}/ncalrpc
passdb backend = tdbsam:{state}/private/passdb.tdb
log file = {state}/log
disable netbios = yes
load printers = no
disable spoolss = yes
server min protocol = SMB2_10
{settings}
"""
_SHARE = """[{name}]
path = {folder}
read only = {read_only}
valid users = root
{settings}
"""


class Samba:
    """A server with the shares `share` and `readonly` of one folder; `folder` is what it serves."""

    def __init__(self, state: Path, settings: str, shares: Mapping[str, str]) -> None:
        self.port = free_port()
        self.folder = state / "served"
        self._config = state / "smb.conf"
        self._child: subprocess.Popen[bytes] | None = None
        for name in ("private", "lock", "state", "cache", "pid", "ncalrpc", "served"):
            (state / name).mkdir(parents=True, exist_ok=True)
        sections = [_GLOBAL.format(port=self.port, state=state, settings=settings)]
        for name, more in {"share": "", "readonly": "", **shares}.items():
            read_only = "yes" if name == "readonly" else "no"
            sections.append(_SHARE.format(name=name, folder=self.folder, read_only=read_only, settings=more))
        self._config.write_text("\n".join(sections))
        words = f"{PASSWORD}\n{PASSWORD}\n".encode()
        command = [str(SMBPASSWD), "-c", str(self._config), "-a", "-s", "root"]
        subprocess.run(command, input=words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start(self) -> None:
        """Start it and wait until it answers; its processes are a group of their own."""
        command = [str(SMBD), "-F", "--no-process-group", "-s", str(self._config), "-d", "0"]
        self._child = subprocess.Popen(
            command, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(self.port)

    def signal(self, number: int) -> None:
        """Send all its processes a signal."""
        assert self._child is not None
        os.killpg(self._child.pid, number)

    def freeze(self) -> None:
        """Have all its processes stand still."""
        assert self._child is not None
        stop_group(self._child.pid)

    def kill(self) -> None:
        """Kill all its processes together, as a crash would."""
        if self._child is None:
            return
        try:
            self.signal(signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._child.wait()
        while _listens(self.port):
            time.sleep(0.01)
        self._child = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def options(self, root: str = ".", **more: object) -> dict[str, object]:
        """The options of a storage on it."""
        options = {"root_folder_path": root, "address": f"127.0.0.1:{self.port}", "username": "root"}
        return options | {"password": PASSWORD, "share_name": "share"} | more


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except ConnectionRefusedError:
        return False
    return True


@contextmanager
def samba(state: Path, settings: str = "", shares: Mapping[str, str] | None = None) -> Iterator[Samba]:
    """Samba, running; `settings` for all shares, further `shares` with settings of their own."""
    server = Samba(state, settings, shares or {})
    try:
        server.start()
        yield server
    finally:
        server.kill()
