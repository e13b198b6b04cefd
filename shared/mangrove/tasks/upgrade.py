"""Translate the tasks of version 0.3.0: specifications and cursors of version 1 become those of version 2.

Lists in staging keep their form, so a queued or unfinished task continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mangrove.records.tasks.model import Task
from mangrove.tasks.core.registry import KINDS

Stored = dict[str, Any]
OLD, NEW = 1, 2
REMOVE_CURSOR = (
    "attempt", "planned", "folder_count", "folders_walked", "next_page", "folders_left", "failed_count", "errors",
)  # fmt: skip


def upgrade_task(task: Task) -> Task:
    """Return a task with its specification and cursor as this version stores them. A task of this version is returned
    as it is."""
    if task.spec.get("version") != OLD:
        return task
    is_transfer = KINDS[task.kind].machine == "transfer"
    if is_transfer and task.spec.get("removes"):
        spec, cursor = _make_removal(task.spec), _make_removal_cursor(task.cursor)
    else:
        spec = _make_transfer(task.spec) if is_transfer else dict(task.spec)
        cursor = _make_transfer_cursor(task.cursor) if is_transfer else dict(task.cursor)
    return replace(task, spec=spec | {"version": NEW}, cursor=cursor | {"version": NEW} if cursor else {})


def _make_removal(old: Mapping[str, Any]) -> Stored:
    return {
        "machine": "remove",
        "folder": old["source"],
        "password": old.get("password", ""),
        "count": old.get("names", 0),
    }


def _make_removal_cursor(old: Mapping[str, Any]) -> Stored:
    return {key: old[key] for key in REMOVE_CURSOR if key in old} | ({"position": old["listed"]} if old else {})


def _make_transfer(old: Mapping[str, Any]) -> Stored:
    selection = "entry"
    if old.get("is_flat"):
        selection = "files"
    elif old.get("names"):
        selection = "renamed_list" if old.get("has_targets") else "list"
    same = ("password", "target_dir", "name", "overwrite", "keep_existing", "delete_policy")
    return {key: old[key] for key in same if key in old} | {
        "source": old.get("staged") or old.get("source", ""),
        "selection": selection,
        "count": old.get("names", 0),
    }


def _make_transfer_cursor(old: Mapping[str, Any]) -> Stored:
    if old.get("only_entry") is None:
        return dict(old)
    return {**old, "only_entry": [*old["only_entry"], ""]}
