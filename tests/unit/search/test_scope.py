"""The indexed part of the tree."""

from __future__ import annotations

import pytest

from mangrove.core.paths import MAX_PATH_BYTES, MAX_PATH_DEPTH, TreePath
from mangrove.search.scope import find_child

P = TreePath


@pytest.mark.parametrize(
    ("folder", "name", "path"),
    [
        ("/", "a", "/a"),
        ("/d", "a b%2F", "/d/a b%2F"),
        ("/d", "a\\b", None),
        ("/d", "a/b", None),
        ("/d", "..", None),
        ("/d", ".", None),
        ("/d", "", None),
        ("/d", "a\0", None),
        ("/d", "a\udcff", None),
        ("/" + "d" * (MAX_PATH_BYTES - 3), "ab", None),
        ("/d" * MAX_PATH_DEPTH, "a", None),
    ],
)
def test_what_no_path_leads_to_is_no_folder(folder: str, name: str, path: str | None) -> None:
    assert find_child(P(folder), name) == path
