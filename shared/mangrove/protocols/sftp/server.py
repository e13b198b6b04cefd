"""The SSH server in front of the tree: who gets in, what a connection may ask for, and how many there are.

Only the subsystem `sftp` is there: no shell, no command, no forwarding, no environment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import asyncssh
from asyncssh import SSHKey, SSHReader, SSHServerChannel, SSHServerConnection, SSHWriter
from asyncssh.channel import SSHChannel
from asyncssh.sftp import MIN_SFTP_VERSION, SFTPServer
from asyncssh.stream import SSHServerStreamSession

from mangrove.configuration import snapshot
from mangrove.core.problems import Problem, SecondFactorRequired
from mangrove.core.sources import find_source
from mangrove.core.telemetry import log_event
from mangrove.protocols import sessions
from mangrove.protocols.sessions import SFTP, Session, sign_in_with_password
from mangrove.protocols.sftp.files import TreeServer
from mangrove.protocols.sftp.protocol import Handler

MOST = 256  # connections that somebody is signed in on
MOST_PER_SOURCE = 64
MOST_STRANGERS = 64  # connections on which nobody is signed in yet; the oldest gives way
LOGIN_SECONDS = 30.0
KEEPALIVE_SECONDS = 60.0  # between two questions to a silent client; three without an answer end the connection
PASSWORD, CODE = "Password: ", "One-time code: "
SshAcceptor = asyncssh.SSHAcceptor


class SftpConnections:
    """The connections of this process. `folder`: where temporary files go, None for the system's place."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._strangers: dict[SSHServerConnection, float] = {}  # and since when, the oldest first
        self._sessions: dict[SSHServerConnection, Session] = {}

    def make_server(self) -> SftpServer:
        """What asyncssh calls for each connection."""
        return SftpServer(self)

    def admit(self, connection: SSHServerConnection) -> None:
        """Take a new connection in; where too many have not signed in, the oldest of them is ended."""
        self._strangers[connection] = time.monotonic()
        if len(self._strangers) > MOST_STRANGERS:
            oldest = next(iter(self._strangers))
            self.remove(oldest)
            oldest.abort()

    def is_room(self, source: str) -> bool:
        """Whether one more may sign in from there."""
        own = sum(find_source(session.source) == find_source(source) for session in self._sessions.values())
        return len(self._sessions) < MOST and own < MOST_PER_SOURCE

    def add(self, connection: SSHServerConnection, session: Session) -> None:
        """Somebody signed in."""
        self._strangers.pop(connection, None)
        self._sessions[connection] = session

    def remove(self, connection: SSHServerConnection) -> None:
        """Forget a connection."""
        self._strangers.pop(connection, None)
        self._sessions.pop(connection, None)

    async def end_revoked(self) -> None:
        """End the connections whose account, password, right or key is gone."""
        ended = await sessions.find_ended(list(self._sessions.values()))
        for connection, session in list(self._sessions.items()):
            if any(session is one for one in ended):
                log_event("session ended", door=session.door, user=session.username, client=session.source)
                self.remove(connection)
                connection.abort()

    def abort(self) -> None:
        """End all connections."""
        for connection in [*self._strangers, *self._sessions]:
            connection.abort()


class _Session(SSHServerStreamSession[bytes]):
    """The channel of a client that asked for `sftp`."""

    def session_started(self) -> None:
        assert self._chan is not None and self._conn is not None
        server = self._init_sftp_server()
        assert isinstance(server, TreeServer)
        reader, writer = SSHReader(self, self._chan), SSHWriter(self, self._chan)
        self._conn.create_task(Handler(server, reader, writer, MIN_SFTP_VERSION).run(), reader.logger)


class SftpServer(asyncssh.SSHServer):
    """One connection, from its first byte on."""

    def __init__(self, connections: SftpConnections) -> None:
        self._connections = connections
        self._connection: SSHServerConnection | None = None
        self._source = ""
        self._password = ""  # right, and to be followed by a one-time code
        self._session: Session | None = None

    def connection_made(self, conn: SSHServerConnection) -> None:
        self._connection = conn
        self._source = conn.get_extra_info("peername")[0]
        self._connections.admit(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._connections.remove(self._connection)

    async def begin_auth(self, username: str) -> bool:
        guest = await SFTP.find_guest(username)
        return guest is None or not self._take(SFTP.open_session(guest, self._source))

    def _take(self, session: Session) -> bool:
        """Whether there is room for one who has proven who they are."""
        if not self._connections.is_room(self._source):
            log_event("connection refused", door=SFTP.name, client=self._source, reason="too many connections")
            return False
        self._session = session
        return True

    def auth_completed(self) -> None:
        assert self._connection is not None and self._session is not None
        self._connections.add(self._connection, self._session)
        self._session.log_start()
        if self._session.credential is not None:
            work = asyncio.to_thread(self._session.credential.note_use)
            self._connection.create_task(work, self._connection.logger)

    def public_key_auth_supported(self) -> bool:
        return True

    async def validate_public_key(self, username: str, key: SSHKey) -> bool:
        found = await SFTP.find_key(username, key.get_fingerprint())
        if found is None:
            return False
        user, credential = found
        try:
            return self._take(SFTP.open_session(user, self._source, credential))
        except Problem as problem:
            self._log_refusal(username, problem)
            return False

    def password_auth_supported(self) -> bool:
        return not snapshot.current().settings.sftp_disable_password_login

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
        """The first answer is the password; where the account has a second factor, the next one is its code."""
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
            "sign-in refused", door=SFTP.name, user=username[:64], client=self._source, reason=type(problem).__name__
        )

    def session_requested(self) -> _Session:
        return _Session(None, self._make_tree)

    def _make_tree(self, channel: SSHChannel[bytes]) -> SFTPServer:
        assert self._session is not None and isinstance(channel, SSHServerChannel)
        return TreeServer(channel, self._session, self._connections.folder)


async def listen(host: str, port: int, host_key: SSHKey, connections: SftpConnections) -> asyncssh.SSHAcceptor:
    """Serve SFTP at an address, until the answer is closed; OSError when that is not possible."""
    options: Mapping[str, Any] = {
        "server_host_keys": [host_key],
        "server_factory": connections.make_server,
        "server_version": "Mangrove",
        "login_timeout": LOGIN_SECONDS,
        "keepalive_interval": KEEPALIVE_SECONDS,
        "agent_forwarding": False,
        "x11_forwarding": False,
        "allow_pty": False,
        "line_editor": False,
        "allow_scp": False,
        "encryption_algs": ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com",
                            "aes256-ctr", "aes128-ctr"],
        "compression_algs": None,
        "encoding": None,
        "config": None,
    }  # fmt: skip
    return await asyncssh.listen(host, port, **options)
