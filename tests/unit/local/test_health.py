"""What one machine adds to the health: a full disk, work in the background that ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mangrove.local.health import add_disk_check, add_work_checks
from mangrove.site import health
from tests.disks import mount_small


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system with less room than a start needs."""
    with mount_small(tmp_path / "small", "64k") as folder:
        yield folder


def test_a_full_disk_is_said(records: None, small: Path) -> None:
    add_disk_check(small)
    assert asyncio.run(health.find_faults()) == ["no space left for the data directory"]


def test_work_that_ended_is_said(records: None) -> None:
    async def go() -> None:
        ends, work = asyncio.Event(), asyncio.Event()
        goes_on, ended = asyncio.create_task(ends.wait()), asyncio.create_task(work.wait())
        work.set()
        await ended
        add_work_checks({"it goes on": goes_on, "it ended": ended})
        assert await health.find_faults() == ["it ended"]
        ends.set()
        await goes_on

    asyncio.run(go())
