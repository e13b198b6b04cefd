"""SSH public keys."""

from __future__ import annotations

import pytest

from mangrove.core.problems import BadRequest, Problem, ResourceNotFound
from mangrove.identity import keys
from mangrove.records.credentials import ssh_keys

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"  # github.com's
ECDSA = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjN"
    "uG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg="
)


@pytest.mark.parametrize(
    ("text", "fingerprint"),
    [
        (ED25519, "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"),
        (f"  {ED25519} someone@somewhere \n", "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"),
        (ECDSA, "SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM"),
    ],
)
def test_fingerprints_are_those_the_hosts_publish(records: None, text: str, fingerprint: str) -> None:
    key = keys.add(7, "mine", text)
    assert key.fingerprint == fingerprint
    assert (key.user_id, key.title, key.text) == (7, "mine", text.strip())


@pytest.mark.parametrize(
    "text",
    ["", "ssh-ed25519", "ssh-ed25519 nonsense", f"{ED25519}\n{ECDSA}", f"{ED25519} {'x' * keys.MAX_KEY_LENGTH}",
     ED25519.replace("ssh-ed25519", "ssh-rsa"), ED25519[:-8], "-----BEGIN OPENSSH PRIVATE KEY-----"],
)  # fmt: skip
def test_what_is_no_public_key_is_refused(records: None, text: str) -> None:
    with pytest.raises(BadRequest, match="provided key invalid"):
        keys.add(7, "mine", text)


def test_a_title_is_taken_once_per_user(records: None) -> None:
    keys.add(7, "mine", ED25519)
    with pytest.raises(Problem, match="key with the same title already exists"):
        keys.add(7, "mine", ECDSA)
    assert keys.add(8, "mine", ED25519).user_id == 8


def test_only_the_owner_removes_a_key(records: None) -> None:

    key = keys.add(7, "mine", ED25519)
    with pytest.raises(ResourceNotFound, match="failed to get public key"):
        ssh_keys.delete_own(8, key.id)
    assert [key_found.id for key_found in ssh_keys.find_by_user(7)] == [key.id]
    ssh_keys.delete_own(7, key.id)
    with pytest.raises(ResourceNotFound, match="failed to get public key"):
        ssh_keys.delete_own(7, key.id)
    ssh_keys.delete_any(key.id)
    assert ssh_keys.find_by_user(7) == []
