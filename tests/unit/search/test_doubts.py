"""The names that a hide line may match, as the database says it, compared with the line itself."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from mangrove.core.patterns import InvalidPattern, compile_pattern
from mangrove.search.database import Database
from mangrove.search.hidden_rows import find_hidable
from mangrove.search.hits import HidableRows

pytestmark = pytest.mark.long


PIECES = (
    "a", "b", "B", "Z", "k", "s", "ß", "É", "é", "文", "😀", "\u212a", "\u017f", "e\u0301", " ", "\n", "\t", "'", "%",
    ".", "*", "+?", "|", "^", "$", "(", ")", "[ab]", "[^a]", "[a-z]", "[À-ÿ]", "[[:alpha:]]", "{2}", "{1,3}", "_",
    r"\w", r"\W", r"\d", r"\b", r"\B", r"\s", r"\pL", r"\p{Greek}", r"\P{Lu}", r"\C", r"\z", r"\A", r"\Qa.", r"\E",
    "(?i)", "(?s)", "(?m)", "(?-i)", "(?U)", "(?si:", "(?P<n>", "(?:", r"\.", r"\x41", r"\x{6587}", r"\\",
)  # fmt: skip
LETTERS = [
    *"abBZkKsS.*' %_\\\n\t-7",
    "\u212a",
    "\u017f",
    "ß",
    "ẞ",
    "É",
    "é",
    "e\u0301",
    "文",
    "😀",
    "Σ",
    "ς",
    "ῼ",
    "\U00010d50",
]


def make_names(dice: random.Random, count: int) -> list[str]:
    return ["".join(dice.choices(LETTERS, k=dice.randint(0, 6))) for _ in range(count)]


async def select(database: Database, hidable: HidableRows, names: Sequence[str]) -> set[str]:
    condition = find_hidable(hidable)
    rows = "SELECT name FROM (SELECT unnest(?::VARCHAR[]) AS name, FALSE AS is_dir)"
    return {
        name for (name,) in await database.run(f"{rows} WHERE {condition.text}", (list(names), *condition.parameters))
    }


def test_no_name_is_missed_that_a_line_matches(tmp_path: Path) -> None:
    dice, database = random.Random(4), Database(tmp_path)

    async def check() -> int:
        checked = 0
        for _ in range(1500):
            line = "".join(dice.choices(PIECES, k=dice.randint(1, 5)))
            try:
                pattern = compile_pattern(line)
            except InvalidPattern:
                continue
            names = make_names(dice, 40)
            matched, hidable = {name for name in names if pattern.search(name)}, HidableRows((line,), False)
            accepts = find_hidable(hidable)
            assert await database.accepts(f"SELECT {accepts.text} FROM (SELECT 'x' AS name)", accepts.parameters), line
            selected = await select(database, hidable, names)
            assert matched <= selected, (line, matched - selected)
            assert {name for name in selected if name.isascii()} <= matched, (line, selected - matched)
            checked += 1
        return checked

    try:
        assert asyncio.run(check()) > 500
    finally:
        database.close()


def test_altered_names_and_folders_are_always_tested(tmp_path: Path) -> None:
    database = Database(tmp_path)
    try:
        assert asyncio.run(select(database, HidableRows(("b", "c"), False), ["a", "b", "c", "\x1adc80"])) == {
            "b",
            "c",
            "\x1adc80",
        }
        assert asyncio.run(select(database, HidableRows((), False), ["a"])) == set()
        assert find_hidable(HidableRows((), True)).text.endswith("OR is_dir)")
    finally:
        database.close()


def test_what_is_no_pattern_for_the_database_is_not_asked_for(tmp_path: Path) -> None:
    database = Database(tmp_path)
    try:
        for line in ("(", "[z-a]", r"\p{Nosuch}"):
            hidable = find_hidable(HidableRows((line,), False))
            assert not asyncio.run(
                database.accepts(f"SELECT {hidable.text} FROM (SELECT 'x' AS name)", hidable.parameters)
            )
    finally:
        database.close()
