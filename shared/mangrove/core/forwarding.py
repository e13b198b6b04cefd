"""What a client's request tells an upstream server from which its bytes are fetched."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextvars import ContextVar
from types import MappingProxyType

# what is meant for this service alone, says who the client is, or is said anew by whoever asks upstream
KEPT_BACK = frozenset(
    {
        "accept-encoding", "authorization", "connection", "cookie", "expect", "file-path", "forwarded", "host",
        "keep-alive", "origin", "otp-code", "password", "range", "te", "trailer", "transfer-encoding", "upgrade", "via",
        "x-real-ip",
    }
)  # fmt: skip
KEPT_BACK_PREFIXES = ("cf-", "content-", "if-", "proxy-", "sec-", "x-amz", "x-forwarded", "x-file-")

_forwarded: ContextVar[Mapping[str, str]] = ContextVar("forwarded", default=MappingProxyType({}))


def select_headers(headers: Iterable[tuple[str, str]], ignored: Collection[str]) -> dict[str, str]:
    """Those that an upstream server may see; `ignored` names more of them in lower case."""
    return {
        name: value
        for name, value in headers
        if name not in ignored and name not in KEPT_BACK and not name.startswith(KEPT_BACK_PREFIXES) and value.isascii()
    }


def forward_headers(headers: Iterable[tuple[str, str]], ignored: Collection[str]) -> None:
    """Pass these on with all that the present request fetches upstream, until its end."""
    _forwarded.set(select_headers(headers, ignored))


def get_forwarded_headers() -> dict[str, str]:
    """What the present request passes on; nothing outside of one."""
    return dict(_forwarded.get())
