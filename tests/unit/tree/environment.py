"""A tree of real Local storages over real records, and one user who goes through it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from mangrove import configuration
from mangrove.identity.rights import NORMAL, Caller, Right
from mangrove.records import metas, settings, storages, users
from mangrove.records.storages import Storage
from mangrove.tree import access, mounts
from mangrove.tree.access import PathAccess

ALL_RIGHTS = 0xFFFF & ~(Right.SEE_HIDDEN | Right.SKIP_PASSWORD)
Result = TypeVar("Result")


class TreeEnv:
    """`user` has all rights but to see what rules hide or lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runner = asyncio.Runner()
        self.user = users.create(username="u", password_hash="x", role=NORMAL, permission=ALL_RIGHTS)
        configuration.get_sync()

    def close(self) -> None:
        self.run(mounts.close())
        self._runner.close()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self._runner.run(work)

    def mount(self, path: str = "/disk", driver: str = "Local", **fields: Any) -> Storage:
        """A new storage at `path`; `options`: those of its driver."""
        options = fields.pop("options", {})
        storage = storages.create(
            mount_path=path, driver=driver, addition=json.dumps(options), modified=datetime.now(UTC), **fields
        )
        configuration.get_sync()
        return storage

    def mount_disk(self, path: str = "/disk", *names: str, **fields: Any) -> Path:
        """The folder behind a new Local storage, with files (or folders, where a name ends with a slash) in it."""
        root = self.folder / path.strip("/").replace("/", "_")
        root.mkdir()
        self.mount(path, options={"root_folder_path": str(root)}, **fields)
        for name in names:
            (root / name if name.endswith("/") else (root / name).parent).mkdir(parents=True, exist_ok=True)
            if not name.endswith("/"):
                (root / name).write_text(name)
        return root

    def add_rule(self, path: str, **fields: Any) -> None:
        metas.create(path=path, **fields)
        configuration.get_sync()

    def change_user(self, permission: int = ALL_RIGHTS, **fields: Any) -> None:
        self.user = users.change(self.user.id, permission=permission, **fields)
        configuration.get_sync()

    def set(self, **values: str) -> None:
        """Change settings."""
        settings.save(values)
        configuration.get_sync()

    def access(self, path: str, right: Right = Right.READ, password: str = "") -> PathAccess:
        """Return the access of the user at a path, on a route that declares `right`."""
        return self.run(access.at(Caller(self.user, right), path, password))


def find_files(root: Path) -> set[str]:
    """The paths of all files below a folder, and with a slash at its end that of every empty folder."""
    paths = set()
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_file():
            paths.add(name)
        elif not any(path.iterdir()):
            paths.add(f"{name}/")
    return paths


async def stream(*blocks: bytes) -> AsyncIterator[bytes]:
    """A body."""
    for block in blocks:
        yield block
