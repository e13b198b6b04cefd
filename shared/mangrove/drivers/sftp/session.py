"""One SFTP session over a connection of its own: requests with a time limit, files that are open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import asyncssh

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.problems import StorageProblem, Unreachable
from mangrove.drivers.addresses import parse_address
from mangrove.drivers.sftp.credentials import Client, Credentials
from mangrove.drivers.sftp.errors import translate_errors
from mangrove.drivers.sftp.host_keys import HostKey
from mangrove.drivers.sftp.options import PORT, SFTPOptions

Answer = TypeVar("Answer")
ANSWER_SECONDS = 15.0  # that a request may take
SLOW_ANSWER_SECONDS = 60.0  # the same of one that has to wait for the server's disk
ALIVE_SECONDS = 5.0  # of silence, after which the server is asked for a sign of life
UNANSWERED = 2  # such questions, after which the connection counts as lost
CIPHERS = [
    "aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr", "aes256-ctr",
]  # the fastest first  # fmt: skip
UNLIMITED_BLOCK = 32 << 10  # bytes of a request to a server that does not say what it takes; more breaks some
LARGEST_BLOCK = 255 << 10
UNSAID = 16 << 10  # what asyncssh assumes then
_SIGNS_OF_ANOTHER_KEY = (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed, asyncssh.ConnectionLost)


class Session:
    """A connection that is signed in, and its SFTP client. `root`: the folder of the storage."""

    def __init__(self, connection: asyncssh.SSHClientConnection, client: asyncssh.SFTPClient) -> None:
        self.connection = connection
        self.client = client
        self._is_given_up = False

    @property
    def is_open(self) -> bool:
        return not self._is_given_up and not self.connection.is_closed()

    @property
    def is_openssh(self) -> bool:
        """Whether it is OpenSSH on a system whose files have hard links."""
        name = str(self.connection.get_extra_info("server_version", ""))
        return name.startswith("SSH-2.0-OpenSSH_") and "Windows" not in name

    @property
    def read_block(self) -> int:
        """Bytes of one read request."""
        return _limit_block(self.client.limits.max_read_len)

    @property
    def write_block(self) -> int:
        """Bytes of one write request."""
        return _limit_block(self.client.limits.max_write_len)

    async def ask(self, request: Awaitable[Answer], name: str = "", seconds: float = 0.0) -> Answer:
        """The answer to a request, which is about `name`. A session whose server does not answer within `seconds`, or
        ANSWER_SECONDS, is given up.

        It is given up from aside: what asyncssh does after a cancellation may wait for the server once more.
        """
        late = asyncio.get_running_loop().call_later(seconds or ANSWER_SECONDS, self.give_up)
        try:
            with translate_errors(name):
                return await request
        except Unreachable:
            self.give_up()
            raise
        finally:
            late.cancel()

    def give_up(self) -> None:
        """End the connection now: all who wait for an answer on it get Unreachable."""
        self._is_given_up = True
        self.connection.abort()

    async def check(self) -> bool:
        await self.ask(self.client.realpath(b"."))
        return True

    async def close(self) -> None:
        self.connection.close()
        await self.connection.wait_closed()

    @asynccontextmanager
    async def open_file(self, path: bytes, flags: int, name: str) -> AsyncIterator[Any]:
        """A file of the server, whose every call is one request; its closing is answered where nothing else failed."""
        file = await finish_despite_cancel(self.ask(self.client.open(path, flags, encoding=None, block_size=0), name))
        try:
            yield file
        except BaseException:
            if self.is_open:
                with suppress(StorageProblem):
                    await finish_despite_cancel(self.ask(file.close()))
            raise
        await finish_despite_cancel(self.ask(file.close(), name, SLOW_ANSWER_SECONDS))


def _limit_block(said: int) -> int:
    return UNLIMITED_BLOCK if said == UNSAID else min(said, LARGEST_BLOCK)


async def open_session(options: SFTPOptions, host_key: HostKey, credentials: Credentials) -> Session:
    """Connect, sign in and start SFTP; StorageProblem, also when the server is not the one that was pinned."""
    key = await host_key.get()
    try:
        with translate_errors():
            connection = await _connect(options, key, credentials)
    except StorageProblem as problem:
        if isinstance(problem.__cause__, _SIGNS_OF_ANOTHER_KEY):
            await host_key.check_unchanged()
        raise
    try:
        with translate_errors():
            return Session(connection, await connection.start_sftp_client(path_encoding=None))
    except BaseException:
        connection.abort()
        raise


async def _connect(
    options: SFTPOptions, key: asyncssh.SSHKey, credentials: Credentials
) -> asyncssh.SSHClientConnection:
    host, port = parse_address(options.address, PORT)
    return await asyncssh.connect(
        host,
        port,
        username=credentials.username,
        password=credentials.password or None,
        client_keys=None if credentials.key is None else [credentials.key],
        client_factory=lambda: Client(credentials.password),
        known_hosts=([key], [], []),
        encryption_algs=CIPHERS,
        keepalive_interval=ALIVE_SECONDS,
        keepalive_count_max=UNANSWERED,
        # nothing of this machine or of its user: no configuration, agent, key files or tickets
        config=None,
        agent_path=None,
        gss_host=None,
    )
