"""Typed text as conditions: folding, words, phrases and patterns, and the score of a name."""

from __future__ import annotations

import random
import re
import time

import duckdb
import pytest

from mangrove.core.problems import BadRequest
from mangrove.search import words
from mangrove.search.words import PREFIX, REST, WHOLE, WORD_START, fold, parse, parse_extensions


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("Report.PDF", "report.pdf"),
        ("Straße", "strasse"),
        ("ΣΊΣΥΦΟΣ", "σίσυφοσ"),
        ("Caf\u0065\u0301", "caf\u00e9"),
        ("ＡＢＣ１２３　（１）", "abc123 (1)"),
        ("ﬁle", "file"),
        ("我的文件", "我的文件"),
        ("İstanbul", "i\u0307stanbul"),
    ],
)
def test_folds(name: str, folded: str) -> None:
    assert fold(name) == folded
    assert fold(folded) == folded


@pytest.mark.parametrize(
    ("typed", "name", "rank"),
    [
        ("a", "xxAxx", REST),
        ("文件", "我的文件", REST),
        ("文", "文件", PREFIX),
        ("report", "Report", WHOLE),
        ("report", "report.pdf", PREFIX),
        ("report", "annual_report.pdf", WORD_START),
        ("report", "unreported.pdf", REST),
        ("report annual", "Annual Report.pdf", WORD_START),
        ("annual report", "ANNUAL REPORT", WHOLE),
        ("annual report", "annual reports", PREFIX),
        ("annual report", "annual unreported", REST),
        ("STRASSE", "Große Straße", WORD_START),
        ("café", "cafe\u0301", WHOLE),
        ('"annual report"', "my annual report", WORD_START),
        ('"*"', "a*b", REST),
        ('"what?"', "what?", WHOLE),
        ('12" disk', '12" disk', WHOLE),
        ('a"b c"d', 'c"d and a"b', WORD_START),
        ('"open', 'an "open quote', WORD_START),
        ("为什么？", "为什么？", WHOLE),
        ("*.jpg", "a.JPG", WHOLE),
        ("img_*", "IMG_1.jpg", WHOLE),
        ("a?c", "aßc".replace("ß", "b"), WHOLE),
        ("*b*", "abc", WHOLE),
        ("????", "我的文件", WHOLE),
        ("*", "anything", WHOLE),
        ("* b", "ab", REST),
        ("*.jpg beach", "beach.jpg", PREFIX),
        ("a*b*c", "a\nb\nc", WHOLE),
        ("x\u3000y", "y x", WORD_START),
    ],
)
def test_finds(typed: str, name: str, rank: int) -> None:
    keywords = parse(typed)
    assert keywords.matches(fold(name))
    assert keywords.rank(fold(name)) == rank


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("ab", "a b"),
        ('"annual report"', "report annual"),
        ("*.jpg", "a.jpg.txt"),
        ("img_*", "my img_1"),
        ("a?c", "ac"),
        ("a?c", "abbc"),
        ("ab*bc", "abc"),
        ("[ab]*", "a"),
        ("*.*", "abc"),
        ('"*"', "abc"),
        ("为什么？", "为什么呢"),
    ],
)
def test_does_not_find(typed: str, name: str) -> None:
    assert not parse(typed).matches(fold(name))


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "keywords are empty"),
        (" \t\u3000", "keywords are empty"),
        ('""', "keywords are empty"),
        ("a" * 1001, "keywords are too long: no more than 1,000 characters"),
        (" ".join("abcdefghijklmnopqrstuvwxyz0123456"), "too many keywords: no more than 32"),
        ("?" * 33, "too many wildcards in the keywords: no more than 32"),
    ],
)
def test_bounds(typed: str, message: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(message)):
        parse(typed)
    assert parse("*" * 1000).matches("all")


def test_extensions() -> None:
    assert parse_extensions([".JPG", "jpg", " tar.gz", ""]) == ("jpg", "tar.gz")
    with pytest.raises(BadRequest):
        parse_extensions(map(str, range(33)))


def test_statement_says_the_same() -> None:
    """The conditions of a statement and those here, on names and keywords made of what is special to either."""
    random.seed(12)
    parts = [
        "a",
        "b",
        "ab",
        " ",
        ".",
        "*",
        "?",
        "%",
        "_",
        "\\",
        "'",
        "文",
        "ß",
        "é",
        "e\u0301",
        "(",
        "[",
        "$",
        "\n",
        "“",
        "^",
    ]
    names = sorted({fold("".join(random.choices(parts, k=random.randint(1, 6)))) for _ in range(400)})
    database = duckdb.connect()
    for _ in range(150):
        typed = "".join(random.choices([*parts, "*", "?", '"', "\0", "\udcff"], k=random.randint(1, 7)))
        try:
            keywords = parse(typed)
        except BadRequest:
            continue
        expected = [(name, keywords.rank(name)) for name in names if keywords.matches(name)]
        condition, rank = keywords.condition, keywords.rank_expression
        statement = f"SELECT folded, {rank.text} FROM (SELECT unnest(?) AS folded) WHERE {condition.text} ORDER BY 1"
        rows = database.execute(statement, [*rank.parameters, names, *condition.parameters]).fetchall()
        assert rows == expected, typed
        for last in random.sample(expected, min(2, len(expected))):
            bound = keywords.make_bound(last[1], last[0])
            text = f"SELECT unnest(?) AS folded EXCEPT (FROM (SELECT unnest(?) AS folded) WHERE {bound.text})"
            after = database.execute(text, [[name for name, _ in expected]] * 2 + [*bound.parameters]).fetchall()
            assert all((rank, name) > last[::-1] for name, rank in expected if (name,) in after), typed


def test_no_pattern_takes_long() -> None:
    """The worst that fits in: time in proportion to the names."""
    name = "a" * 255
    database = duckdb.connect()
    for typed in ("*a" * 31 + "b", "*a" + "?" * 30, "?*" * 16 + "b", "a*" * 20 + "?" * 12):
        keywords = parse(typed)
        condition = keywords.condition
        began = time.process_time()
        database.execute(
            f"SELECT count(*) FROM (SELECT ? || i AS folded FROM range(2048) AS t(i)) WHERE {condition.text}",
            [name, *condition.parameters],
        ).fetchall()
        keywords.matches(name)
        assert time.process_time() - began < 5, typed


def test_statements_have_no_text_of_the_caller() -> None:
    condition = parse('zebra *gnu* "quoted ox"')
    bounds = [condition.make_bound(rank, "zebra") for rank in (PREFIX, WORD_START, REST)]
    for part in (condition.condition, condition.rank_expression, *bounds):
        assert not re.search("zebra|gnu|ox", part.text)
    assert words.join_conditions([]).text == "TRUE"
