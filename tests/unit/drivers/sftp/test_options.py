"""The options of an SFTP storage."""

from __future__ import annotations

import asyncio

import asyncssh
import pytest

from mangrove.core.problems import StorageProblem
from mangrove.drivers.sftp.client import PasswordPrompt, parse_host_key, read_credentials
from mangrove.drivers.sftp.options import SFTPOptions, parse_root


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("", b"."), (".", b"."), ("./", b"."), ("/", b""), ("//", b""), ("/a/b/", b"/a/b"), ("a//b", b"./a/b"),
        (" /a b ", b"/a b"), ("../a", b"./../a"), ("/ä", "/ä".encode()),
    ],
)  # fmt: skip
def test_parse_root_returns_the_prefix_of_paths(text: str, root: bytes) -> None:
    assert parse_root(text) == root


def test_parse_root_refuses_a_nul_byte() -> None:
    with pytest.raises(StorageProblem):
        parse_root("/a\0b")


def test_a_host_key_is_a_key_or_a_fingerprint() -> None:
    key = asyncssh.generate_private_key("ssh-ed25519", comment="somebody")
    line, fingerprint = key.export_public_key("openssh").decode(), key.get_fingerprint()
    for text in (line, f" {line}\n", f"host,10.0.0.1 {line}", line.rpartition(" ")[0]):
        assert parse_host_key(text) == key.convert_to_public()
    assert parse_host_key(f" {fingerprint}= ") == fingerprint
    for text in (
        "nonsense",
        "ssh-ed25519 AAAA",
        fingerprint.removeprefix("SHA256:"),
    ):
        with pytest.raises(StorageProblem, match="host_key"):
            parse_host_key(text)


def test_a_prompt_for_the_password_is_answered_once() -> None:
    prompt = PasswordPrompt("hush")
    assert prompt.kbdint_auth_requested() == ""
    assert prompt.kbdint_challenge_received("", "", "", []) == []
    assert prompt.kbdint_challenge_received("", "", "", [("Password: ", False)]) == ["hush"]
    assert prompt.kbdint_challenge_received("", "", "", [("Name: ", True)]) is None
    assert prompt.kbdint_challenge_received("", "", "", [("Password: ", False), ("Code: ", False)]) is None
    assert prompt.kbdint_auth_requested() is None
    assert PasswordPrompt("").kbdint_auth_requested() is None


def test_an_unreadable_key_is_not_in_the_message() -> None:
    for key, passphrase in (("nonsense", ""), ("nonsense", "open sesame"), ("-----BEGIN RSA PRIVATE KEY-----", "")):
        options = SFTPOptions(
            address="h", username="u", private_key=key, password="", passphrase=passphrase, root_folder_path="/",
            ignore_symlink_error=False, host_key="",
        )  # fmt: skip
        with pytest.raises(StorageProblem, match="private key cannot be read") as refused:
            asyncio.run(read_credentials(options))
        assert "sesame" not in refused.value.message and "nonsense" not in refused.value.message
