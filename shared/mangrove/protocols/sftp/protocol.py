"""The packets of one session: asyncssh's handler without the operations that the tree does not have, and with
`check-file`.

`check-file` (draft-ietf-secsh-filexfer-extensions-00, section 3) returns a checksum of a whole file that the storage
knows. It does not read the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from asyncssh.constants import FXP_CLOSE, FXP_EXTENDED_REPLY
from asyncssh.packet import SSHPacket, String
from asyncssh.sftp import (
    SFTPBadMessage,
    SFTPLimits,
    SFTPServerHandler,
)

from mangrove.protocols.sftp.files import TreeServer
from mangrove.protocols.sftp.flow import ConnectionFlow
from mangrove.protocols.sftp.handles import MAX_HANDLES_PER_CONNECTION, READ_BYTES

WRITE_BYTES = 256 << 10  # of one packet
MAX_PACKET_BYTES = WRITE_BYTES + 1024

CHECK_FILE_NAME = b"check-file-name"
CHECK_FILE_HANDLES = (b"check-file-handle", b"check-file")  # the second name is the one that paramiko uses
REPLY = b"check-file"
UNAVAILABLE = (b"hardlink@openssh.com", b"copy-data", b"ranges@asyncssh.com", b"fstatvfs@openssh.com")


@dataclass(frozen=True, slots=True)
class FileHash:
    """A checksum in the format of the wire."""

    algorithm: str
    digest: bytes

    def encode(self, version: int) -> bytes:
        """The rest of a reply: its kind, the algorithm, and the checksum without a length in front."""
        return String(REPLY) + String(self.algorithm) + self.digest


@dataclass(frozen=True, slots=True)
class _HashRequest:
    """The end of a request for a checksum: algorithms in the client's order, the range of the file, and the size of
    blocks; 0 means all bytes as one block.
    """

    algorithms: tuple[str, ...]
    start: int
    length: int
    block_size: int

    @classmethod
    def decode(cls, packet: SSHPacket) -> _HashRequest:
        names = packet.get_string().decode("ascii", errors="replace").split(",")
        request = cls(tuple(names), packet.get_uint64(), packet.get_uint64(), packet.get_uint32())
        packet.check_end()
        return request


class Handler(SFTPServerHandler):
    """A session. If a client disconnects, its files stay unclosed: an unfinished upload is discarded."""

    _server: TreeServer
    _extensions: ClassVar[list[tuple[bytes, bytes]]] = [  # type: ignore[misc]  # it is one, not said to be
        *(pair for pair in SFTPServerHandler._extensions if pair[0] not in UNAVAILABLE),
        (CHECK_FILE_NAME, b"1"),
        *((name, b"1") for name in CHECK_FILE_HANDLES),
    ]

    def __init__(self, server: TreeServer, reader: Any, writer: Any, version: int, flow: ConnectionFlow) -> None:
        super().__init__(server, reader, writer, version)
        self._flow = flow

    async def recv_packet(self) -> SSHPacket:
        """Wait until the client has taken its answers, then return its next packet."""
        assert self._reader is not None and self._writer is not None
        await self._writer.drain()
        await self._flow.wait_until_taken()
        size = int.from_bytes(await self._reader.readexactly(4))
        if size > MAX_PACKET_BYTES:
            raise SFTPBadMessage(f"a packet may have at most {MAX_PACKET_BYTES} bytes")
        return SSHPacket(await self._reader.readexactly(size))

    def log_received_packet(self, pkttype: int, pktid: int | None, packet: Any, note: str = "") -> None:
        """Do nothing: asyncssh would format a line for each packet, which no logger takes."""

    def log_sent_packet(self, pkttype: int, pktid: int | None, packet: Any, note: str = "") -> None:
        """Do nothing."""

    async def _process_limits(self, packet: SSHPacket) -> SFTPLimits:
        packet.check_end()
        return SFTPLimits(MAX_PACKET_BYTES, READ_BYTES, WRITE_BYTES, MAX_HANDLES_PER_CONNECTION)

    async def _process_close(self, packet: SSHPacket) -> None:
        folders = dict(self._dir_handles)
        await super()._process_close(packet)
        for handle in folders.keys() - self._dir_handles.keys():
            await self._server.close_folder(folders[handle])

    async def _cleanup(self, exc: Exception | None) -> None:
        if self._server is not None:
            await self._server.discard_all()
            self._file_handles.clear()
            self._dir_handles.clear()
            self._server.channel.exit(0)  # otherwise OpenSSH's scp reports the session as failed
        await super()._cleanup(exc)

    async def _process_check_file_name(self, packet: SSHPacket) -> FileHash:
        path, request = packet.get_string(), _HashRequest.decode(packet)
        return await self._check(path, request)

    async def _process_check_file(self, packet: SSHPacket) -> FileHash:
        handle, request = packet.get_string(), _HashRequest.decode(packet)
        return await self._check(self._file_handles.get(handle), request)

    async def _check(self, file: object, request: _HashRequest) -> FileHash:
        result = await self._server.find_hash(
            file, request.algorithms, request.start, request.length, request.block_size
        )  # fmt: skip
        return FileHash(*result)

    _packet_handlers: ClassVar[dict[Any, Any]] = {  # type: ignore[misc]  # as above
        **{kind: handle for kind, handle in SFTPServerHandler._packet_handlers.items() if kind not in UNAVAILABLE},
        FXP_CLOSE: _process_close,
        b"limits@openssh.com": _process_limits,
        CHECK_FILE_NAME: _process_check_file_name,
        **dict.fromkeys(CHECK_FILE_HANDLES, _process_check_file),
    }
    _return_types: ClassVar[dict[Any, int]] = {  # type: ignore[misc]  # as above
        **SFTPServerHandler._return_types,
        **dict.fromkeys((CHECK_FILE_NAME, *CHECK_FILE_HANDLES), FXP_EXTENDED_REPLY),
    }
