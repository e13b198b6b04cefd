"""Modules stay short, a class name has one meaning, and tests leave private names alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from deployment.checks.project import Project, Source, Violation, get_last_word, list_targets

MAX_LINES = 400
DERIVED = "# Derived"  # the first words of a file that `make generate` writes
PATCHING_FUNCTIONS = ("setattr", "delattr", "patch", "patch.object")


def modules_are_short(project: Project) -> Iterator[Violation]:
    for source in project.sources:
        lines = source.text.count("\n")
        if lines > MAX_LINES and not source.text.startswith(DERIVED):
            yield Violation(f"{source.path}:{lines}", f"{lines} lines, at most {MAX_LINES}")


def class_names_have_one_meaning(project: Project) -> Iterator[Violation]:
    """No two modules of a service define classes with one name. The client of the API has its models anew."""
    modules: dict[str, str] = {}
    for source in project.product:
        if source.text.startswith(DERIVED):
            continue
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and modules.setdefault(node.name, source.module) != source.module:
                yield source.report(node, f"{modules[node.name]} has another class {node.name}")


def tests_replace_no_private_names(project: Project) -> Iterator[Violation]:
    for source in project.tests:
        for node, name in iter_replaced_names(source, project.imported_modules(source)):
            if name.startswith("_") and not project.allows("tests_replace_no_private_names", f"{source.path} {name}"):
                yield source.report(node, f"{name} is replaced")


def iter_replaced_names(source: Source, modules: set[str]) -> Iterator[tuple[ast.AST, str]]:
    """Yield the names that a test replaces: by setattr or patch, or by an assignment to a name of a module."""
    for node in source.nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(PATCHING_FUNCTIONS):
            for argument in node.args[:2]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield node, argument.value.rpartition(".")[2]
        for target in list_targets(node):
            if isinstance(target, ast.Attribute) and get_last_word(target.value) in modules:
                yield node, target.attr
