"""Routes whose code can create a task, found in the code: functions by the functions and classes that they name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE, FUNCTIONS = ROOT / "shared", ROOT / "functions" / "api"
CREATORS = {"mangrove.tasks.core.queue.enqueue_many", "mangrove.tasks.index.indexing._start_requested"}
"""The functions that store tasks which a request asks for. Index runs that follow from a change are not asked for."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class CallGraph:
    """The definitions at the top of modules, and the names of other definitions in each."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, str]] = {}
        self._trees: dict[str, ast.Module] = {}
        for file in [*PACKAGE.rglob("*.py"), *FUNCTIONS.rglob("*.py")]:
            base = PACKAGE if file.is_relative_to(PACKAGE) else ROOT
            module = ".".join(file.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
            self._trees[module] = ast.parse(file.read_text())
            self._names[module] = dict(_list_names(module, self._trees[module]))
        self.callers: dict[str, set[str]] = defaultdict(set)
        for module, tree in self._trees.items():
            for node in tree.body:
                if isinstance(node, Definition):
                    for used in self._list_uses(module, node):
                        self.callers[used].add(f"{module}.{node.name}")

    def _list_uses(self, module: str, definition: ast.AST) -> Iterator[str]:
        for node in ast.walk(definition):
            if isinstance(node, ast.Name) and node.id in self._names[module]:
                yield self._resolve(self._names[module][node.id])
            elif isinstance(node, ast.Attribute) and ast.unparse(node.value) in self._names[module]:
                yield self._resolve(f"{self._names[module][ast.unparse(node.value)]}.{node.attr}")

    def _resolve(self, name: str) -> str:
        """Follow a name that a module has imported from another one."""
        module, _, attribute = name.rpartition(".")
        imported = self._names.get(module, {}).get(attribute, name)
        return name if imported == name else self._resolve(imported)

    def find_callers(self, names: set[str]) -> set[str]:
        """Return all definitions that use one of these, directly or through others."""
        users, pending = set(names), list(names)
        while pending:
            for caller in self.callers[pending.pop()] - users:
                users.add(caller)
                pending.append(caller)
        return users

    def list_routes(self) -> list[DeclaredRoute]:
        """Return the routes of all functions."""
        modules = ((module, tree) for module, tree in self._trees.items() if module.startswith("functions."))
        return [route for module, tree in modules for route in list_routes(module, tree)]


def _list_names(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield what each name of a module stands for, wherever in it the name is imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
    yield from ((node.name, f"{module}.{node.name}") for node in tree.body if isinstance(node, Definition))


@dataclass(frozen=True, slots=True)
class DeclaredRoute:
    """A route of a function, and whether it is declared to create tasks."""

    function: str
    method: str
    path: str
    takes_keys: bool


def list_routes(module: str, tree: ast.Module) -> Iterator[DeclaredRoute]:
    """Yield the routes that a module registers by decorators of `api`."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and ast.unparse(call.func).startswith("api."):
                takes_keys = any(keyword.arg == "creates_tasks" for keyword in call.keywords)
                path = ast.literal_eval(call.args[-1])
                yield DeclaredRoute(f"{module}.{node.name}", ast.unparse(call.func)[4:].upper(), path, takes_keys)
