"""The SSH server of the tree: sign-in, limits, and the requests of a connection.

It offers only the subsystem `sftp`: no shell, command, forwarding or environment.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh import SSHKey, SSHReader, SSHServerChannel, SSHServerConnection, SSHWriter
from asyncssh.channel import SSHChannel
from asyncssh.sftp import MIN_SFTP_VERSION, SFTPServer
from asyncssh.stream import SSHServerStreamSession

from mangrove import configuration
from mangrove.core.descriptors import get_limit
from mangrove.core.http import find_client
from mangrove.core.problems import Problem, SecondFactorRequired
from mangrove.core.telemetry import log_event
from mangrove.protocols import sessions
from mangrove.protocols.sessions import ProtocolSession, sign_in_with_password
from mangrove.protocols.sftp import SFTP
from mangrove.protocols.sftp.files import TreeServer
from mangrove.protocols.sftp.flow import ANSWER_WINDOW_BYTES, ConnectionFlow
from mangrove.protocols.sftp.handles import MAX_HANDLES, ConnectionHandles, SftpBudget
from mangrove.protocols.sftp.protocol import Handler
from mangrove.tree import audit
from mangrove.tree.audit import AuditAction

MAX_CONNECTIONS = 256  # of signed-in users
MAX_CONNECTIONS_PER_SOURCE = 64
MAX_STRANGERS = 64  # without a sign-in yet
MAX_STRANGERS_PER_SOURCE = 16
MAX_CHANNELS_PER_CONNECTION = 4
CHANNEL_WINDOW_BYTES = 2 << 20  # a client may send them before any is processed
DESCRIPTOR_SHARE = 8  # an eighth of the descriptors for handles, one per connection
LOGIN_SECONDS = 30.0
HOST_KEY_FOLDER = "ssh"  # in the data directory
SPOOL_FOLDER = "staging"
HOST_KEY_NAME = "ssh_host_ed25519_key"
KEEPALIVE_SECONDS = 60.0  # between two probes of a silent client; three without an answer end the connection
# OpenSSH prefers ChaCha20-Poly1305, which costs asyncssh four times the CPU of AES-GCM for a small packet
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes256-ctr", "aes128-ctr")
PASSWORD, CODE = "Password: ", "One-time code: "


class SftpConnections:
    """The connections of this process. `folder`: the folder of temporary files, None for the system's default."""

    def __init__(self, folder: Path | None, descriptors: int | None = None) -> None:
        share = (descriptors or get_limit()) // DESCRIPTOR_SHARE
        self.budget = SftpBudget(folder, min(MAX_HANDLES, share))
        self._max_connections = min(MAX_CONNECTIONS, share)
        self._strangers: dict[SSHServerConnection, str] = {}  # with their sources, the oldest first
        self._sessions: dict[SSHServerConnection, ProtocolSession] = {}

    def make_server(self) -> SftpServer:
        """Return the server of a new connection, for asyncssh."""
        return SftpServer(self)

    def admit(self, connection: SSHServerConnection, source: str) -> None:
        """Accept a new connection.

        If too many have not signed in, one of them is ended: the oldest of the same source, or of the source with the
        most connections.
        """
        self._strangers[connection] = source
        counts = Counter(self._strangers.values())
        if counts[source] > MAX_STRANGERS_PER_SOURCE:
            self._drop_stranger(source)
        elif len(self._strangers) > MAX_STRANGERS:
            self._drop_stranger(counts.most_common(1)[0][0])

    def _drop_stranger(self, source: str) -> None:
        oldest = next(connection for connection, other in self._strangers.items() if other == source)
        log_event(
            "connection refused", protocol=SFTP.name, client=source, reason="too many connections without sign-in"
        )
        self.remove(oldest)
        oldest.abort()

    def has_room(self, source: str) -> bool:
        """True if one more connection may sign in from a source."""
        count = sum(find_client(session.source) == source for session in self._sessions.values())
        return len(self._sessions) < self._max_connections and count < MAX_CONNECTIONS_PER_SOURCE

    def add(self, connection: SSHServerConnection, session: ProtocolSession) -> None:
        """Register the connection of a user who has signed in."""
        self._strangers.pop(connection, None)
        self._sessions[connection] = session

    def remove(self, connection: SSHServerConnection) -> None:
        """Unregister a connection."""
        self._strangers.pop(connection, None)
        self._sessions.pop(connection, None)

    async def end_revoked(self) -> None:
        """End the connections whose account, password, right or key is not valid any more."""
        ended = await sessions.find_ended(list(self._sessions.values()))
        for connection, session in list(self._sessions.items()):
            if any(session is ended_session for ended_session in ended):
                log_event("session ended", protocol=session.protocol, user=session.username, client=session.source)
                self.remove(connection)
                connection.abort()

    def abort(self) -> None:
        """End all connections."""
        for connection in [*self._strangers, *self._sessions]:
            connection.abort()


