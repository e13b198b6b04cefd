"""Connections of clients, bounded in number, in time and in what waits in them (RFC 9110 15.5.9).

uvicorn bounds how long a kept connection may be idle. This adds the bounds for which it has no option: the time and the
size of a request's head, the slowness of a body and of a reader, the requests that wait on a connection (pipelining),
and the connections of one source.

It relies on names of uvicorn that its documentation does not promise; the version is pinned, and a test asks for each:
- `HttpToolsProtocol`: `parser`, `transport`, `flow`, `client`, `scope`, `url`, `headers`, `cycle`, `pipeline`, and its
  callbacks `on_message_begin`, `on_headers_complete`, `on_body`, `on_message_complete`, `on_response_complete`,
  `send_400_response`;
- `RequestResponseCycle`: `body`, `disconnected`, `message_event`, `response_started`, `response_complete`,
  `waiting_for_100_continue`, `expected_content_length`;
- `FlowControl`: `read_paused`, `write_paused`, `pause_reading`, `resume_reading`, `pause_writing`, `resume_writing`,
  `drain`; and `HIGH_WATER_LIMIT`.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mangrove.core.http import find_client
from mangrove.core.platform import platform
from mangrove.core.shared_memory import Counts, Region
from mangrove.core.telemetry import choose_request_id, log_event
from mangrove.standalone.sockets import ConnectionSender, PipelineFlow
from mangrove.web.address import is_trusted_proxy
from mangrove.web.events import ENDS_WITH_SERVER
from mangrove.web.serving import SENDFILE_EXTENSION

CHUNK_OVERHEAD = 16  # size of a byte of a body in memory: one that arrives in chunks of a byte has 6
MAX_WAITING_REQUESTS = 16  # of one connection, behind the request that is being answered
PIECE_BYTES = 256  # parsed in one piece: they have fewer requests than may wait, as the shortest has 18 bytes
HEAD_END = b"\n\r\n"
TCP_INFO = getattr(socket, "TCP_INFO", -1)
ACKNOWLEDGED = struct.Struct("=120xQ")  # the kernel's `struct tcp_info` up to `tcpi_bytes_acked`


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a connection.

    `slowest`: bytes per second, over `window` seconds, that a client has to send of a body or take of an answer.
    """

    connections: int = 1000
    per_source: int = 100
    head_bytes: int = 64 << 10
    head_seconds: float = 10.0
    slowest: int = 1024
    window: float = 60.0


