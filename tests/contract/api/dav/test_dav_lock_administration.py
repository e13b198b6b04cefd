"""An administrator sees the locks of everybody and removes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.contract.api.accounts import People
from tests.contract.api.dav_client import EVERYTHING, Dav
from tests.support.service import Client, Service


def test_administrator_lists_and_removes_locks(
    service: Service, admin: Client, people: People, other: Dav, folder: str
) -> None:
    """B3 of issue 25: an administrator could not remove a lock."""
    admin.put(f"{folder}/f", b"x")
    holder = people.new(EVERYTHING)
    token = Dav(service, holder).lock(folder)
    listed = admin.get("/api/admin/lock/list")["data"]
    assert listed["total"] == len(listed["content"])
    (row,) = [row for row in listed["content"] if row["token"] == token]
    expires = datetime.fromisoformat(row.pop("expires")) - datetime.now(UTC)
    assert timedelta(minutes=59) < expires <= timedelta(hours=1)
    assert row == {
        "token": token, "path": folder, "username": holder.name, "owner": "me", "exclusive": True, "deep": True,
    }  # fmt: skip
    assert len(admin.get("/api/admin/lock/list", page=1, per_page=1)["data"]["content"]) == 1
    assert other.status("PUT", f"{folder}/f", b"y") == 423
    assert admin.ok("/api/admin/lock/delete", params={"token": token}) is None
    assert other.status("PUT", f"{folder}/f", b"y") == 204
    missing = admin.post("/api/admin/lock/delete", params={"token": token})
    assert (missing["code"], missing["message"]) == (404, "lock not found")
    assert token not in str(admin.get("/api/admin/lock/list"))
