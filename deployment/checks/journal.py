"""Changes of a storage are written to the log of changes, and listings are dropped in few places."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from deployment.checks.project import Function, Project, Source, Violation

CHANGING_METHODS = {
    "write", "makedirs", "rename", "move", "copy", "remove", "remove_unchanged", "remove_empty", "put_url", "finish",
    "copy_from", "discard", "set_aside", "set_many_aside",
}  # fmt: skip
"""The methods of a driver that change a folder."""

DROPPING_METHODS = {"forget", "forget_below", "clear"}


DRIVER_MODULES = ("mangrove.drivers", "mangrove.tree.trash.keeping", "mangrove.tree.trash.moving")
"""The modules of drivers, and of drivers that wrap others. The callers of their operations use the journal."""


def iter_method_calls(source: Source) -> Iterator[tuple[Function, ast.Attribute]]:
    """Yield each function with each method that it calls."""
    for function in source.functions:
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                yield function, node.func


def storage_changes_are_logged(project: Project) -> Iterator[Violation]:
    """A function that changes a storage uses the journal. Functions whose callers use it are exceptions."""
    for source in project.product:
        if source.module.startswith(DRIVER_MODULES):
            continue
        silent = {
            function.name: function
            for function, method in iter_method_calls(source)
            if method.attr in CHANGING_METHODS
            and ast.unparse(method.value).endswith("driver")
            and "journal." not in ast.unparse(function)
        }
        for name, function in silent.items():
            if not project.allows("storage_changes_are_logged", f"{source.module}.{name}"):
                yield source.report(function, f"{name} changes a storage without the journal")


def listings_are_dropped_by_few_modules(project: Project) -> Iterator[Violation]:
    for source in project.product:
        for _, method in iter_method_calls(source):
            drops = method.attr in DROPPING_METHODS and ast.unparse(method.value) == "listings()"
            if drops and not project.allows("listings_are_dropped_by_few_modules", source.module):
                yield source.report(method, f"{source.module} drops listings")
