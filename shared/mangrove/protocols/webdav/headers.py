"""Parsers for the headers and the address of WebDAV requests, without any I/O."""

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
        if url.scheme not in _PORTS or url.username is not None or host not in set(map(_normalize, hosts)):
            raise DavProblem(502, "the destination is on another server")
    raw = url.path.encode()
    for known_prefix in dict.fromkeys((prefix, "/openlist", "")):
        path = strip_root(url.path, known_prefix)
        if path is not None:
            return decode_path(raw[len(known_prefix + ROOT) :] or b"/")
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
    """Return True if what is at the destination may be replaced; BadRequest."""
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
    match = re.fullmatch(r"\s*<([^<>\s]{1,512})>\s*", text)
    if match is None:
        raise BadRequest("the header Lock-Token is missing or no token")
    return match[1]


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a client: a name and a password, or the permanent token."""

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


MAX_IF_CHARACTERS = 16_384
MAX_CONDITIONS_PER_IF = 256
UNREADABLE = "the header If cannot be read"
_TOKEN = re.compile(
    r"\s*(?:(?P<not>Not)(?=[\s<\[])|<(?P<uri>[^<>\s]+)>|\[(?P<etag>(?:W/)?\"[^\"]*\")\]|(?P<mark>[()]))", re.I
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A state token, or (`is_etag`) a validator with its quotes, that is to hold, or `is_negated` not to."""

    value: str
    is_etag: bool = False
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class ConditionList:
    """All of them hold for a resource: the one of the request, or (`resource`) another one by its address."""

    resource: str
    conditions: Sequence[Condition]


def parse_if(text: str) -> list[ConditionList]:
    """The lists of the header, one of which has to hold; none for an empty one. BadRequest."""
    if len(text) > MAX_IF_CHARACTERS:
        raise BadRequest("the header If is too long")
    reader = _Reader()
    for kind, value in _split(text):
        reader.read(kind, value)
    return reader.finish()


class _Reader:
    """Takes the header part by part."""

    def __init__(self) -> None:
        self._lists: list[ConditionList] = []
        self._resource = ""
        self._open: list[Condition] | None = None  # the list that has begun and not ended
        self._is_negated = False
        self._count = 0

    def read(self, kind: str, value: str) -> None:
        """The next part; BadRequest for one that cannot stand there."""
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
        elif kind == "uri" and (not self._lists or self._resource):  # all lists have a resource, or none
            self._resource = value
        else:
            raise BadRequest(UNREADABLE)

    def finish(self) -> list[ConditionList]:
        """All lists, once nothing more comes."""
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
    """The tokens that the client has shown to know."""
    return frozenset(condition.value for part in lists for condition in part.conditions if not condition.is_etag)
