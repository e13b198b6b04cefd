"""The tree of failures in the docstring of `mangrove.core.problems` is that of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pkgutil import walk_packages

import pytest

import mangrove
from mangrove.core import problems
from mangrove.core.problems import NotFound, Problem, StorageProblem

LINE = re.compile(r"(?P<lines>[│├└─ ]*)(?P<name>\w+) +(?P<code>\d{3})  (?P<meaning>.+)")
INDENT = 4  # characters of a level


@dataclass(frozen=True, order=True)
class Node:
    name: str
    parent: str
    code: int


def drawn() -> Iterator[Node]:
    """Iterate over the nodes of the drawing, from the top."""
    above: list[str] = []
    for line in (problems.__doc__ or "").splitlines():
        match = LINE.fullmatch(line)
        if match is None:
            continue
        level = len(match["lines"]) // INDENT
        above[level:] = [match["name"]]
        parent = above[level - 1] if level else "Exception"
        yield Node(match["name"], parent, int(match["code"]))


def defined(kind: type[Problem]) -> Iterator[Node]:
    """Iterate over the classes of the package."""
    parent = kind.__base__
    assert parent is not None
    if kind.__module__.startswith("mangrove."):
        yield Node(kind.__name__, parent.__name__, kind.code)
    for child in kind.__subclasses__():
        yield from defined(child)


def test_drawing_every_class_of_the_package_has_its_parent_and_code() -> None:
    for module in walk_packages(mangrove.__path__, "mangrove."):
        import_module(module.name)
    assert sorted(drawn()) == sorted(defined(Problem))


def test_a_name_is_one_class_since_state_machines_retry_on_it() -> None:
    names = [node.name for node in drawn()]
    assert len(names) == len(set(names)) > 20


def test_a_problem_says_its_own_text_unless_it_is_given_another() -> None:
    assert (str(NotFound()), NotFound().message, NotFound().data) == ("object not found", "object not found", None)
    assert Problem("another", data={"id": 1}).data == {"id": 1}
    assert Problem("").message == ""


def test_a_prefix_keeps_the_class_and_the_data() -> None:
    with pytest.raises(StorageProblem) as caught:
        raise NotFound(data=7).with_prefix("failed get obj")
    assert (type(caught.value), str(caught.value)) == (NotFound, "failed get obj: object not found")
    assert caught.value.data == 7
