"""HTTP conditions and byte ranges (RFC 9110 sections 13 and 14), without any I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime

LATEST = 253_402_300_799.0  # the end of the year 9999, in seconds since the epoch
MOST_RANGES = 32  # more parts than this are answered with the whole file


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes `start` up to, not including, `stop`."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        return self.stop - self.start

    def header(self, size: int) -> str:
        """The value of Content-Range."""
        return f"bytes {self.start}-{self.stop - 1}/{size}"


class Unsatisfiable(Exception):
    """No wanted byte is there, or the Range header cannot be read; the text says which."""


def http_date(seconds: float) -> str:
    """An HTTP date, of the years 1970 to 9999."""
    return formatdate(min(max(seconds, 0.0), LATEST), usegmt=True)


def precondition(headers: Mapping[str, str], etag: str, modified: float, method: str) -> int | None:
    """The status (304 or 412) that the If-* headers ask for instead of the bytes, or None. `etag` with quotes."""
    if "if-match" in headers:
        if not _matches(headers["if-match"], etag, weak=False):
            return 412
    elif "if-unmodified-since" in headers:
        since = _seconds(headers["if-unmodified-since"])
        if since is not None and modified and int(modified) > since:
            return 412
    if "if-none-match" in headers:
        if _matches(headers["if-none-match"], etag, weak=True):
            return 304 if method in ("GET", "HEAD") else 412
    elif "if-modified-since" in headers:
        since = _seconds(headers["if-modified-since"])
        if since is not None and modified and int(modified) <= since:
            return 304
    return None


def spans(headers: Mapping[str, str], size: int, etag: str, modified: float) -> list[Span]:
    """The wanted parts; empty for the whole file. Raises Unsatisfiable."""
    wanted = headers.get("range", "")
    if not wanted or not size or not _still_same(headers.get("if-range", ""), etag, modified):
        return []
    unit, _, text = wanted.partition("=")
    if unit.strip().lower() != "bytes":
        raise Unsatisfiable("invalid range")
    found = [_span(part.strip(), size) for part in text.split(",") if part.strip()]
    good = [span for span in found if span is not None]
    if not good:
        raise Unsatisfiable("invalid range: failed to overlap" if found else "invalid range")
    if sum(span.length for span in good) > size or len(good) > MOST_RANGES:
        return []
    return good


def _span(text: str, size: int) -> Span | None:
    """One part; None when it lies behind the end."""
    first, dash, last = (part.strip() for part in text.partition("-"))
    if not dash or not (first or last) or not all(_number(part) for part in (first, last)):
        raise Unsatisfiable("invalid range")
    if not first:
        length = min(int(last), size)
        return Span(size - length, size) if length else None
    start = int(first)
    if last and int(last) < start:
        raise Unsatisfiable("invalid range")
    stop = int(last) + 1 if last else size
    return Span(start, min(stop, size)) if start < size else None


def _number(text: str) -> bool:
    return not text or (text.isascii() and text.isdecimal() and len(text) < 19)


def _still_same(condition: str, etag: str, modified: float) -> bool:
    if not condition:
        return True
    if condition.startswith('"'):
        return condition == etag
    since = _seconds(condition)
    return since is not None and bool(modified) and int(modified) == since


def _matches(header: str, etag: str, weak: bool) -> bool:
    tags = [tag.strip() for tag in header.split(",")]
    if weak:
        tags = [tag.removeprefix("W/") for tag in tags]
    return "*" in tags or etag in tags


def _seconds(text: str) -> int | None:
    try:
        return int(parsedate_to_datetime(text).timestamp())
    except (ValueError, TypeError, OverflowError):
        return None
