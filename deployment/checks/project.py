"""The files that rules look at, parsed once."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXCEPTIONS = "deployment/checks/exceptions.toml"
FOLDERS = {"shared/mangrove": "shared", "functions": "", "deployment": "", "bench": "", "tests": ""}
"""Folders with code, and the folder from which their modules are named."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Violation:
    """A place, as file:line, and the reason."""

    place: str
    text: str


@dataclass(frozen=True)
class Source:
    """A file and the name of its module."""

    path: str
    module: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree."""
        return list(ast.walk(self.tree))

    @property
    def functions(self) -> Iterator[Function]:
        return (node for node in self.nodes if isinstance(node, Function))

    def report(self, node: ast.AST, text: str) -> Violation:
        """Return a violation at a node."""
        return Violation(f"{self.path}:{getattr(node, 'lineno', 1)}", text)

    @cached_property
    def imported_names(self) -> dict[str, str]:
        """The names that `from … import` binds, each with its full name."""
        return {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in self.nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def resolve(self, name: str) -> str:
        """Return the full name of what `name` means in this module."""
        return self.imported_names.get(name, f"{self.module}.{name}")


@dataclass
class Project:
    """All sources, and the exceptions to the rules.

    `exceptions` has, by the name of a rule, the exceptions with their reasons.
    """

    sources: list[Source]
    exceptions: dict[str, dict[str, Any]]
    used: set[tuple[str, str]] = field(default_factory=set)

    @cached_property
    def product(self) -> list[Source]:
        """The sources that run in a service."""
        return [source for source in self.sources if source.path.startswith(("shared/", "functions/"))]

    @cached_property
    def tests(self) -> list[Source]:
        return [source for source in self.sources if source.path.startswith("tests/")]

    @cached_property
    def module_names(self) -> set[str]:
        """The full names of all modules and packages."""
        modules = {source.module for source in self.sources}
        return modules | {module.rpartition(".")[0] for module in modules}

    def imported_modules(self, source: Source) -> set[str]:
        """Return the names under which a source imports modules of the project."""
        return {name for name, full_name in source.imported_names.items() if full_name in self.module_names}

    def allows(self, rule: str, name: str) -> bool:
        """Return True if `name` is an exception to a rule, or matches one, and note that it is needed."""
        matching = [pattern for pattern in self.exceptions.get(rule, {}) if fnmatchcase(name, pattern)]
        self.used |= {(rule, pattern) for pattern in matching}
        return bool(matching)

    def list_unused(self) -> Iterator[tuple[str, str]]:
        """Yield the place and name of each exception that no rule asked for."""
        for rule, names in self.exceptions.items():
            yield from ((f"{EXCEPTIONS}: {rule}", name) for name in names if (rule, name) not in self.used)


def read_project(root: Path) -> Project:
    """Read all sources below a folder, and its exceptions."""
    sources = []
    for folder, base in FOLDERS.items():
        for path in sorted((root / folder).rglob("*.py")):
            module = ".".join(path.relative_to(root / base).with_suffix("").parts).removesuffix(".__init__")
            sources.append(Source(str(path.relative_to(root)), module, path.read_text()))
    return Project(sources, tomllib.loads((root / EXCEPTIONS).read_text()))


def list_targets(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the targets of an assignment or a deletion."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        targets = list(node.targets)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    for target in targets:
        yield from target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def get_last_word(node: ast.expr) -> str:
    """Return the name of a function or method without its qualifier; "" for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
