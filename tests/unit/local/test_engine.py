"""The records engine as a child process."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mangrove.local import engine


def test_an_engine_whose_port_another_program_took_meanwhile_is_started_on_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = tmp_path / "asked"
    script = tmp_path / "engine"
    script.write_text(f'#!/bin/sh\n[ -e "{asked}" ] && exec "{engine.BINARY}" "$@"\necho "$*" > "{asked}"\nexit 1\n')
    script.chmod(0o700)
    monkeypatch.setenv("DYNOXIDE_BIN", str(script))
    monkeypatch.delenv("MANGROVE_DYNAMODB_ENDPOINT", raising=False)
    with engine.running(tmp_path) as address:
        found = urlsplit(address)
        assert found.hostname is not None and found.hostname not in asked.read_text()
        socket.create_connection((found.hostname, found.port or 0), 5).close()


def test_an_engine_that_never_starts_is_refused_by_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNOXIDE_BIN", "/bin/false")
    monkeypatch.delenv("MANGROVE_DYNAMODB_ENDPOINT", raising=False)
    with pytest.raises(engine.StartupError, match="ended at once"), engine.running(tmp_path):
        pass