class _NoEnvironment(dict[bytes, bytes]):
    """An environment of a channel that ignores the variables that a client sets."""

    def __setitem__(self, key: bytes, value: bytes) -> None:
        pass


class _Session(SSHServerStreamSession[bytes]):
    """One channel of a connection."""

    def __init__(self, server: SftpServer) -> None:
        super().__init__(None, server.make_tree)
        self._owner = server

    def connection_made(self, chan: Any) -> None:
        super().connection_made(chan)
        chan._env = _NoEnvironment()
        chan.set_write_buffer_limits(ANSWER_WINDOW_BYTES)
        self._owner.channels.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.channels.discard(self)
        super().connection_lost(exc)

    def session_started(self) -> None:
        assert self._chan is not None and self._conn is not None
        server: Any = self._init_sftp_server()  # `make_tree` makes it
        reader, writer = SSHReader(self, self._chan), SSHWriter(self, self._chan)
        handler = Handler(server, reader, writer, MIN_SFTP_VERSION, self._owner.get_flow())
        self._conn.create_task(handler.run(), reader.logger)


class SftpServer(asyncssh.SSHServer):
    """A connection, from its first byte on."""

    def __init__(self, connections: SftpConnections) -> None:
        self._connections = connections
        self._connection: SSHServerConnection | None = None
        self._source = ""
        self._password = ""  # correct, but a one-time code has to follow
        self._session: ProtocolSession | None = None
        self._flow: ConnectionFlow | None = None
        self._handles: ConnectionHandles | None = None
        self.channels: set[_Session] = set()

    def connection_made(self, conn: SSHServerConnection) -> None:
        self._connection = conn
        self._flow = ConnectionFlow(conn)
        self._source = conn.get_extra_info("peername")[0]
        self._connections.admit(conn, find_client(self._source))

    def get_flow(self) -> ConnectionFlow:
        """Return the flow of the connection, which has started."""
        assert self._flow is not None
        return self._flow

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._connections.remove(self._connection)

    async def begin_auth(self, username: str) -> bool:
        guest = await SFTP.find_guest(username)
        return guest is None or not self._take(SFTP.open_session(guest, self._source))

    def _take(self, session: ProtocolSession) -> bool:
        """Register the session of a user who has signed in. Return False if there are too many connections."""
        if not self._connections.has_room(find_client(self._source)):
            log_event("connection refused", protocol=SFTP.name, client=self._source, reason="too many connections")
            return False
        self._session = session
        return True

    def auth_completed(self) -> None:
        assert self._connection is not None and self._session is not None
        self._connections.add(self._connection, self._session)
        self._handles = ConnectionHandles(self._connections.budget, self._session.user_id)
        self._session.log_start()
        signed_in = asyncio.to_thread(audit.add, self._session.username, self._source, AuditAction.SIGN_IN, SFTP.name)
        self._connection.create_task(signed_in, self._connection.logger)
        if self._session.credential is not None:
            work = asyncio.to_thread(self._session.credential.note_use)
            self._connection.create_task(work, self._connection.logger)

    def public_key_auth_supported(self) -> bool:
        return True

    async def validate_public_key(self, username: str, key: SSHKey) -> bool:
        match = await SFTP.find_key(username, key.get_fingerprint())
        if match is None:
            return False
        user, credential = match
        try:
            return self._take(SFTP.open_session(user, self._source, credential))
        except Problem as problem:
            self._log_refusal(username, problem)
            return False

    def password_auth_supported(self) -> bool:
        return not configuration.cached().settings.sftp_disable_password_login

    async def validate_password(self, username: str, password: str) -> bool:
        try:
            return self._take(await sign_in_with_password(username, password, SFTP, self._source))
        except Problem as problem:
            self._log_refusal(username, problem)
            return False

    def kbdint_auth_supported(self) -> bool:
        return self.password_auth_supported()

    async def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> Any:
        self._password = ""
        return "", "", "", [(PASSWORD, False)]

    async def validate_kbdint_response(self, username: str, responses: Any) -> Any:
        """Check an answer. The first is the password; if the account has a second factor, the next one is its code."""
        answer = str(responses[0]) if len(responses) == 1 else ""
        password, code = (self._password, answer) if self._password else (answer, "")
        try:
            return self._take(await sign_in_with_password(username, password, SFTP, self._source, code.strip()))
        except SecondFactorRequired as problem:
            if self._password:
                self._log_refusal(username, problem)
                return False
            self._password = password
            return "", "", "", [(CODE, False)]
        except Problem as problem:
            self._log_refusal(username, problem)
            return False

    def _log_refusal(self, username: str, problem: Problem) -> None:
        log_event(
            "sign-in refused",
            protocol=SFTP.name,
            user=username[:64],
            client=self._source,
            reason=type(problem).__name__,
        )  # fmt: skip

    def session_requested(self) -> _Session | bool:
        if len(self.channels) >= MAX_CHANNELS_PER_CONNECTION:
            return False
        return _Session(self)

    def make_tree(self, channel: SSHChannel[bytes]) -> SFTPServer:
        """Return the tree as the client of a channel sees it."""
        assert self._session is not None and self._handles is not None and isinstance(channel, SSHServerChannel)
        return TreeServer(channel, self._session, self._handles)