class ClientConnections:
    """All connections of clients.

    They get half of the descriptors, since storages, files and the records need some too. A trusted proxy forwards for
    many clients, so its connections are limited only in total.

    Connections of the other processes count too, but only connections of this process can be closed. A process with
    fewer than its part accepts another connection even at the limit; the processes with more close idle ones within a
    second.
    """

    def __init__(self, limits: ConnectionLimits, descriptors: int) -> None:
        self.limits = limits
        self.most = min(limits.connections, descriptors // 2)
        self._counts = Counts(Region.CONNECTIONS)
        self._processes = platform().process_count
        self._all: dict[str, set[Connection]] = defaultdict(set)
        self._count = 0

    def make_protocol(self) -> Any:
        """Return the protocol of a connection, for uvicorn."""
        return partial(Connection, self)

    def admit(self, connection: Connection) -> bool:
        """Register a connection. At the limit, close an idle one; return False if none is idle."""
        own = self._all[connection.source]
        count = len(own) + self._counts.read_others(connection.source)
        if count >= self.limits.per_source and not is_trusted_proxy(connection.address):
            is_room = self._drop_idle(own) or len(own) < self._get_part(self.limits.per_source)
        else:
            is_full = self._count >= self.most or self._is_full()
            is_room = not is_full or self._drop_idle(self._list_all()) or self._count < self._get_part(self.most)
        self._all[connection.source].add(connection)  # not `own`: the connection that was closed may have been its last
        self._add(connection.source, 1)
        return is_room

    def _drop_idle(self, connections: Iterable[Connection]) -> bool:
        idle = min(
            (connection for connection in connections if connection.is_idle),
            key=lambda connection: connection.waiting_since,
            default=None,
        )
        if idle is None:
            return False
        self.remove(idle)
        idle.transport.abort()
        return True

    def remove(self, connection: Connection) -> None:
        """Unregister a connection. An unknown one is ignored."""
        own = self._all.get(connection.source, set())
        if connection in own:
            own.remove(connection)
            self._add(connection.source, -1)
        if not own:
            self._all.pop(connection.source, None)

    def _is_full(self) -> bool:
        return self._count_all() >= self.limits.connections

    def _count_all(self) -> int:
        return self._count + self._counts.read_others(None)

    def _get_part(self, most: int) -> int:
        return most // self._processes if self._processes > 1 else 0

    def _list_all(self) -> Iterator[Connection]:
        return (connection for connections in self._all.values() for connection in connections)

    def _make_room(self) -> None:
        """Close idle connections if there are too many in total and this process has more than its part."""
        excess = self._count_all() - self.limits.connections
        for _ in range(min(excess, self._count - self._get_part(self.most))):
            if not self._drop_idle(self._list_all()):
                return

    def _add(self, source: str, amount: int) -> None:
        self._count += amount
        for key in (None, source):
            self._counts.add(key, amount)

    async def check(self) -> None:
        """Cut connections that are too slow. The caller calls it about once per second."""
        now = time.monotonic()
        for connection in list(self._list_all()):
            connection.check(now)
        if self._processes > 1:
            self._make_room()


@dataclass(slots=True)
class Window:
    """A number of bytes since a time."""

    since: float
    mark: int


class Connection(HttpToolsProtocol):
    """A connection. It waits for a request's head, receives its body, or sends the answer; each has a limit."""

    def __init__(self, registry: ClientConnections, **rest: Any) -> None:
        super().__init__(**rest)
        self._registry = registry
        self._limits = registry.limits
        self._is_in_head = self._is_in_body = False
        self._head_size = 0
        self._body_size = self._raw_size = 0  # of the body: its bytes, and all bytes since its head
        self._body_left = 0  # bytes; 0 if the head does not state it
        self._unparsed = b""  # the bytes behind the request that is being answered, from `_parsed` on
        self._parsed = 0
        self._cycles: list[Any] = []  # of the requests that have no answer yet
        self._receiving: Window | None = None
        self._sending: Window | None = None
        self.waiting_since = time.monotonic()
        self.address = self.source = ""

    @property
    def is_idle(self) -> bool:
        """True if no request is in progress and no answer remains to be sent."""
        is_free = not self._is_in_body and (self.cycle is None or self.cycle.response_complete)
        return is_free and not self.transport.get_write_buffer_size()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.flow = self._flow = PipelineFlow(transport)
        self.address = self.client[0] if self.client else ""
        self.source = find_client(self.address)
        if not self._registry.admit(self):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")

    def connection_lost(self, exc: Exception | None) -> None:
        self._registry.remove(self)
        self._disconnect_cycles()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End answers that have no end of their own; others may end in time. uvicorn's server calls this method."""
        super().shutdown()
        end_answer: Any = self.scope["extensions"].get(ENDS_WITH_SERVER) if self._cycles else None
        if end_answer is not None:
            end_answer()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return  # was refused
        self._unparsed = self._unparsed[self._parsed :] + data
        self._parsed = 0
        self._parse()

    def _parse(self) -> None:
        """Parse until a request waits for the answer to another one. The bytes behind it stay, and reading pauses."""
        size = len(self._unparsed)
        while self._parsed < size and self._may_parse():
            end = min(self._find_piece_end(), size)
            piece, self._parsed = self._unparsed[self._parsed : end], end
            self._parse_piece(piece)
        if self._parsed == size or self.transport.is_closing():
            self._unparsed, self._parsed = b"", 0
        else:
            self._flow.is_held = True
            self._flow.pause_reading()

    def _may_parse(self) -> bool:
        if self.pipeline or self.transport.is_closing():
            return False
        return self.cycle is None or self.cycle.response_complete or self._is_in_body

    def _find_piece_end(self) -> int:
        """Return where to stop parsing, so that at most MAX_WAITING_REQUESTS are parsed before the next check."""
        if self._is_in_body:
            return self._parsed + max(self._body_left, PIECE_BYTES)
        end = self._unparsed.find(HEAD_END, self._parsed)
        return len(self._unparsed) if end < 0 else max(end + len(HEAD_END), self._parsed + PIECE_BYTES)

    def _parse_piece(self, piece: bytes) -> None:
        self._head_size += len(piece)  # set to 0 if a head starts in it
        self._raw_size += len(piece)
        super().data_received(piece)
        if self._is_in_head and self._head_size > self._limits.head_bytes:
            self._refuse_head()
        if self._is_in_body and self._raw_size > self._limits.head_bytes + CHUNK_OVERHEAD * self._body_size:
            self._refuse_head()  # trailers, or other bytes outside of the body

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._head_size = 0
        if self.cycle is not None:
            self.waiting_since = time.monotonic()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if self.transport.is_closing():
            return  # it was refused, and the parser still has the bytes behind it
        if self._measure_head() > self._limits.head_bytes:
            self._refuse_head()
            return
        self._is_in_body = True
        self._body_size = self._raw_size = 0
        self._body_left = self._read_content_length()
        self._receiving = None
        sender = ConnectionSender(self.transport, self.flow)
        self.scope["extensions"] = {SENDFILE_EXTENSION: {"sender": sender}}
        super().on_headers_complete()
        sender.follow(self.cycle)
        self._cycles = [*(cycle for cycle in self._cycles if not cycle.response_complete), self.cycle]

    def on_body(self, body: bytes) -> None:
        if self.transport.is_closing():
            return
        self._body_size += len(body)
        self._body_left = max(self._body_left - len(body), 0)
        cycle: Any = self.cycle
        if not cycle.body:
            cycle.body = b""  # appended bytes are passed on without a copy; a bytearray would be copied twice
        elif isinstance(cycle.body, bytes):
            cycle.body = bytearray(cycle.body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._is_in_body:
            self._is_in_body = False
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self.waiting_since = time.monotonic()
        self._flow.is_held = False
        super().on_response_complete()
        self._parse()

    def _read_content_length(self) -> int:
        """Return the length that the head states; the parser has checked it. A chunked body has none."""
        return next((int(value) for name, value in self.headers if name == b"content-length"), 0)

    def _measure_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _refuse_head(self) -> None:
        self._refuse(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"the head of a request may have at most {self._limits.head_bytes} bytes",
        )

    def check(self, now: float) -> None:
        """Cut the connection if its present step is too slow."""
        self._check_sending(now)
        if self.transport.is_closing():
            return
        if self._is_in_body:
            self._check_receiving(now)
        elif self.is_idle and now - self.waiting_since > self._limits.head_seconds:
            if self._is_in_head:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the head of the request arrived too slowly")
            else:
                self.transport.close()

    def _check_receiving(self, now: float) -> None:
        is_ours = self.flow.read_paused or (self.cycle is not None and self.cycle.waiting_for_100_continue)
        if self._receiving is None or is_ours:
            self._receiving = Window(now, self._body_size)
        elif now - self._receiving.since >= self._limits.window:
            if self._body_size - self._receiving.mark < self._limits.slowest * self._limits.window:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the body of the request arrived too slowly")
            self._receiving = Window(now, self._body_size)

    def _check_sending(self, now: float) -> None:
        """Cut the connection if the client does not take the answer."""
        if not (self.flow.write_paused or self.transport.is_closing()):
            self._sending = None
        elif self._sending is None:
            self._sending = Window(now, self._count_taken())
        elif now - self._sending.since >= self._limits.window:
            taken = self._count_taken()
            if taken - self._sending.mark < self._limits.slowest * self._limits.window:
                log_event("slow client disconnected", client=self.source)
                self.transport.abort()
            self._sending = Window(now, taken)

    def _count_taken(self) -> int:
        """Return the bytes that the client has taken, on any scale. Those in the kernel's buffer do not count."""
        try:
            connection = self.transport.get_extra_info("socket")
            (taken,) = ACKNOWLEDGED.unpack(connection.getsockopt(socket.IPPROTO_TCP, TCP_INFO, ACKNOWLEDGED.size))
        except (OSError, struct.error):
            taken = 0  # closed, no TCP connection, or an operating system without this option
        return int(taken) or -self._count_unsent()

    def _count_unsent(self) -> int:
        waiting: int = self.transport.get_write_buffer_size()
        try:
            number = self.transport.get_extra_info("socket").fileno()
            (unsent,) = struct.unpack("i", fcntl.ioctl(number, termios.TIOCOUTQ, b"\0" * 4))
        except OSError:
            return waiting  # closed, or an operating system without this option
        return waiting + int(unsent)

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP/1.1. uvicorn's parser calls this method."""
        self._refuse(HTTPStatus.BAD_REQUEST, "the request is not well-formed")

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer, unless there is an answer already, and close. The application sees a client that has disconnected."""
        request_id = choose_request_id(None)
        log_event("connection refused", client=self.source, status=status, reason=message, request_id=request_id)
        if self._awaits_answer:
            self.transport.write(_format_refusal(status, message, request_id))
        self._disconnect_cycles()
        self.transport.close()

    def _disconnect_cycles(self) -> None:
        """Tell all requests in progress that the client has disconnected.

        uvicorn tells only the last one; the one before it would write to a closed connection.
        """
        for cycle in self._cycles:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._cycles = []

    @property
    def _awaits_answer(self) -> bool:
        if self.cycle is None:
            return True
        return not (self._is_in_body if self.cycle.response_complete else self.cycle.response_started)


def _format_refusal(status: HTTPStatus, message: str, request_id: str) -> bytes:
    body = orjson.dumps({"code": status, "message": message, "data": None})
    head = (
        f"HTTP/1.1 {status} {status.phrase}\r\ncontent-type: application/json; charset=utf-8\r\n"
        f"x-request-id: {request_id}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
