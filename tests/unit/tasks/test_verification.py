"""A move removes only after a comparison that covers the bytes: of checksums, by a storage that vouches, or reading."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Driver, NewFile
from mangrove.drivers.local.driver import Local
from mangrove.drivers.s3.driver import S3
from mangrove.tasks.core import steps
from mangrove.tasks.core.model import State
from tests.support.task_env import TaskEnv
from tests.unit.tasks.copying import LARGE, SUCCEEDED

pytestmark = pytest.mark.usefixtures("small_parts")

CONTENT_DIFFERS = "1 of 1 items failed: f: the target's bytes differ from the source's"
SMALL = b"content"


def flip(content: bytes) -> bytes:
    """The same with another byte in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


class DamagingLocal(Local):
    """Stores what it is sent with a flipped byte, as over a wire that has no checksums; reads are noted."""

    damages = True
    proves = False
    reads: list[tuple[int, int | None]]

    async def proves_writes(self) -> bool:
        return self.proves

    async def _spoil(self, body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for block in body:
            yield flip(block) if self.damages else block

    async def write_whole(self, files: Sequence[NewFile]) -> Any:
        damaged = [file._replace(content=flip(file.content)) for file in files] if self.damages else files
        return await super().write_whole(damaged)

    async def stream_part(
        self, path: TreePath, token: str, number: int, offset: int, body: AsyncIterator[bytes]
    ) -> str:
        return await super().stream_part(path, token, number, offset, self._spoil(body))

    async def copy_from(self, source: Driver, files: Any) -> Any:
        return None

    def plan_part_copies(self, source: Driver) -> tuple[int, int]:
        return 0, 0

    async def read(self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Any = None) -> Any:
        self.reads.append((offset, length))
        return await super().read(path, offset, length, if_match)


def damage(task_env: TaskEnv, mount: str) -> Any:
    """Return the driver of a storage whose writes are damaged from now on."""
    driver = task_env.driver(mount)
    driver.__class__ = DamagingLocal
    driver.reads = []
    return driver


@pytest.mark.parametrize("content", [SMALL, LARGE])
@pytest.mark.parametrize("side", ["disk", "bucket"])
def test_damaged_move_fails_by_name_and_keeps_source(
    task_env: TaskEnv, side: str, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = getattr(task_env, side)(), task_env.disk()
    source.put("f", content)
    damage(task_env, target.mount)
    task = task_env.move(source.mount, target.mount, "f")
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, CONTENT_DIFFERS)
    assert (source.files(), target.files(), target.unfinished()) == ({"f": content}, {}, [])


@pytest.mark.parametrize("content", [SMALL, LARGE])
def test_what_is_moved_is_read_once_more_where_nothing_else_proves_it(
    task_env: TaskEnv, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f", content)
    driver = damage(task_env, target.mount)
    driver.damages = False
    task = task_env.move(source.mount, target.mount, "f")
    task_env.run(task)
    assert (task_env.view(task), source.files(), target.files()) == (SUCCEEDED, {}, {"f": content})
    assert sum(length or len(content) for _, length in driver.reads) == len(content)


@pytest.mark.parametrize("content", [SMALL, LARGE])
@pytest.mark.parametrize("why", ["the storage proves what it stores", "the setting is off", "it is a copy"])
def test_target_is_not_read_if_proven_or_switched_off_or_copied(
    task_env: TaskEnv, content: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f", content)
    driver = damage(task_env, target.mount)
    driver.damages, driver.proves = False, "proves" in why
    monkeypatch.setattr(task_env.driver(source.mount), "proves_writes", driver.proves_writes)
    if "setting" in why:
        task_env.set(verify_moves="false")
    task = getattr(task_env, "copy" if "copy" in why else "move")(source.mount, target.mount, "f")
    task_env.run(task)
    assert (task_env.view(task), target.files(), driver.reads) == (SUCCEEDED, {"f": content}, [])


def test_ranges_of_object_are_compared_with_target(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """No checksum covers a range of an object on its way to us."""
    source, target = task_env.bucket(), task_env.disk()
    source.put("f", LARGE)
    driver, origin = damage(task_env, target.mount), task_env.driver(source.mount)
    driver.damages, driver.proves = False, True
    read, damaged = S3.read, list[int]()

    async def read_damaged(self: S3, *args: Any) -> Any:
        blocks = await read(self, *args)
        if self is not origin or damaged:
            return blocks
        damaged.append(1)
        return spoil(blocks)

    async def spoil(blocks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for block in blocks:
            yield flip(block)

    monkeypatch.setattr(S3, "read", read_damaged)
    task = task_env.move(source.mount, target.mount, "f")
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, CONTENT_DIFFERS)
    assert (source.files(), target.files()) == ({"f": LARGE}, {})


def test_a_comparison_goes_on_in_the_next_slice(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f", LARGE * 2)
    driver = damage(task_env, target.mount)
    driver.damages = False
    monkeypatch.setattr(steps.Run, "has_time", lambda self: False)
    task = task_env.move(source.mount, target.mount, "f")
    visited = task_env.run(task)
    assert (task_env.view(task), source.files(), target.files()) == (SUCCEEDED, {}, {"f": LARGE * 2})
    offsets = [offset for offset, _ in driver.reads]
    assert offsets == sorted(set(offsets))
    assert visited.count("Move") > 2 * len(offsets) - 1


def test_comparison_failing_in_later_step_keeps_foreign_file(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f", LARGE)
    driver = damage(task_env, target.mount)
    driver.damages = False
    monkeypatch.setattr(steps.Run, "has_time", lambda self: False)
    task = task_env.move(source.mount, target.mount, "f")

    def put_other(name: str, nth: int) -> None:
        if name == "Move" and driver.reads:
            target.put("f", b"others" + LARGE[6:])

    task_env.run(task, put_other)
    assert task_env.view(task)[0] == State.FAILED
    assert (source.files(), target.files()) == ({"f": LARGE}, {"f": b"others" + LARGE[6:]})
