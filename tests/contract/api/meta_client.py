"""Helpers of the rule tests: callers to whom a rule applies, and ways to copy files away from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.contract.api.accounts import People, get_data, guest
from tests.support.service import Client

UNREADABLE = (403, "password is incorrect or you have no permission")
SEE_HIDDEN, SKIP_PASSWORD = 1, 2
NO_PRIVILEGE = 0xFFFF & ~SEE_HIDDEN & ~SKIP_PASSWORD


@dataclass(frozen=True, slots=True)
class Callers:
    """The callers to whom a rule is applied: a normal user and the guest, both with `permission`."""

    user: Client
    guest: Client
    user_id: int
    guest_id: int

    def __iter__(self) -> Iterator[Client]:
        return iter((self.user, self.guest))


@contextmanager
def make_callers(admin: Client, accounts: People, permission: int) -> Iterator[Callers]:
    person = accounts.new(permission=permission)
    with guest(admin, permission=permission) as visitor:
        yield Callers(person.client, visitor, person.id, get_data(visitor.get("/api/me"))["id"])


def list_metas(admin: Client, **query: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = get_data(admin.get("/api/admin/meta/list", **query))["content"]
    return rows


def find_meta(admin: Client, path: str) -> dict[str, Any]:
    return next(meta for meta in list_metas(admin) if meta["path"] == path)


def list_folder(client: Client, path: str, password: str = "") -> dict[str, Any]:
    return client.post("/api/fs/list", path=path, password=password)


def get_file(client: Client, path: str, password: str = "") -> dict[str, Any]:
    return client.post("/api/fs/get", path=path, password=password)


def list_visible(answer: dict[str, Any]) -> list[str]:
    return sorted(row["name"] for row in get_data(answer)["content"])


def put_files(admin: Client, folder: str, *paths: str) -> None:
    """Make files whose content is their own path."""
    for path in paths:
        get_data(admin.put(f"{folder}/{path}", path.encode()))


def try_to_carry(client: Client, folder: str, name: str, away: str) -> dict[str, dict[str, Any]]:
    """Yield every way to transfer `folder`/`name` to a place without the rule."""
    pair = {"src_dir": folder, "dst_dir": away, "names": [name]}
    renamed = {"src_name": name, "new_name": "taken.txt"}
    pattern = {"src_name_regex": f"^{name.replace('.', '[.]')}$", "new_name_regex": "taken.txt"}
    return {
        "copy": client.post("/api/fs/copy", **pair),
        "copy over": client.post("/api/fs/copy", **pair, overwrite=True),
        "copy merged": client.post("/api/fs/copy", **pair, merge=True),
        "rename": client.post("/api/fs/rename", path=f"{folder}/{name}", name="taken.txt"),
        "batch_rename": client.post("/api/fs/batch_rename", src_dir=folder, rename_objects=[renamed]),
        "regex_rename": client.post("/api/fs/regex_rename", src_dir=folder, **pattern),
        "move": client.post("/api/fs/move", **pair),
    }
