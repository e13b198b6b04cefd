"""The doors beside HTTP: what they carry with the usual clients, and asyncssh's own server with the same client."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncssh

from bench.environment import Environment
from bench.table import work
from tests.servers import free_port, ssh, wait_for

ROUNDS = 3
USER, PERMISSION = "sftp", 0x7FFF & ~0x4003 | 0xC00
LEAST = 250  # MB/s


def _open_door(env: Environment) -> int:
    """The port of the service's SFTP, opened at the first call; USER may sign in with a key."""
    if "sftp port" not in env.kept:
        port = free_port()
        rows = [{"key": "sftp_listen", "value": f"127.0.0.1:{port}"}]
        assert env.client.http.post("/api/admin/setting/save", json=rows).json()["code"] == 200
        env.client.ok(
            "/api/admin/user/create", username=USER, password="a long password", base_path="/", permission=PERMISSION
        )
        public = ssh.make_key(USER).export_public_key("openssh").decode()
        env.service.client(USER, "a long password").ok("/api/me/sshkey/add", title="bench", key=public)
        wait_for(port)
        env.kept["sftp port"] = port
    return int(env.kept["sftp port"])


def _run_sftp(env: Environment, port: int, line: str) -> None:
    """One command of OpenSSH's client, whose packets are as large as the server takes them."""
    key = env.folder / "bench-key"
    if not key.exists():
        key.write_text(ssh.export(ssh.make_key(USER)))
        key.chmod(0o600)
    options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", f"IdentityFile={key}", "LogLevel=ERROR",
               "Ciphers=aes128-gcm@openssh.com")  # fmt: skip
    command = ["sftp", "-q", "-b", "-", "-P", str(port), *(part for one in options for part in ("-o", one))]
    subprocess.run([*command, f"{USER}@127.0.0.1"], input=f"{line}\n", text=True, check=True, stdout=subprocess.DEVNULL)


def _measure(env: Environment, port: int, line: str) -> float:
    """MB/s, the median of ROUNDS."""
    taken = []
    for _ in range(ROUNDS):
        os.sync()
        began = time.perf_counter()
        _run_sftp(env, port, line)
        taken.append(time.perf_counter() - began)
    return env.size / 1e6 / statistics.median(taken)


def make_source(env: Environment) -> Path:
    """A large file of random bytes."""
    source = env.folder / "sftp-source"
    if not source.exists():
        with source.open("wb") as file:
            for _ in range(env.size >> 20):
                file.write(os.urandom(1 << 20))
    return source


class _AnyUser(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return False


@contextmanager
def _serve_plainly(root: Path) -> Iterator[int]:
    """asyncssh's own SFTP server on a folder, in a thread; its port."""
    port, loop = free_port(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def listen() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1", port, server_host_keys=[ssh.make_key("host")], server_factory=_AnyUser,
            sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=str(root).encode()),
        )  # fmt: skip

    acceptor = asyncio.run_coroutine_threadsafe(listen(), loop).result(20)
    try:
        yield port
    finally:
        loop.call_soon_threadsafe(acceptor.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)


@work("SFTP put of a large file, Local", "MB/s", least=LEAST)
def put_sftp(env: Environment) -> float:
    return _measure(env, _open_door(env), f"put {make_source(env)} /files/sftp.bin")


@work("SFTP put, asyncssh's own server", "MB/s")
def put_plainly(env: Environment) -> float:
    root = env.folder / "plain"
    root.mkdir(exist_ok=True)
    with _serve_plainly(root) as port:
        return _measure(env, port, f"put {make_source(env)} /sftp.bin")


@work("SFTP get of a large file, Local", "MB/s", least=LEAST)
def get_sftp(env: Environment) -> float:
    if not (env.data / "files/sftp.bin").exists():
        put_sftp(env)
    return _measure(env, _open_door(env), "get /files/sftp.bin /dev/null")


@work("SFTP get, asyncssh's own server", "MB/s")
def get_plainly(env: Environment) -> float:
    with _serve_plainly(make_source(env).parent) as port:
        return _measure(env, port, "get /sftp-source /dev/null")
