"""A connection to an FTP server that is signed in, and its transfers: one operation at a time."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import aioftp
from aioftp.common import SSLSessionBoundContext

from mangrove.core.problems import StorageProblem, Unreachable
from mangrove.drivers.base import BLOCK
from mangrove.drivers.connections import Address
from mangrove.drivers.ftp.errors import make_sign_in_problem

REPLY_TIMEOUT_SECONDS = 15.0  # for the answer to a command
DATA_TIMEOUT_SECONDS = 20.0  # for a block to be sent or received
STORE_TIMEOUT_SECONDS = 60.0  # for the confirmation that a file is stored, perhaps on another computer
SETTLE_TIMEOUT_SECONDS = 2.0  # for the confirmation that a transfer ended early
MAX_READAHEAD_BYTES = 1 << 19
MAX_LISTING_BYTES_IN_MEMORY = 4 << 20  # the rest is in a temporary file
MAX_LISTING_BYTES = 1 << 30
MAX_REPLY_LINES = 1000
ANY_CODE = "xxx"
Transfer = aioftp.DataConnectionThrottleStreamIO


@dataclass(frozen=True, slots=True)
class Account:
    """The address of a server and the user who signs in."""

    address: Address
    user: str
    """The name in the encoding of a command, like the password."""
    password: str
    is_utf8: bool
    tls: ssl.SSLContext | None
    """None for plain connections."""


class FtpConnection(aioftp.Client):
    """The client of aioftp, with data connections only to the host of the control connection."""

    def __init__(self, account: Account) -> None:
        super().__init__(encoding="latin-1")
        self.features: frozenset[str] = frozenset()  # the first words of the lines of FEAT, in upper case
        self.is_answer_pending = False
        self._account = account
        self._peer = ""
        self._lines = 0
        self._data: asyncio.StreamWriter | None = None

    @classmethod
    async def open(cls, account: Account) -> FtpConnection:
        """Connect and sign in."""
        connection = cls(account)
        try:
            await connection._sign_in()
        except aioftp.StatusCodeError as error:
            connection.abort_all()
            raise make_sign_in_problem(error, account.password) from None
        except BaseException:
            connection.abort_all()
            raise
        return connection

    async def _sign_in(self) -> None:
        account = self._account
        await self.connect(account.address.host, account.address.port)
        if account.tls is not None:
            await self._encrypt(account.tls)
        await self.login(account.user, account.password)
        with suppress(aioftp.StatusCodeError):
            lines = await self.request("FEAT", "211")
            self.features = frozenset(words[0].upper() for line in lines[1:-1] if (words := line.split()))
        if account.is_utf8 and "UTF8" in self.features:
            with suppress(aioftp.StatusCodeError):
                await self.request("OPTS UTF8 ON", "2xx")
        await self.request("TYPE I", "200")

    async def _encrypt(self, context: ssl.SSLContext) -> None:
        await self.request("AUTH TLS", "234")
        if _has_unread(self.stream.reader):
            raise Unreachable("the server's answer has more lines than requested")  # injected before the encryption
        await self.stream.start_tls(context, self._account.address.host)
        await self.request("PBSZ 0", "200")
        await self.request("PROT P", "200")

    async def _open_connection(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a control or data connection for aioftp.

        TLS starts later: servers start it after they have confirmed the transfer.
        """
        reader, writer = await asyncio.open_connection(self._peer or host, port, limit=MAX_READAHEAD_BYTES)
        if self._peer:
            self._data = writer
        else:
            self._peer = writer.get_extra_info("peername")[0]
        return reader, writer

    async def parse_line(self) -> Any:
        self._lines += 1
        if self._lines > MAX_REPLY_LINES:
            raise ValueError("the reply does not end")
        return await super().parse_line()

    async def command(  # type: ignore[override]  # aioftp's overloads describe the same two uses
        self,
        command: str | None = None,
        expected_codes: str | tuple[str, ...] = (),
        wait_codes: str | tuple[str, ...] = (),
        censor_after: int | None = None,
    ) -> tuple[aioftp.Code, list[str]]:
        """Send a command as aioftp does. `is_answer_pending` is True until the answer is complete."""
        self.is_answer_pending, self._lines = True, 0
        answer = await super().command(command, ANY_CODE, wait_codes, censor_after)
        assert answer is not None
        code, lines = answer
        self.is_answer_pending = code.matches("1xx") or code == "421"
        expected = (expected_codes,) if isinstance(expected_codes, str) else expected_codes
        self.check_codes(tuple(map(aioftp.Code, expected)), code, lines)
        return code, lines

    async def request(self, command: str, *expected: str) -> list[str]:
        """Return the lines of the answer. Raise StatusCodeError if its code is not one of `expected`."""
        async with asyncio.timeout(REPLY_TIMEOUT_SECONDS):
            return (await self.command(command, expected))[1]

    @property
    def is_open(self) -> bool:
        """True if the connection can take a command, as far as this side knows."""
        return not (self.is_answer_pending or self.stream.writer.is_closing() or _has_unread(self.stream.reader))

    async def check(self) -> bool:
        """True if the server still answers."""
        try:
            await self.request("NOOP", "200")
        except (aioftp.AIOFTPException, OSError, ValueError):
            return False
        return True

    async def quit(self) -> None:
        """Sign out and close."""
        try:
            if self.is_open:
                async with asyncio.timeout(SETTLE_TIMEOUT_SECONDS):
                    await self.command("QUIT", ANY_CODE)
        finally:
            self.abort_all()

    def abort_all(self) -> None:
        """Close the connections without a message to the server."""
        for writer in (self._data, None if self._stream is None else self._stream.writer):
            if writer is not None:
                abort(writer)

    async def begin(self, command: str, offset: int = 0) -> Transfer:
        """Start a transfer at `offset` of the file.

        The offset is sent right before the command, because some servers forget it after another command.
        """
        self._data = None
        try:
            async with asyncio.timeout(REPLY_TIMEOUT_SECONDS):
                transfer: Transfer = await self.get_stream(command, "1xx", offset=offset)
                if self._account.tls is not None:
                    await transfer.start_tls(self._resume_tls(), self._account.address.host)
        except BaseException:
            if self._data is not None:
                abort(self._data)
            raise
        return transfer

    def _resume_tls(self) -> ssl.SSLContext:
        """Return a context that resumes the TLS session of the control connection, which some servers require."""
        control = self.stream.writer.get_extra_info("ssl_object")
        return SSLSessionBoundContext(ssl.PROTOCOL_TLS_CLIENT, context=control.context, session=control.session)

    async def receive(self, transfer: Transfer, max_size: int = BLOCK) -> bytes:
        """Return the next bytes, at most `max_size`; none at the end."""
        async with asyncio.timeout(DATA_TIMEOUT_SECONDS):
            return await transfer.read(max_size)

    async def send(self, transfer: Transfer, block: bytes) -> None:
        """Send a block. If the server ends the transfer, raise its answer."""
        try:
            async with asyncio.timeout(DATA_TIMEOUT_SECONDS):
                await transfer.write(block)
        except ConnectionError:
            async with asyncio.timeout(SETTLE_TIMEOUT_SECONDS):
                await self.command(None, ())
            raise

    async def finish(self, transfer: Transfer) -> None:
        """End a transfer after its last byte. Raise the server's answer unless it is a success."""
        transfer.close()
        async with asyncio.timeout(STORE_TIMEOUT_SECONDS):
            await self.command(None, "2xx", "1xx")
        abort(transfer.writer)

    async def settle(self, transfer: Transfer) -> None:
        """End a transfer with any answer of the server. Without an answer in time the connection is closed."""
        abort(transfer.writer)
        if not self.is_answer_pending:
            return
        try:
            async with asyncio.timeout(SETTLE_TIMEOUT_SECONDS):
                code, _ = await self.command(None, ANY_CODE, "1xx")
                if not code.matches("2xx"):
                    await self.command("NOOP", "200")  # so that no second answer is pending
        except (aioftp.AIOFTPException, OSError, ValueError):
            self.abort_all()

    async def fetch(self, command: str) -> IO[bytes]:
        """Return everything that a listing command sends, so that a slow reader does not occupy the connection."""
        spool = SpooledTemporaryFile(max_size=MAX_LISTING_BYTES_IN_MEMORY)  # noqa: SIM115  # the caller closes it
        transfer = None
        try:
            transfer = await self.begin(command)
            while block := await self.receive(transfer):
                if spool.tell() > MAX_LISTING_BYTES:
                    raise StorageProblem("the server's listing does not end")
                spool.write(block)
            await self.finish(transfer)
        except BaseException:
            spool.close()
            if transfer is not None:
                abort(transfer.writer)
            raise
        spool.seek(0)
        return spool


def abort(writer: asyncio.StreamWriter) -> None:
    """Close immediately and drop unsent bytes."""
    with suppress(AttributeError):  # of asyncio, for a transport that has closed after the last byte was sent
        writer.transport.abort()


def _has_unread(reader: asyncio.StreamReader) -> bool:
    """True if there are bytes to read, or the end of the stream, without waiting."""
    reading = reader.read(1)
    try:
        reading.send(None)
    except (StopIteration, OSError):
        return True
    reading.close()
    return False
