"""Work that is killed: a generated tree, jobs between storages, SIGKILL at seeded instants, and what must hold then.

The model is the generated tree itself: after every kill each file is absent or whole at a target, whole at the source
unless a move has brought it over; at the end the target holds the tree and nothing else.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests import servers
from tests.crash.backends import Bucket, Disk, Side, make_memory_folder
from tests.crash.jobs import KINDS, Broken, Job, prepare_jobs
from tests.support import origin
from tests.support.origin import Origin
from tests.support.service import Client, Service, fork_service

SETTLE_SECONDS = 180.0
POLL_SECONDS = 0.1
INDEX_SECONDS = 180.0  # for the build of an index after a restart


@dataclass(slots=True)
class Report:
    """The result of a run."""

    seeds: int
    jobs: int
    kills: int = 0
    met: int = 0  # kills that met unfinished work


class World:
    """A service that may be killed, and its storages: the first Local one, a second one, one in memory where there is a
    file system for that, a bucket.

    `web` serves what is downloaded; the service may reach it.
    """

    def __init__(self, folder: Path, endpoint: str, web: Origin) -> None:
        self.data = folder / "data"
        self.web = web
        self._orders = folder / "orders"
        self.service: Service = fork_service(self.data, MANGROVE_KILL_AT=str(self._orders))
        self.client: Client = self.service.client()
        second = folder / "second"
        second.mkdir()
        self.backends: dict[str, Side] = {
            "files": Disk("/files", self.data / "files"),
            "second": Disk("/second", second),
            "bucket": Bucket("/bucket", endpoint),
        }
        self.memory = make_memory_folder()
        if self.memory is not None:
            self.backends["memory"] = Disk("/memory", self.memory)
            self.mount("/memory", "Local", root_folder_path=str(self.memory), show_hidden=True)
        bucket = self.backends["bucket"]
        assert isinstance(bucket, Bucket)
        self.mount("/second", "Local", root_folder_path=str(second), show_hidden=True)
        # v2: moto's first version of the listing leaves the names of folders unencoded
        self.mount("/bucket", "S3", **servers.s3_options(endpoint, bucket.name, list_object_version="v2"))
        self.save(offline_download_allowed_hosts="127.0.0.1")

    def mount(self, path: str, driver: str, **options: Any) -> None:
        body = {"mount_path": path, "driver": driver, "addition": json.dumps(options), "cache_expiration": 0}
        self.client.ok("/api/admin/storage/create", **body)

    def save(self, **settings: str) -> None:
        rows = [{"key": key, "value": value} for key, value in settings.items()]
        answer = self.client.http.post("/api/admin/setting/save", json=rows).json()
        assert answer["code"] == 200, answer

    def begin(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            job.begin(self.client, self.web)

    def kill(self) -> None:
        self.service.kill()
        self.client.http.close()

    def die_at(self, name: str) -> None:
        """From now on the service kills itself when it comes to the checkpoint `name`, once."""
        self._orders.write_text(name)

    def has_died(self, seconds: float) -> bool:
        """Return True if it killed itself within that time, with all of its processes; if not, it no longer will."""
        end = time.monotonic() + seconds
        while self._orders.exists() and time.monotonic() < end:
            time.sleep(0.01)
        has_come = not self._orders.exists()
        self._orders.unlink(missing_ok=True)
        if has_come:
            self.service.kill()
        return has_come

    def restart(self) -> None:
        token = self.client.token
        self.client.http.close()
        self.service = fork_service(self.data, MANGROVE_KILL_AT=str(self._orders))
        self.client = Client(self.service.address, token)

    def undone(self, kinds: Iterable[str] = KINDS) -> list[Any]:
        return [row for kind in KINDS if kind in kinds for row in self.tasks(kind, "undone")]

    def tasks(self, kind: str, status_key: str) -> list[Any]:
        answer = self.client.get(f"/openlist/api/task/{kind}/{status_key}")
        assert answer["code"] == 200, answer
        rows: list[Any] = answer["data"]
        return rows

    def settle(self, kinds: Iterable[str] = KINDS, seconds: float = SETTLE_SECONDS) -> None:
        """Until no task of these kinds is under way."""
        end = time.monotonic() + seconds
        while rows := self.undone(kinds):
            if time.monotonic() > end:
                raise Broken(f"not done after {seconds:.0f} s: {rows}")
            time.sleep(POLL_SECONDS)

    def clear(self) -> None:
        """Forget what was done."""
        self.web.pages.clear()
        self.web.requests.clear()
        for side in self.backends.values():
            side.clear()
        for kind in KINDS:
            self.client.ok(f"/openlist/api/task/{kind}/clear_done")

    def _list_staged(self) -> list[str]:
        """Return what is left in staging. An index that is being built after the restart has files there meanwhile."""
        end = time.monotonic() + INDEX_SECONDS
        while (staged := [str(path) for path in (self.data / "staging").rglob("*")]) and time.monotonic() < end:
            if not all("/index-" in path for path in staged):
                break
            time.sleep(POLL_SECONDS)
        return staged

    def check_done(self, jobs: Sequence[Job]) -> None:
        """Check the conditions that hold when all work has ended."""
        for job in jobs:
            job.check_nothing_lost()
            job.check_done()
        expected = Counter(kind for job in jobs for kind in job.kinds)
        for kind in KINDS:
            rows = self.tasks(kind, "done")
            if failed := [row for row in rows if row["state"] != 2 or row["error"]]:
                raise Broken(f"not succeeded: {failed}")
            if len(rows) != expected[kind]:
                raise Broken(f"{len(rows)} instead of {expected[kind]} tasks {kind}: {rows}")
        # a worker killed before it recorded the id of its multipart upload leaves that: no server attributes it
        left = [
            orphan
            for side in self.backends.values()
            for orphan in side.orphans()
            if orphan[1] or isinstance(side, Disk)
        ]
        if left:
            raise Broken(f"unfinished files are left: {left}")
        if staged := self._list_staged():
            raise Broken(f"left in staging: {staged}")

    def log(self) -> str:
        return (self.data.parent / f"{self.data.name}.log").read_text()


@contextmanager
def world(folder: Path, endpoint: str) -> Iterator[World]:
    """A world that ends with the context."""
    with origin.origin() as web:
        made = World(folder, endpoint, web)
        try:
            yield made
        finally:
            if made.service.process.poll() is None:
                made.service.kill()
            if made.memory is not None:
                shutil.rmtree(made.memory)


def run(world: World, seeds: Sequence[int]) -> Report:
    """The jobs of some seeds side by side, from a clean world; killed one to three times, the work is whole."""
    world.clear()
    rng = Random(f"kills {seeds}")
    jobs = [job for seed in seeds for job in prepare_jobs(world.backends, seed)]
    kinds = {kind for job in jobs for kind in job.kinds}
    report = Report(len(seeds), len(jobs))
    world.begin(sorted(jobs, key=lambda job: job.kind != "upload"))
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        time.sleep(0.02 + 1.48 * rng.betavariate(1, 8))
        report.met += bool(world.undone(kinds))
        world.kill()
        report.kills += 1
        for job in jobs:
            job.check_nothing_lost()
        world.restart()
    world.settle(kinds)
    world.check_done(jobs)
    return report


def stop_at(world: World, job: Job, name: str, seconds: float = 120.0) -> None:
    """Begin a job and see that the service kills itself at the checkpoint `name`; then restart it."""
    world.die_at(name)
    with suppress(httpx.TransportError):  # it may die before it can answer
        world.begin([job])
    if not world.has_died(seconds):
        raise Broken(f"the work never came to {name}: {world.undone()}")
    job.check_nothing_lost()
    world.restart()
