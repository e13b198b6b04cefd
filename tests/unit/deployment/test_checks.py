"""Each rule for the shape of the code finds what breaks it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deployment.checks import journal, modules, state, words
from deployment.checks.project import Project, Source, Violation

WORDS: dict[str, Any] = {
    "paths": ["tests/", "shared/"],
    "names": ["one"],
    "openers": ["What"],
    "max_test_name_length": 20,
    "constants": {"anywhere": ["MOST", "AT_ONCE"], "alone": ["LATER"]},
}
BROKEN = {
    state.no_global_statement: "def f():\n    global x\n    x = 1\n",
    state.no_assignment_to_other_modules: "from mangrove import other\nother.x = 1\n",
    state.only_pure_functions_are_cached: "@cache\ndef f(): ...\n",
    journal.storage_changes_are_logged: "async def f(self):\n    await self.driver.remove(1)\n",
    journal.listings_are_dropped_by_few_modules: "def f():\n    listings().clear()\n",
    modules.modules_are_short: "\n" * (modules.MAX_LINES + 1),
    words.names_are_nouns: "for one in (): ...\n",
    words.constants_name_what_they_bound: "MOST_TASKS = 1\n",
    words.docstrings_open_with_a_verb_or_noun: 'def f():\n    """What it does."""\n',
}
VALID_MODULE = '''"""A module."""
MAX_TASKS, ALMOST = 1, 2
def f(driver, tasks):
    """Remove the tasks."""
    with journal.change():
        driver.remove(tasks)
    for task in tasks:
        task.clear()
'''


@pytest.fixture(autouse=True)
def checked_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "read_words", lambda: WORDS)


def make_project(text: str, path: str = "shared/mangrove/a.py", **exceptions: dict[str, str]) -> Project:
    other = Source("shared/mangrove/other.py", "mangrove.other", "")
    return Project([Source(path, "mangrove.a", text), other], exceptions)


def describe(violations: Iterator[Violation]) -> list[str]:
    return [f"{violation.place}: {violation.text}" for violation in violations]


@pytest.mark.parametrize("rule", BROKEN, ids=lambda rule: rule.__name__)
def test_rule_finds_what_breaks_it(rule: Any) -> None:
    assert len(list(rule(make_project(BROKEN[rule])))) == 1
    assert list(rule(make_project(VALID_MODULE))) == []


def test_rule_says_where_it_is_broken() -> None:
    project = make_project("x = 1\nfor one in (): ...\n")
    assert describe(words.names_are_nouns(project)) == ["shared/mangrove/a.py:2: one does not say what it is"]


def test_exception_is_allowed_and_one_that_is_not_needed_is_named() -> None:
    reasons = {"mangrove.a.f": "pure", "mangrove.a.g*": "gone"}
    project = make_project("@cache\ndef f(): ...\n", only_pure_functions_are_cached=reasons)
    assert list(state.only_pure_functions_are_cached(project)) == []
    assert [name for _, name in project.list_unused()] == ["mangrove.a.g*"]


def test_words_of_other_paths_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WORDS, "paths", ["shared/mangrove/b"])
    assert list(words.names_are_nouns(make_project("one = 1\n"))) == []


def test_tests_may_not_replace_private_names() -> None:
    text = 'from mangrove import other\nmonkeypatch.setattr(other, "_x", 1)\npatch("mangrove.other._y")\nother._z = 1\n'
    lines = describe(modules.tests_replace_no_private_names(make_project(text, "tests/test_a.py")))
    assert {line.rpartition(": ")[2] for line in lines} == {f"_{name} is replaced" for name in "xyz"}


def test_second_class_with_a_name_is_found() -> None:
    project = make_project("class Row: ...\nclass Other: ...\n")
    project.sources.append(Source("shared/mangrove/b.py", "mangrove.b", "class Row: ...\n"))
    project.sources.append(Source("shared/mangrove/c.py", "mangrove.c", f"{modules.DERIVED}\nclass Row: ...\n"))
    lines = describe(modules.class_names_have_one_meaning(project))
    assert lines == ["shared/mangrove/b.py:1: mangrove.a has another class Row"]


def test_names_of_tests_are_bounded() -> None:
    text = "def test_of_twenty_letters(): ...\ndef test_short(): ...\n"
    assert len(list(words.test_names_are_short(make_project(text, "tests/test_a.py")))) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "x is a list and not named as a constant"),
        (iter(()), "x is a tuple_iterator"),
        (Project([], {}), ""),
        ((), ""),
    ],
)
def test_state_of_a_module_is_described(value: object, text: str) -> None:
    assert state.describe_state(make_project(""), "x", value, set()) == text


def test_constant_that_is_changed_is_described() -> None:
    project = make_project("X = {}\ndef f():\n    X['a'] = 1\n")
    assert state.describe_state(project, "X", {}, state.find_mutated_names(project)).endswith("changed somewhere")
