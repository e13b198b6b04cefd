"""HTTP conditions and byte ranges (RFC 9110 sections 13 and 14), without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from mangrove.core.http import parse_integer

MAX_RANGES = 32  # a request for more ranges is answered with the whole file


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes from `start` up to, but not including, `stop`."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start

    def format_content_range(self, size: int) -> str:
        """Return the value of Content-Range."""
        return f"bytes {self.start}-{self.stop - 1}/{size}"


class RangeNotSatisfiable(Exception):
    """No requested byte exists, or the Range header cannot be read. The text has the reason."""


def check_preconditions(headers: Mapping[str, str], etag: str, modified: float, method: str) -> int | None:
    """Return the status (304 or 412) that the If-* headers require instead of the bytes, or None.

    `etag` includes its quotes.
    """
    if "if-match" in headers:
        if not _contains_etag(headers["if-match"], etag, weak=False):
            return 412
    elif "if-unmodified-since" in headers:
        since = _parse_http_date(headers["if-unmodified-since"])
        if since is not None and modified and int(modified) > since:
            return 412
    if "if-none-match" in headers:
        if _contains_etag(headers["if-none-match"], etag, weak=True):
            return 304 if method in ("GET", "HEAD") else 412
    elif "if-modified-since" in headers:
        since = _parse_http_date(headers["if-modified-since"])
        if since is not None and modified and int(modified) <= since:
            return 304
    return None


def parse_ranges(headers: Mapping[str, str], size: int, etag: str, modified: float) -> list[ByteRange]:
    """Return the requested parts of a file of `size` bytes; empty for the whole file. Raise RangeNotSatisfiable."""
    header = headers.get("range", "")
    if not header or not size or not _matches_if_range(headers.get("if-range", ""), etag, modified):
        return []
    unit, _, text = header.partition("=")
    if unit.strip().lower() != "bytes":
        raise RangeNotSatisfiable("invalid range")
    ranges = [_parse_range(part.strip(), size) for part in text.split(",") if part.strip()]
    satisfiable = [byte_range for byte_range in ranges if byte_range is not None]
    if not satisfiable:
        raise RangeNotSatisfiable("invalid range: failed to overlap" if ranges else "invalid range")
    if sum(byte_range.length for byte_range in satisfiable) > size or len(satisfiable) > MAX_RANGES:
        return []
    return satisfiable


def _parse_range(text: str, size: int) -> ByteRange | None:
    """Parse one part; None if it starts behind the end of the file."""
    first, dash, last = (part.strip() for part in text.partition("-"))
    start, end = parse_integer(first), parse_integer(last)
    unreadable = (first and start is None) or (last and end is None)
    if not dash or unreadable or (start is None and end is None):
        raise RangeNotSatisfiable("invalid range")
    if start is None:
        length = min(end or 0, size)
        return ByteRange(size - length, size) if length else None
    if end is not None and end < start:
        raise RangeNotSatisfiable("invalid range")
    stop = size if end is None else end + 1
    return ByteRange(start, min(stop, size)) if start < size else None


def _matches_if_range(condition: str, etag: str, modified: float) -> bool:
    if not condition:
        return True
    if condition.startswith('"'):
        return condition == etag
    since = _parse_http_date(condition)
    return since is not None and bool(modified) and int(modified) == since


def _contains_etag(header: str, etag: str, weak: bool) -> bool:
    tags = [tag.strip() for tag in header.split(",")]
    if weak:
        tags = [tag.removeprefix("W/") for tag in tags]
    return "*" in tags or etag in tags


def _parse_http_date(text: str) -> int | None:
    """Return seconds since the epoch; None if the text is not a date."""
    try:
        return int(parsedate_to_datetime(text).timestamp())
    except (ValueError, TypeError, OverflowError):
        return None
