"""Lines of listings, as servers write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mangrove.drivers.ftp.lines import EntryKind, Line, format_time, make_list_parser, parse_facts, parse_time

LISTING_TIME = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(*moment: int) -> float:
    return datetime(*moment, tzinfo=UTC).timestamp()  # type: ignore[arg-type]  # year, month, day …


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"type=file;size=12;modify=20260102030405; a b", Line(b"a b", EntryKind.FILE, 12, at(2026, 1, 2, 3, 4, 5))),
        (
            b"Type=dir;Modify=20260102030405.123;Size=0;  lead",
            Line(b" lead", EntryKind.FOLDER, 0, at(2026, 1, 2, 3, 4, 5)),
        ),
        (b"type=OS.unix=slink:/to;size=3; l", Line(b"l", EntryKind.LINK, 3, 0.0)),
        (b"type=OS.unix=symlink; l", Line(b"l", EntryKind.LINK, None, 0.0)),
        (b"type=OS.unix=sock; s", Line(b"s", EntryKind.SPECIAL, None, 0.0)),
        (b"size=x;type=file;modify=soon; f", Line(b"f", EntryKind.FILE, None, 0.0)),
        (b"type=cdir; .", None), (b"type=pdir;modify=20260102030405; /", None), (b"noise", None), (b"", None),
        (b"type=file; ", None),
    ],
)  # fmt: skip
def test_facts(line: bytes, expected: Line | None) -> None:
    assert parse_facts(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            b"-rw-r--r--    1 0        0               2 Jan 02  2020 file",
            Line(b"file", EntryKind.FILE, 2, at(2020, 1, 2)),
        ),
        (
            b"-rw-r--r--    1 0        0               2 Feb 22 11:22  lead",
            Line(b" lead", EntryKind.FILE, 2, at(2026, 2, 22, 11, 22)),
        ),
        (
            b"-rw-r--r--    1 0        0               2 Feb 22 11:22 trail ",
            Line(b"trail ", EntryKind.FILE, 2, at(2026, 2, 22, 11, 22)),
        ),
        (
            b"drwxr-xr-x+   3 ann      Domain Users 4096 Dec 31 23:59 d",
            Line(b"d", EntryKind.FOLDER, 4096, at(2025, 12, 31, 23, 59)),
        ),
        (
            b"lrwxrwxrwx    1 0        0               7 Feb  2 11:22 l -> a -> b",
            Line(b"l", EntryKind.LINK, None, at(2026, 2, 2, 11, 22)),
        ),
        (
            b"-rwxrwxrwx 1 ftp ftp            2 Jan  1  2019 with -> arrow",
            Line(b"with -> arrow", EntryKind.FILE, 2, at(2019, 1, 1)),
        ),
        (b"-rw-r--r--   1 owner      99 Feb 29 10:00 leap", Line(b"leap", EntryKind.FILE, 99, at(2024, 2, 29, 10, 0))),
        (
            b"crw-rw-rw-    1 0        0        1,   3 Feb 22 11:22 null",
            Line(b"null", EntryKind.SPECIAL, 3, at(2026, 2, 22, 11, 22)),
        ),
        (b"-rw-r--r-- 1 u g 5 2026-01-02 03:04 iso", Line(b"iso", EntryKind.FILE, 5, at(2026, 1, 2, 3, 4))),
        (
            b"02-13-26  03:04PM       <DIR>          Program Files",
            Line(b"Program Files", EntryKind.FOLDER, None, at(2026, 2, 13, 15, 4)),
        ),
        (
            b"02-13-2026  12:04AM          1,234,567 a b.txt",
            Line(b"a b.txt", EntryKind.FILE, 1234567, at(2026, 2, 13, 0, 4)),
        ),
        (b"2026-02-13  13:04                    7 x", Line(b"x", EntryKind.FILE, 7, at(2026, 2, 13, 13, 4))),
        (
            b"total 12", None), (b"", None), (b"\xff\xfe", None), (b"-rw-r--r-- 1 0 0 2 Foo 02  2020 f",
            Line(b"f", EntryKind.FILE, 2, 0.0),
        ),
    ],
)  # fmt: skip
def test_lists(line: bytes, expected: Line | None) -> None:
    assert make_list_parser(LISTING_TIME)(line) == expected


def test_a_time_without_a_year_is_not_in_the_future() -> None:
    parse = make_list_parser(LISTING_TIME)
    lines = [parse(b"-rw-r--r-- 1 0 0 2 %s f" % when) for when in (b"Mar  2 11:00", b"Mar  4 11:00")]
    assert [line.modified for line in lines if line] == [at(2026, 3, 2, 11, 0), at(2025, 3, 4, 11, 0)]


def test_times_go_there_and_back() -> None:
    assert format_time(at(2026, 1, 2, 3, 4, 5) + 0.9) == "20260102030405"
    assert parse_time(b"20260102030405") == at(2026, 1, 2, 3, 4, 5)
    assert parse_time(b"20261302030405") == parse_time(b"2026") == parse_time(b"") == 0.0


def test_a_line_without_an_end_of_its_words_is_soon_given_up() -> None:
    for line in (b"-rw-r--r-- " + b"a " * 8000, b"-rw-r--r-- " + b"1 " * 8000, b"1" * 16000, b"d" + b"-" * 16000):
        assert make_list_parser(LISTING_TIME)(line) is None
