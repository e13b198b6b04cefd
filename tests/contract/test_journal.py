"""No change of a storage escapes the journal: whoever calls a driver that changes something is known here.

That the log is written before the storage changes is shown by `tests/unit/tasks/test_changes.py`, verb by verb.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.contract.test_runtime import Source, code

CHANGING = {
    "write", "makedirs", "rename", "move", "copy", "remove", "remove_unchanged", "remove_empty", "put_url", "finish",
    "copy_from",
}  # fmt: skip
"""The verbs of a driver after which a folder holds something else."""

NOTED_ABOVE = {
    "mangrove.tasks.transfer.batches._copy_directly": "tasks.transfer.copy_on, around each batch",
    "mangrove.tasks.upload.completion._finish": "_complete_direct; elsewhere the file is in staging",
    "mangrove.tasks.core.endpoints.makedirs": "only in staging; in a storage it is tree.names.makedirs",
    "mangrove.tasks.core.endpoints.remove_unchanged": "tasks.transfer.copy_on",
    "mangrove.tasks.core.file_copy._copy_within": "tasks.transfer.copy_on",
    "mangrove.tasks.core.file_copy._copy_from": "tasks.transfer.copy_on",
    "mangrove.tasks.core.file_copy.copy": "tasks.transfer.copy_on",
    "mangrove.tasks.core.file_copy._finish": "tasks.transfer.copy_on",
    "mangrove.tasks.transfer.small_files._store": "tasks.transfer.copy_on",
    "mangrove.tasks.core.folders._remove_empty": "tasks.core.folders.remove_folders",
}
"""Functions that change a storage within a change that one of their callers notes."""

DROPPING = {"forget", "forget_below", "clear"}
DROPPERS = {
    "mangrove.tree.operations.journal": "what is changed",
    "mangrove.tree.operations.downloads": "a file that is to be looked at anew",
    "mangrove.tree.administration": "a storage that is another one, or gone",
}
"""Modules that drop listings, and of what."""


def iter_calls(source: Source) -> Iterator[tuple[ast.AsyncFunctionDef | ast.FunctionDef, ast.Attribute]]:
    """The calls of a method in each function."""
    for function in ast.walk(source.tree):
        if isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    yield function, node.func


def find_changes() -> dict[str, str]:
    """The functions outside of the drivers that have a driver change something, with their text."""
    return {
        f"{source.module}.{function.name}": ast.unparse(function)
        for source in code()
        if not source.module.startswith("mangrove.drivers")
        for function, called in iter_calls(source)
        if called.attr in CHANGING and ast.unparse(called.value).endswith("driver")
    }


def test_who_changes_a_storage_notes_it_or_is_called_by_who_does() -> None:
    silent = {name for name, text in find_changes().items() if "journal." not in text}
    assert silent == NOTED_ABOVE.keys()


def test_nobody_else_drops_listings() -> None:
    found = {
        source.module
        for source in code()
        for _, called in iter_calls(source)
        if called.attr in DROPPING and ast.unparse(called.value) == "listings()"
    }
    assert found == DROPPERS.keys()
