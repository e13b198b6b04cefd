"""Staging on one machine: stored, pinned, cleared; and where there is none."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mangrove.core import runtime
from mangrove.core.chunked import stream
from mangrove.core.config import Config
from mangrove.core.problems import BadRequest, Problem
from mangrove.drivers.base import DriverContext, Upload
from mangrove.drivers.local.driver import Local
from mangrove.tasks.core import staging
from mangrove.tasks.core.staging import Staging
from tests.support.task_env import TaskEnv


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder that staging is in."""
    with runtime.use(runtime.Runtime()):
        runtime.put(Config, Config(data=tmp_path))
        runtime.put(Staging, Staging(Local(Local.Options(root_folder_path=str(tmp_path)), DriverContext())))
        yield tmp_path


def test_a_body_is_stored_under_its_task_also_in_folders(folder: Path) -> None:
    size = asyncio.run(staging.store("id", "body/d/f", stream(b"content"), Upload(7, 0.0)))
    assert size == 7
    assert (folder / "id/body/d/f").read_bytes() == b"content"
    assert staging.get_path("id", "body") == "/id/body"


def test_a_body_that_is_cut_leaves_nothing(folder: Path) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"cont"
        raise BadRequest

    with pytest.raises(BadRequest):
        asyncio.run(staging.store("id", "f", body(), Upload(7, 0.0)))
    assert list((folder / "id").iterdir()) == []


def test_clearing_removes_all_of_a_task_unless_it_is_pinned(folder: Path) -> None:
    async def work() -> None:
        for id in ("one", "two"):
            await staging.store(id, "f", stream(b"f"), Upload(1, 0.0))
        await staging.pin("two")
        for id in ("one", "two", "none"):
            await staging.clear(id)
        await staging.remove("two", "nothing")

    asyncio.run(work())
    assert sorted(path.name for path in folder.iterdir()) == ["two"]
    assert sorted(path.name for path in (folder / "two").iterdir()) == ["f", staging.PINNED]


def test_one_thing_can_be_removed_alone(folder: Path) -> None:
    async def work() -> None:
        for name in ("a", "b"):
            await staging.store("id", name, stream(b"x"), Upload(1, 0.0))
        await staging.remove("id", "a")

    asyncio.run(work())
    assert [path.name for path in (folder / "id").iterdir()] == ["b"]


def test_the_storage_is_started_once_for_many_at_once(task_env: TaskEnv) -> None:
    async def work() -> set[int]:
        return {id(driver) for driver in await asyncio.gather(*(staging.driver() for _ in range(9)))}

    assert len(task_env.do(work())) == 1
    assert (task_env.folder / "staging").is_dir()


def test_a_folder_for_other_programs_is_a_path_of_this_machine(task_env: TaskEnv) -> None:
    path = Path(staging.make_shared_folder("id", "body"))
    assert path.is_absolute()
    assert path == task_env.folder.absolute() / "staging/id/body"
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (path, *path.parents[:2])} == {0o700}


def test_without_a_folder_and_a_bucket_there_is_no_staging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MANGROVE_DATA", raising=False)
    monkeypatch.delenv("MANGROVE_STAGING_BUCKET", raising=False)
    with runtime.use(runtime.Runtime()):
        with pytest.raises(Problem, match="no place for staging"):
            asyncio.run(staging.driver())
        with pytest.raises(Problem, match="no folder that this service shares"):
            staging.make_shared_folder("id", "body")
