"""Failures: names, words and messages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

import pytest

import mangrove
from mangrove.core.problems import BadRequest, EntryNotFound, Problem, RecordNotFound, StorageProblem


def list_problems(kind: type[Problem] = Problem) -> Iterator[type[Problem]]:
    """Iterate over the class and all its subclasses in the package."""
    if kind.__module__.startswith("mangrove."):
        yield kind
    for child in kind.__subclasses__():
        yield from list_problems(child)


def test_name_of_a_problem_is_unique_since_state_machines_retry_on_it() -> None:
    for module in walk_packages(mangrove.__path__, "mangrove."):
        import_module(module.name)
    names = [kind.__name__ for kind in list_problems()]
    assert len(names) == len(set(names)) > 60


def test_word_is_the_name_of_the_class_or_what_clients_know() -> None:
    class UrlRefused(BadRequest):
        """A class of another module."""

    assert (RecordNotFound().word, EntryNotFound().word, UrlRefused().word) == (
        "RecordNotFound", "NotFound", "BadRequest",
    )  # fmt: skip


def test_a_problem_says_its_own_text_unless_it_is_given_another() -> None:
    problem = EntryNotFound()
    assert (str(problem), problem.message, problem.data) == ("object not found", "object not found", None)
    assert Problem("another", data={"id": 1}).data == {"id": 1}
    assert Problem("").message == ""


def test_a_prefix_keeps_the_class_and_the_data() -> None:
    with pytest.raises(StorageProblem) as caught:
        raise EntryNotFound(data=7).with_prefix("failed get obj")
    assert (type(caught.value), str(caught.value)) == (EntryNotFound, "failed get obj: object not found")
    assert caught.value.data == 7
