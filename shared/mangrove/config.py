"""What the environment says, read once per process at the first question."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Config:
    """`tables`: name prefix of the tables; `snapshot_seconds`: how long a snapshot is trusted, None: for ever."""

    tables: str
    key_file: Path | None
    key_secret: str | None
    data: Path | None
    site_url: str
    snapshot_seconds: float | None
    token_hours: int
    trusted_proxies: tuple[str, ...]

    @property
    def on_one_machine(self) -> bool:
        """Whether this process is `mangrove serve` (it has a data directory) and not a function in the cloud."""
        return self.data is not None


@cache
def config() -> Config:
    env = os.environ
    data = env.get("MANGROVE_DATA")
    key_file = env.get("MANGROVE_KEY_FILE")
    seconds = env.get("MANGROVE_SNAPSHOT_SECONDS", "2")
    return Config(
        tables=env.get("MANGROVE_TABLES", "mangrove"),
        key_file=Path(key_file) if key_file else None,
        key_secret=env.get("MANGROVE_KEY_SECRET"),
        data=Path(data) if data else None,
        site_url=env.get("MANGROVE_SITE_URL", "").rstrip("/"),
        snapshot_seconds=None if seconds == "never" else float(seconds),
        token_hours=int(env.get("MANGROVE_TOKEN_HOURS", "48")),
        trusted_proxies=tuple(part for part in env.get("MANGROVE_TRUSTED_PROXIES", "").split(",") if part),
    )
