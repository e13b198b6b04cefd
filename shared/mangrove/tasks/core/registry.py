"""The machines and kinds of tasks that the packages of `mangrove.tasks` declare."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mangrove.records.tasks.model import Task
from mangrove.tasks.core.model import Machine, TaskKind

PACKAGES = ("transfer", "remove", "download", "decompress", "compress", "index")


def _load(package: str) -> Any:
    return import_module(f"mangrove.tasks.{package}.declaration")


MACHINES: dict[str, Machine] = {package: _load(package).MACHINE for package in PACKAGES}
KINDS: dict[str, TaskKind] = {kind.name: kind for package in PACKAGES for kind in _load(package).KINDS}


def find_machine(task: Task) -> str:
    """Return the name of the machine of a task: that of its kind, unless its specification names another one."""
    machine = task.spec.get("machine")
    return machine if machine in MACHINES else KINDS[task.kind].machine


def resolve(machine: str, reference: str) -> Any:
    """Return the object that a declaration names as `module:name` inside its package."""
    module, name = reference.split(":")
    return getattr(import_module(f"mangrove.tasks.{machine}.{module}"), name)
