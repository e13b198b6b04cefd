"""Rights as permission bits."""

from __future__ import annotations

import pytest

from mangrove.identity.rights import ADMIN, ADMIN_PERMISSION, GUEST, NORMAL, Caller, Right
from tests.unit.tree import builders


def test_administrator_permission_lacks_three_later_rights() -> None:
    assert ADMIN_PERMISSION == 29183
    assert [right.name for right in Right if not right & ADMIN_PERMISSION] == [
        "WEBDAV_MANAGE", "FTP_READ", "FTP_MANAGE", "CUSTOM_SHARE_ID",
    ]  # fmt: skip


@pytest.mark.parametrize("right", list(Right))
def test_a_caller_has_a_right_by_its_bit_alone(right: Right) -> None:
    assert Caller(builders.user(permission=right)).has(right)
    assert not Caller(builders.user(permission=0xFFFF & ~right)).has(right)


@pytest.mark.parametrize("right", list(Right))
def test_administrator_without_any_bit_has_every_right(right: Right) -> None:
    caller = Caller(builders.user(permission=0, role=ADMIN))
    assert caller.has(right) and caller.user.permission == 0


def test_caller_has_read_and_only_the_declared_right() -> None:
    caller = Caller(builders.user(permission=0))
    assert caller.has(Right.READ)
    assert caller.declared_right is Right.READ


@pytest.mark.parametrize(
    ("role", "is_admin", "is_guest"), [(NORMAL, False, False), (GUEST, False, True), (ADMIN, True, False)]
)
def test_a_role_is_one_of_three(role: int, is_admin: bool, is_guest: bool) -> None:
    caller = Caller(builders.user(role=role))
    assert (caller.is_admin, caller.is_guest) == (is_admin, is_guest)
