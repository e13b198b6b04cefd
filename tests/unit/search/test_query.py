"""One search: order, pages, totals, filters, what was read again, rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import SearchTooSlow
from mangrove.search import query
from mangrove.search.query import EVERYTHING, NOTHING, Filters, Hit, SearchSource, Visibility, VisibilityEvaluator
from mangrove.search.words import parse
from tests.unit.search.indexed import Index, Row, Storage

MakeIndex = Callable[[list[Storage]], Index]


class SeesAll:
    is_needed = False
    hidable = None

    def evaluate(self, parent: TreePath) -> Visibility:
        raise AssertionError


class Sees:
    """Judges folders by a function; counts them."""

    is_needed = True
    hidable = None

    def __init__(self, evaluator: Callable[[TreePath], Visibility]) -> None:
        self._evaluator = evaluator
        self.requested_paths: list[TreePath] = []

    def evaluate(self, parent: TreePath) -> Visibility:
        self.requested_paths.append(parent)
        return self._evaluator(parent)


@pytest.fixture(params=["few", "many", "bounded", "huge", "places"])
def amount(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the way that a search takes."""
    if request.param != "few":
        monkeypatch.setattr(query, "MAX_HITS_FETCHED", 0)
        monkeypatch.setattr(query, "HITS_PER_TEST", 3)
    if request.param == "places":
        monkeypatch.setattr(query, "SEGMENTS_PER_STATEMENT", 1)
    if request.param == "bounded":
        monkeypatch.setattr(query, "MAX_HITS_KEPT", 4)
    if request.param == "huge":
        monkeypatch.setattr(query, "MAX_HITS_KEPT", 0)
    return str(request.param)


def make_filters(typed: str) -> Filters:
    return Filters(parse(typed))


def search(
    places: list[SearchSource],
    filters: Filters,
    evaluator: VisibilityEvaluator | None = None,
    start: int = 0,
    count: int = 100,
) -> tuple[list[Hit], int]:
    return asyncio.run(query.run(places, filters, evaluator or SeesAll(), start, count))


def list_paths(hits: list[Hit]) -> list[str]:
    return [str(hit.parent / hit.name) for hit in hits]


def test_order(make_index: MakeIndex, amount: str) -> None:
    names = ["unreported", "Report", "my report", "reports", "b-REPORT", "report.txt", "report", "a report"]
    index = make_index(
        [Storage(1, "/m", [Row("/", name) for name in names] + [Row("/b", "Report"), Row("/a", "report")])]
    )
    hits, total = search(index.make_places(), make_filters("report"))
    assert list_paths(hits) == [
        "/m/Report", "/m/report", "/m/a/report", "/m/b/Report", "/m/report.txt", "/m/reports",
        "/m/a report", "/m/b-REPORT", "/m/my report", "/m/unreported",
    ]  # fmt: skip
    assert total == 10


def test_pages_and_beyond_the_end(make_index: MakeIndex, amount: str) -> None:
    index = make_index([Storage(1, "/", [Row(f"/{n % 7}", f"name {n % 5}") for n in range(35)])])
    expected = index.find(index.make_places(), make_filters("name"))
    pages = [search(index.make_places(), make_filters("name"), None, start, 4) for start in range(0, 44, 4)]
    assert [hit for page, _ in pages for hit in page] == expected
    assert {total for _, total in pages} == {35}


