"""Values of HTTP: integers, dates, types, file names and client addresses, and the headers passed on upstream."""

from __future__ import annotations

import mimetypes
import re
import time
from collections.abc import Collection, Iterable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from types import MappingProxyType
from urllib.parse import quote

from mangrove.core.problems import BadRequest

MAX_HTTP_DATE = 253_402_300_799.0  # the end of the year 9999, in seconds since the epoch
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MAX_KNOWN_EXTENSIONS = 256  # in a MimeGuesser
EXTRA_TYPES = {"apk": "application/vnd.android.package-archive"}
CLIENT_NETWORK_BITS = 64  # of an IPv6 address: one client may use all addresses of such a network
MAX_CLIENT_LENGTH = 256  # characters of a text that is not an address
_WITH_PORT = re.compile(r"\[(.+)\](?::\d+)?|([^:]+):\d+")  # the form of some proxies

# headers for this service only, headers that identify the client, and headers that each upstream request sets itself
PRIVATE_HEADERS = frozenset(
    {
        "accept-encoding", "authorization", "connection", "cookie", "expect", "file-path", "forwarded", "host",
        "keep-alive", "origin", "otp-code", "password", "range", "te", "trailer", "transfer-encoding", "upgrade", "via",
        "x-real-ip",
    }
)  # fmt: skip
PRIVATE_HEADER_PREFIXES = ("cf-", "content-", "if-", "proxy-", "sec-", "x-amz", "x-forwarded", "x-file-")

_forwarded: ContextVar[Mapping[str, str]] = ContextVar("forwarded", default=MappingProxyType({}))
WHOLE_DAY = timedelta(days=1, microseconds=-1)


def parse_integer(text: str, *, signed: bool = False, digits: int = 18) -> int | None:
    """Return the integer in `text`, else None.

    Only ASCII digits count, no blanks and no underscores. `signed` allows one leading `-` or `+`; `digits` limits the
    length of `text`, including its sign.
    """
    if len(text) > digits or not text.isascii():
        return None
    unsigned = text[1:] if signed and text[:1] in ("-", "+") else text
    return int(text) if unsigned.isdecimal() else None


def format_content_disposition(name: str) -> str:
    """Return a Content-Disposition with which a browser saves the file, as `name` unless that is empty.

    The name is percent-encoded in both forms, so that no character of it can end the header.
    """
    if not name:
        return "attachment"
    encoded = quote(name, safe="")
    return f"attachment; filename=\"{encoded}\"; filename*=utf-8''{encoded}"


def format_http_date(seconds: float) -> str:
    """Return an HTTP date, of the years 1970 to 9999."""
    year, month, day, hour, minute, second, weekday, *_ = time.gmtime(min(max(seconds, 0.0), MAX_HTTP_DATE))
    return f"{DAYS[weekday]}, {day:02} {MONTHS[month - 1]} {year} {hour:02}:{minute:02}:{second:02} GMT"


def make_retry_after(seconds: int) -> dict[str, str]:
    """Return the Retry-After header as a dict, empty for 0 seconds."""
    return {"retry-after": str(seconds)} if seconds else {}


def guess_mime(name: str) -> str:
    """Return the type that a file name suggests, text with its charset."""
    extension = name.rpartition(".")[2].lower()
    path = f"./{name.rpartition('/')[2]}"  # `guess_type` would read some names as URLs
    kind = EXTRA_TYPES.get(extension) or mimetypes.guess_type(path, strict=False)[0] or "application/octet-stream"
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


class MimeGuesser:
    """Guesses the types of many names, once for each extension."""

    def __init__(self) -> None:
        self._types: dict[str, str] = {}

    def guess(self, name: str) -> str:
        """Return what `guess_mime` returns."""
        stem, _, extension = name.rpartition(".")
        kind = self._types.get(extension)
        if kind is not None and stem:
            return kind
        kind = guess_mime(name)
        if stem and f".{extension.lower()}" not in mimetypes.encodings_map:  # ".tar.gz": the extension before it counts
            if len(self._types) == MAX_KNOWN_EXTENSIONS:
                self._types.clear()
            self._types[extension] = kind
        return kind


def find_client(address: str) -> str:
    """Return the client of an address: an IPv4 address, or the network of an IPv6 address.

    Other texts are returned unchanged, at most MAX_CLIENT_LENGTH characters.
    """
    match = _WITH_PORT.fullmatch(address)
    text = (match[1] or match[2]) if match else address
    try:
        parsed = ip_address(text.partition("%")[0])
    except ValueError:
        return address[:MAX_CLIENT_LENGTH]
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped else str(ip_network((parsed, CLIENT_NETWORK_BITS), strict=False))


def select_headers(headers: Iterable[tuple[str, str]], ignored: Collection[str]) -> dict[str, str]:
    """Return the headers that an upstream server may get; `ignored` names more to leave out, in lower case."""
    return {
        name: value
        for name, value in headers
        if name not in ignored
        and name not in PRIVATE_HEADERS
        and not name.startswith(PRIVATE_HEADER_PREFIXES)
        and value.isascii()
    }


def forward_headers(headers: Iterable[tuple[str, str]], ignored: Collection[str]) -> None:
    """Send these headers with each upstream request of the present request."""
    _forwarded.set(select_headers(headers, ignored))


def get_forwarded_headers() -> dict[str, str]:
    """Return the headers of `forward_headers`; empty outside of a request."""
    return dict(_forwarded.get())


def parse_moment(name: str, text: str, day: timedelta = timedelta()) -> float | None:
    """Return seconds since the epoch, None for an empty text; for a date, the moment `day` after its start.

    Raise BadRequest if the text is neither a date nor a time.
    """
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment + day if len(text) <= len("2024-01-31") else moment).timestamp()
    except (ValueError, OverflowError):
        raise BadRequest(f"{name}: not a time as in RFC 3339: {text[:40]}") from None
