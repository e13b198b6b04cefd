"""Changing per-path rules."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from mangrove import configuration
from mangrove.configuration import metas
from mangrove.core.problems import BadRequest, Problem, RelativePath
from mangrove.records.store.base import NameTaken
from tests.unit.tree import builders

pytestmark = pytest.mark.usefixtures("records")


def test_a_new_rule_has_a_clean_path_and_an_id_of_its_own() -> None:
    wish = builders.meta("//a/./b/", write=True, read_users=[3, 4], hide="^x\n\n\\.bak$")
    rule = metas.create(wish)
    assert asdict(rule) == asdict(wish) | {"id": 1, "path": "/a/b"}
    assert metas.get(1) == rule
    assert configuration.get_sync().metas == {"/a/b": rule}


def test_all_of_a_rule_is_replaced() -> None:
    rule = metas.create(builders.meta("/a", write=True, password="secret", header="hello"))
    other = metas.update(builders.meta("/b", id=rule.id, readme="text"))
    assert (other.path, other.write, other.password, other.header, other.readme) == ("/b", False, "", "", "text")
    assert list(configuration.get_sync().metas) == ["/b"]
    metas.delete(rule.id)
    assert configuration.get_sync().metas == {}


def test_a_line_that_is_no_pattern_is_refused_in_the_words_of_its_library() -> None:
    with pytest.raises(BadRequest) as refusal:
        metas.create(builders.meta("/a", hide="fine\n("))
    assert refusal.value.message == "( is illegal: error parsing regexp: missing ): ("
    rule = metas.create(builders.meta("/a", hide="fine"))
    with pytest.raises(BadRequest, match="is illegal"):
        metas.update(replace(rule, hide="*"))
    assert metas.get(rule.id).hide == "fine"


def test_a_path_has_one_rule_and_leads_nowhere_else() -> None:
    metas.create(builders.meta("/a"))
    with pytest.raises(NameTaken, match="has a rule already"):
        metas.create(builders.meta("/a/"))
    with pytest.raises(RelativePath):
        metas.create(builders.meta("/a/../b"))


def test_a_rule_that_is_not_there_is_named_as_clients_know_it() -> None:
    for work in (lambda: metas.get(9), lambda: metas.update(builders.meta("/a", id=9)), lambda: metas.delete(9)):
        with pytest.raises(Problem, match="failed get old meta: record not found"):
            work()
