"""Which rule counts at a path, and how far each of its aspects reaches."""

from __future__ import annotations

from typing import Any

import pytest

from mangrove.identity.rights import Right
from mangrove.paths import TreePath
from mangrove.tree.rules import Rules
from tests.unit.tree.builders import meta, user

P = TreePath


def rules(**by_path: dict[str, Any]) -> Rules:
    """Rules at paths, `_` standing for `/`."""
    metas = [meta(path.replace("_", "/") or "/", **fields) for path, fields in by_path.items()]
    return Rules({one.path: one for one in metas})


@pytest.mark.parametrize(
    ("path", "nearest"),
    [("/", "/"), ("/x", "/"), ("/a", "/a"), ("/a/b", "/a"), ("/a/b/c", "/a/b/c"), ("/a/b/c/d/e", "/a/b/c"),
     ("/ab", "/"), ("/a/b/cd", "/a")],
)  # fmt: skip
def test_the_nearest_rule_above_counts_by_whole_segments(path: str, nearest: str) -> None:
    found = rules(_={}, _a={}, _a_b_c={}).find_nearest(P(path))
    assert found is not None
    assert found.path == nearest


def test_there_may_be_no_rule() -> None:
    assert rules(_a={}).find_nearest(P("/b")) is None
    assert Rules({}).may_read(user(), P("/b"), "")


@pytest.mark.parametrize("sub", [False, True])
def test_each_aspect_reaches_below_only_with_its_own_flag(sub: bool) -> None:
    at, below = P("/a"), P("/a/b")
    asked = [
        (rules(_a={"password": "x", "p_sub": sub}), lambda r, path: not r.may_read(user(), path, "")),
        (rules(_a={"password": "x", "p_sub": sub}), lambda r, path: r.has_password(path)),
        (rules(_a={"read_users": [1], "read_users_sub": sub}), lambda r, path: not r.may_read(user(), path, "")),
        (rules(_a={"write_users": [1], "write_users_sub": sub}), lambda r, path: not r.may_write(user(), path)),
        (rules(_a={"write": True, "w_sub": sub}), lambda r, path: r.is_open_for_writing(path)),
        (rules(_a={"hide": "x", "h_sub": sub}), lambda r, path: r.find_hide_rule(user(), path) is not None),
        (rules(_a={"readme": "x", "r_sub": sub}), lambda r, path: r.get_texts(path)[0] == "x"),
        (rules(_a={"header": "x", "header_sub": sub}), lambda r, path: r.get_texts(path)[1] == "x"),
    ]
    assert [(test(found, at), test(found, below)) for found, test in asked] == [(True, sub)] * len(asked)


def test_a_nearer_rule_shadows_the_farther_one_in_every_aspect() -> None:
    all_of_it = {"password": "x", "p_sub": True, "hide": "y", "h_sub": True, "readme": "r", "r_sub": True}
    found = rules(_a=all_of_it, _a_b={"header": "h"})
    assert not found.may_read(user(), P("/a/c"), "")
    assert found.may_read(user(), P("/a/b"), "")
    assert found.find_hide_rule(user(), P("/a/b")) is None
    assert found.get_texts(P("/a/b")) == ("", "h")


def test_the_password_opens_and_the_right_skips_it() -> None:
    found = rules(_a={"password": "x", "p_sub": True})
    for path in (P("/a"), P("/a/b/c")):
        assert not found.may_read(user(), path, "")
        assert not found.may_read(user(), path, "X")
        assert found.may_read(user(), path, "x")
        assert found.may_read(user(Right.SKIP_PASSWORD), path, "")


def test_a_list_of_readers_admits_them_alone_and_no_password_or_right_helps_others() -> None:
    found = rules(_a={"read_users": [7], "read_users_sub": True, "password": "x", "p_sub": True})
    assert found.may_read(user(id=7), P("/a/b"), "x")
    assert not found.may_read(user(id=7), P("/a/b"), "")
    assert not found.may_read(user(Right.SKIP_PASSWORD, id=8), P("/a/b"), "x")
    assert rules(_a={"read_users": []}).may_read(user(), P("/a"), "")


def test_a_list_of_writers_admits_them_alone() -> None:
    found = rules(_a={"write_users": [7], "write": True})
    assert found.may_write(user(id=7), P("/a"))
    assert not found.may_write(user(id=8), P("/a"))
    assert found.is_open_for_writing(P("/a"))


def test_hidden_names_hide_everything_below_them() -> None:
    found = rules(_a={"hide": "^secret$\n\n\\.tmp$", "h_sub": True})
    for path in ("/a/secret", "/a/secret/x/y", "/a/b/secret", "/a/x.tmp"):
        assert found.is_hidden(user(), P(path)), path
        assert not found.may_read(user(), P(path), ""), path
        assert found.may_read(user(Right.SEE_HIDDEN), P(path), ""), path
    for path in ("/a", "/secret", "/a/secrets", "/a/x.tmp.txt", "/b/secret"):
        assert not found.is_hidden(user(), P(path)), path


def test_a_rule_hides_the_names_in_its_folder_not_the_folder_itself() -> None:
    found = rules(_a_b={"hide": "b"})
    assert not found.is_hidden(user(), P("/a/b"))
    assert found.is_hidden(user(), P("/a/b/b"))
    assert not found.is_hidden(user(), P("/a/b/c/b"))
