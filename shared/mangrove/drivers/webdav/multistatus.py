"""What a server answers to PROPFIND, and to a change that failed in part: parsed as it arrives (RFC 4918, 14.16).

The server may be hostile: no entity and no document type is taken, and what one entry may hold is bounded, and so is
everything that would be kept until the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from xml.parsers import expat

from mangrove.core.problems import StorageProblem, Unreachable
from mangrove.drivers.webdav.dates import parse_date

MAX_PATH_DEPTH = 64  # elements inside each other
MOST_ELEMENTS = 5_000  # of one entry
MOST_NAMES = 2_000  # of elements, attributes and prefixes; expat keeps each for good
LONGEST_TEXT = 64 << 10  # characters of the values of one entry
LONGEST_ENTRY = 1 << 20  # bytes of an answer in which no entry ends

_DAV = "DAV: "
_PROPERTIES = ("getcontentlength", "getlastmodified", "getetag", "quota-available-bytes", "quota-used-bytes")
_ELEMENTS = ("multistatus", "response", "href", "status", "propstat", "resourcetype", "collection", *_PROPERTIES)
_KNOWN = {_DAV + name: name for name in _ELEMENTS}
_TEXTS = {"href": (3,), "status": (3, 4), **dict.fromkeys(_PROPERTIES, (5,))}  # at which depths


class Resource(NamedTuple):
    """One entry of an answer. `href` as the server wrote it; `status` 200 unless the entry has one of its own.

    `size`, `available` and `used` in bytes, None: not told; `modified` seconds since the epoch; `etag` with its quotes.
    """

    href: str
    status: int = 200
    is_dir: bool = False
    size: int | None = None
    modified: float = 0.0
    etag: str = ""
    available: int | None = None
    used: int | None = None


class MultistatusParser:
    """Feed it bytes, take what is complete. StorageProblem for what is no such answer, or exceeds a bound."""

    def __init__(self) -> None:
        # names are not interned: the table of them would grow with what a server invents
        parser: Any = expat.ParserCreate(namespace_separator=" ", intern=None)
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartNamespaceDeclHandler = self._declare_prefix
        parser.StartDoctypeDeclHandler = self._refuse_doctype
        parser.EntityDeclHandler = self._refuse_doctype
        self._parser = parser
        self._found: list[Resource] = []
        self._names: set[str] = set()
        self._depth = self._unfinished = 0
        self._reset()

    def _reset(self) -> None:
        """Before the first entry and after each."""
        self._href, self._own_status = "", 200
        self._text: list[str] = []
        self._values: dict[str, str] = {}
        self._part: dict[str, str] = {}
        self._part_status = 200
        self._is_dir = self._part_is_dir = self._in_type = False
        self._elements = self._length = 0

    def feed(self, piece: bytes) -> None:
        """Parse the next bytes, which may end anywhere."""
        before = len(self._found)
        try:
            self._parser.Parse(piece, False)
        except (expat.ExpatError, ValueError, LookupError):  # the latter: of an encoding that is not known
            _refuse("no XML")
        self._unfinished = self._unfinished + len(piece) if len(self._found) == before else 0
        if self._unfinished > LONGEST_ENTRY:
            _refuse("too long an entry")

    def finish(self) -> None:
        """After the last bytes; Unreachable when the answer is not whole."""
        try:
            self._parser.Parse(b"", True)
        except expat.ExpatError:
            raise Unreachable("the WebDAV server's answer broke off") from None

    def take(self) -> list[Resource]:
        """The entries that were completed since the last call."""
        found, self._found = self._found, []
        return found

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth = depth = self._depth + 1
        self._elements += 1
        if depth > MAX_PATH_DEPTH or self._elements > MOST_ELEMENTS:
            _refuse("too many elements")
        known = _KNOWN.get(name)
        if attributes or known is None:
            for one in (name, *attributes):
                self._note_name(one)
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

    def _note_name(self, name: str) -> None:
        self._names.add(name)
        if len(self._names) > MOST_NAMES:
            _refuse("too many names")

    def _declare_prefix(self, prefix: str | None, uri: str | None) -> None:
        self._note_name(f"xmlns:{prefix}")

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
            self._found.append(self._make_resource())

    def _take_text(self, depth: int, known: str) -> None:
        text = "".join(self._text).strip()
        self._parser.CharacterDataHandler = None
        self._length += len(text)
        if self._length > LONGEST_TEXT:
            _refuse("too long a value")
        if known == "href":
            self._href = self._href or text
        elif known != "status":
            self._part[known] = text
        elif depth == 3:
            self._own_status = _parse_status(text)
        else:
            self._part_status = _parse_status(text)

    def _make_resource(self) -> Resource:
        get = self._values.get
        return Resource(
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
    raise StorageProblem(f"the WebDAV server answers with what is not to be read: {reason}")


def _parse_status(line: str) -> int:
    """The number in `HTTP/1.1 404 Not Found`; 200 when there is none."""
    number = line.split(" ", 2)[1] if " " in line else ""
    return int(number) if len(number) == 3 and number.isascii() and number.isdecimal() else 200


def _parse_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
