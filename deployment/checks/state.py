"""State has an owner: objects that change while a process lives are in slots of `mangrove.core.runtime`."""

from __future__ import annotations

import ast
import queue
import threading
import types
import weakref
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor
from enum import EnumType
from importlib import import_module
from typing import Any

from deployment.checks.project import Project, Violation, get_last_word, list_targets

RUNTIME = "mangrove.core.runtime"  # the module of the runtime
MAX_SLOTS = 25
CONTAINERS = (list, dict, set, bytearray, deque)
MUTABLE = (
    weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet, type(threading.Lock()),
    type(threading.RLock()), threading.Semaphore, threading.Condition, threading.Event, threading.local, Executor,
    queue.Queue, queue.SimpleQueue, Iterator,
)  # fmt: skip
MUTATORS = {
    "append", "extend", "insert", "remove", "pop", "popitem", "clear", "add", "discard", "update", "setdefault",
    "sort", "reverse", "appendleft", "popleft",
}  # fmt: skip


def no_global_statement(project: Project) -> Iterator[Violation]:
    for source in project.product:
        for node in source.nodes:
            if isinstance(node, ast.Global):
                yield source.report(node, f"global {', '.join(node.names)}")


def no_mutable_module_state(project: Project) -> Iterator[Violation]:
    """A module keeps constants only; the exceptions are classes whose objects do not change after the import."""
    mutated_names = find_mutated_names(project)
    for source in project.product:
        if source.module == RUNTIME:
            continue
        module = import_module(source.module)
        for name, node in find_module_names(source.tree).items():
            if not name.startswith("__"):
                text = describe_state(project, name, getattr(module, name, None), mutated_names)
                if text:
                    yield source.report(node, text)


def find_module_names(tree: ast.Module) -> dict[str, ast.AST]:
    """Return the names that a module binds when it is imported, except imports, functions and classes."""
    names: dict[str, ast.AST] = {}
    nodes: list[ast.AST] = list(tree.body)
    while nodes:
        node = nodes.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        names |= {target.id: node for target in list_targets(node) if isinstance(target, ast.Name)}
        nodes += ast.iter_child_nodes(node)
    return names


def describe_state(project: Project, name: str, value: Any, mutated_names: set[str]) -> str:
    """Return what is wrong with a module that keeps `value` under `name`; "" if nothing is."""
    kind = type(value)
    if isinstance(value, MUTABLE) or kind.__module__.startswith("asyncio."):
        return f"{name} is a {kind.__qualname__}"
    if isinstance(value, CONTAINERS):
        if name != name.upper():
            return f"{name} is a {kind.__qualname__} and not named as a constant"
        return f"{name} is a constant that is changed somewhere" if name in mutated_names else ""
    if kind.__module__.partition(".")[0] in ("mangrove", "functions") and not is_constant(value):
        class_name = f"{kind.__module__}.{kind.__qualname__}"
        return "" if project.allows("no_mutable_module_state", class_name) else f"{name} is an object of {class_name}"
    return ""


def is_constant(value: Any) -> bool:
    """Return True for a class, a function, an enumeration, a frozen dataclass, a tuple, a number or a str."""
    kind = type(value)
    parameters = getattr(kind, "__dataclass_params__", None)
    return (
        isinstance(value, type | tuple | str | int | types.FunctionType)
        or isinstance(kind, EnumType)
        or (parameters is not None and parameters.frozen)
    )


def find_mutated_names(project: Project) -> set[str]:
    """Return the names of which code sets or deletes an item, or calls a method that changes them."""
    owners: list[ast.expr] = []
    for source in project.product:
        for node in source.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
                owners.append(node.func.value)
            for target in list_targets(node):
                if isinstance(target, ast.Subscript):
                    owners.append(target.value)
                elif isinstance(node, ast.AugAssign):
                    owners.append(target)
    return {get_last_word(owner) for owner in owners}


def no_assignment_to_other_modules(project: Project) -> Iterator[Violation]:
    for source in project.product:
        modules = project.imported_modules(source)
        for node in source.nodes:
            for target in list_targets(node):
                if isinstance(target, ast.Attribute) and get_last_word(target.value) in modules:
                    yield source.report(node, f"{ast.unparse(target)} is set")


def only_pure_functions_are_cached(project: Project) -> Iterator[Violation]:
    """A cache lives as long as the process, so its values may depend only on the code."""
    for source in project.product:
        for function in source.functions:
            decorators = [ast.unparse(decorator).split("(")[0] for decorator in function.decorator_list]
            if any(decorator.split(".")[-1] in ("cache", "lru_cache") for decorator in decorators):
                name = f"{source.module}.{function.name}"
                if not project.allows("only_pure_functions_are_cached", name):
                    yield source.report(function, f"{function.name} is cached")


def few_runtime_slots(project: Project) -> Iterator[Violation]:
    """The runtime has few slots, since a further class of process state is rarely needed."""
    slots: dict[str, Violation] = {}
    for source in project.product:
        for node in source.nodes:
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("runtime.get", "runtime.put"):
                kind = node.args[0]
                name = source.resolve(kind.id) if isinstance(kind, ast.Name) else ast.unparse(kind)
                slots.setdefault(name, source.report(node, f"{name} is slot {len(slots) + 1} of {MAX_SLOTS}"))
    yield from list(slots.values())[MAX_SLOTS:]
