"""The rows of a long answer, which an answer's writer encodes while it sends them."""

from __future__ import annotations

from collections.abc import AsyncIterator


class PendingRows:
    """Rows of an answer that remain to be encoded."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self.pieces = pieces  # JSON objects, separated by commas; no piece is empty
