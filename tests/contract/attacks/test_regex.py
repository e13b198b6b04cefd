"""Patterns and templates that are to cost more than a request may, and what a rename by pattern tells."""

from __future__ import annotations

import time

import pytest

from tests.contract.attacks.scene import Scene, add_rule

TEMPLATES = ["$0" * 500, "${0}" * 250, "x" * 1000, "$1" * 500, "$$" * 500]
PATTERNS = ["(.*)", "(.)", "^(.+)$", "((x?){31}){31}", "(.*){1000}$", "((?i)\\pL{1,200}\\pN?)*$", "(" * 500]


@pytest.mark.parametrize("template", TEMPLATES)
def test_an_expansion_stops_at_the_longest_name(fresh: Scene, template: str) -> None:
    (fresh.disk / ("x" * 250)).write_text("kept")
    before = fresh.scan_own()
    for pattern in PATTERNS:
        began = time.monotonic()
        answer = fresh.user.post("/api/fs/regex_rename", src_dir="/", src_name_regex=pattern, new_name_regex=template)
        assert answer["code"] != 200, (pattern, answer)
        assert time.monotonic() - began < 60
    assert fresh.scan_own() == before


@pytest.mark.parametrize("rule", [{"password": "sesame"}, {"read_users": [10**9]}, {"hide": ".", "h_sub": True}])
def test_a_pattern_spells_out_no_name_that_may_not_be_read(fresh: Scene, rule: dict[str, object]) -> None:
    path = fresh.base if "hide" not in rule else fresh.base.rpartition("/")[0]
    with add_rule(fresh.admin, path, **rule):
        told = {
            (answer["code"], answer["message"])
            for guess in ("^f", "^g", "^no", "(")
            for answer in [
                fresh.user.post("/api/fs/regex_rename", src_dir="/", src_name_regex=guess, new_name_regex="..")
            ]
        }
    assert told == {(403, "password is incorrect or you have no permission")}
