"""The hash clients send and the hash that is stored."""

from __future__ import annotations

import pytest

from mangrove.identity import passwords
from mangrove.identity.rights import ADMIN_PERMISSION, Right
from mangrove.problems import BadRequest


@pytest.mark.parametrize(
    ("password", "static"),
    [
        ("admin", "6fcb57cd10b2c11d765dcf16148d99130afd895082af83725ee8bb181b1d2b0f"),
        ("guest", "58dbc53287db56c2f3d2c1ff16620af6d6cc4a09ae5109620f2162313f345ec2"),
    ],
)
def test_the_static_hash_is_that_of_existing_clients(password: str, static: str) -> None:
    assert passwords.make_static_hash(password) == static


def test_a_stored_hash_is_salted_slow_and_fits_its_password_alone() -> None:
    static = passwords.make_static_hash("pass")
    first, second = passwords.hash_password("pass"), passwords.hash_password("pass")
    assert first != second
    assert first.startswith("$argon2id$")
    assert static not in first
    assert passwords.verify(first, static)
    assert not passwords.verify(first, passwords.make_static_hash("Pass"))
    assert not passwords.verify(first, "pass")
    assert not passwords.verify(first, "")


@pytest.mark.parametrize("stored", [None, "", "nonsense", "$argon2id$v=19$m=1"])
def test_an_unknown_user_and_a_broken_record_match_nothing(stored: str | None) -> None:
    assert not passwords.verify(stored, passwords.make_static_hash("no account"))
    assert not passwords.verify(stored, "no account")


def test_a_password_is_bounded() -> None:
    assert passwords.make_static_hash("x" * passwords.MAX_LENGTH)
    with pytest.raises(BadRequest):
        passwords.make_static_hash("x" * (passwords.MAX_LENGTH + 1))


def test_the_administrators_permission_is_all_but_the_three_rights_of_later_protocols() -> None:
    assert ADMIN_PERMISSION == 29183
    assert [right.name for right in Right if not right & ADMIN_PERMISSION] == [
        "WEBDAV_MANAGE", "FTP_READ", "FTP_MANAGE", "CUSTOM_SHARE_ID",
    ]  # fmt: skip
