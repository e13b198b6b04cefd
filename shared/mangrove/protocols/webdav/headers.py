"""Parsers for the headers and the address of WebDAV requests, without I/O."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote, unquote_to_bytes, urlsplit

from mangrove.core.http import parse_integer
from mangrove.core.problems import BadRequest, Unauthorized
from mangrove.protocols.webdav.errors import DavProblem

INFINITY = "infinity"
MAX_LOCK_SECONDS = 3600  # seconds; a client can refresh the lock
ROOT = "/dav"
SAFE_CHARACTERS = "/~!$()*+,;=:@-._"  # allowed in a path, except characters that XML reserves
_PLAIN = re.compile(r"[A-Za-z0-9/~!$()*+,;=:@._-]*")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_SEPARATOR_IN_NAME = re.compile(rb"\\|%2[Ff]|%5[Cc]")
_PORTS = {"http": 80, "https": 443}


def quote_name(name: str) -> str:
    """Return a name, percent-encoded for an address."""
    return name if _PLAIN.fullmatch(name) else quote(name, safe=SAFE_CHARACTERS, errors="replace")


def make_href(prefix: str, path: str, is_dir: bool) -> str:
    """Return the address of a path below the caller's base path. A folder's ends with a slash."""
    return prefix + quote(path, safe=SAFE_CHARACTERS) + ("/" if is_dir and path != "/" else "")


def decode_path(raw: bytes) -> str:
    """Return the path of the tree for an address.

    Raise BadRequest for an invalid escape, names that are not UTF-8, and escaped separators.
    """
    if _BAD_ESCAPE.search(raw):
        raise BadRequest("the address has an invalid escape")
    if _SEPARATOR_IN_NAME.search(raw):
        raise BadRequest("a name cannot have a slash or a backslash")
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise BadRequest("a name has to be UTF-8") from None


def strip_root(path: str, prefix: str) -> str | None:
    """Return the path below `<prefix>/dav`, None for another path."""
    root = prefix + ROOT
    if path == root:
        return "/"
    return path[len(root) :] if path.startswith(root + "/") else None


def parse_destination(text: str, hosts: Collection[str], prefix: str) -> str:
    """Return the path in the header Destination, below the root of WebDAV.

    `hosts`: the names of this service, according to the request; `prefix`: the part before `/dav` in addresses. Raise
    BadRequest for an invalid address, and 502 for one of another server or outside of the root.
    """
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise BadRequest("the header Destination is not an address") from None
    if not text.isprintable() or url.query or url.fragment or not url.path.startswith("/"):
        raise BadRequest("the header Destination is not an address")
    if url.scheme or url.netloc:
        host = _join_host(url.hostname or "", port or _PORTS.get(url.scheme))
        if url.scheme not in _PORTS or url.username is not None or host not in set(map(_normalize, hosts)):
            raise DavProblem(502, "the destination is on another server")
    raw = url.path.encode()
    for known_prefix in dict.fromkeys((prefix, "/openlist", "")):
        path = strip_root(url.path, known_prefix)
        if path is not None:
            return decode_path(raw[len(known_prefix + ROOT) :] or b"/")
    raise DavProblem(502, "the destination is outside of WebDAV on this server")


def _join_host(host: str, port: int | None) -> str:
    return host.lower() if port in (None, *_PORTS.values()) else f"{host.lower()}:{port}"


def _normalize(host: str) -> str:
    try:
        parsed = urlsplit(f"//{host}")
        return _join_host(parsed.hostname or "", parsed.port)
    except ValueError:
        return ""


def parse_depth(text: str | None, allowed: Collection[str], default: str) -> str:
    """Return `0`, `1` or INFINITY. Raise BadRequest for a depth that the method does not have."""
    depth = default if text is None else text.strip().lower()
    if depth not in allowed:
        raise BadRequest(f"the header Depth has to be one of: {', '.join(sorted(allowed))}")
    return depth


def parse_overwrite(text: str | None) -> bool:
    """True if the destination may be replaced. Raise BadRequest."""
    if text is None:
        return True
    if text.strip().upper() not in ("T", "F"):
        raise BadRequest("the header Overwrite has to be T or F")
    return text.strip().upper() == "T"


def parse_timeout(text: str | None) -> int:
    """Return the seconds that a lock lasts: the first valid value of the header, at most MAX_LOCK_SECONDS."""
    for wish in (text or "").split(","):
        kind, _, number = wish.strip().partition("-")
        seconds = parse_integer(number) if kind.lower() == "second" else None
        if seconds:
            return min(seconds, MAX_LOCK_SECONDS)
    return MAX_LOCK_SECONDS


def parse_lock_token(text: str) -> str:
    """Return the token of the header Lock-Token. Raise BadRequest."""
    match = re.fullmatch(r"\s*<([^<>\s]{1,512})>\s*", text)
    if match is None:
        raise BadRequest("the header Lock-Token is missing or invalid")
    return match[1]


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The credentials of a client: a name and a password, or the permanent token."""

    username: str = ""
    password: str = ""
    token: str = ""


