"""Keys for one purpose each, and secrets that only the right key opens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import boto3
import pytest

from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.problems import Problem
from mangrove.core.runtime import Runtime
from mangrove.records.store import crypto
from mangrove.records.store.crypto import Keyring, derive, seal, unseal

HERE = b"where it is kept"


@pytest.fixture
def key(tmp_path: Path, own_runtime: Runtime) -> Path:
    """The file of the master key of a process that has not read it yet."""
    path = tmp_path / "master"
    path.write_bytes(b"k" * 32)
    runtime.put(Config, replace(Config(), key_file=path))
    runtime.put(Keyring, Keyring())
    return path


def test_a_derived_key_belongs_to_its_purpose_and_to_the_master_key(key: Path) -> None:
    first = derive("jwt")
    assert len({first, derive("records"), derive("search")}) == 3
    assert len(first) == crypto.KEY_BYTES
    assert derive("jwt") == Keyring().derive("jwt") == first
    key.write_bytes(b"l" * 32)
    assert Keyring().derive("jwt") != first


def test_the_master_key_is_read_once(key: Path) -> None:
    first = derive("jwt")
    key.unlink()
    assert derive("jwt") == first
    assert derive("another purpose") != first


def test_what_is_sealed_is_opened_again_and_never_looks_the_same(key: Path) -> None:
    text = "secret \N{SNOWMAN}"
    first, second = seal(text, HERE), seal(text, HERE)
    assert first != second
    assert text.encode() not in first
    assert unseal(first, HERE) == unseal(second, HERE) == text
    assert unseal(seal("", HERE), HERE) == ""


@pytest.mark.parametrize("flaw", ["another key", "another byte", "cut", "empty", "another place"])
def test_what_another_key_sealed_or_what_was_changed_is_refused(key: Path, flaw: str) -> None:
    sealed = seal("secret", b"elsewhere" if flaw == "another place" else HERE)
    if flaw == "another key":
        key.write_bytes(b"l" * 32)
        runtime.put(Keyring, Keyring())
    elif flaw == "another byte":
        sealed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    elif flaw in ("cut", "empty"):
        sealed = sealed[: -1 if flaw == "cut" else 0]
    with pytest.raises(Problem, match="it was sealed with another key"):
        unseal(sealed, HERE)


def test_without_a_master_key_nothing_is_sealed() -> None:
    runtime.put(Config, replace(Config(), key_file=None, key_secret=""))
    runtime.put(Keyring, Keyring())
    with pytest.raises(Problem, match="no master key"):
        seal("secret", HERE)


def test_secrets_are_sealed_in_the_table(records: None, engine: str) -> None:
    from mangrove.records import metas, settings
    from mangrove.records.accounts import users

    users.create(username="u", password_hash="hash-in-clear", otp_secret="otp-in-clear")
    metas.create(path="/x", password="folder-in-clear")
    settings.save({"token": "token-in-clear"})
    client = boto3.client("dynamodb", endpoint_url=engine)
    for kind in ("users", "metas", "settings"):
        items = client.scan(TableName=f"mangrove-{kind}")["Items"]
        assert items
        assert "in-clear" not in str(items)
    assert users.all()[0].otp_secret == "otp-in-clear"
    assert settings.all() == {"token": "token-in-clear"}