def test_entry_as_it_was(make_index: MakeIndex, amount: str) -> None:
    rows = [Row("/", "Datei", False, None, 12.5), Row("/", "Ordner", True, 0, 0.0)]
    index = make_index([Storage(3, "/m/n", rows)])
    hits, _ = search(index.make_places(), make_filters("*d*"))
    assert hits == [Hit(TreePath("/m/n"), "Datei", False, None, 12.5), Hit(TreePath("/m/n"), "Ordner", True, 0, 0.0)]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"scope": 1}, {"folder.txt"}),
        ({"scope": 2}, {"a.txt", "B.TXT", "c.tar.gz", "unknown.txt"}),
        ({"extensions": ("txt",)}, {"a.txt", "B.TXT", "unknown.txt"}),
        ({"extensions": ("tar.gz", "txt"), "min_size": 10}, {"B.TXT", "c.tar.gz"}),
        ({"max_size": 5}, {"a.txt"}),
        ({"min_size": 5, "max_size": 10}, {"a.txt", "B.TXT"}),
        ({"since": 20.0}, {"B.TXT", "c.tar.gz"}),
        ({"until": 20.0}, {"a.txt", "B.TXT"}),
        ({"until": 20.0, "scope": 1}, set()),
    ],
)
def test_filters(make_index: MakeIndex, filters: dict[str, object], names: set[str]) -> None:
    rows = [
        Row("/", "a.txt", size=5, modified=10), Row("/", "B.TXT", size=10, modified=20),
        Row("/", "c.tar.gz", size=11, modified=30), Row("/", "unknown.txt", size=None, modified=0),
        Row("/", "folder.txt", True, 0, 0),
    ]  # fmt: skip
    index = make_index([Storage(1, "/", rows)])
    chosen = Filters(parse("*"), **filters)  # type: ignore[arg-type]
    hits, total = search(index.make_places(), chosen)
    assert {hit.name for hit in hits} == names
    assert total == len(names)
    assert hits == index.find(index.make_places(), chosen)


def test_what_was_read_again_counts_instead(make_index: MakeIndex, amount: str) -> None:
    storage = Storage(
        1, "/m",
        [Row("/", "old x"), Row("/a", "old y"), Row("/a/b", "old z"), Row("/ab", "old kept"), Row("/c", "old c")],
        [Row("/a", "new y"), Row("/c", "new c"), Row("/c", "Old C")],
        [("/a", True), ("/c", False)],
    )  # fmt: skip
    index = make_index([storage, Storage(2, "/n", [Row("/a", "old other")])])
    hits, total = search(index.make_places(), make_filters("*"))
    assert list_paths(hits) == [
        "/m/c/new c", "/m/a/new y", "/m/c/Old C", "/m/ab/old kept", "/n/a/old other", "/m/old x"
    ]  # fmt: skip
    assert total == 6


def test_before_there_is_an_index(make_index: MakeIndex, amount: str) -> None:
    index = make_index([Storage(0, "/", [], [Row("/", "mount"), Row("/mount", "inner")]), Storage(1, "/mount")])
    hits, total = search(index.make_places(), make_filters("n"))
    assert (list_paths(hits), total) == (["/mount/inner", "/mount"], 2)
    assert search([], make_filters("n")) == ([], 0)
    assert search(index.make_places({1: "/"}), make_filters("n")) == ([], 0)


def test_what_lies_under_another_mount(make_index: MakeIndex, amount: str) -> None:
    rows = [
        Row("/", "other", True),
        Row("/other", "below"),
        Row("/other/x", "deep"),
        Row("/others", "kept"),
        Row("/a", "other"),
    ]
    index = make_index([Storage(1, "/", rows, [Row("/other", "fresh")], others=("/other",))])
    hits, total = search(index.make_places(), make_filters("*"))
    assert (list_paths(hits), total) == (["/others/kept", "/a/other"], 2)
    judged = search(index.make_places(), make_filters("*"), Sees(lambda parent: lambda hit: True))
    assert judged == (hits, total)


@pytest.mark.parametrize(
    "root", ["/a%", "/a_b", "/it's", "/*", "/a?c", "/[x]", "/文", "/a\x1ab", '/"; DROP TABLE names']
)
def test_roots_are_no_patterns(make_index: MakeIndex, root: str) -> None:
    rows = [Row(path, f"in {path[1:]}") for path in (root, f"{root}/sub", "/ab", "/axb", f"{root}x", "/", "/x")]
    index = make_index([Storage(1, "/m'%", rows, [Row(root, "fresh")], [(f"{root}/sub", True)])])
    places = index.make_places({1: root})
    hits, total = search(places, make_filters("*"))
    assert {hit.parent for hit in hits} == {TreePath("/m'%" + root)}
    assert total == 2


