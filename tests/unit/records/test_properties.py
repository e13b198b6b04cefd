"""Dead properties on the real engine: they go where their entry goes, with all below it, and nowhere else."""

from __future__ import annotations

import pytest

from mangrove.core.paths import TreePath
from mangrove.records.files import properties

pytestmark = pytest.mark.usefixtures("records")
RED, BLUE = {"{u}c": "<c>red</c>"}, {"{u}c": "<c>blue</c>"}
LONG = "/" + "/".join(["n" * 200] * 12)  # longer than a key of DynamoDB


def put(*paths: str) -> None:
    for path in paths:
        properties.put(1, TreePath(path), RED)


def get(path: str, storage_id: int = 1) -> properties.Values:
    return properties.get(storage_id, TreePath(path))


@pytest.mark.parametrize("root", ["/d", LONG])
def test_they_are_copied_and_removed_with_all_that_is_below(root: str) -> None:
    put(root, f"{root}/a", f"{root}/s/t/b", f"{root}x", f"{root}x/a", "/")
    properties.put(2, TreePath("/to/old"), BLUE)
    properties.copy(1, TreePath(root), 2, TreePath("/to"))
    assert get("/to", 2) == get("/to/a", 2) == get("/to/s/t/b", 2) == RED and get("/to/old", 2) == {}
    properties.remove(1, TreePath(root))
    assert get(root) == get(f"{root}/a") == get(f"{root}/s/t/b") == {}
    assert get(f"{root}x") == get(f"{root}x/a") == get("/") == RED
    properties.remove(2, TreePath("/to"))
    assert get("/to/a", 2) == get("/to/s/t/b", 2) == {}


def test_those_of_a_folder_are_read_together_unless_they_are_too_many() -> None:
    put("/d/a", "/d/b", "/d/s/c", "/d")
    assert properties.find_in(1, TreePath("/d")) == {"a": RED, "b": RED}
    assert properties.find_in(2, TreePath("/d")) == {}
    assert properties.get_many(1, TreePath("/d"), ["a", "none"]) == {"a": RED}
    put("/")
    assert properties.find_in(1, TreePath("/")) == {"d": RED}
    for number in range(30):
        properties.put(3, TreePath(f"/{number}"), {"{u}c": "x" * 300_000})
    assert properties.find_in(3, TreePath("/")) is None


def test_the_last_that_is_removed_leaves_no_record_of_its_entry() -> None:
    put("/d/a")
    properties.put(1, TreePath("/d/a"), {})
    assert get("/d/a") == {} and properties.find_in(1, TreePath("/d")) == {}
    properties.put(1, TreePath("/d/a"), {})