def read_host_key(folder: Path) -> SSHKey:
    """Return the host key, by which clients recognise this service. The first call makes it atomically; blocks."""
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / HOST_KEY_NAME
    if not path.exists():
        key = asyncssh.generate_private_key("ssh-ed25519")
        handle, part = tempfile.mkstemp(dir=folder)  # readable by its owner alone
        with os.fdopen(handle, "wb") as file:
            file.write(key.export_private_key())
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    return asyncssh.read_private_key(path)


async def listen(host: str, port: int, host_key: SSHKey, connections: SftpConnections) -> asyncssh.SSHAcceptor:
    """Serve SFTP at an address until the returned server is closed. Raise OSError if that is not possible."""
    options: Mapping[str, Any] = {
        "server_host_keys": [host_key],
        "server_factory": connections.make_server,
        "server_version": "Mangrove",
        "login_timeout": LOGIN_SECONDS,
        "window": CHANNEL_WINDOW_BYTES,
        "keepalive_interval": KEEPALIVE_SECONDS,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "allow_pty": False,
        "line_editor": False,
        "allow_scp": False,
        "encryption_algs": CIPHERS,
        "compression_algs": None,
        "encoding": None,
        "config": None,
    }
    return await asyncssh.listen(host, port, **options)


class SftpListener:
    """SFTP, served at an address."""

    def __init__(self, acceptor: asyncssh.SSHAcceptor, connections: SftpConnections) -> None:
        self._acceptor = acceptor
        self._connections = connections

    async def end_revoked(self) -> None:
        """End the connections of users who can no longer use SFTP."""
        await self._connections.end_revoked()

    def close(self) -> None:
        """Stop the server and end all connections."""
        self._acceptor.close()
        self._connections.abort()


async def serve(host: str, port: int, data: Path) -> SftpListener:
    """Serve SFTP at an address. `data`: the data directory, with the host key and temporary files."""
    key = await asyncio.to_thread(read_host_key, data / HOST_KEY_FOLDER)
    spool = data / SPOOL_FOLDER
    spool.mkdir(mode=0o700, exist_ok=True)
    connections = SftpConnections(spool)
    acceptor = await listen(host, port, key, connections)
    log_event("SFTP server started", address=f"{host}:{port}", host_key=key.get_fingerprint())
    return SftpListener(acceptor, connections)
