"""Random names, folders, keywords, filters and rights, compared with what plain Python says of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from zlib import crc32

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.patterns import compile_pattern
from mangrove.core.problems import BadRequest
from mangrove.search import query
from mangrove.search.hits import HidableRows
from mangrove.search.query import EVERYTHING, NOTHING, Filters, Hit, Visibility
from mangrove.search.words import parse
from tests.unit.search.indexed import Index, Row, Storage

pytestmark = pytest.mark.long


MakeIndex = Callable[[list[Storage]], Index]

LETTERS = [*"aAbB._- %*?\\'文ß", "é", "e\u0301", "Ａ", "ab", "\udcff", "\x1a"]
FOLDERS = ["/", "/a", "/a/b", "/a/b/c", "/a%", "/a_", "/ab", "/A", "/文", "/a/'", "/*", "/a/?x", "/a\x1a"]


class RandomRights:
    """By the path of a folder: nothing, everything, or some names."""

    is_needed = True
    hidable: HidableRows | None = None

    def __init__(self, salt: str) -> None:
        self._salt = salt

    def evaluate(self, parent: TreePath) -> Visibility:
        kind = crc32(f"{self._salt}{parent}".encode()) % 4
        visibilities: list[Visibility] = [NOTHING, EVERYTHING, EVERYTHING, lambda hit: len(hit.name) % 2 == 0]
        return visibilities[kind]

    def sees(self, hit: Hit) -> bool:
        visibility = self.evaluate(hit.parent)
        return visibility is EVERYTHING or (callable(visibility) and visibility(hit))


class HideLines(RandomRights):
    """The same, where the tests of names are those of a pattern, and folders are tested by another one."""

    def __init__(self, salt: str) -> None:
        super().__init__(salt)
        self._line = random.Random(salt).choice(["a", "^[ab]", "(?i)ß|É", r"\pL", "b$", r"\C\C\C", "[^a]b", "."])
        self.hidable = HidableRows((self._line, "never"), True)

    def evaluate(self, parent: TreePath) -> Visibility:
        visibility = super().evaluate(parent)
        return self._test if callable(visibility) else visibility

    def _test(self, hit: Hit) -> bool:
        hides = compile_pattern(self._line).search(hit.name.encode(errors="replace").decode())
        return not hides and not (hit.is_dir and "b" in hit.name)


class NoRights(RandomRights):
    is_needed = False

    def sees(self, hit: Hit) -> bool:
        return True


def make_name(dice: random.Random) -> str:
    return "".join(dice.choices(LETTERS, k=dice.randint(1, 7)))


def make_rows(dice: random.Random, count: int, folders: list[str]) -> list[Row]:
    """Names, no two the same in a folder."""
    rows = {
        (path, name): Row(path, name, dice.random() < 0.3, dice.choice([None, 0, 5, 10]), dice.choice([0.0, 5.0, 9.5]))
        for path, name in ((dice.choice(folders), make_name(dice)) for _ in range(count))
    }
    return list(rows.values())


def make_storage(dice: random.Random, id: int, mount: str) -> Storage:
    """As the overlay leaves it: no folder that was read again has rows of the index that count."""
    again = dice.sample(FOLDERS, 3)
    masked = [(path, dice.random() < 0.3) for path in again]
    others = tuple(path for path in dice.sample(FOLDERS, 1) if path != "/")
    return Storage(id, mount, make_rows(dice, 150, FOLDERS), make_rows(dice, 20, again), masked, others)


def make_filters(dice: random.Random) -> Filters:
    chosen: dict[str, Any] = {}
    if dice.random() < 0.5:
        chosen = {
            "scope": dice.randint(0, 3),
            "since": dice.choice([None, 0.0, 5.0]),
            "until": dice.choice([None, 5.0]),
        }
    if dice.random() < 0.2:
        chosen |= {"min_size": dice.choice([None, 0, 5]), "max_size": 5, "extensions": dice.choice([(), ("a", "b")])}
    typed = dice.choice(["a", "b", ".", "*", "文", make_name(dice)[:2], f"{make_name(dice)[:1]} b", "*a?*"])
    try:
        return Filters(parse(typed), **chosen)
    except BadRequest:
        return make_filters(dice)  # of spaces alone


@pytest.mark.parametrize("few", [0, 2, 1000])
@pytest.mark.parametrize("make_rights", [NoRights, RandomRights, HideLines])
def test_a_search_answers_as_plain_python_does(
    few: int, make_rights: Callable[[str], RandomRights], make_index: MakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "MAX_HITS_FETCHED", few)
    monkeypatch.setattr(query, "HITS_PER_TEST", 5)
    monkeypatch.setattr(query, "SEGMENTS_PER_STATEMENT", 2)
    monkeypatch.setattr(query, "MAX_HITS_KEPT", 20)
    dice = random.Random(few)
    mounts = {1: "/", 7: "/m'%", 9: "/m'%/a"}
    index = make_index([make_storage(dice, id, mount) for id, mount in mounts.items()])
    count = 0
    for _ in range(4):
        roots = {id: dice.choice([*FOLDERS, *"////////"]) for id in dice.sample([*mounts], dice.randint(1, 3))}
        filters, rights = make_filters(dice), make_rights(str(dice.random()))
        places = index.make_places(roots)
        expected = index.find(places, filters, rights.sees)
        cuts = sorted({0, dice.randint(0, 20), len(expected) + 5})
        for start, stop in pairwise(cuts):
            page, total = asyncio.run(query.run(places, filters, rights, start, stop - start, seconds=60))
            assert (page, total) == (expected[start:stop], len(expected)), (filters, roots)
        count += len(expected)
    assert count > 3
