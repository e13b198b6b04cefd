"""Health checks of one machine: a full disk, background work that ended."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from mangrove.configuration import health
from mangrove.core import runtime
from mangrove.core.platform import platform
from mangrove.core.runtime import Runtime
from mangrove.core.shared_memory import Activity, SharedMemory, activity_times
from mangrove.standalone import health as local_health
from mangrove.standalone.health import (
    add_descriptor_check,
    add_disk_check,
    add_work_checks,
    note_work,
    watch_descriptors,
)
from tests.support.disks import mount_small
from tests.support.platforms import use_standalone
from tests.support.sharing import share_memory

WAIT_SECONDS = 120.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a check that answers as long as it takes on a loaded computer."""
    monkeypatch.setattr(platform(), "first_check_seconds", WAIT_SECONDS)
    monkeypatch.setattr(health, "MAX_CHECK_SECONDS", WAIT_SECONDS)


async def wait_for_faults(*faults: str) -> None:
    while await health.find_faults() != list(faults):  # noqa: ASYNC110 - nothing says when
        await asyncio.sleep(0.01)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system with less room than a start needs."""
    with mount_small(tmp_path / "small", "64k") as folder:
        yield folder


def test_a_full_disk_is_said(records: None, small: Path) -> None:
    use_standalone(small)
    add_disk_check()
    assert asyncio.run(health.find_faults()) == ["no space left for the data directory"]


def test_a_shortage_of_descriptors_is_told(records: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A4."""
    monkeypatch.setattr(local_health, "SHORTAGE_SECONDS", 0.2)
    monkeypatch.setattr(health, "MIN_CHECK_INTERVAL_SECONDS", 0.0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def go() -> None:
        add_descriptor_check()
        assert await health.find_faults() == []
        copies = [os.dup(0) for _ in range(300)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 10, hard))
        watching = asyncio.create_task(watch_descriptors())
        try:
            await wait_for_faults("few file descriptors are left")
        finally:
            watching.cancel()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for copy in copies:
                os.close(copy)
        await wait_for_faults()

    asyncio.run(asyncio.wait_for(go(), WAIT_SECONDS))


def test_work_that_nobody_does_any_more_is_said(records: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_health, "NOTE_SECONDS", 0.01)
    monkeypatch.setattr(local_health, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(health, "MIN_CHECK_INTERVAL_SECONDS", 0.0)

    async def go() -> None:
        add_work_checks()
        await wait_for_faults("tasks are not run", "the schedule is not run")  # no process has started
        ends, work = asyncio.Event(), asyncio.Event()
        goes_on, ended = asyncio.create_task(ends.wait()), asyncio.create_task(work.wait())
        noting = asyncio.create_task(note_work({Activity.TASKS: goes_on, Activity.SCHEDULE: ended}))
        await wait_for_faults()
        work.set()
        await wait_for_faults("the schedule is not run")
        noting.cancel()
        await wait_for_faults("tasks are not run", "the schedule is not run")
        ends.set()
        await goes_on

    asyncio.run(asyncio.wait_for(go(), WAIT_SECONDS))


def test_work_of_another_process_counts(records: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_health, "SILENT_SECONDS", WAIT_SECONDS)
    other, own = share_memory(2)
    with runtime.use(Runtime()) as there:
        there.put(SharedMemory, other)
        for activity in (Activity.TASKS, Activity.SCHEDULE):
            activity_times().record(activity)
    runtime.put(SharedMemory, own)
    add_work_checks()
    assert asyncio.run(health.find_faults()) == []
