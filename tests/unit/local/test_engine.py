"""The records engine as a child process."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest

from mangrove.local import engine
from mangrove.local.data_directory import DataDirectory, StartupError
from mangrove.local.template import read_tables


def test_an_engine_whose_port_another_program_took_meanwhile_is_started_on_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = tmp_path / "refused"
    script = tmp_path / "engine"
    script.write_text(
        f'#!/bin/sh\n[ -e "{refused}" ] && exec "{engine.BINARY}" "$@"\necho "$*" > "{refused}"\nexit 1\n'
    )
    script.chmod(0o700)
    monkeypatch.setenv("DYNOXIDE_BIN", str(script))
    monkeypatch.delenv("MANGROVE_DYNAMODB_ENDPOINT", raising=False)
    with engine.run_engine(tmp_path) as address:
        found = urlsplit(address)
        assert found.hostname is not None and found.hostname not in refused.read_text()
        socket.create_connection((found.hostname, found.port or 0), 5).close()


def test_an_engine_that_never_starts_is_refused_by_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNOXIDE_BIN", "/bin/false")
    monkeypatch.delenv("MANGROVE_DYNAMODB_ENDPOINT", raising=False)
    with pytest.raises(StartupError, match="ended at once"), engine.run_engine(tmp_path):
        pass


def test_an_engine_elsewhere_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANGROVE_DYNAMODB_ENDPOINT", "http://records.example:8000")
    with engine.run_engine(tmp_path) as address:
        assert address == "http://records.example:8000"
    assert list(tmp_path.iterdir()) == []


def test_an_engine_ends_with_its_context_and_keeps_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MANGROVE_DYNAMODB_ENDPOINT", raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "local")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    names = {table["TableName"] for table in read_tables(engine.TABLES)}
    for _ in range(2):
        with engine.run_engine(tmp_path) as address:
            engine.create_tables(address)
            client = boto3.client("dynamodb", endpoint_url=address)
            assert set(client.list_tables()["TableNames"]) == names
    found = urlsplit(address)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((found.hostname or "", found.port or 0), 1)


def test_a_process_gets_the_environment_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"AWS_ACCESS_KEY_ID": "own", "PATH": "/bin"}
    monkeypatch.setattr(os, "environ", environment)
    engine.set_environment(DataDirectory(tmp_path), "http://127.1.1.1:1")
    assert environment["AWS_ENDPOINT_URL_DYNAMODB"] == "http://127.1.1.1:1"
    assert (environment["MANGROVE_DATA"], environment["MANGROVE_KEY_FILE"]) == (str(tmp_path), str(tmp_path / "key"))
    assert (environment["AWS_ACCESS_KEY_ID"], environment["AWS_DEFAULT_REGION"]) == ("own", "us-east-1")
    assert "AWS_SECRET_ACCESS_KEY" not in environment
