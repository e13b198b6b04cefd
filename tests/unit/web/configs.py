"""A configuration of the process for tests of one module that asks for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mangrove.core.config import Config

LOCAL = Config(
    tables="mangrove",
    key_file=None,
    key_secret=None,
    data=Path("/data"),
    site_url="",
    snapshot_seconds=None,
    token_hours=48,
    trusted_proxies=(),
)
CLOUD = replace(LOCAL, data=None)


def configure(monkeypatch: pytest.MonkeyPatch, module: ModuleType, config: Config = LOCAL, **changes: Any) -> None:
    """Let `module` find this configuration."""
    found = replace(config, **changes)
    monkeypatch.setattr(module, "config", lambda: found)
