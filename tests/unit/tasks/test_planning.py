"""Plans of folders that their storage lists in pages, also if another storage shows them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged
from mangrove.drivers.s3.client import S3Client
from mangrove.tasks.core import folders, steps
from mangrove.tasks.core.model import State
from tests.support.task_env import TaskEnv
from tests.unit.tree.memory_folders import MemoryFolders

FILES = {f"d/f{number:02}": b"%d" % number for number in range(23)} | {"d/sub/deep": b"deep"}


@pytest.fixture
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of five entries; a slice plans one of them."""
    list_page = S3Client.list_page

    async def list_five(self: S3Client, *args: Any, **more: Any) -> Any:
        return await list_page(self, *args, **{"most": 5} | more)

    monkeypatch.setattr(S3Client, "list_page", list_five)
    monkeypatch.setattr(steps.Run, "has_time", lambda _: False)


@pytest.mark.usefixtures("short_pages")
@pytest.mark.parametrize("is_shown", [False, True])
def test_a_flat_folder_is_walked_page_by_page(task_env: TaskEnv, is_shown: bool) -> None:
    bucket, disk = task_env.bucket(list_object_version="v2"), task_env.disk()
    for name, body in FILES.items():
        bucket.put(name, body)
    source = task_env.mount("Alias", {"paths": bucket.mount}) if is_shown else bucket.mount
    task = task_env.copy(source, disk.mount, "d")
    visited = task_env.run(task)
    assert (task_env.view(task), disk.files()) == ((State.SUCCEEDED, ""), FILES)
    assert visited.count("Plan") >= 5


def test_a_walk_does_not_go_on_in_a_folder_that_has_no_pages_any_more() -> None:
    """It would start again, and list names that are written already."""

    async def walk() -> None:
        async for _ in folders.walk_folder(MemoryFolders(), TreePath("/d"), "page 2", None):  # type: ignore[arg-type]  # no run is asked
            pass

    with pytest.raises(EntryChanged, match="something was mounted"):
        asyncio.run(walk())
