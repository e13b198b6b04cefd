"""One connection to an FTP server, signed in, and its transfers: one operation at a time."""

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
from mangrove.drivers.addresses import Address
from mangrove.drivers.base import BLOCK
from mangrove.drivers.ftp.errors import make_sign_in_problem

REPLY_SECONDS = 15.0  # that the server may take to answer a command
DATA_SECONDS = 20.0  # that it may take to send or take a block
FINISH_SECONDS = 60.0  # that it may take to say that a file is stored, which may be elsewhere
SETTLE_SECONDS = 2.0  # that it may take to say that a transfer which ended early did
WINDOW = 1 << 19  # bytes that are read ahead
IN_MEMORY = 4 << 20  # bytes of a listing; more of it lie in a temporary file
LONGEST_LISTING = 1 << 30  # bytes
LONGEST_REPLY = 1000  # lines
ANY = "xxx"
Transfer = aioftp.DataConnectionThrottleStreamIO


@dataclass(frozen=True, slots=True)
class Account:
    """Where and as whom to sign in, as it stands in commands. `tls`: None for plain connections."""

    address: Address
    user: str
    password: str
    is_utf8: bool
    tls: ssl.SSLContext | None


class Connection(aioftp.Client):
    """The library's client, whose data connections lead to the host of the control connection and nowhere else.

    `features`: the first words of what FEAT shows, in capitals. `owes`: the server has yet to answer.
    """

    def __init__(self, account: Account) -> None:
        super().__init__(encoding="latin-1")
        self.features: frozenset[str] = frozenset()
        self.owes = False
        self._account = account
        self._peer = ""
        self._lines = 0
        self._data: asyncio.StreamWriter | None = None

    @classmethod
    async def open(cls, account: Account) -> Connection:
        """A connection that is signed in."""
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
            lines = await self.ask("FEAT", "211")
            self.features = frozenset(words[0].upper() for line in lines[1:-1] if (words := line.split()))
        if account.is_utf8 and "UTF8" in self.features:
            with suppress(aioftp.StatusCodeError):
                await self.ask("OPTS UTF8 ON", "2xx")
        await self.ask("TYPE I", "200")

    async def _encrypt(self, context: ssl.SSLContext) -> None:
        await self.ask("AUTH TLS", "234")
        if _has_unread(self.stream.reader):
            raise Unreachable("the server's answer holds more than was asked for")  # somebody else's, sent in the clear
        await self.stream.start_tls(context, self._account.address.host)
        await self.ask("PBSZ 0", "200")
        await self.ask("PROT P", "200")

    async def _open_connection(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The library calls it for both kinds of connections. What is to be encrypted is so later: servers begin with
        it when they have said that the transfer begins."""
        reader, writer = await asyncio.open_connection(self._peer or host, port, limit=WINDOW)
        if self._peer:
            self._data = writer
        else:
            self._peer = writer.get_extra_info("peername")[0]
        return reader, writer

    async def parse_line(self) -> Any:
        self._lines += 1
        if self._lines > LONGEST_REPLY:
            raise ValueError("a reply without an end")
        return await super().parse_line()

    async def command(  # type: ignore[override]  # the library's overloads say the same of its two uses
        self,
        command: str | None = None,
        expected_codes: str | tuple[str, ...] = (),
        wait_codes: str | tuple[str, ...] = (),
        censor_after: int | None = None,
    ) -> tuple[aioftp.Code, list[str]]:
        """As the library's, and `owes` is true until there is a whole answer."""
        self.owes, self._lines = True, 0
        answer = await super().command(command, ANY, wait_codes, censor_after)
        assert answer is not None
        code, lines = answer
        self.owes = code.matches("1xx") or code == "421"
        wanted = (expected_codes,) if isinstance(expected_codes, str) else expected_codes
        self.check_codes(tuple(map(aioftp.Code, wanted)), code, lines)
        return code, lines

    async def ask(self, command: str, *expected: str) -> list[str]:
        """The lines of the answer; StatusCodeError for another code than one of `expected`."""
        async with asyncio.timeout(REPLY_SECONDS):
            return (await self.command(command, expected))[1]

    @property
    def is_open(self) -> bool:
        """Whether it can take a command, as far as this side knows."""
        return not (self.owes or self.stream.writer.is_closing() or _has_unread(self.stream.reader))

    async def answers(self) -> bool:
        """Whether the server still knows it."""
        try:
            await self.ask("NOOP", "200")
        except (aioftp.AIOFTPException, OSError, ValueError):
            return False
        return True

    async def leave(self) -> None:
        """Sign out and close."""
        try:
            if self.is_open:
                async with asyncio.timeout(SETTLE_SECONDS):
                    await self.command("QUIT", ANY)
        finally:
            self.abort_all()

    def abort_all(self) -> None:
        """Close what is open, without a word to the server."""
        for writer in (self._data, None if self._stream is None else self._stream.writer):
            if writer is not None:
                abort(writer)

    async def begin(self, command: str, offset: int = 0) -> Transfer:
        """Begin a transfer, at `offset` of the file. The offset is sent right before the command: some servers forget
        it when anything comes between."""
        self._data = None
        try:
            async with asyncio.timeout(REPLY_SECONDS):
                transfer: Transfer = await self.get_stream(command, "1xx", offset=offset)
                if self._account.tls is not None:
                    await transfer.start_tls(self._resume_tls(), self._account.address.host)
        except BaseException:
            if self._data is not None:
                abort(self._data)
            raise
        return transfer

    def _resume_tls(self) -> ssl.SSLContext:
        """Some servers take data only in a session of the control connection's TLS."""
        control = self.stream.writer.get_extra_info("ssl_object")
        return SSLSessionBoundContext(ssl.PROTOCOL_TLS_CLIENT, context=control.context, session=control.session)

    async def receive(self, transfer: Transfer, most: int = BLOCK) -> bytes:
        """The next bytes, at most so many; none at the end."""
        async with asyncio.timeout(DATA_SECONDS):
            return await transfer.read(most)

    async def send(self, transfer: Transfer, block: bytes) -> None:
        """Send a block. When the server ends the transfer, what it says about that is raised."""
        try:
            async with asyncio.timeout(DATA_SECONDS):
                await transfer.write(block)
        except ConnectionError:
            async with asyncio.timeout(SETTLE_SECONDS):
                await self.command(None, ())
            raise

    async def finish(self, transfer: Transfer) -> None:
        """End a transfer whose bytes all went through; the server's last word on it is raised unless it is good."""
        transfer.close()
        async with asyncio.timeout(FINISH_SECONDS):
            await self.command(None, "2xx", "1xx")
        abort(transfer.writer)

    async def settle(self, transfer: Transfer) -> None:
        """End a transfer whatever the server says of it; the connection is fit for use if it says so soon."""
        abort(transfer.writer)
        if not self.owes:
            return
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                code, _ = await self.command(None, ANY, "1xx")
                if not code.matches("2xx"):
                    await self.command("NOOP", "200")  # that no second answer follows
        except (aioftp.AIOFTPException, OSError, ValueError):
            self.abort_all()

    async def fetch(self, command: str) -> IO[bytes]:
        """What a listing command sends, whole, so that nobody who reads it slowly holds the connection."""
        spool = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  # the caller closes it
        transfer = None
        try:
            transfer = await self.begin(command)
            while block := await self.receive(transfer):
                if spool.tell() > LONGEST_LISTING:
                    raise StorageProblem("the server's listing has no end")
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
    """Close at once, whatever is unsent."""
    with suppress(AttributeError):  # asyncio's own, of a transport that has closed after the last byte was sent
        writer.transport.abort()


def _has_unread(reader: asyncio.StreamReader) -> bool:
    """Whether there is something to read, or the end: looked at without waiting."""
    reading = reader.read(1)
    try:
        reading.send(None)
    except (StopIteration, OSError):
        return True
    reading.close()
    return False
