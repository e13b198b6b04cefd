"""Dead properties on the real engine: they go where their entry goes, with all below it, and nowhere else."""

from __future__ import annotations

import pytest

from mangrove.core.paths import TreePath
from mangrove.records import webdav_properties
from mangrove.records.webdav_properties import PropertyQuotaExceeded

pytestmark = pytest.mark.usefixtures("records")
ANNE, BOB = 7, 8
RED, BLUE = {"{u}c": "<c>red</c>"}, {"{u}c": "<c>blue</c>"}
LONG = "/" + "/".join(["n" * 200] * 12)  # longer than a key of DynamoDB


def put(*paths: str) -> None:
    for path in paths:
        webdav_properties.put(1, TreePath(path), RED, ANNE)


def get(path: str, storage_id: int = 1) -> webdav_properties.Values:
    return webdav_properties.get(storage_id, TreePath(path))


@pytest.mark.parametrize("root", ["/d", LONG])
def test_they_are_copied_and_removed_with_all_that_is_below(root: str) -> None:
    put(root, f"{root}/a", f"{root}/s/t/b", f"{root}x", f"{root}x/a", "/")
    webdav_properties.put(2, TreePath("/to/old"), BLUE, BOB)
    webdav_properties.copy(1, TreePath(root), 2, TreePath("/to"), BOB)
    assert get("/to", 2) == get("/to/a", 2) == get("/to/s/t/b", 2) == RED and get("/to/old", 2) == {}
    webdav_properties.remove(1, TreePath(root))
    assert get(root) == get(f"{root}/a") == get(f"{root}/s/t/b") == {}
    assert get(f"{root}x") == get(f"{root}x/a") == get("/") == RED
    webdav_properties.remove(2, TreePath("/to"))
    assert get("/to/a", 2) == get("/to/s/t/b", 2) == {}


def test_those_of_a_folder_are_read_together_unless_they_are_too_many() -> None:
    put("/d/a", "/d/b", "/d/s/c", "/d")
    assert webdav_properties.find_in(1, TreePath("/d")) == {"a": RED, "b": RED}
    assert webdav_properties.find_in(2, TreePath("/d")) == {}
    assert webdav_properties.get_many(1, TreePath("/d"), ["a", "none"]) == {"a": RED}
    put("/")
    assert webdav_properties.find_in(1, TreePath("/")) == {"d": RED}
    for number in range(70):
        webdav_properties.put(3, TreePath(f"/{number}"), {"{u}c": "x" * 65_000}, ANNE)
    assert webdav_properties.find_in(3, TreePath("/")) is None
    names = [f"{number}" for number in range(100)]
    assert len(webdav_properties.get_many(3, TreePath("/"), names)) == 70


def test_the_last_that_is_removed_leaves_no_record_of_its_entry() -> None:
    put("/d/a")
    webdav_properties.put(1, TreePath("/d/a"), {}, ANNE)
    assert get("/d/a") == {} and webdav_properties.find_in(1, TreePath("/d")) == {}
    webdav_properties.put(1, TreePath("/d/a"), {}, ANNE)


def test_put_beyond_quota_of_user_is_refused_until_some_are_removed() -> None:
    """A6 of issue 25: 10 MB of properties for each user, 64 KB for each entry."""
    value = {"{u}c": "x" * (webdav_properties.MAX_BYTES_PER_ENTRY - len("{u}c"))}
    count = webdav_properties.MAX_BYTES_PER_USER // webdav_properties.MAX_BYTES_PER_ENTRY
    for number in range(count):
        webdav_properties.put(1, TreePath(f"/d/{number}"), value, ANNE)
    assert webdav_properties.read_usage(ANNE) == webdav_properties.MAX_BYTES_PER_USER
    for storage_id, path in ((1, "/d/more"), (2, "/0")):
        with pytest.raises(PropertyQuotaExceeded):
            webdav_properties.put(storage_id, TreePath(path), RED, ANNE)
        assert get(path, storage_id) == {}
    with pytest.raises(PropertyQuotaExceeded):
        webdav_properties.copy(1, TreePath("/d/0"), 1, TreePath("/d/0 copy"), ANNE)
    webdav_properties.put(1, TreePath("/d/more"), RED, BOB)
    webdav_properties.put(1, TreePath("/d/0"), RED, ANNE)
    webdav_properties.put(1, TreePath("/d/1"), value, BOB)
    webdav_properties.put(1, TreePath("/d/0"), value, ANNE)
    assert (
        webdav_properties.read_usage(ANNE)
        == webdav_properties.MAX_BYTES_PER_USER - webdav_properties.MAX_BYTES_PER_ENTRY
    )
    webdav_properties.remove(1, TreePath("/d"))
    assert [webdav_properties.read_usage(user) for user in (ANNE, BOB)] == [0, 0]


@pytest.mark.parametrize(
    "values", [{"{u}c": "x" * webdav_properties.MAX_BYTES_PER_ENTRY}, {f"{{u}}{number}": "" for number in range(65)}]
)
def test_put_beyond_bound_of_entry_is_refused(values: webdav_properties.Values) -> None:
    put("/d/a")
    with pytest.raises(PropertyQuotaExceeded):
        webdav_properties.put(1, TreePath("/d/a"), values, ANNE)
    assert get("/d/a") == RED


def test_move_takes_properties_along_and_keeps_their_user() -> None:
    put("/d", "/d/a", "/d/s/b")
    webdav_properties.put(2, TreePath("/to/old"), BLUE, BOB)
    usage = webdav_properties.read_usage(ANNE)
    webdav_properties.move(1, TreePath("/d"), 2, TreePath("/to"))
    assert get("/to", 2) == get("/to/a", 2) == get("/to/s/b", 2) == RED
    assert get("/to/old", 2) == get("/d") == get("/d/a") == {}
    assert [webdav_properties.read_usage(user) for user in (ANNE, BOB)] == [usage, 0]


def test_values_of_an_older_version_count_against_nobody() -> None:
    put("/d/a")
    record = webdav_properties._find(1, TreePath("/d/a"))
    assert record is not None
    record.user_id = record.size = None
    record.save()
    usage = webdav_properties.read_usage(ANNE)
    webdav_properties.put(1, TreePath("/d/a"), BLUE, BOB)
    webdav_properties.remove(1, TreePath("/d"))
    assert webdav_properties.read_usage(ANNE) == usage and webdav_properties.read_usage(BOB) == 0
