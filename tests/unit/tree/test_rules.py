"""The rule that applies at a path, and the reach of each of its aspects."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mangrove import configuration
from mangrove.core.paths import TreePath
from mangrove.identity.rights import ADMIN, Caller, Right
from mangrove.tree.rules import Rules, get_rules
from tests.unit.tree import builders
from tests.unit.tree.builders import meta
from tests.unit.tree.environment import TreeEnv

P = TreePath


def user(permission: int = 0, **fields: Any) -> Caller:
    """Return a caller with a permission."""
    return Caller(builders.user(permission, **fields))


def rules(**by_path: dict[str, Any]) -> Rules:
    """Rules at paths, `_` standing for `/`."""
    metas = [meta(path.replace("_", "/") or "/", **fields) for path, fields in by_path.items()]
    return Rules({rule_meta.path: rule_meta for rule_meta in metas})


@pytest.mark.parametrize(
    ("path", "nearest"),
    [("/", "/"), ("/x", "/"), ("/a", "/a"), ("/a/b", "/a"), ("/a/b/c", "/a/b/c"), ("/a/b/c/d/e", "/a/b/c"),
     ("/ab", "/"), ("/a/b/cd", "/a")],
)  # fmt: skip
def test_the_nearest_rule_above_counts_by_whole_segments(path: str, nearest: str) -> None:
    rule = rules(_={}, _a={}, _a_b_c={}).evaluate(user(), P(path)).rule
    assert rule is not None
    assert rule.path == nearest


def test_there_may_be_no_rule() -> None:
    assert rules(_a={}).evaluate(user(), P("/b")).rule is None
    assert Rules({}).evaluate(user(), P("/b")).may_read("")


@pytest.mark.parametrize("sub", [False, True])
def test_each_aspect_reaches_below_only_with_its_own_flag(sub: bool) -> None:
    at, below = P("/a"), P("/a/b")
    cases = [
        (rules(_a={"password": "x", "p_sub": sub}), lambda r, path: not r.evaluate(user(), path).may_read("")),
        (rules(_a={"password": "x", "p_sub": sub}), lambda r, path: r.is_guarded(path)),
        (
            rules(_a={"read_users": [1], "read_users_sub": sub}),
            lambda r, path: not r.evaluate(user(), path).may_read(""),
        ),
        (
            rules(_a={"write_users": [1], "write_users_sub": sub}),
            lambda r, path: not r.evaluate(user(), path).may_write,
        ),
        (rules(_a={"write": True, "w_sub": sub}), lambda r, path: r.evaluate(user(), path).is_open_for_writing),
        (rules(_a={"hide": "x", "h_sub": sub}), lambda r, path: r.evaluate(user(), path).hide_rule is not None),
        (rules(_a={"readme": "x", "r_sub": sub}), lambda r, path: r.evaluate(user(), path).texts[0] == "x"),
        (rules(_a={"header": "x", "header_sub": sub}), lambda r, path: r.evaluate(user(), path).texts[1] == "x"),
    ]
    assert [(test(case_rules, at), test(case_rules, below)) for case_rules, test in cases] == [(True, sub)] * len(cases)


def test_a_nearer_rule_shadows_the_farther_one_in_every_aspect() -> None:
    all_of_it = {"password": "x", "p_sub": True, "hide": "y", "h_sub": True, "readme": "r", "r_sub": True}
    compiled = rules(_a=all_of_it, _a_b={"header": "h"})
    assert not compiled.evaluate(user(), P("/a/c")).may_read("")
    assert compiled.evaluate(user(), P("/a/b")).may_read("")
    assert compiled.evaluate(user(), P("/a/b")).hide_rule is None
    assert compiled.evaluate(user(), P("/a/b")).texts == ("", "h")


def test_the_password_opens_and_the_right_skips_it() -> None:
    compiled = rules(_a={"password": "x", "p_sub": True})
    for path in (P("/a"), P("/a/b/c")):
        assert not compiled.evaluate(user(), path).may_read("")
        assert not compiled.evaluate(user(), path).may_read("X")
        assert compiled.evaluate(user(), path).may_read("x")
        assert compiled.evaluate(user(Right.SKIP_PASSWORD), path).may_read("")


def test_readers_list_admits_only_its_members() -> None:
    compiled = rules(_a={"read_users": [7], "read_users_sub": True, "password": "x", "p_sub": True})
    assert compiled.evaluate(user(id=7), P("/a/b")).may_read("x")
    assert not compiled.evaluate(user(id=7), P("/a/b")).may_read("")
    assert not compiled.evaluate(user(Right.SKIP_PASSWORD, id=8), P("/a/b")).may_read("x")
    assert rules(_a={"read_users": []}).evaluate(user(), P("/a")).may_read("")


def test_a_list_of_writers_admits_them_alone() -> None:
    compiled = rules(_a={"write_users": [7], "write": True})
    assert compiled.evaluate(user(id=7), P("/a")).may_write
    assert not compiled.evaluate(user(id=8), P("/a")).may_write
    assert compiled.evaluate(user(), P("/a")).is_open_for_writing


def test_hidden_names_hide_everything_below_them() -> None:
    compiled = rules(_a={"hide": "^secret$\n\n\\.tmp$", "h_sub": True})
    for path in ("/a/secret", "/a/secret/x/y", "/a/b/secret", "/a/x.tmp"):
        assert compiled.evaluate(user(), P(path)).is_hidden, path
        assert not compiled.evaluate(user(), P(path)).may_read(""), path
        assert compiled.evaluate(user(Right.SEE_HIDDEN), P(path)).may_read(""), path
    for path in ("/a", "/secret", "/a/secrets", "/a/x.tmp.txt", "/b/secret"):
        assert not compiled.evaluate(user(), P(path)).is_hidden, path


def test_a_rule_hides_the_names_in_its_folder_not_the_folder_itself() -> None:
    compiled = rules(_a_b={"hide": "b"})
    assert not compiled.evaluate(user(), P("/a/b")).is_hidden
    assert compiled.evaluate(user(), P("/a/b/b")).is_hidden
    assert not compiled.evaluate(user(), P("/a/b/c/b")).is_hidden


def test_rules_are_compiled_once_for_a_snapshot(tree: TreeEnv) -> None:
    tree.add_rule("/a", hide="x")
    first = configuration.cached()
    assert asyncio.run(get_rules(first)) is asyncio.run(get_rules(first))
    assert asyncio.run(get_rules(first)).evaluate(user(), P("/a/x")).is_hidden
    tree.add_rule("/b", hide="y")
    assert asyncio.run(get_rules(configuration.cached())) is not asyncio.run(get_rules(first))
    assert asyncio.run(get_rules(configuration.cached())).evaluate(user(), P("/b/y")).is_hidden


def test_a_copy_would_disclose_what_a_rule_below_keeps() -> None:
    compiled = rules(_a_b={"password": "x"}, _c={"write_users": [1]}, _d={"hide": "x"})

    def is_restricted(path: str) -> tuple[bool, bool]:
        for_copy, other = (
            compiled.is_restricted_below(compiled.evaluate(user(), P(path)), "", changes) for changes in (False, True)
        )
        return for_copy, other

    assert {path: is_restricted(path) for path in ("/", "/a", "/a/b", "/a/bc", "/c", "/d", "/e")} == {
        "/": (True, True), "/a": (True, True), "/a/b": (True, True), "/a/bc": (False, False), "/c": (False, True),
        "/d": (True, True), "/e": (False, False),
    }  # fmt: skip
    assert not compiled.is_restricted_below(compiled.evaluate(user(), P("/a")), "x", True)
    assert not compiled.is_restricted_below(compiled.evaluate(user(Right.SEE_HIDDEN), P("/d")), "", True)


def test_rule_for_an_administrator_hides_nothing_and_needs_no_password() -> None:
    compiled = rules(_a={"password": "x", "p_sub": True, "hide": "b", "h_sub": True})
    assert compiled.evaluate(user(role=ADMIN), P("/a/b")).may_read("")
    assert not compiled.is_restricted_below(compiled.evaluate(user(role=ADMIN), P("/")), "", True)
