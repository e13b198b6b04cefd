"""Lines of listings: the facts of MLSD and MLST (RFC 3659), and what LIST prints on Unix and on Windows."""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import NamedTuple

MONTHS = {
    name: number
    for number, name in enumerate(
        (b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"), 1
    )
}
AHEAD = timedelta(hours=36)  # that a server's clock, in whatever zone, may show before ours


class Kind(Enum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"  # a device, a socket


class Line(NamedTuple):
    """One entry, as the server has it. `size`: bytes, None when it is not told; `modified`: 0.0 when it is not told;
    `is_link`: `kind` and `size` are those of what a link leads to."""

    name: bytes
    kind: Kind
    size: int | None
    modified: float
    is_link: bool = False


ParseLine = Callable[[bytes], Line | None]
_TYPES = {b"file": Kind.FILE, b"dir": Kind.FOLDER}
_THEMSELVES = frozenset({b"cdir", b"pdir"})
_UNIX_KINDS = {b"-": Kind.FILE, b"d": Kind.FOLDER, b"l": Kind.LINK}


def parse_facts(line: bytes) -> Line | None:
    """A line of MLSD, or of MLST without the space before it; None for the folder itself, the one above, and noise."""
    facts, space, name = line.partition(b" ")
    if not space or not name:
        return None
    kind, size, modified = Kind.OTHER, None, 0.0
    for fact in facts.split(b";"):
        key, _, value = fact.partition(b"=")
        key = key.lower()
        if key == b"type":
            word = value.lower()
            if word in _THEMSELVES:
                return None
            is_link = word.startswith((b"os.unix=slink", b"os.unix=symlink"))
            kind = Kind.LINK if is_link else _TYPES.get(word, Kind.OTHER)
        elif key == b"size" and value.isdigit():
            size = int(value)
        elif key == b"modify":
            modified = parse_time(value)
    return Line(name, kind, size, modified)


def parse_time(text: bytes) -> float:
    """A time of RFC 3659, whole seconds of it; 0.0 for anything else."""
    digits = text[:14]
    if len(digits) < 14 or not digits.isdigit():
        return 0.0
    cuts = (digits[:4], digits[4:6], digits[6:8], digits[8:10], digits[10:12], digits[12:14])
    return _make_time(*map(int, cuts))


def format_time(seconds: float) -> str:
    """A time as MFMT takes it."""
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
    """What parses the lines of one LIST. Their times are taken as UTC; `now` (UTC) tells the year where they do not."""

    latest = (now + AHEAD).timestamp()

    def guess_time(month: bytes, day: bytes, hour: bytes, minute: bytes) -> float:
        moment = (MONTHS.get(month.lower(), 0), int(day), int(hour), int(minute))
        years = range(now.year + 1, now.year - 5, -1)  # one of them has a 29th of February
        return next((time for year in years if 0 < (time := _make_time(year, *moment)) <= latest), 0.0)

    def parse(line: bytes) -> Line | None:
        if found := _UNIX.fullmatch(line):
            kind, size, month, day, hour, minute, year, name = found.groups()
            modified = (
                _make_time(int(year), MONTHS.get(month.lower(), 0), int(day))
                if year
                else guess_time(month, day, hour, minute)
            )
            return _make_unix_line(kind, size, modified, name)
        if found := _ISO.fullmatch(line):
            kind, size, *moment, name = found.groups()
            return _make_unix_line(kind, size, _make_time(*(int(part or 0) for part in moment)), name)
        return _parse_windows(line)

    return parse


def _make_unix_line(kind: bytes, size: bytes, modified: float, name: bytes) -> Line:
    is_link = kind == b"l"
    name = name.partition(b" -> ")[0] if is_link else name
    return Line(name, _UNIX_KINDS.get(kind, Kind.OTHER), None if is_link else int(size), modified)


def _parse_windows(line: bytes) -> Line | None:
    found = _WINDOWS.fullmatch(line)
    if found is None:
        return None
    first, second, third, hour, minute, half, folder, size, name = found.groups()
    year, month, day = (first, second, third) if len(first) == 4 else (third, first, second)
    full_year = int(year) if len(year) == 4 else 1900 + int(year) + (100 if int(year) < 70 else 0)
    hours = int(hour) % 12 + (12 if half.upper() == b"PM" else 0) if half else int(hour)
    modified = _make_time(full_year, int(month), int(day), hours, int(minute))
    if folder:
        is_folder = folder.upper() == b"<DIR>"
        return Line(name.lstrip(b" "), Kind.FOLDER if is_folder else Kind.LINK, None, modified)
    return Line(name, Kind.FILE, int(re.sub(rb"[,.]", b"", size)), modified)