def test_rights_before_counting(make_index: MakeIndex, amount: str) -> None:
    """Nothing of what a caller may not see is in the page or the total."""
    rows = [Row(f"/{folder}", f"{name} word") for folder in ("all", "none", "some", "dull") for name in "abcd"]
    fresh = [Row(f"/{folder}/fresh", f"{name} word") for folder in ("all", "none", "some") for name in "abcd"]
    index = make_index([Storage(1, "/m", [*rows, Row("/other", "x")], fresh)])

    def evaluate(parent: TreePath) -> Visibility:
        if "none" in parent:
            return NOTHING
        if "dull" in parent:
            return lambda hit: False
        return (lambda hit: hit.name[0] in "ad") if "some" in parent else EVERYTHING

    judging = Sees(evaluate)
    hits, total = search(index.make_places(), make_filters("word"), judging, 2, 5)
    expected = index.find(
        index.make_places(),
        make_filters("word"),
        lambda hit: "all" in hit.parent or ("some" in hit.parent and hit.name[0] in "ad"),
    )
    assert (hits, total) == (expected[2:7], len(expected))
    assert set(judging.requested_paths) == {TreePath(f"/m{row.path}") for row in [*rows, *fresh]}


def test_too_slow(make_index: MakeIndex, amount: str) -> None:
    index = make_index([Storage(1, "/m", [Row("/", "a")])])
    with pytest.raises(SearchTooSlow):
        asyncio.run(query.run(index.make_places(), make_filters("a"), SeesAll(), 0, 10, seconds=0))


def test_too_much_that_is_hidden(make_index: MakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of unseen names is bounded; a folder with only unseen names is not one of them."""
    monkeypatch.setattr(query, "MAX_HITS_FETCHED", 0)
    monkeypatch.setattr(query, "MAX_HIDDEN_NAMES", 3)
    index = make_index([Storage(1, "/", [Row("/", f"{n} name") for n in range(9)])])
    assert search(index.make_places(), make_filters("name"), Sees(lambda parent: lambda hit: False)) == ([], 0)
    with pytest.raises(SearchTooSlow):
        search(index.make_places(), make_filters("name"), Sees(lambda parent: lambda hit: hit.name[0] in "12"))


def test_what_a_caller_sends_is_never_in_a_statement(make_index: MakeIndex, amount: str) -> None:
    index = make_index([Storage(1, "/mount", [Row("/zebra", "zebra gnu.ox")], [Row("/zebra", "gnu zebra.ox")])])
    filters = Filters(parse('zebra *gnu* "ebra"'), extensions=("ox",))
    search(index.make_places({1: "/zebra"}), filters, Sees(lambda parent: lambda hit: hit.name[0] == "z"))
    assert not [
        statement
        for statement in index.database.statements
        for word in ("zebra", "gnu", "ox", "mount")
        if word in statement
    ]


def test_of_many_storages_only_those_with_a_match_take_further_statements(
    make_index: MakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "SEGMENTS_PER_STATEMENT", 2)
    names = ["one", "two", "red", "four", "five", "red too", "seven"]
    again = [Row("/new", "red again")]
    storages = [Storage(id, f"/{id}", [Row("/", name)], again if id == 4 else []) for id, name in enumerate(names)]
    index = make_index(storages)
    places = index.make_places()
    assert list_paths(search(places, make_filters("red"))[0]) == ["/2/red", "/4/new/red again", "/5/red too"]
    index.database.statements.clear()
    assert search([place for place in places if place.storage_id != 4], make_filters("red"))[1] == 2
    assert len(index.database.statements) == 2
