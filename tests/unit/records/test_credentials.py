"""SSH public key records."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mangrove.records.credentials import SshKey, ssh_keys
from mangrove.records.store.base import NameTaken

pytestmark = pytest.mark.usefixtures("records")


def create(user_id: int, title: str) -> SshKey:
    now = datetime.now(UTC)
    return ssh_keys.create(
        user_id=user_id, title=title, name=f"{user_id}#{title}", text="ssh-ed25519 x", fingerprint="f", added=now,
        last_used=now,
    )  # fmt: skip


def test_keys_are_found_by_their_user_in_the_order_of_their_ids() -> None:
    own_keys = [create(7, title) for title in ("c", "a", "b")]
    create(8, "a")
    assert ssh_keys.find_by_user(7) == own_keys
    assert ssh_keys.find_by_user(9) == []


def test_a_title_is_unique_for_one_user() -> None:
    create(7, "a")
    with pytest.raises(NameTaken, match="key with the same title already exists"):
        create(7, "a")
    assert len(ssh_keys.all()) == 1
