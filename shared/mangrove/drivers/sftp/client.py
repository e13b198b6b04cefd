"""Sessions with an SSH server: the credentials, the pinned host key, and requests with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

import asyncssh

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.problems import Problem, StorageProblem, Unreachable
from mangrove.drivers.base import DriverContext
from mangrove.drivers.connections import parse_address
from mangrove.drivers.sftp.errors import translate_errors
from mangrove.drivers.sftp.options import PORT, SFTPOptions

Result = TypeVar("Result")
ANSWER_TIMEOUT_SECONDS = 15.0
DISK_ANSWER_TIMEOUT_SECONDS = 60.0  # for a request that waits for the server's disk
KEEPALIVE_INTERVAL_SECONDS = 5.0
MAX_UNANSWERED_KEEPALIVES = 2  # after which the connection counts as lost
CIPHERS = [
    "aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes128-ctr", "aes256-ctr",
]  # the fastest first  # fmt: skip
MAX_REQUEST_BYTES = 255 << 10
DEFAULT_REQUEST_BYTES = 32 << 10  # for a server that does not report its limit; larger ones break some servers
UNSTATED_LIMIT_BYTES = 16 << 10  # asyncssh's value for a server that does not report its limit
FINGERPRINT_PREFIX = "SHA256:"
_RSA = ("rsa-sha2-512", "rsa-sha2-256")
_ECDSA = ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521")
_EDWARDS = ("ssh-ed25519", "ssh-ed448")
_ALL_ALGORITHMS = (*_EDWARDS, *_ECDSA, *_RSA)
_SIGNS_OF_ANOTHER_KEY = (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed, asyncssh.ConnectionLost)
_OPENSSH_KEY_HEADER = "BEGIN OPENSSH PRIVATE KEY"


class CachedResult(Generic[Result]):
    """The result of `compute`, computed by one attempt for all concurrent callers.

    After a failure the next caller makes another attempt, also in another event loop.
    """

    def __init__(self, compute: Callable[[], Awaitable[Result]]) -> None:
        self._compute = compute
        self._running: asyncio.Task[Result] | None = None
        self._results: list[Result] = []

    async def get(self) -> Result:
        """Return the result, computed now unless it is known."""
        if not self._results:
            running = self._running
            if running is None or running.done() or running.get_loop() is not asyncio.get_running_loop():
                running = self._running = asyncio.ensure_future(self._attempt())
            await asyncio.shield(running)
        return self._results[0]

    async def _attempt(self) -> Result:
        result = await self._compute()
        self._results = [result]
        return result


@dataclass(frozen=True, slots=True)
class SshCredentials:
    """A username with a private key or, without one, a password."""

    username: str
    key: asyncssh.SSHKey | None
    password: str


async def read_credentials(options: SFTPOptions) -> SshCredentials:
    """Return the credentials of a storage; a key is preferred to a password.

    Raise StorageProblem if the private key cannot be read.
    """
    if not options.username:
        raise StorageProblem("the option username is empty")
    if not options.private_key.strip():
        return SshCredentials(options.username, None, options.password)
    key = await asyncio.to_thread(_read_key, options.private_key, options.passphrase)  # decryption is slow on purpose
    return SshCredentials(options.username, key, "")


def _read_key(text: str, passphrase: str) -> asyncssh.SSHKey:
    text = text.replace("\r\n", "\n").strip() + "\n"
    try:
        return asyncssh.import_private_key(text, passphrase or None)
    except asyncssh.KeyEncryptionError:
        if _OPENSSH_KEY_HEADER in text and find_spec("bcrypt") is None:
            raise StorageProblem(
                "a private key with a passphrase in OpenSSH's own format cannot be read here, since the package bcrypt "
                "is missing; `ssh-keygen -p -m PKCS8` converts it"
            ) from None
        raise StorageProblem("the passphrase does not decrypt the private key") from None
    except asyncssh.KeyImportError:
        hint = ", or the passphrase does not decrypt it" if passphrase else ", or a passphrase is missing"
        raise StorageProblem(f"the private key cannot be read: its form is not known{hint}") from None


class PasswordPrompt(asyncssh.SSHClient):
    """Answer the prompts of a server: a single prompt without echo asks for the password."""

    def __init__(self, password: str) -> None:
        self._password = password
        self._is_answered = False

    def kbdint_auth_requested(self) -> str | None:
        if not self._password or self._is_answered:
            return None
        self._is_answered = True
        return ""

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        if not prompts:
            return []
        return [self._password] if len(prompts) == 1 and not prompts[0][1] else None


def parse_host_key(text: str) -> asyncssh.SSHKey | str:
    """Return a public key in the format of OpenSSH or of a line of known_hosts, or a fingerprint of ssh-keygen."""
    text = text.strip()
    if text.startswith(FINGERPRINT_PREFIX):
        return text.rstrip("=")
    for line in (text, text.partition(" ")[2]):
        try:
            return asyncssh.import_public_key(line)
        except asyncssh.KeyImportError:
            continue
    raise StorageProblem("the option host_key is neither a public key nor a SHA256 fingerprint")


class HostKey:
    """The key that the server of a storage must have, pinned at the first connection before secrets are sent."""

    def __init__(self, options: SFTPOptions, context: DriverContext) -> None:
        self._options = options
        self._context = context
        self._key = CachedResult(self._find)

    async def get(self) -> asyncssh.SSHKey:
        """Return the key. At the very first use, accept and store the key of the server.

        Raise StorageProblem if the server has no key with the pinned fingerprint.
        """
        return await self._key.get()

    async def _find(self) -> asyncssh.SSHKey:
        text = self._options.host_key
        pinned = parse_host_key(text) if text.strip() else ""
        if isinstance(pinned, asyncssh.SSHKey):
            return pinned
        shown = await self._fetch(_ALL_ALGORITHMS)
        if not pinned:
            await self._store(shown)
            return shown
        if shown.get_fingerprint() == pinned:
            return shown
        for algorithms in (_EDWARDS, _ECDSA, _RSA):  # a server may have a key of each kind
            try:
                key = await self._fetch(algorithms)
            except Unreachable:
                raise
            except StorageProblem:
                continue  # the server has no key of this kind
            if key.get_fingerprint() == pinned:
                return key
        raise _make_refusal(pinned, shown.get_fingerprint())

    async def check_unchanged(self) -> None:
        """Raise a StorageProblem with both fingerprints if the server has another key now."""
        pinned = (await self.get()).get_fingerprint()
        shown = (await self._fetch(_ALL_ALGORITHMS)).get_fingerprint()
        if shown != pinned:
            raise _make_refusal(pinned, shown)

    async def _fetch(self, algorithms: Sequence[str]) -> asyncssh.SSHKey:
        host, port = parse_address(self._options.address, PORT)
        fetch = partial(asyncssh.get_server_host_key, host, port, server_host_key_algs=list(algorithms), config=None)
        with translate_errors():
            try:
                key = await fetch()
            except asyncssh.ConnectionLost:
                key = await fetch()  # a busy server drops some clients that have not signed in
        if key is None:
            raise StorageProblem("the SSH server sends no host key")
        return key

    async def _store(self, key: asyncssh.SSHKey) -> None:
        if self._context.save_options is None:
            return
        text = " ".join(key.export_public_key("openssh").decode().split()[:2])
        try:
            await self._context.save_options(replace(self._options, host_key=text))
        except Problem as problem:  # another process has just pinned it, or the records do not answer
            raise Unreachable(f"the server's key could not be stored: {problem.message}") from problem


def _make_refusal(pinned: str, shown: str) -> StorageProblem:
    return StorageProblem(
        f"the server's host key has changed: it was {pinned} and is {shown} now. Somebody may be in between; to accept "
        "the new key, enter its fingerprint as host_key, or empty that option"
    )


class SftpSession:
    """A connection that is signed in, and its SFTP client."""

    def __init__(self, connection: asyncssh.SSHClientConnection, client: asyncssh.SFTPClient) -> None:
        self.connection = connection
        self.client = client
        self._is_aborted = False

    @property
    def is_open(self) -> bool:
        return not self._is_aborted and not self.connection.is_closed()

    @property
    def is_openssh(self) -> bool:
        """True if the server is OpenSSH on a system whose files have hard links."""
        version = str(self.connection.get_extra_info("server_version", ""))
        return version.startswith("SSH-2.0-OpenSSH_") and "Windows" not in version

    @property
    def max_read(self) -> int:
        """The number of bytes of a read request."""
        return _limit_request(self.client.limits.max_read_len)

    @property
    def max_write(self) -> int:
        """The number of bytes of a write request."""
        return _limit_request(self.client.limits.max_write_len)

    async def call(self, request: Awaitable[Result], name: str = "", timeout_seconds: float | None = None) -> Result:
        """Return the answer to a request about `name`. Abort the session if the server does not answer in time.

        A timer aborts it instead of a cancellation, after which asyncssh may wait for the server again.
        """
        timer = asyncio.get_running_loop().call_later(timeout_seconds or ANSWER_TIMEOUT_SECONDS, self.abort)
        try:
            with translate_errors(name):
                return await request
        except Unreachable:
            self.abort()
            raise
        finally:
            timer.cancel()

    def abort(self) -> None:
        """End the connection now: all callers that wait for an answer get Unreachable."""
        self._is_aborted = True
        self.connection.abort()

    async def check(self) -> bool:
        """True if the server answers. Raise Unreachable if it does not."""
        await self.call(self.client.realpath(b"."))
        return True

    async def close(self) -> None:
        """Close the connection and wait for its end."""
        self.connection.close()
        await self.connection.wait_closed()

    @asynccontextmanager
    async def open_file(self, path: bytes, flags: int, name: str) -> AsyncIterator[Any]:
        """Open a file of the server; each of its calls is one request.

        A failure to close it is raised unless another failure happened before.
        """
        file = await finish_despite_cancel(self.call(self.client.open(path, flags, encoding=None, block_size=0), name))
        try:
            yield file
        except BaseException:
            if self.is_open:
                with suppress(StorageProblem):
                    await finish_despite_cancel(self.call(file.close()))
            raise
        await finish_despite_cancel(self.call(file.close(), name, DISK_ANSWER_TIMEOUT_SECONDS))


def _limit_request(stated_limit: int) -> int:
    return DEFAULT_REQUEST_BYTES if stated_limit == UNSTATED_LIMIT_BYTES else min(stated_limit, MAX_REQUEST_BYTES)


async def open_session(options: SFTPOptions, host_key: HostKey, credentials: SshCredentials) -> SftpSession:
    """Connect, sign in and start SFTP. Raise StorageProblem, also if the server is not the pinned one."""
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
            return SftpSession(connection, await connection.start_sftp_client(path_encoding=None))
    except BaseException:
        connection.abort()
        raise


async def _connect(
    options: SFTPOptions, key: asyncssh.SSHKey, credentials: SshCredentials
) -> asyncssh.SSHClientConnection:
    host, port = parse_address(options.address, PORT)
    return await asyncssh.connect(
        host,
        port,
        username=credentials.username,
        password=credentials.password or None,
        client_keys=None if credentials.key is None else [credentials.key],
        client_factory=lambda: PasswordPrompt(credentials.password),
        known_hosts=([key], [], []),
        encryption_algs=CIPHERS,
        keepalive_interval=KEEPALIVE_INTERVAL_SECONDS,
        keepalive_count_max=MAX_UNANSWERED_KEEPALIVES,
        # nothing of this computer or its user: no configuration, agent, key files or tickets
        config=None,
        agent_path=None,
        gss_host=None,
    )
