"""Search: what it takes, what it answers, in which order and on which page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import get_data, get_refusal
from tests.contract.api.search_client import build_index, find, search
from tests.contract.api.task_client import wait_until
from tests.support.service import Client

pytestmark = pytest.mark.xdist_group("search")  # one service

NAMES = (
    "plum.txt", "plum pie.TXT", "sour plum.md", "applum.jpg", "plum/stone.txt", "plum/deep/PLUM", "李子 plum.txt",
    "straße.txt", "100% plum_juice.pdf",
)  # fmt: skip
MAX_BUILDS = 5  # of which one is still under way when it is asked for
ORDER = [
    "plum", "PLUM", "plum pie.TXT", "plum.txt", "100% plum_juice.pdf", "sour plum.md", "李子 plum.txt", "applum.jpg"
]  # fmt: skip


@pytest.fixture(scope="module")
def shelf(admin: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A storage with these files, each as long as its name is in bytes; its mount path."""
    root: Path = tmp_path_factory.mktemp("shelf")
    for name in NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x" * len(name.encode()))
    with fixtures.local(admin, root) as mounted:
        build_index(admin)
        yield mounted


def find_names(client: Client, keywords: str, parent: str, **body: Any) -> list[str]:
    return [path.rpartition("/")[2] for path in find(client, keywords, parent, **body)]


def test_a_row_has_what_clients_know_and_when_it_was_modified(admin: Client, shelf: str) -> None:
    (row,) = search(admin, "stone", shelf)["content"]
    listed = admin.ok("/api/fs/get", path=f"{shelf}/plum/stone.txt")
    assert set(row) == {"parent", "name", "is_dir", "size", "type", "modified"}
    assert row["parent"] == f"{shelf}/plum"
    assert {key: row[key] for key in ("name", "is_dir", "size", "type")} == {
        key: listed[key] for key in ("name", "is_dir", "size", "type")
    }
    assert row["modified"][:19] == listed["modified"][:19]
    (folder,) = search(admin, "deep", shelf)["content"]
    assert (folder["is_dir"], folder["size"], folder["type"]) == (True, 0, 1)


def test_the_best_fit_comes_first_then_the_name(admin: Client, shelf: str) -> None:
    assert find_names(admin, "plum", shelf) == ORDER


def test_all_words_must_occur_in_any_order_and_case(admin: Client, shelf: str) -> None:
    assert find_names(admin, "TXT pLuM", shelf) == ["plum pie.TXT", "plum.txt", "李子 plum.txt"]
    assert find_names(admin, '"plum pie"', shelf) == ["plum pie.TXT"] == find_names(admin, "pie  plum", shelf)
    assert find_names(admin, "子", shelf) == ["李子 plum.txt"] and find_names(admin, "STRASSE", shelf) == ["straße.txt"]
    assert find_names(admin, "%", shelf) == find_names(admin, "_", shelf) == ["100% plum_juice.pdf"]
    assert find_names(admin, "p*.txt", shelf) == ["plum pie.TXT", "plum.txt"] and find(admin, "pear plum", shelf) == []


def test_pages_follow_each_other(admin: Client, shelf: str) -> None:
    pages = [search(admin, "plum", shelf, page=page, per_page=3) for page in (1, 2, 3, 4, 2**53)]
    assert [len(page["content"]) for page in pages] == [3, 3, 2, 0, 0]
    assert {page["total"] for page in pages} == {len(ORDER)}
    assert [row["name"] for page in pages for row in page["content"]] == ORDER


def test_folders_and_files_can_be_told_apart(admin: Client, shelf: str) -> None:
    assert find_names(admin, "plum", shelf, scope=1) == ["plum"]
    files = [name for name in ORDER if name != "plum"]
    for scope in (2, 3, -1, 2**53):
        assert find_names(admin, "plum", shelf, scope=scope) == files


def test_what_is_found_can_be_narrowed(admin: Client, shelf: str) -> None:
    assert find_names(admin, "plum", shelf, ext="txt") == ["plum pie.TXT", "plum.txt", "李子 plum.txt"]
    assert find_names(admin, "plum", shelf, ext=".md, JPG") == ["sour plum.md", "applum.jpg"]
    assert find_names(admin, "plum", shelf, min_size=15) == ["100% plum_juice.pdf", "李子 plum.txt"]
    assert find_names(admin, "plum", shelf, min_size=12, max_size=12, scope=2) == ["plum pie.TXT", "sour plum.md"]
    modified = admin.ok("/api/fs/get", path=f"{shelf}/plum.txt")["modified"]
    assert "plum.txt" in find_names(admin, "plum", shelf, since=modified[:10], until=modified[:10])
    assert find(admin, "plum", shelf, since="2199-01-01") == []
    assert find(admin, "plum", shelf, until="2001-02-03T04:05:06Z") == []


def test_it_is_asked_by_query_as_well_and_in_the_other_dialect(admin: Client, shelf: str) -> None:
    query = {"parent": shelf, "keywords": "plum", "page": 1, "per_page": 3, "scope": "", "ext": "txt"}
    page = search(admin, "plum", shelf, per_page=3, ext="txt")
    assert get_data(admin.get("/api/fs/search", **query)) == page
    assert get_data(admin.post("/openlist/api/fs/search", **(query | {"scope": 0}))) == page


