"""What the environment says, read once per process at the first question."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mangrove import runtime


def _variable(name: str, default: str, parse: Callable[[str], Any] = str) -> Any:
    """A field whose default is read from the environment when the object is made."""
    return field(default_factory=lambda: parse(os.environ.get(name, default)))


def _read_path(name: str) -> Path | None:
    text = os.environ.get(name)
    return Path(text) if text else None


def _parse_seconds(text: str) -> float | None:
    return None if text == "never" else float(text)


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


@dataclass(frozen=True, slots=True)
class Config:
    """`tables`: name prefix of the tables; `key_file`, `key_secret`: where the master key is; `data`: the data
    directory; `snapshot_seconds`: how long a snapshot is trusted, None: for ever."""

    tables: str = _variable("MANGROVE_TABLES", "mangrove")
    key_file: Path | None = field(default_factory=lambda: _read_path("MANGROVE_KEY_FILE"))
    key_secret: str = _variable("MANGROVE_KEY_SECRET", "")
    data: Path | None = field(default_factory=lambda: _read_path("MANGROVE_DATA"))
    site_url: str = _variable("MANGROVE_SITE_URL", "", lambda text: text.rstrip("/"))
    snapshot_seconds: float | None = _variable("MANGROVE_SNAPSHOT_SECONDS", "2", _parse_seconds)
    token_hours: int = _variable("MANGROVE_TOKEN_HOURS", "48", int)
    trusted_proxies: tuple[str, ...] = _variable("MANGROVE_TRUSTED_PROXIES", "", _parse_list)

    @property
    def on_one_machine(self) -> bool:
        """Whether this process is `mangrove serve` (it has a data directory) and not a function in the cloud."""
        return self.data is not None


def config() -> Config:
    """The configuration of this process."""
    return runtime.get(Config)
