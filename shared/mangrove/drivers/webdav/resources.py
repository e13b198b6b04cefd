"""Resources of a WebDAV server: their addresses, and the multistatus answers that describe them (RFC 4918, 14.16).

An answer is parsed as it arrives. The server may be hostile: entities and document types are refused, and the size of
an entry is limited like everything that is in memory until the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import quote, unquote
from xml.parsers import expat

import httpx

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem, Unreachable

MAX_ELEMENT_DEPTH = 64
MAX_ELEMENTS_PER_ENTRY = 5_000
MAX_XML_NAMES = 2_000  # of elements, attributes and prefixes, all of which expat keeps
MAX_TEXT_CHARACTERS = 64 << 10  # of the values of an entry
MAX_ENTRY_BYTES = 1 << 20

_DAV = "DAV: "
_PROPERTIES = ("getcontentlength", "getlastmodified", "getetag", "quota-available-bytes", "quota-used-bytes")
_ELEMENTS = ("multistatus", "response", "href", "status", "propstat", "resourcetype", "collection", *_PROPERTIES)
_KNOWN = {_DAV + name: name for name in _ELEMENTS}
_TEXTS = {"href": (3,), "status": (3, 4), **dict.fromkeys(_PROPERTIES, (5,))}  # at these depths
_FIXED = re.compile(r"[A-Z][a-z]{2}, (\d\d [A-Z][a-z]{2} \d{4}) ([01]\d|2[0-3]):([0-5]\d):([0-5]\d) GMT", re.ASCII)
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FIRST_DAY = date(1970, 1, 1).toordinal()
_MONTHS = {name: 1 + number for number, name in enumerate(_NAMES)}
MAX_NAME_BYTES = 1024
_UNFIT = re.compile(r"[/\\\0]")
_TEXT_AFTER_ANSWER = expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]


class ListingInterrupted(StorageProblem):
    """The server reports a failure behind its answer, as those in Go do if an entry is removed meanwhile."""

    text = "the folder was changed while the WebDAV server listed it, try again"


class RemoteResource(NamedTuple):
    """An entry of an answer."""

    href: str
    """The address as the server sent it."""
    status: int = 200
    """Other than 200 only if the entry has a status of its own."""
    is_dir: bool = False
    size: int | None = None
    """In bytes like the space; None if unknown."""
    modified: float = 0.0
    etag: str = ""
    """The etag with its quotes."""
    available: int | None = None
    used: int | None = None


class MultistatusParser:
    """A parser of a multistatus. It raises StorageProblem for any other answer, or for one that exceeds a limit."""

    def __init__(self) -> None:
        # Names are not interned: the table would grow with names that a server invents.
        parser: Any = expat.ParserCreate(namespace_separator=" ", intern=None)
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartNamespaceDeclHandler = self._declare_prefix
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.EntityDeclHandler = self._refuse_doctype
        self._parser = parser
        self._resources: list[RemoteResource] = []
        self._names: set[str] = set()
        self._depth = self._unfinished = 0
        self._reset()

    def _reset(self) -> None:
        """Drop the values of an entry."""
        self._href, self._own_status = "", 200
        self._text: list[str] = []
        self._values: dict[str, str] = {}
        self._part: dict[str, str] = {}
        self._part_status = 200
        self._is_dir = self._part_is_dir = self._in_type = False
        self._elements = self._length = 0

    def feed(self, piece: bytes) -> None:
        """Parse the next bytes, which may end anywhere. Raise ListingInterrupted for text behind the answer."""
        count = len(self._resources)
        try:
            self._parser.Parse(piece, False)
        except (expat.ExpatError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
            if getattr(error, "code", 0) == _TEXT_AFTER_ANSWER:
                raise ListingInterrupted from None
            _refuse("no XML")
        self._unfinished = self._unfinished + len(piece) if len(self._resources) == count else 0
        if self._unfinished > MAX_ENTRY_BYTES:
            _refuse("too long an entry")

    def finish(self) -> None:
        """End the answer. Raise Unreachable if it is incomplete."""
        try:
            self._parser.Parse(b"", True)
        except expat.ExpatError:
            raise Unreachable("the WebDAV server's answer broke off") from None

    def take(self) -> list[RemoteResource]:
        """Return the entries that were completed since the last call."""
        resources, self._resources = self._resources, []
        return resources

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth = depth = self._depth + 1
        self._elements += 1
        if depth > MAX_ELEMENT_DEPTH or self._elements > MAX_ELEMENTS_PER_ENTRY:
            _refuse("too many elements")
        known = _KNOWN.get(name)
        if attributes or known is None:
            for xml_name in (name, *attributes):
                self._count_name(xml_name)
        if depth == 1 and known != "multistatus":
            _refuse("no multistatus")
        if known is None:
            return
        if depth in _TEXTS.get(known, ()):
            self._text = []
            self._parser.CharacterDataHandler = self._text.append
        elif depth == 2 and known == "response":
            self._reset()
        elif depth == 3 and known == "propstat":
            self._part, self._part_status, self._part_is_dir = {}, 200, False
        elif depth == 5 and known == "resourcetype":
            self._in_type = True
        elif depth == 6 and known == "collection" and self._in_type:
            self._part_is_dir = True

    def _count_name(self, name: str) -> None:
        self._names.add(name)
        if len(self._names) > MAX_XML_NAMES:
            _refuse("too many names")

    def _declare_prefix(self, prefix: str | None, uri: str | None) -> None:
        self._count_name(f"xmlns:{prefix}")

    def _end(self, name: str) -> None:
        depth = self._depth
        self._depth = depth - 1
        known = _KNOWN.get(name)
        if known is None:
            return
        if depth in _TEXTS.get(known, ()):
            self._take_text(depth, known)
        elif depth == 5 and known == "resourcetype":
            self._in_type = False
        elif depth == 3 and known == "propstat":
            if 200 <= self._part_status < 300:
                self._values |= self._part
                self._is_dir = self._is_dir or self._part_is_dir
        elif depth == 2 and known == "response":
            self._resources.append(self._make_resource())

    def _take_text(self, depth: int, known: str) -> None:
        text = "".join(self._text).strip()
        self._parser.CharacterDataHandler = None
        self._length += len(text)
        if self._length > MAX_TEXT_CHARACTERS:
            _refuse("too long a value")
        if known == "href":
            self._href = self._href or text
        elif known != "status":
            self._part[known] = text
        elif depth == 3:
            self._own_status = _parse_status(text)
        else:
            self._part_status = _parse_status(text)

    def _make_resource(self) -> RemoteResource:
        get = self._values.get
        return RemoteResource(
            self._href,
            self._own_status,
            self._is_dir,
            _parse_number(get("getcontentlength", "")),
            parse_date(get("getlastmodified", "")),
            get("getetag", ""),
            _parse_number(get("quota-available-bytes", "")),
            _parse_number(get("quota-used-bytes", "")),
        )

    def _refuse_doctype(self, *_: object) -> None:
        _refuse("a document type")


def _refuse(reason: str) -> None:
    raise StorageProblem(f"the WebDAV server's answer cannot be read: {reason}")


def _parse_status(line: str) -> int:
    """Return the number in `HTTP/1.1 404 Not Found`; 200 without a number."""
    number = line.split(" ", 2)[1] if " " in line else ""
    return int(number) if len(number) == 3 and number.isascii() and number.isdecimal() else 200


def _parse_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


def parse_date(text: str) -> float:
    """Return seconds since the epoch of an HTTP date in any of its three forms or of ISO 8601; 0.0 for other texts."""
    text = text.strip()
    match = _FIXED.fullmatch(text)
    try:
        if match is not None:
            day, hour, minute, second = match.groups()
            return max(_parse_day(day) + int(hour) * 3600.0 + int(minute) * 60 + int(second), 0.0)
        # many times slower
        moment = datetime.fromisoformat(text) if text[:1].isdecimal() else parsedate_to_datetime(text)
        return max((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), 0.0)
    except (ValueError, KeyError, OverflowError, TypeError):
        return 0.0


def _parse_day(text: str) -> float:
    """Return the beginning of a day such as `06 Nov 1994`; ValueError or KeyError for an invalid one."""
    return (date(int(text[7:]), _MONTHS[text[3:6]], int(text[:2])).toordinal() - _FIRST_DAY) * 86400.0


class Urls:
    """The addresses of a storage: the address of the server, then the storage's root folder."""

    def __init__(self, address: httpx.URL, root: TreePath) -> None:
        self._origin = f"{address.scheme}://{address.netloc.decode('ascii')}"
        self._root = (address.path.rstrip("/") + root).rstrip("/")  # not encoded

    def make(self, path: TreePath, *, is_dir: bool = False) -> str:
        """Return the address of a file, or of a folder with a slash at the end."""
        end = "/" if is_dir or path == "/" else ""
        return self._origin + quote((self._root + path).rstrip("/") + end, safe="/~")

    def make_finder(self, folder: TreePath) -> Callable[[str], str | None]:
        """Return a function from an address to the name of an entry of `folder`, "" for the folder itself.

        Its result is None for an address outside of the folder and for a name that a path cannot contain. The host is
        not compared: a proxy may use another name of the server, and only the entry's name is used.
        """
        inside = (self._root + folder).rstrip("/") + "/"
        start = len(inside)

        def find_name(href: str) -> str | None:
            path = _decode(href)
            if path is None:
                return None
            if not path.startswith("/"):
                path = inside + path
            elif not path.startswith(inside):
                return "" if path.rstrip("/") + "/" == inside else None
            name = path[start:].removesuffix("/")
            if not name.strip("/"):
                return ""
            return None if name in (".", "..") or _UNFIT.search(name) or _is_too_long(name) else name

        return find_name


def _is_too_long(name: str) -> bool:
    return len(name) > MAX_NAME_BYTES // 4 and len(name.encode()) > MAX_NAME_BYTES


def _decode(href: str) -> str | None:
    """Return the decoded path of an address; None if it is not text."""
    if href.startswith(("http://", "https://")):
        href = "/" + href.partition("://")[2].partition("/")[2]
    if "%" not in href:
        return href
    try:
        return unquote(href, errors="strict")
    except UnicodeDecodeError:
        return None
