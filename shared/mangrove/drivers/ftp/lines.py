"""Lines of listings as entries, and names in the form of commands.

Lines are the facts of MLSD and MLST (RFC 3659), or the output of LIST on Unix and on Windows. A name in a command is
the bytes of the storage's charset, one letter of Latin-1 per byte.
"""

from __future__ import annotations

import codecs
import re
from calendar import timegm
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NamedTuple

from mangrove.core.paths import MAX_NAME_BYTES, TreePath
from mangrove.core.problems import StorageProblem
from mangrove.drivers.part_names import is_part

MONTHS = {
    name: number
    for number, name in enumerate(
        (b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"), 1
    )
}
MAX_CLOCK_DIFFERENCE = timedelta(hours=36)  # by which a server's clock, in any time zone, may be ahead
UNSENDABLE = {
    "\r": "a carriage return",
    "\n": "a line feed",
    "\0": "a NUL",
    "\xff": "a byte that Telnet takes as its own",
}
_DOTS = frozenset({"", ".", ".."})


class EntryKind(Enum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    SPECIAL = "other"  # a device, a socket


class Line(NamedTuple):
    """An entry as the server shows it."""

    name: bytes
    kind: EntryKind
    size: int | None
    """In bytes; None if unknown."""
    modified: float
    """0.0 if unknown."""
    is_link: bool = False
    """`kind` and `size` are those of the target."""


ParseLine = Callable[[bytes], Line | None]
_TYPES = {b"file": EntryKind.FILE, b"dir": EntryKind.FOLDER}
_THEMSELVES = frozenset({b"cdir", b"pdir"})
_UNIX_KINDS = {b"-": EntryKind.FILE, b"d": EntryKind.FOLDER, b"l": EntryKind.LINK}


def parse_facts(line: bytes) -> Line | None:
    """Return the entry of a line of MLSD, or of MLST without its first space.

    None for the folder itself, its parent, and lines that are not entries.
    """
    facts, space, name = line.partition(b" ")
    if not space or not name:
        return None
    kind, size, modified = EntryKind.SPECIAL, None, 0.0
    for fact in facts.split(b";"):
        key, _, value = fact.partition(b"=")
        key = key.lower()
        if key == b"type":
            word = value.lower()
            if word in _THEMSELVES:
                return None
            is_link = word.startswith((b"os.unix=slink", b"os.unix=symlink"))
            kind = EntryKind.LINK if is_link else _TYPES.get(word, EntryKind.SPECIAL)
        elif key == b"size" and value.isdigit():
            size = int(value)
        elif key == b"modify":
            modified = parse_time(value)
    return Line(name, kind, size, modified)


def parse_time(text: bytes) -> float:
    """Return the whole seconds of a time of RFC 3659; 0.0 for any other text."""
    digits = text[:14]
    if len(digits) < 14 or not digits.isdigit():
        return 0.0
    fields = (digits[:4], digits[4:6], digits[6:8], digits[8:10], digits[10:12], digits[12:14])
    return _make_time(*map(int, fields))


def format_time(seconds: float) -> str:
    """Return a time in the format of MFMT."""
    return f"{datetime.fromtimestamp(int(seconds), UTC):%Y%m%d%H%M%S}"


def _make_time(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> float:
    try:
        return float(timegm(datetime(year, month, day, hour, minute, min(second, 59)).timetuple()))
    except ValueError:
        return 0.0


_UNIX = re.compile(
    rb"([-dlbcpsD])[-rwxsStTlL]{9}[.+@]?\s*"  # kind and rights
    rb"(?:\d+\s+)?"  # links
    rb"(?:\S+\s+){1,5}?"  # owner and group; some servers have only one, some have names of several words
    rb"(?:\d+,\s*)?(\d+)\s+"  # size, or the two numbers of a device
    rb"([A-Za-z]{3})\s+(\d{1,2})\s+(?:(\d{1,2}):(\d{2})|(\d{4})) "  # the time, and one space
    rb"(.+)",
    re.DOTALL,
)
_WINDOWS = re.compile(
    rb"(\d{2,4})-(\d{2})-(\d{2,4})\s+(\d{1,2}):(\d{2})\s*([AP]M)?\s+(?:(<\w+>)|([\d,.]+))\s(.+)", re.I | re.DOTALL
)
_ISO = re.compile(
    rb"([-dlbcpsD])[-rwxsStTlL]{9}[.+@]?\s*(?:\d+\s+)?(?:\S+\s+){1,5}?(\d+)\s+"
    rb"(\d{4})-(\d{2})-(\d{2}) (\d{1,2}):(\d{2})(?::(\d{2})[.\d]*(?: [+-]\d{4})?)? (.+)",
    re.DOTALL,
)


def make_list_parser(now: datetime) -> ParseLine:
    """Return a parser for the lines of a LIST. Times are read as UTC; `now` (UTC) gives the year if it is missing."""

    latest = (now + MAX_CLOCK_DIFFERENCE).timestamp()

    def guess_time(month: bytes, day: bytes, hour: bytes, minute: bytes) -> float:
        moment = (MONTHS.get(month.lower(), 0), int(day), int(hour), int(minute))
        years = range(now.year + 1, now.year - 5, -1)  # one of them has February 29
        return next((time for year in years if 0 < (time := _make_time(year, *moment)) <= latest), 0.0)

    def parse(line: bytes) -> Line | None:
        if match := _UNIX.fullmatch(line):
            kind, size, month, day, hour, minute, year, name = match.groups()
            modified = (
                _make_time(int(year), MONTHS.get(month.lower(), 0), int(day))
                if year
                else guess_time(month, day, hour, minute)
            )
            return _make_unix_line(kind, size, modified, name)
        if match := _ISO.fullmatch(line):
            kind, size, *moment, name = match.groups()
            return _make_unix_line(kind, size, _make_time(*(int(part or 0) for part in moment)), name)
        return _parse_windows(line)

    return parse


def _make_unix_line(kind: bytes, size: bytes, modified: float, name: bytes) -> Line:
    is_link = kind == b"l"
    name = name.partition(b" -> ")[0] if is_link else name
    return Line(name, _UNIX_KINDS.get(kind, EntryKind.SPECIAL), None if is_link else int(size), modified)


def _parse_windows(line: bytes) -> Line | None:
    match = _WINDOWS.fullmatch(line)
    if match is None:
        return None
    first, second, third, hour, minute, half, folder, size, name = match.groups()
    year, month, day = (first, second, third) if len(first) == 4 else (third, first, second)
    full_year = int(year) if len(year) == 4 else 1900 + int(year) + (100 if int(year) < 70 else 0)
    hours = int(hour) % 12 + (12 if half.upper() == b"PM" else 0) if half else int(hour)
    modified = _make_time(full_year, int(month), int(day), hours, int(minute))
    if folder:
        is_folder = folder.upper() == b"<DIR>"
        return Line(name.lstrip(b" "), EntryKind.FOLDER if is_folder else EntryKind.LINK, None, modified)
    return Line(name, EntryKind.FILE, int(re.sub(rb"[,.]", b"", size)), modified)


class ServerNames:
    """Convert between the names of a server and those of the tree.

    A command is text with one letter for each byte, so that aioftp sends exactly these bytes and reads any answer.
    """

    def __init__(self, encoding: str, root: TreePath) -> None:
        self._encoding = encoding
        self._root = root
        self._decode = codecs.getdecoder(encoding)

    def encode(self, path: TreePath) -> str:
        """Return a path of the storage in the form of a command. Raise StorageProblem if no command can contain it."""
        text = self.encode_text(str(self._root / str(path)), path.name)
        for letter, meaning in UNSENDABLE.items():
            if letter in text:
                raise StorageProblem(f"{path.name!r}: FTP cannot send a name with {meaning}")
        if any(len(name) > MAX_NAME_BYTES for name in text.split("/")):
            raise StorageProblem(f"{path.name[:80]!r}…: the name is too long")
        return text

    def encode_text(self, text: str, name: str) -> str:
        """Return a text in the form of a command; `name` describes the text in a problem."""
        try:
            return text.encode(self._encoding).decode("latin-1")
        except UnicodeEncodeError:
            raise StorageProblem(f"{name!r}: the charset {self._encoding} of the storage lacks its letters") from None

    def decode(self, name: bytes) -> str | None:
        """Return a name of a listing.

        Return None for an unfinished file, for bytes that are not of the charset, and for names that a path cannot
        contain.
        """
        try:
            text = self._decode(name)[0]
        except UnicodeDecodeError:
            return None
        if text in _DOTS or "/" in text or "\\" in text or "\0" in text or is_part(text):
            return None
        return text


def join(folder: str, name: bytes) -> str:
    """Return the path of an entry in the form of a command, whatever its bytes are."""
    return f"{folder.rstrip('/')}/{name.decode('latin-1')}"


def is_sendable(text: str) -> bool:
    """True if a command can contain the text."""
    return not any(letter in text for letter in UNSENDABLE)
