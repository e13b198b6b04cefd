"""The platform of the process under test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mangrove.core import runtime
from mangrove.core.config import Config, config
from mangrove.core.platform import Platform, TaskDispatcher, platform


def use_config(**changes: Any) -> Platform:
    """Change the configuration of the present runtime, and with it the platform; the dispatcher of tasks stays."""
    dispatcher = platform().dispatcher
    runtime.put(Config, replace(config(), **changes))
    use_dispatcher(dispatcher)
    return platform()


def use_cloud(*, is_function: bool = False) -> Platform:
    """Be in the cloud: as a function, or as a test that may use folders of this computer."""
    return use_config(data=None, is_function=is_function)


def use_standalone(data: Path = Path("/data")) -> Platform:
    """Be `mangrove serve`."""
    return use_config(data=data, is_function=False)


def use_dispatcher(dispatcher: TaskDispatcher) -> None:
    """Give tasks to `dispatcher`."""
    platform().dispatcher = dispatcher


def use_boot(monkeypatch: pytest.MonkeyPatch, boot: str) -> None:
    """Let this computer have been started with the id `boot`."""
    monkeypatch.setattr(platform(), "read_boot_id", lambda: boot)
