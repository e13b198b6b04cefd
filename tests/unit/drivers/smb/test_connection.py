"""The TCP side of a connection."""

from __future__ import annotations

import resource
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from smbprotocol.exceptions import SMBConnectionClosed

from mangrove.drivers.smb import connection
from mangrove.drivers.smb.connection import Transport


@contextmanager
def connected() -> Iterator[tuple[Transport, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = Transport("127.0.0.1", listener.getsockname()[1], 5.0)
        ours.connect()
        theirs, _ = listener.accept()
        with theirs:
            try:
                yield ours, theirs
            finally:
                ours.dispose()


def test_messages_go_both_ways() -> None:
    with connected() as (ours, theirs):
        ours.send(b"question")
        assert theirs.recv(99) == b"\0\0\0\x08question"
        theirs.sendall(struct.pack(">I", 6) + b"ans")
        theirs.sendall(b"wer")
        assert ours.recv(5) == b"answer"
        with pytest.raises(TimeoutError):
            ours.recv(0.01)


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x09half", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_what_is_no_message_ends_the_connection(sent: bytes) -> None:
    with connected() as (ours, theirs):
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        assert ours.recv(5) == b""
        assert not ours.connected
        with pytest.raises(SMBConnectionClosed):
            ours.send(b"more")


def test_closing_wakes_who_receives() -> None:
    with connected() as (ours, _):
        received: list[bytes] = []
        waiting = threading.Thread(target=lambda: received.append(ours.recv(60)))
        waiting.start()
        ours.close()
        waiting.join(60)
        assert received == [b""]


def test_a_peer_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SEND_TIMEOUT_SECONDS", 0.1)
    with connected() as (ours, _), pytest.raises(SMBConnectionClosed):
        for _ in range(100):
            ours.send(bytes(1 << 20))


def test_a_process_with_thousands_of_files_open_receives() -> None:
    """select(2) takes no descriptor above 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))
    held: list[socket.socket] = []
    try:
        while not held or held[-1].fileno() < 1100:
            held.append(socket.socket())
        with connected() as (ours, theirs):
            theirs.sendall(b"\0\0\0\x01x")
            assert ours.recv(5) == b"x"
    finally:
        for opened in held:
            opened.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
