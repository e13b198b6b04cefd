"""Names and docstrings use standard words. `words.toml` lists the forbidden words and the exceptions.

These rules look at the paths that `words.toml` names as checked.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from deployment.checks.project import Function, Project, Source, Violation

WORDS = Path(__file__).with_name("words.toml")


@cache
def read_words() -> dict[str, Any]:
    return tomllib.loads(WORDS.read_text())


def list_checked(project: Project) -> Iterator[Source]:
    prefixes = tuple(read_words()["paths"])
    return (source for source in project.sources if source.path.startswith(prefixes))


def iter_bound_names(source: Source) -> Iterator[tuple[ast.AST, str]]:
    """Yield the variables, parameters, attributes and fields that a source binds."""
    for node in source.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node, node.attr
        elif isinstance(node, ast.arg):
            yield node, node.arg
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node, node.name


def names_are_nouns(project: Project) -> Iterator[Violation]:
    forbidden = set(read_words()["names"])
    for source in list_checked(project):
        for node, name in iter_bound_names(source):
            if name.strip("_") in forbidden and not project.allows("names_are_nouns", f"{source.path} {name}"):
                yield source.report(node, f"{name} does not say what it is")


def constants_name_what_they_bound(project: Project) -> Iterator[Violation]:
    """`MAX_NAMES_PER_REQUEST`, not `MOST`: a constant has a noun, and its unit where it has one."""
    words = read_words()["constants"]
    for source in list_checked(project):
        for node, name in iter_bound_names(source):
            if name != name.upper() or len(name) < 2 or not (word := find_fragment(name.strip("_"), words)):
                continue
            if not project.allows("constants_name_what_they_bound", f"{source.path} {name}"):
                yield source.report(node, f"{name}: {word} is not a noun")


def find_fragment(name: str, words: dict[str, list[str]]) -> str:
    """Return the forbidden word in the name of a constant, "" for none."""
    if name in words["alone"]:
        return name
    return next((word for word in words["anywhere"] if re.search(rf"(^|_){word}(_|$)", name)), "")


def docstrings_open_with_a_verb_or_noun(project: Project) -> Iterator[Violation]:
    openers = set(read_words()["openers"])
    for source in list_checked(project):
        for node in source.nodes:
            if not isinstance(node, Function | ast.ClassDef | ast.Module):
                continue
            opener = re.match(r"\w*", ast.get_docstring(node) or "")
            if opener and opener[0] in openers:
                name = getattr(node, "name", "")
                if not project.allows("docstrings_open_with_a_verb_or_noun", f"{source.path} {name}".strip()):
                    yield source.report(node, f"the docstring begins with {opener[0]}")


def test_names_are_short(project: Project) -> Iterator[Violation]:
    """`test_<unit>_<condition>_<result>`; the story goes into the docstring."""
    limit = read_words()["max_test_name_length"]
    for source in project.tests:
        for function in source.functions:
            if function.name.startswith("test_") and len(function.name) > limit:
                yield source.report(function, f"the name has {len(function.name)} characters, at most {limit}")
