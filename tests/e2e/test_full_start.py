"""A start on a disk without room says so, whatever it fails at."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.processes import end_with, refuse_to_run
from tests.support.disks import mount_small
from tests.support.service import run_service

pytestmark = pytest.mark.long


@pytest.mark.parametrize("size", ["4k", "16k", "100k", "300k", "700k"])
def test_a_first_start_without_room_is_refused_by_that_name(tmp_path: Path, size: str) -> None:
    with mount_small(tmp_path / "small", size) as small:
        line = refuse_to_run("serve", "--port", "0", "--data", str(small / "data"))
        assert line == f"no space left for the data directory {small / 'data'}"


@pytest.mark.parametrize("left", [0, 30_000, 500_000])
def test_a_later_start_without_room_is_refused_and_loses_nothing(tmp_path: Path, left: int) -> None:
    with mount_small(tmp_path / "small", "8m") as small:
        data = small / "data"
        with run_service(data) as service:
            assert service.client().put("/files/a", b"kept")["code"] == 200
            assert end_with(service, signal.SIGTERM)[0] == 0
        filler = small / "filler"
        filler.write_bytes(bytes(shutil.disk_usage(small).free - left))
        assert (
            refuse_to_run("serve", "--port", "0", "--data", str(data)) == f"no space left for the data directory {data}"
        )
        filler.unlink()
        with run_service(data) as again:
            assert again.client().bytes("/files/a").content == b"kept"
