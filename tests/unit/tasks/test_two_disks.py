"""Tasks whose bytes go from one file system to another: copies, moves, and uploads that wait on another disk."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mangrove.drivers.base import Upload
from mangrove.identity.rights import Right
from mangrove.tasks import submit
from mangrove.tasks.core.file_copy import MAX_WHOLE_BYTES
from tests.support.disks import other_file_system
from tests.support.task_env import Disk, TaskEnv
from tests.unit.tasks.copying import SUCCEEDED, die_at, look_between

CONTENTS = {
    "empty": b"",
    "byte": b"1",
    "d/small": os.urandom(5 << 20),
    "d/e/parts": os.urandom(MAX_WHOLE_BYTES + 1),
    "large": os.urandom(1 << 20) * 65 + b"end",
}


@pytest.fixture
def memory(task_env: TaskEnv, tmp_path: Path) -> Iterator[Disk]:
    """A storage on another file system than the ones that the environment makes, and than staging."""
    with other_file_system(task_env.folder) as root:
        yield Disk(task_env.mount("Local", {"root_folder_path": str(root), "show_hidden": True}), root)


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_copies_between_two_file_systems_work_as_tasks(task_env: TaskEnv, memory: Disk, verb: str) -> None:
    disk = task_env.disk()
    for source, target in ((disk, memory), (memory, disk)):
        disk.clear()
        memory.clear()
        for key, content in CONTENTS.items():
            source.put(f"all/{key}", content)
        (task,) = task_env.transfer(verb, source.mount, target.mount, "all")
        task_env.run(task)
        assert task_env.view(task) == SUCCEEDED
        assert target.files() == {f"all/{key}": content for key, content in CONTENTS.items()}
        assert len(source.files()) == (len(CONTENTS) if verb == "copy" else 0)
        assert target.unfinished() == []


def test_a_copy_between_two_file_systems_is_continued_after_a_kill(
    task_env: TaskEnv, memory: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = task_env.disk()
    disk.put("f", CONTENTS["large"])
    task = task_env.copy(disk.mount, memory.mount, "f")
    die_at(monkeypatch, "copy.part")
    left: list[int] = []
    task_env.run(task, look_between(task_env, task, lambda: left.append(len(memory.unfinished()))))
    assert left == [1]
    assert (task_env.view(task), memory.files()) == (SUCCEEDED, {"f": CONTENTS["large"]})


@pytest.mark.parametrize("key", CONTENTS)
def test_an_upload_that_waits_on_another_disk_is_stored(task_env: TaskEnv, memory: Disk, key: str) -> None:
    content = CONTENTS[key]

    async def body() -> AsyncIterator[bytes]:
        for start in range(0, len(content), 1 << 20):
            yield content[start : start + (1 << 20)]

    access = task_env.access(f"{memory.mount}/f", Right.WRITE)
    task = task_env.do(submit.upload(access, body(), Upload(len(content), 1.7e9), True, {}))
    task_env.run(task)
    assert (task_env.view(task), memory.files(), task_env.list_staged()) == (SUCCEEDED, {"f": content}, [])
