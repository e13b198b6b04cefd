"""The properties of an entry, live and dead, as elements of an answer."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.sax.saxutils import escape

from mangrove.core.http import MAX_HTTP_DATE, MimeGuesser, format_http_date, guess_mime
from mangrove.drivers.base import Capacity, Entry
from mangrove.protocols.webdav.bodies import DAV, PropertyRequest, quote_attribute, split_name
from mangrove.records.webdav_locks import Lock
from mangrove.tree.listing.entries import format_etag

KIND = DAV + "getcontenttype"
CHECKSUMS = "{http://owncloud.org/ns}checksums"
SUPPORTED_LOCK = (
    "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>"
    "<D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>"
)
FOLDER_TYPE = "httpd/unix-directory"
MAX_VALUE_CHARACTERS_PER_ENTRY = 128 << 10  # per answer; a property beyond it is answered with 507
MAX_RENDERED_GROUPS = 64  # sets of missing properties whose rendering is cached
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class ShownLock(NamedTuple):
    """A lock that concerns an entry."""

    lock: Lock
    above: int  # the number of names between it and the entry


@dataclass(frozen=True, slots=True)
class Resource:
    """An entry, with the values beside its attributes."""

    href: str  # its address, percent-encoded
    entry: Entry
    depth: int  # number of names in its path below the caller's base path
    dead: Mapping[str, str] = field(default_factory=dict)  # stored by clients, by `{namespace}name`
    locks: Sequence[ShownLock] = ()
    space: Capacity | None = None  # of its storage, if it was requested
    has_validator: bool = True  # False for a file of a listing if its storage has a better validator for single files


def escape_text(text: str) -> str:
    """Escape a text for an element; characters that XML cannot carry are replaced."""
    return escape(text if text.isprintable() else _NOT_XML.sub("\ufffd", text))


Value = Callable[[Resource], str | None]  # returns the content of the element; None: the entry has no such property


def _format_created(resource: Resource) -> str | None:
    seconds = resource.entry.created or resource.entry.modified
    if not 0 < seconds <= MAX_HTTP_DATE:
        return None
    year, month, day, hour, minute, second, *_ = time.gmtime(seconds)
    return f"{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"


def _format_modified(resource: Resource) -> str | None:
    return format_http_date(resource.entry.modified) if resource.entry.modified else None


def _format_length(resource: Resource) -> str | None:
    entry = resource.entry
    return None if entry.is_dir or entry.size is None else str(entry.size)


def _format_validator(resource: Resource) -> str | None:
    entry = resource.entry
    is_told = resource.has_validator or entry.etag or entry.hashes
    return escape_text(format_etag(entry)) if is_told and not entry.is_dir else None


def _format_checksums(resource: Resource) -> str | None:
    hashes = resource.entry.hashes
    if not hashes:
        return None
    text = " ".join(f"{name.upper()}:{value}" for name, value in hashes.items())
    return f'<o:checksum xmlns:o="http://owncloud.org/ns">{escape(text)}</o:checksum>'


def format_locks(resource: Resource) -> str:
    """Return the locks on an entry, as `activelock` elements."""
    return "".join(format_lock(shown, resource) for shown in resource.locks)


def format_lock(shown: ShownLock, resource: Resource) -> str:
    """Return one of the locks that concern an entry."""
    lock = shown.lock
    scope, depth = ("exclusive" if lock.is_exclusive else "shared"), ("infinity" if lock.is_deep else "0")
    href = find_lock_root(shown, resource)
    seconds = max(0, round(lock.expires - time.time()))
    owner = f"<D:owner>{lock.owner}</D:owner>" if lock.owner else ""
    return (
        f"<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope>"
        f"<D:depth>{depth}</D:depth>{owner}<D:timeout>Second-{seconds}</D:timeout>"
        f"<D:locktoken><D:href>{escape(lock.token)}</D:href></D:locktoken>"
        f"<D:lockroot><D:href>{href}</D:href></D:lockroot></D:activelock>"
    )


def find_lock_root(shown: ShownLock, resource: Resource) -> str:
    """Return the address of a locked path: of the entry, or of a folder above it as far as the caller sees one."""
    above = min(shown.above, resource.depth)
    return "/".join(resource.href.rstrip("/").split("/")[:-above]) + "/" if above > 0 else resource.href


def count_names(path: str) -> int:
    """Return the number of names in a path of the tree."""
    return 0 if path == "/" else path.count("/")


LIVE: Mapping[str, Value] = {
    DAV + "resourcetype": lambda resource: "<D:collection/>" if resource.entry.is_dir else "",
    DAV + "displayname": lambda resource: escape_text(resource.entry.name),
    DAV + "getcontentlength": _format_length,
    DAV + "getlastmodified": _format_modified,
    DAV + "creationdate": _format_created,
    KIND: lambda resource: FOLDER_TYPE if resource.entry.is_dir else guess_mime(resource.entry.name),
    DAV + "getetag": _format_validator,
    DAV + "supportedlock": lambda _: SUPPORTED_LOCK,
    DAV + "lockdiscovery": format_locks,
    CHECKSUMS: _format_checksums,
}
SPACE: Mapping[str, Value] = {  # included only if they are named (RFC 4331)
    DAV + "quota-available-bytes": lambda resource: str(resource.space.free) if resource.space else None,
    DAV + "quota-used-bytes": lambda resource: str(resource.space.used) if resource.space else None,
}
PROTECTED = frozenset(LIVE) | frozenset(SPACE)


def format_element(name: str, inner: str = "") -> str:
    """Return an element of that name with content."""
    namespace, local = split_name(name)
    if namespace == "DAV:":
        return f"<D:{local}>{inner}</D:{local}>" if inner else f"<D:{local}/>"
    start = f'{local} xmlns="{quote_attribute(namespace)}"'
    return f"<{start}>{inner}</{local}>" if inner else f"<{start}/>"


@dataclass(slots=True)
class _Answer:
    """The properties of one entry, by their status."""

    present: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    excess: list[str] = field(default_factory=list)  # without their values, which would make the answer too long
    size: int = 0  # characters of `present`

    def add(self, element: str, empty: str) -> None:
        """Add a property; without its value if that exceeds the limit of an entry."""
        if self.size + len(element) > MAX_VALUE_CHARACTERS_PER_ENTRY:
            self.excess.append(empty)
        else:
            self.size += len(element)
            self.present.append(element)


class Renderer:
    """The builder of each entry's answer to one PROPFIND."""

    def __init__(self, request: PropertyRequest) -> None:
        self._request = request
        guesser = MimeGuesser()
        known: dict[str, Value] = {**LIVE, **SPACE}
        known[KIND] = lambda resource: FOLDER_TYPE if resource.entry.is_dir else guesser.guess(resource.entry.name)
        names = [*LIVE, *(name for name in request.names if name not in LIVE)] if request.is_all else request.names
        if request.is_names:
            names = [*LIVE]
        self._live = [(*self._split(name), known[name]) for name in names if name in known]
        self._dead = [(name, format_element(name)) for name in names if name not in known]
        self._shows_missing = bool(request.names) and not request.is_names
        self._missing: dict[tuple[str, ...], str] = {}  # the rendering of each group of missing properties
        self.needs_dead = bool(self._dead) or request.is_all or request.is_names
        self.needs_locks = request.is_all or DAV + "lockdiscovery" in names
        self.needs_space = any(name in SPACE for name in names)

    @staticmethod
    def _split(name: str) -> tuple[str, str, str]:
        """Return the text before and after the value of a live property, and the element without a value."""
        before, _, after = format_element(name, "\0").partition("\0")
        return before, after, format_element(name)

    def render(self, resource: Resource) -> str:
        """Return the `response` element of an entry."""
        answer = _Answer()
        for before, after, empty, get_value in self._live:
            value = get_value(resource)
            if value is None:
                answer.missing.append(empty)
            elif self._request.is_names or not value:
                answer.add(empty, empty)
            else:
                answer.add(before + value + after, empty)
        self._add_dead(answer, resource.dead)
        return f"<D:response><D:href>{resource.href}</D:href>{self._join(answer)}</D:response>\n"

    def _add_dead(self, answer: _Answer, dead: Mapping[str, str]) -> None:
        request = self._request
        if request.is_all or request.is_names:
            for name, element in dead.items():
                empty = format_element(name)
                answer.add(empty if request.is_names else element, empty)
        for name, empty in self._dead:
            value = dead.get(name)
            if value is None:
                answer.missing.append(empty)
            elif not request.is_all:
                answer.add(value, empty)

    def _join(self, answer: _Answer) -> str:
        text = format_propstat(answer.present, "200 OK") if answer.present else ""
        if answer.excess:
            text += format_propstat(answer.excess, "507 Insufficient Storage")
        if answer.missing and self._shows_missing:
            text += self._format_missing(tuple(answer.missing))
        return text or format_propstat([], "200 OK")

    def _format_missing(self, elements: tuple[str, ...]) -> str:
        """Render a group of missing properties, once for all entries that lack the same ones."""
        text = self._missing.get(elements)
        if text is None:
            text = format_propstat(elements, "404 Not Found")
            if len(self._missing) < MAX_RENDERED_GROUPS:
                self._missing[elements] = text
        return text


def format_propstat(elements: Sequence[str], status: str, condition: str = "", text: str = "") -> str:
    """Return properties that share a status. `text`: the reason for people."""
    error = f"<D:error><D:{condition}/></D:error>" if condition else ""
    reason = f"<D:responsedescription>{escape(text)}</D:responsedescription>" if text else ""
    shown = f"<D:prop>{''.join(elements)}</D:prop><D:status>HTTP/1.1 {status}</D:status>{error}{reason}"
    return f"<D:propstat>{shown}</D:propstat>"
