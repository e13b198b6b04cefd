"""The three keys: what they are read and derived from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.problems import Problem
from mangrove.core.runtime import Runtime
from mangrove.records.store.encryption import encrypt
from mangrove.records.store.keys import KEY_BYTES, Key, Keyring, decode_secret, keyring
from tests import servers

MASTER = b"k" * 32


@pytest.fixture
def file(tmp_path: Path, own_runtime: Runtime) -> Path:
    """The file of the master key of a process that has not read it yet."""
    path = tmp_path / "master"
    path.write_bytes(MASTER)
    use(key_file=path)
    return path


def use(**changes: object) -> None:
    runtime.put(Config, replace(Config(), **changes))  # type: ignore[arg-type]  # its own fields
    runtime.put(Keyring, Keyring())


def derive(master: bytes, purpose: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=purpose).derive(master)


def test_one_file_gives_the_keys_that_earlier_versions_derived_from_it(file: Path) -> None:
    assert keyring().get(Key.INTEGRITY) == derive(MASTER, b"record integrity")
    assert keyring().get(Key.TOKEN) == derive(MASTER, b"jwt")
    assert keyring().derive(Key.ENCRYPTION, "records") == derive(MASTER, b"records")
    assert keyring().derive(Key.ENCRYPTION, "links salt") == derive(MASTER, b"links salt")


def test_a_derived_key_belongs_to_its_purpose_and_to_its_key(file: Path) -> None:
    keys = {keyring().derive(key, purpose) for key in Key for purpose in ("a", "b")}
    assert len(keys | {keyring().get(key) for key in Key}) == 9
    file.write_bytes(b"l" * 32)
    assert not keys & {Keyring().derive(key, purpose) for key in Key for purpose in ("a", "b")}


def test_a_key_is_read_once(file: Path) -> None:
    first = keyring().get(Key.TOKEN)
    file.unlink()
    assert keyring().get(Key.TOKEN) == first
    assert keyring().derive(Key.TOKEN, "another purpose") != first


@pytest.mark.parametrize("key", Key)
def test_without_its_secret_a_key_is_a_problem_that_names_the_variable(key: Key) -> None:
    use(key_file=None, integrity_key_secret="", token_key_secret="", encryption_key_secret="")
    with pytest.raises(Problem, match=f"set MANGROVE_KEY_FILE or MANGROVE_{key.name}_KEY_SECRET"):
        keyring().get(key)
    with pytest.raises(Problem, match="no encryption key"):
        encrypt("secret", b"context")


@pytest.mark.parametrize("text", ["", "00", "0" * 63, "0" * 65, "g" * 64, "0" * 66])
def test_a_secret_with_another_text_than_a_key_is_refused(text: str) -> None:
    with pytest.raises(Problem, match="the token key does not have 32 bytes in hexadecimal"):
        decode_secret(Key.TOKEN, text)
    assert decode_secret(Key.TOKEN, "0a" * 32) == b"\n" * 32
    assert decode_secret(Key.ENCRYPTION, text) == text.encode()


def test_each_key_is_read_from_its_own_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with servers.moto_s3() as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", address)
        manager = servers.make_client("secretsmanager", address)
        texts = {"integrity": "0a" * 32, "token": "0b" * 32, "encryption": "any text"}
        for name, text in texts.items():
            manager.create_secret(Name=name, SecretString=text)
        use(
            key_file=None,
            integrity_key_secret="integrity", token_key_secret="token", encryption_key_secret="encryption",
        )  # fmt: skip
        assert keyring().get(Key.INTEGRITY) == derive(b"any text", b"record integrity"), "one secret less to read"
        assert [keyring().get(key) for key in (Key.TOKEN, Key.ENCRYPTION)] == [b"\x0b" * 32, b"any text"]
        use(key_file=None, integrity_key_secret="integrity", token_key_secret="", encryption_key_secret="")
        assert keyring().get(Key.INTEGRITY) == b"\n" * 32, "a process without the master key reads it"
        use(key_file=None, token_key_secret="token")
        manager.delete_secret(SecretId="token", ForceDeleteWithoutRecovery=True)
        with pytest.raises(Problem, match="the token key cannot be read"):
            Keyring().get(Key.TOKEN)
