"""The service while the clock of the machine steps: a task ends, and one can be cancelled."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.service import PART, run_service
from tests.unit.standalone.test_runner import wait
from tests.unit.standalone.test_runner_outage import FILE_COUNT, expect_all, open_copies, prepare, set_workers

pytestmark = pytest.mark.long


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    FILE *file;
    long step = 0;
    if (clock == CLOCK_REALTIME && (file = fopen(getenv("CLOCK_STEP_FILE"), "r"))) {
        if (fscanf(file, "%ld", &step) == 1) now->tv_sec += step;
        fclose(file);
    }
    return result;
}
"""
SIZE = 600 << 20


@pytest.fixture
def clock(tmp_path: Path) -> Path:
    """A file with the seconds by which the clock of the service is wrong, and beside it the library that reads it."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc: a clock that steps needs a library of its own")
    source = tmp_path / "clock.c"
    source.write_text(SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", tmp_path / "clock.so", source, "-ldl"], check=True)
    step = tmp_path / "step"
    step.write_text("0")
    return step


def preload(clock: Path) -> dict[str, str]:
    return {"LD_PRELOAD": str(clock.with_name("clock.so")), "CLOCK_STEP_FILE": str(clock)}


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_tasks_end_while_the_clock_steps_also_those_a_killed_process_held(
    tmp_path: Path, clock: Path, seconds: int
) -> None:
    with run_service(tmp_path / "data", **preload(clock)) as service:
        client, names, root = prepare(service)
        open_copies(client, names)
        set_workers(client, 2)
        wait(lambda: len(list(root.iterdir())) > FILE_COUNT // 10)
        clock.write_text(str(seconds))
        wait(lambda: len(list(root.iterdir())) > FILE_COUNT // 3)
        service.kill()
    clock.write_text(str(2 * seconds))
    with run_service(tmp_path / "data", **preload(clock)) as service:
        expect_all(service, root)


def test_a_task_can_be_cancelled_after_the_clock_was_set_back(tmp_path: Path, clock: Path) -> None:
    with run_service(tmp_path / "data", **preload(clock)) as service:
        client, _, root = prepare(service)
        with (service.data / "files" / "large").open("wb") as file:
            file.truncate(SIZE)
        set_workers(client, 1)
        client.ok("/api/fs/copy", src_dir="/files/many", dst_dir="/second", names=["f0"])
        clock.write_text("-3600")
        wait(lambda: (root / "f0").exists())
        client = service.client()  # a session of an hour hence is not valid yet
        set_workers(client, 0)
        client.ok("/api/fs/copy", src_dir="/files", dst_dir="/second", names=["large"])
        (waiting,) = (row["id"] for row in client.get("/api/task/copy/undone")["data"])
        client.ok("/api/task/copy/cancel", params={"tid": waiting})
        wait(lambda: client.get("/api/task/copy/undone")["data"] == [])
        states = {row["id"]: row["state"] for row in client.get("/api/task/copy/done")["data"]}
        assert states[waiting] == "canceled"
        assert service.find_unfinished(root) == []
        assert not [path for path in root.iterdir() if path.name.startswith(PART)]
