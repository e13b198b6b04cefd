"""Hits are the entries that listings show: the filter against a walk by the caller, under rules of every kind."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.patterns import compile_pattern
from mangrove.identity.rights import Caller, Right
from mangrove.records.metas import PathRule
from mangrove.search.query import EVERYTHING, NOTHING, Hit
from mangrove.search.visibility import VISIBILITIES, FolderVisibility, find_visibility
from mangrove.tree.access import PathAccess, TreeState
from mangrove.tree.rules import Rules
from tests.unit.search.walker import Shown, walk
from tests.unit.tree.builders import meta
from tests.unit.tree.environment import ALL_RIGHTS, TreeEnv

NAMES = ("a", "b")
FOLDERS = [f"{outer}/{two}/{three}" for outer in NAMES for two in NAMES for three in NAMES]
DEEP = [f"{folder}/{name}" for folder in FOLDERS for name in ("x.txt", "secret.txt")]
WIDE = [f"{outer}/{two}.txt" for outer in NAMES for two in ("x", "secret")]
SHALLOW = ("x.txt", "secret.txt", "b/x.txt", "b/secret.txt")
PLACES = (
    "/", "/disk", "/disk/a", "/disk/a/b", "/disk/a/b/a", "/disk/b", "/disk/b/a", "/disk/a/nested", "/disk/a/nested/b",
    "/alias", "/alias/b", "/alias/b/a", "/both", "/both/one", "/both/two", "/both/one/b", "/far", "/far/below",
    "/far/below/deep", "/far/below/deep/b",
)  # fmt: skip
PASSWORD = "sesame"


@pytest.fixture
def env(tree: TreeEnv) -> TreeEnv:
    """A storage in another, a folder that leads to mounts alone, an alias of a folder, and one of two places."""
    tree.mount_disk("/disk", *DEEP, *WIDE)
    tree.mount_disk("/disk/a/nested", *SHALLOW)
    tree.mount_disk("/far/below/deep", *SHALLOW)
    tree.mount("/alias", "Alias", options={"paths": "/disk/a"})
    tree.mount("/both", "Alias", options={"paths": "one:/disk/b\ntwo:/far/below/deep"})
    return tree


def make_rule(luck: random.Random, user: int) -> dict[str, Any]:
    """Return one or several kinds of rules."""
    rule: dict[str, Any] = {}
    if luck.random() < 0.5:
        rule |= {"hide": luck.choice(["^secret", "^b$", "^(c|x.txt)$", "nested", "deep|one"])}
        rule |= {"h_sub": luck.random() < 0.7}
    if luck.random() < 0.35:
        rule |= {"password": luck.choice([PASSWORD, "other"]), "p_sub": luck.random() < 0.6}
    if luck.random() < 0.35:
        rule |= {"read_users": luck.choice([[user], [user + 1]]), "read_users_sub": luck.random() < 0.6}
    return rule


def make_rules(luck: random.Random, user: int) -> Rules:
    return Rules({place: meta(place, **make_rule(luck, user)) for place in luck.sample(PLACES, luck.randint(1, 5))})


def judge_all(access: PathAccess, rows: set[Shown]) -> set[Shown]:
    """Of the rows those that the judge of a search lets pass."""
    evaluator, visible = FolderVisibility(access), set()
    patterns = [compile_pattern(pattern) for pattern in evaluator.hidable.patterns]
    for row in rows:
        parent = TreePath(row.parent)
        visibility = evaluator.evaluate(parent) if parent.within(access.path) else NOTHING
        if visibility is EVERYTHING or (callable(visibility) and visibility(Hit(parent, row.name, row.is_dir, 0, 0.0))):
            visible.add(row)
        elif callable(visibility):
            is_doubtful = row.is_dir and evaluator.hidable.folders
            assert is_doubtful or any(pattern.search(row.name) for pattern in patterns)
    return visible


@pytest.mark.parametrize("seed", range(3))
def test_what_is_found_is_what_listings_show(env: TreeEnv, seed: int) -> None:
    luck = random.Random(seed)
    tree = env.run(TreeState.read())
    everything = env.run(walk(env.access("/")))
    for _ in range(12):
        rules = make_rules(luck, env.user.id)
        tree.table.version += 1  # what listings keep is told apart by it
        seen = replace(env.user, permission=luck.choice([ALL_RIGHTS, ALL_RIGHTS, ALL_RIGHTS | Right.SEE_HIDDEN]))
        password = luck.choice(["", PASSWORD])
        for top in ("/", luck.choice(["/both", "/alias", "/disk/a", "/far"]), luck.choice(PLACES)):
            access = PathAccess.make(Caller(seen, Right.READ), TreePath(top), password, replace(tree, rules=rules))
            if access.may_read():
                assert judge_all(access, everything) == env.run(walk(access)), (seed, top)


def test_who_may_see_everything_costs_no_judgement(env: TreeEnv) -> None:
    rule = meta("/disk/a", hide="secret", h_sub=True, password=PASSWORD, p_sub=True)
    tree = env.run(TreeState.read())

    def is_needed(top: str, permission: int, *rules: PathRule) -> bool:
        who = Caller(replace(env.user, permission=permission), Right.READ)
        compiled = Rules({meta.path: meta for meta in rules})
        return FolderVisibility(PathAccess.make(who, TreePath(top), PASSWORD, replace(tree, rules=compiled))).is_needed

    assert not is_needed("/", ALL_RIGHTS)
    assert is_needed("/", ALL_RIGHTS, rule) and is_needed("/disk/a/b", ALL_RIGHTS, rule)
    assert is_needed("/alias", ALL_RIGHTS, rule) and not is_needed("/disk/b", ALL_RIGHTS, rule)
    assert not is_needed("/", 0xFFFF, rule)


def test_a_judge_is_kept_for_its_caller_password_folder_and_rules(env: TreeEnv) -> None:
    env.add_rule("/disk/a", hide="secret")
    first = env.run(find_visibility(env.access("/disk")))
    assert env.run(find_visibility(env.access("/disk"))) is first
    for other in (env.access("/disk", password="x"), env.access("/disk/a")):
        assert env.run(find_visibility(other)) is not first
    env.add_rule("/disk/b", hide="secret")
    assert env.run(find_visibility(env.access("/disk"))) is not first
    for number in range(VISIBILITIES.max_weight):
        env.run(find_visibility(env.access("/disk", password=str(number))))
    assert len(VISIBILITIES.open()) == VISIBILITIES.max_weight


def test_very_many_folders_are_judged_quickly_and_few_are_remembered(env: TreeEnv) -> None:
    rules = Rules({"/disk": meta("/disk", password=PASSWORD), "/disk/a": meta("/disk/a", hide="^secret", h_sub=True)})
    tree = env.run(TreeState.read())
    who = Caller(replace(env.user, permission=ALL_RIGHTS), Right.READ)
    evaluator = FolderVisibility(PathAccess.make(who, TreePath("/"), PASSWORD, replace(tree, rules=rules)))
    for number in range(2000):
        assert evaluator.evaluate(TreePath(f"/disk/b/{number}/x")) is EVERYTHING
    assert len(evaluator._known) < 10
    for number in range(2000):
        assert evaluator.evaluate(TreePath(f"/disk/a/secret {number}/x")) is NOTHING