def parse_authorization(text: str) -> ClientCredentials:
    """Return the credentials of Basic or Bearer. Raise Unauthorized for anything else."""
    kind, _, rest = text.partition(" ")
    rest = rest.strip()
    if kind.lower() == "bearer" and rest:
        return ClientCredentials(token=rest)
    if kind.lower() != "basic":
        raise Unauthorized("sign in with a name and a password")
    try:
        username, colon, password = base64.b64decode(rest, validate=True).decode().partition(":")
    except ValueError:
        colon = ""
    if not colon:
        raise Unauthorized("the header Authorization cannot be read")
    return ClientCredentials(username, password)


MAX_IF_CHARACTERS = 16_384
MAX_CONDITIONS_PER_IF = 256
UNREADABLE = "the header If cannot be read"
_TOKEN = re.compile(
    r"\s*(?:(?P<not>Not)(?=[\s<\[])|<(?P<uri>[^<>\s]+)>|\[(?P<etag>(?:W/)?\"[^\"]*\")\]|(?P<mark>[()]))", re.I
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: a state token, or (`is_etag`) a validator with its quotes. With `is_negated`, it must be false."""

    value: str
    is_etag: bool = False
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class ConditionList:
    """Conditions that must all be true, for the requested resource or for the one at the address `resource`."""

    resource: str
    conditions: Sequence[Condition]


def parse_if(text: str) -> list[ConditionList]:
    """Return the lists of the header, one of which must be true; none for an empty header. Raise BadRequest."""
    if len(text) > MAX_IF_CHARACTERS:
        raise BadRequest("the header If is too long")
    reader = _ConditionReader()
    for kind, value in _split(text):
        reader.read(kind, value)
    return reader.finish()


class _ConditionReader:
    """A parser that reads the header part by part."""

    def __init__(self) -> None:
        self._lists: list[ConditionList] = []
        self._resource = ""
        self._open: list[Condition] | None = None  # the list that has started and not ended
        self._is_negated = False
        self._count = 0

    def read(self, kind: str, value: str) -> None:
        """Add the next part. Raise BadRequest if it is not valid at this place."""
        if self._open is None:
            self._read_outside(kind, value)
        elif kind == "not" and not self._is_negated:
            self._is_negated = True
        elif kind in ("uri", "etag"):
            self._open.append(Condition(value, kind == "etag", self._is_negated))
            self._is_negated, self._count = False, self._count + 1
        elif value == ")" and self._open and not self._is_negated:
            self._lists.append(ConditionList(self._resource, tuple(self._open)))
            self._open = None
        else:
            raise BadRequest(UNREADABLE)

    def _read_outside(self, kind: str, value: str) -> None:
        if value == "(":
            self._open = []
        elif kind == "uri" and (not self._lists or self._resource):  # all lists have a resource, or none has
            self._resource = value
        else:
            raise BadRequest(UNREADABLE)

    def finish(self) -> list[ConditionList]:
        """Return all lists, after the last part."""
        if self._open is not None or self._count > MAX_CONDITIONS_PER_IF or (self._resource and not self._lists):
            raise BadRequest(UNREADABLE)
        return self._lists


def _split(text: str) -> Iterator[tuple[str, str]]:
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise BadRequest(UNREADABLE)
        position = match.end()
        assert match.lastgroup is not None
        yield match.lastgroup, match[match.lastgroup]


def find_tokens(lists: Sequence[ConditionList]) -> frozenset[str]:
    """Return the tokens that the client has submitted."""
    return frozenset(condition.value for part in lists for condition in part.conditions if not condition.is_etag)
