"""What a request of WebDAV says in its headers and its address, without any I/O."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes, urlsplit

from mangrove.core.http import parse_integer
from mangrove.core.problems import BadRequest, Unauthorized
from mangrove.protocols.webdav.errors import DavProblem

INFINITY = "infinity"
MAX_LOCK_SECONDS = 3600  # seconds; who needs it longer refreshes
ROOT = "/dav"
SAFE_CHARACTERS = "/~!$()*+,;=:@-._"  # of what an address may hold, but for what XML takes for its own
_PLAIN = re.compile(r"[A-Za-z0-9/~!$()*+,;=:@._-]*")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_PORTS = {"http": 80, "https": 443}


def quote_name(name: str) -> str:
    """Return a name as it stands in an address."""
    return name if _PLAIN.fullmatch(name) else quote(name, safe=SAFE_CHARACTERS, errors="replace")


def make_href(prefix: str, path: str, is_dir: bool) -> str:
    """Return the address of a path below the caller's base path; a folder's ends with a slash."""
    return prefix + quote(path, safe=SAFE_CHARACTERS) + ("/" if is_dir and path != "/" else "")


def decode_path(raw: bytes) -> str:
    """The path of an address as a path of the tree; BadRequest for an escape that is none, names that are not UTF-8,
    and separators that are hidden in an escape."""
    if _BAD_ESCAPE.search(raw):
        raise BadRequest("the address has an escape that is none")
    segments = [unquote_to_bytes(part) for part in raw.split(b"/")]
    if any(b"/" in part or b"\\" in part for part in segments):
        raise BadRequest("a name cannot have a slash or a backslash")
    try:
        return b"/".join(segments).decode()
    except UnicodeDecodeError:
        raise BadRequest("a name has to be UTF-8") from None


def strip_root(path: str, prefix: str) -> str | None:
    """The path below `<prefix>/dav`; None for another one."""
    root = prefix + ROOT
    if path == root:
        return "/"
    return path[len(root) :] if path.startswith(root + "/") else None


def parse_destination(text: str, hosts: Collection[str], prefix: str) -> str:
    """The path that the header Destination names, below our root. `hosts`: under which this service is reached, as a
    request says it; `prefix`: what stands before `/dav` in addresses.

    BadRequest for what is no address; 502 for one that is another server's, or not below our root.
    """
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise BadRequest("the header Destination is no address") from None
    if not text.isprintable() or url.query or url.fragment or not url.path.startswith("/"):
        raise BadRequest("the header Destination is no address")
    if url.scheme or url.netloc:
        host = _join_host(url.hostname or "", port or _PORTS.get(url.scheme))
        if url.scheme not in _PORTS or url.username is not None or host not in {_normalize(one) for one in hosts}:
            raise DavProblem(502, "the destination is on another server")
    raw = url.path.encode()
    for one in dict.fromkeys((prefix, "/openlist", "")):
        path = strip_root(url.path, one)
        if path is not None:
            return decode_path(raw[len(one + ROOT) :] or b"/")
    raise DavProblem(502, "the destination is not one of WebDAV here")


def _join_host(host: str, port: int | None) -> str:
    return host.lower() if port in (None, *_PORTS.values()) else f"{host.lower()}:{port}"


def _normalize(host: str) -> str:
    try:
        parsed = urlsplit(f"//{host}")
        return _join_host(parsed.hostname or "", parsed.port)
    except ValueError:
        return ""


def parse_depth(text: str | None, allowed: Collection[str], default: str) -> str:
    """`0`, `1` or INFINITY; BadRequest for a depth that the method does not have."""
    depth = default if text is None else text.strip().lower()
    if depth not in allowed:
        raise BadRequest(f"the header Depth has to be one of: {', '.join(sorted(allowed))}")
    return depth


def parse_overwrite(text: str | None) -> bool:
    """Whether what is at the destination may be replaced; BadRequest."""
    if text is None:
        return True
    if text.strip().upper() not in ("T", "F"):
        raise BadRequest("the header Overwrite has to be T or F")
    return text.strip().upper() == "T"


def parse_timeout(text: str | None) -> int:
    """Seconds that a lock lasts: the first wish that can be read, at most MAX_LOCK_SECONDS."""
    for wish in (text or "").split(","):
        kind, _, number = wish.strip().partition("-")
        seconds = parse_integer(number) if kind.lower() == "second" else None
        if seconds:
            return min(seconds, MAX_LOCK_SECONDS)
    return MAX_LOCK_SECONDS


def parse_lock_token(text: str) -> str:
    """The token of the header Lock-Token; BadRequest."""
    found = re.fullmatch(r"\s*<([^<>\s]{1,512})>\s*", text)
    if found is None:
        raise BadRequest("the header Lock-Token is missing or no token")
    return found[1]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client proves itself with: a name and a password, or the permanent token."""

    username: str = ""
    password: str = ""
    token: str = ""


def parse_authorization(text: str) -> Credentials:
    """Basic or Bearer; Unauthorized for anything else."""
    kind, _, rest = text.partition(" ")
    rest = rest.strip()
    if kind.lower() == "bearer" and rest:
        return Credentials(token=rest)
    if kind.lower() != "basic":
        raise Unauthorized("sign in with a name and a password")
    try:
        username, colon, password = base64.b64decode(rest, validate=True).decode().partition(":")
    except ValueError:
        colon = ""
    if not colon:
        raise Unauthorized("the header Authorization cannot be read")
    return Credentials(username, password)
