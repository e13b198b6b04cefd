"""Work at any size: many executions in an account that runs few functions at once, and a flat folder."""

from __future__ import annotations

import asyncio
import os
import time
from uuid import uuid4

from bench.environment import Environment
from bench.memory import Growth
from bench.table import work
from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.runtime import Runtime
from mangrove.drivers.base import DriverContext, Entry
from mangrove.drivers.local.driver import Local
from mangrove.drivers.paging import EntriesPage
from mangrove.records.tasks.model import Lease, Task, TaskView
from mangrove.tasks.core.endpoints import Endpoint
from mangrove.tasks.core.staging import Staging
from mangrove.tasks.core.steps import Run
from mangrove.tasks.transfer import worker as transfer
from mangrove.tasks.transfer.declaration import TRANSFER, TransferSpec
from mangrove.tasks.transfer.routes import TransferRoute
from tests.simulation import Account

TASKS = 2000
PAGE = 1000
STEP_SECONDS = 1.0


def _simulate(place: Environment, fact: str, concurrency: int, slots: int) -> float:
    """A fact of a simulation, which is made once."""
    name = f"{concurrency} {slots} "
    if name + fact not in place.kept:
        account = Account(concurrency, slots)
        account.run(TASKS)
        place.kept[name + "failed"] = TASKS - account.ended[""]
        place.kept[name + "minutes"] = account.seconds / 60
        place.kept[name + "refused"] = account.refused.total() / TASKS
    return place.kept[name + fact]


@work("2,000 tasks at 100 functions: not succeeded", "tasks", most=0)
def count_failed(place: Environment) -> float:
    return _simulate(place, "failed", 100, TASKS)


@work("2,000 tasks at 100 functions: until the last", "min")
def time_account(place: Environment) -> float:
    return _simulate(place, "minutes", 100, TASKS)


@work("2,000 tasks at 100 functions: refusals of each", "calls")
def count_refused(place: Environment) -> float:
    return _simulate(place, "refused", 100, TASKS)


@work("2,000 tasks, 5 at a time: not succeeded", "tasks", most=0)
def count_failed_in_slots(place: Environment) -> float:
    return _simulate(place, "failed", 1000, 5)


@work("2,000 tasks, 5 at a time: until the last", "min")
def time_slots(place: Environment) -> float:
    return _simulate(place, "minutes", 1000, 5)


class FlatFolder(Local):
    """Lists `count` files in pages, as a bucket does."""

    count = 0

    async def stat(self, path: TreePath) -> Entry:
        return Entry(path.name, 0, 1.0, True)

    async def list_page(self, path: TreePath, start: str = "", prefix: str = "") -> EntriesPage:
        first = int(start or 0)
        last = min(first + PAGE, self.count)
        entries = [Entry(f"file {number:09}", 1, 1.0, False, etag=f"{number:032x}") for number in range(first, last)]
        return EntriesPage(entries, str(last) if last < self.count else "")


def _plan(place: Environment) -> int:
    """The slices that the plan of a flat folder takes."""
    folder = place.folder / uuid4().hex
    folder.mkdir()

    def open_local(kind: type[Local]) -> Local:
        return kind(Local.Options(root_folder_path=str(folder)), DriverContext())

    driver = open_local(FlatFolder)
    assert isinstance(driver, FlatFolder)
    driver.count = place.rows
    view = TaskView(uuid4().hex, "copy", "", 0, 1, "", 0.0, None, None, 0, "")
    spec = TransferSpec(target_dir="/to", name="f", overwrite=False)
    task = Task(view.id, "copy", 1, view, spec.dump(), {}, False, False, False, 0, 0.0, Lease())
    route = TransferRoute(Endpoint(driver, TreePath("/f")), None, None, False)  # type: ignore[arg-type]
    slices, more, run = 0, True, Run(task, TRANSFER, "token", STEP_SECONDS)
    with runtime.use(Runtime()):
        runtime.put(Staging, Staging(open_local(Local)))
        while more:
            cursor = run.cursor
            run = Run(task, TRANSFER, "token", STEP_SECONDS)
            run.cursor = cursor
            more = asyncio.run(transfer.write_manifest(run, route))
            slices += 1
    assert run.cursor.entry_count == place.rows + 1
    return slices


@work("plan of a flat folder at size", "entries/s")
def time_plan(place: Environment) -> float:
    with Growth(os.getpid()) as growth:
        began = time.perf_counter()
        _plan(place)
        seconds = time.perf_counter() - began
    place.kept["plan"] = growth.bytes / (1 << 20)
    return place.rows / seconds


@work("plan of a flat folder at size: memory", "MiB", most=40)
def measure_plan(place: Environment) -> float:
    return place.kept["plan"]
