"""Torrents made for a test, and a tracker that knows one peer."""

from __future__ import annotations

import hashlib
import socket
import struct
from typing import Any

from tests.support.origin import Answering, Request

PIECE = 1 << 14  # bytes


def torrent(name: str, content: bytes, *, tracker: str = "", seed: str = "") -> tuple[bytes, str]:
    """A torrent file of one file, and its info hash in hex. `seed`: an address that has the file."""
    pieces = [hashlib.sha1(content[at : at + PIECE]).digest() for at in range(0, len(content), PIECE)]
    info = {"length": len(content), "name": name, "piece length": PIECE, "pieces": b"".join(pieces)}
    description: dict[str, Any] = {"info": info} | ({"announce": tracker} if tracker else {})
    description |= {"url-list": seed} if seed else {}
    return bencode(description), hashlib.sha1(bencode(info)).hexdigest()


def bencode(value: Any) -> bytes:
    if isinstance(value, int):
        return b"i%de" % value
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"%d:%s" % (len(value), value)
    return b"d" + b"".join(bencode(key) + bencode(value[key]) for key in sorted(value)) + b"e"


def tracker(port: int) -> Answering:
    """A tracker that answers with one peer, at this port of 127.0.0.1."""

    def answer(request: Request) -> None:
        peers = socket.inet_aton("127.0.0.1") + struct.pack("!H", port)
        body = bencode({"interval": 5, "peers": peers})
        request.head(200, {"content-length": len(body)})
        request.wfile.write(body)

    return answer