def test_an_absent_parent_is_the_root(admin: Client, shelf: str) -> None:
    name = shelf.strip("/")
    assert get_data(admin.post("/api/fs/search", keywords=name, page=1, per_page=10))["content"] == [
        row for row in search(admin, name)["content"] if row["parent"] == "/"
    ]
    assert find(admin, name) == [shelf]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no keywords": ({"keywords": ""}, "keywords are empty"),
    "blanks": ({"keywords": " \t\n　"}, "keywords are empty"),
    "no words in quotes": ({"keywords": '"" ""'}, "keywords are empty"),
    "very long": ({"keywords": "x" * 10_000}, "keywords are too long: no more than 1,000 characters"),
    "very many": ({"keywords": "x " * 490}, "too many keywords: no more than 32"),
    "a thousand words": ({"keywords": "x " * 1000}, "keywords are too long: no more than 1,000 characters"),
    "wildcards": ({"keywords": "a*" * 100}, "too many wildcards in the keywords: no more than 32"),
    "no page": ({"page": 0}, "page can't < 1"),
    "page left out": ({"page": None}, "page can't < 1"),
    "less than no page": ({"page": -1}, "page can't < 1"),
    "no rows": ({"per_page": 0}, "per_page can't < 1"),
    "too many rows": ({"per_page": 1001}, "per_page can't > 1000"),
    "many extensions": ({"ext": "a," * 100 + ",".join(map(str, range(40)))}, "too many extensions"),
    "no time": ({"since": "yesterday"}, "since: not a time as in RFC 3339: yesterday"),
    "no such day": ({"until": "2024-02-30"}, "until: not a time as in RFC 3339: 2024-02-30"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_searched_for_is_told(admin: Client, case: str) -> None:
    body, message = BAD[case]
    code, told = get_refusal(admin.post("/api/fs/search", **({"keywords": "x", "page": 1, "per_page": 10} | body)))
    assert (code, told[: len(message)]) == (400, message)


@pytest.mark.parametrize(
    "body",
    [
        {"keywords": 1}, {"keywords": ["a"]}, {"scope": "all"}, {"scope": 2**64}, {"page": "one"}, {"page": 2**80},
        {"per_page": 1.5}, {"parent": {}}, {"min_size": -1}, {"max_size": 2**70}, {"since": 5}, {"ext": ["txt"]},
        {"password": 1}, {"keywords": "x" * 200_000},
    ],
)  # fmt: skip
def test_what_has_the_wrong_type_is_refused(admin: Client, body: dict[str, Any]) -> None:
    code, message = get_refusal(admin.post("/api/fs/search", **({"keywords": "x", "page": 1, "per_page": 10} | body)))
    assert (code, message.startswith(next(iter(body)))) == (400, True)


@pytest.mark.parametrize(
    "keywords", ["*", "?", "**?*", "%", "'; DROP TABLE masked; --", "\\", "[a", "(?i)", "\ud7ff", "a\0b"]
)
def test_odd_keywords_are_searched_for_like_any_other(admin: Client, shelf: str, keywords: str) -> None:
    assert search(admin, keywords, shelf)["total"] == {"*": 11, "**?*": 11, "%": 1}.get(keywords, 0)


def test_where_nothing_can_be_listed_nothing_is_searched(admin: Client, shelf: str) -> None:
    for path in (f"{shelf}/missing", f"{shelf}/plum.txt", "/missing/folder"):
        refusal = get_refusal(admin.post("/api/fs/list", path=path))
        assert get_refusal(admin.post("/api/fs/search", parent=path, keywords="x", page=1, per_page=9)) == refusal
    for path, code in [("/../x", 403), ("/a\0b", 400)]:
        assert get_refusal(admin.post("/api/fs/search", parent=path, keywords="x", page=1, per_page=9))[0] == code


def test_it_can_be_switched_off(admin: Client, shelf: str) -> None:
    with fixtures.settings(admin, search_index="none"):
        answer = admin.post("/api/fs/search", parent=shelf, keywords="x", page=1, per_page=9)
        assert get_refusal(answer) == (404, "search not available")


def test_first_build_is_told_in_our_own_dialect(admin: Client, tmp_path: Path) -> None:
    """As long as it is not finished; an answer without the field is that of a whole index."""
    for number in range(2000):
        (tmp_path / f"folder {number}").mkdir()
        (tmp_path / f"folder {number}" / "damask").touch()
    body, told = {"keywords": "damask", "page": 1, "per_page": 1}, []
    while True not in told and len(told) < MAX_BUILDS:
        with fixtures.local(admin, tmp_path) as mounted:
            told.append(admin.ok("/api/fs/search", parent=mounted, **body).get("indexing"))
            assert "indexing" not in admin.ok("/openlist/api/fs/search", parent=mounted, **body)
            wait_until(lambda: admin.ok("/api/fs/search", parent=mounted, **body).get("indexing") is None)
            assert admin.ok("/api/fs/search", parent=mounted, **body)["total"] == 2000
    assert told[-1] is True
