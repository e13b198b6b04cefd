"""Torrent files: this service downloads them and checks the servers that they name before a tool gets them."""

from __future__ import annotations

import asyncio
from typing import Any

from mangrove.core.problems import Problem
from mangrove.net.addresses import AddressPolicy
from mangrove.tools import http, urls

MAX_SIZE = 16 << 20  # bytes
MAX_VALUES = 1_000_000  # in one file
MAX_DEPTH = 32


class BrokenTorrent(Problem):
    """It is not a torrent file, or it has a form that no program needs."""

    text = "the torrent file is broken"


async def fetch_torrent(url: str, policy: AddressPolicy, tool: str) -> bytes:
    """Return the torrent file at `url`. Raise ForbiddenAddress if it, or a server that it names, may not be reached."""
    content = bytearray()
    async with http.fetch(url, policy) as response:
        async for block in response.iter_blocks():
            content += block
            if len(content) > MAX_SIZE:
                break
    if not content.startswith(b"d") or len(content) > MAX_SIZE:
        raise Problem(f"{tool} takes torrents only: there is none at this address")
    servers = await asyncio.to_thread(list_servers, bytes(content))
    await urls.check_servers(servers, policy)
    return bytes(content)


def list_servers(content: bytes) -> list[str]:
    """Return the trackers, web seeds and nodes in a torrent file, as URLs. Raise BrokenTorrent if it cannot be read."""
    try:
        torrent = _Decoder(content).decode()
    except (ValueError, IndexError, TypeError):  # a key that is a list is a TypeError
        raise BrokenTorrent from None
    trackers: set[str] = set()
    for key in (b"announce", b"announce-list", b"url-list", b"httpseeds"):
        trackers |= {text.decode("latin-1") for text in _flatten(torrent.get(key))}
    for node in _as_list(torrent.get(b"nodes")):
        if isinstance(node, list) and node and isinstance(node[0], bytes):
            trackers.add(f"udp://{node[0].decode('latin-1')}")
    return sorted(trackers - {""})


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _flatten(value: Any) -> list[bytes]:
    """Yield the texts in a text, a list of them, or a list of lists of them."""
    if isinstance(value, bytes):
        return [value]
    return [text for item in _as_list(value) for text in ([item] if isinstance(item, bytes) else _flatten(item))]


class _Decoder:
    """A parser of Bencode, limited in depth and in the number of values.

    It raises ValueError or IndexError for other data.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._left = MAX_VALUES

    def decode(self) -> dict[bytes, Any]:
        decoded = self._read(MAX_DEPTH)
        if not isinstance(decoded, dict):
            raise ValueError("no dictionary")
        return decoded

    def _read(self, depth: int) -> Any:
        self._left -= 1
        if not depth or not self._left:
            raise ValueError("too many values, or too deep")
        kind = self._content[self._at : self._at + 1]
        if kind == b"i":
            return int(self._read_until(b"e", 1))
        if kind not in (b"l", b"d"):
            return self._read_text()
        self._at += 1
        values: list[Any] = []
        while self._content[self._at] != ord("e"):
            values.append(self._read(depth - 1))
        self._at += 1
        if kind == b"l":
            return values
        pairs = dict(zip(values[::2], values[1::2], strict=True))
        if len(pairs) * 2 != len(values):
            raise ValueError("a key is there twice: another program may read the other one")
        return pairs

    def _read_text(self) -> bytes:
        size = int(self._read_until(b":", 0))
        text = self._content[self._at : self._at + size]
        if size < 0 or len(text) != size:
            raise ValueError("a text is cut off")
        self._at += size
        return text

    def _read_until(self, mark: bytes, skip: int) -> bytes:
        """Return the digits up to a mark, and skip the mark."""
        end = self._content.index(mark, self._at, self._at + 24)
        digits = self._content[self._at + skip : end]
        self._at = end + 1
        return digits
