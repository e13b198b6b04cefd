"""The reserve of the data disk is given up when that is full, and made again when there is room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mangrove.core.problems import DataDiskFull, RecordsUnavailable
from mangrove.records.store.base import make_unavailable
from mangrove.standalone import data_directory
from mangrove.standalone.data_directory import RESERVE_BYTES, DiskReserve
from tests.support.disks import mount_small
from tests.support.platforms import use_standalone


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of 32 mebibytes."""
    with mount_small(tmp_path / "small", "32m") as folder:
        yield folder


def fill(folder: Path, left: int) -> None:
    """Leave `left` bytes free."""
    reserve = DiskReserve(folder)
    (folder / "filler").write_bytes(bytes(reserve._find_free() - left))


def test_reserve_is_given_up_on_a_full_disk_and_made_again(small: Path) -> None:
    file, reserve = small / data_directory.RESERVE_NAME, DiskReserve(small)
    reserve.update()
    assert file.stat().st_size == RESERVE_BYTES
    assert not reserve.is_full() and not reserve.is_full_for_service()
    fill(small, 100_000)
    assert reserve.is_full()
    reserve.update()
    assert file.stat().st_size == 0
    assert reserve.is_full(), "it is for records"
    assert not reserve.is_full_for_service()
    fill_more = small / "more"
    fill_more.write_bytes(bytes(RESERVE_BYTES * 3 // 4))
    assert reserve.is_full_for_service()
    for name in ("filler", "more"):
        (small / name).unlink()
    reserve.update()
    assert file.stat().st_size == RESERVE_BYTES
    assert not reserve.is_full()


def test_small_disk_has_no_reserve_and_is_full_without_space(tmp_path: Path) -> None:
    with mount_small(tmp_path / "tiny", "8m") as tiny:
        reserve = DiskReserve(tiny)
        reserve.update()
        assert not (tiny / data_directory.RESERVE_NAME).exists()
        assert not reserve.is_full()
        fill(tiny, 500_000)
        assert reserve.is_full()


def test_full_data_disk_refuses_its_own_files_only(small: Path, tmp_path: Path) -> None:
    platform = use_standalone(small)
    reserve = DiskReserve(small)
    reserve.update()
    with (small / "here").open("wb") as here, (tmp_path / "elsewhere").open("wb") as elsewhere:
        platform.require_space(here.fileno())
        fill(small, 100_000)
        reserve.update()
        with pytest.raises(DataDiskFull, match="the data disk is full"):
            platform.require_space(here.fileno())
        platform.require_space(here.fileno(), is_own=True)
        platform.require_space(elsewhere.fileno())
    problem = make_unavailable()
    assert type(problem) is RecordsUnavailable, "a task tries it again"
    assert problem.message == "the data disk is full"
