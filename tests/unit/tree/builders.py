"""Records for tests that need no records engine."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import orjson

from mangrove.configuration.values import Settings
from mangrove.core.paths import TreePath
from mangrove.drivers.base import Driver
from mangrove.identity.rights import Caller, Right
from mangrove.records.metas import PathRule
from mangrove.records.storages import Storage
from mangrove.records.users import User
from mangrove.tree.access import PathAccess, TreeState
from mangrove.tree.listing.folder import View
from mangrove.tree.mount_table import MountTable
from mangrove.tree.mounts import WORKING, Mount
from mangrove.tree.rules import Rules

DEFAULT_SETTINGS = Settings({})

_ids = count(1)


def storage(mount_path: str = "/s", **fields: Any) -> Storage:
    """A storage record with the defaults of the form."""
    blank: dict[str, Any] = {
        "id": next(_ids), "mount_path": mount_path, "driver": "Virtual", "cache_expiration": 30, "status": "work",
        "addition": "{}", "modified": datetime(2024, 1, 1, tzinfo=UTC),
    }  # fmt: skip
    return Storage(**blank | fields)


def mount(mount_path: str = "/s", **fields: Any) -> Mount:
    """A mounted storage whose driver does not run."""
    return Mount(storage(mount_path, **fields))


def meta(path: str, **fields: Any) -> PathRule:
    """A rule that says nothing but what is given."""
    return PathRule(**{"id": next(_ids), "path": path} | fields)


def user(permission: int = 0, **fields: Any) -> User:
    return User(**{"id": 7, "username": "u", "password_hash": "", "permission": permission} | fields)


def access(
    driver: Driver,
    path: str,
    right: Right,
    *metas: PathRule,
    permission: int = 0xFFFF,
    settings: Settings = DEFAULT_SETTINGS,
) -> PathAccess:
    """Return the access of a user with all rights at a path, with a running driver mounted at the root."""
    mounted = mount("/")
    mounted.driver, mounted.status = driver, WORKING
    caller = Caller(user(permission), right)
    rules = Rules({meta.path: meta for meta in metas})
    return PathAccess.make(caller, TreePath(path), "", TreeState(settings, rules, MountTable(1, [mounted])))


async def read_rows(view: View, start: int, stop: int) -> bytes:
    """Return the encoded rows of a page, as a JSON array."""
    return orjson.dumps(await view.get_content((start, stop)))
