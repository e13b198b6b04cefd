"""A configuration of the process for tests of one module that asks for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.platform import Platform, platform

LOCAL = Config(
    tables="mangrove",
    key_file=None,
    integrity_key_secret="",
    token_key_secret="",
    encryption_key_secret="",
    data=Path("/data"),
    site_url="",
    snapshot_seconds=None,
    token_hours=48,
    trusted_proxies=(),
)
CLOUD = replace(LOCAL, data=None)


def configure(config: Config = LOCAL, **changes: Any) -> Platform:
    """Let the present runtime have this configuration; its platform."""
    runtime.put(Config, replace(config, **changes))
    return platform()
