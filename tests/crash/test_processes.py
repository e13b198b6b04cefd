"""Processes of one service are killed under load: only who talked to them notices, and nothing is lost.

`KILLS=200 make crash` kills so many.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from mangrove.standalone.processes import MIN_FREE_MEMORY_BYTES, find_free_memory
from tests.crash.processes import PROCESSES, Caller, Family, Lost, Work, wait_until_gone
from tests.support.proc import list_descendants
from tests.support.service import Client, run_service, start_service

pytestmark = pytest.mark.xdist_group("crash")

KILLS = int(os.environ.get("KILLS", "6"))
MIN_KILL_SECONDS, MAX_KILL_SECONDS = 0.02, 0.3  # between a return and the next kill
SETTLE_SECONDS = 120.0
PAUSE_SECONDS = 0.2  # in which a copy would be done
READERS = 4
SLOW = 20  # clients


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    """A service of PROCESSES with a second Local storage at /second and a file /files/one.txt."""
    second = tmp_path / "second"
    second.mkdir()
    with run_service(tmp_path / "data", MANGROVE_PROCESSES=str(PROCESSES)) as service:
        admin = service.client()
        addition = json.dumps({"root_folder_path": str(second)})
        admin.ok("/api/admin/storage/create", mount_path="/second", driver="Local", addition=addition)
        (service.data / "files" / "one.txt").write_text("one")
        family = Family(service, admin.token)
        family.wait_until_whole()
        yield family


class Reading(Work):
    """The same folder again and again."""

    def work(self, caller: Caller) -> None:
        assert "one.txt" in caller.list_names("/files")


class Copying(Work):
    """Request copies as tasks, each of a file of its own; `opened`: the names whose task was acknowledged."""

    def __init__(self, family: Family) -> None:
        self.opened: list[str] = []
        super().__init__(family)

    def work(self, caller: Caller) -> None:
        name = uuid4().hex
        (self.family.service.data / "files" / name).write_text(name)
        caller.ask("/api/fs/copy", src_dir="/files", dst_dir="/second", names=[name])
        self.opened.append(name)
        self.ending.wait(0.1)


class Changing(Work):
    """Changes of a folder and of a setting, which every process shows as soon as they are answered; `seen`: so many
    times by a process that had not made them."""

    def __init__(self, family: Family) -> None:
        self.seen = 0
        super().__init__(family)

    def work(self, caller: Caller) -> None:
        name = uuid4().hex
        caller.put(f"/files/changed/{name}", b"changed")
        caller.save(announcement=name)
        with self.family.connect_each() as others:
            for pid, other in others.items():
                try:
                    self._check(other, name)
                    self.seen += pid != caller.pid
                except Lost:
                    self.lost += 1

    def _check(self, caller: Caller, name: str) -> None:
        assert name in caller.list_names("/files/changed"), f"{caller.pid} does not know of the file {name}"
        shown = caller.ask("/api/public/settings")["announcement"]
        assert shown == name, f"{caller.pid} does not know of the setting {name}"


def settle(client: Client) -> None:
    """Until no copy is under way."""
    end = time.monotonic() + SETTLE_SECONDS
    while rows := client.get("/api/task/copy/undone")["data"]:
        assert time.monotonic() < end, rows
        time.sleep(0.1)


def test_a_killed_process_takes_nothing_with_it(family: Family, tmp_path: Path) -> None:
    family.service.client().ok("/api/fs/mkdir", path="/files/changed")
    rng, copying, changing = random.Random(15), Copying(family), Changing(family)
    works: list[Work] = [copying, changing, *(Reading(family) for _ in range(READERS))]
    try:
        for _ in range(KILLS):
            family.kill(rng.choice(family.wait_until_whole()))
            time.sleep(rng.uniform(MIN_KILL_SECONDS, MAX_KILL_SECONDS))
        family.wait_until_whole()
        expected = changing.seen + PROCESSES
        end = time.monotonic() + SETTLE_SECONDS
        while changing.seen < expected and changing.problem is None:  # with all of them there again
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        for work in works:
            work.ending.set()
    for work in works:
        work.end()
    client = family.service.client()
    settle(client)
    rows = client.get("/api/task/copy/done")["data"]
    assert {row["state"] for row in rows} == {"succeeded"}, [row for row in rows if row["state"] != "succeeded"]
    for name in copying.opened:
        assert (tmp_path / "second" / name).read_text() == name
    lost = sum(work.lost for work in works)
    done = sum(work.done for work in works if isinstance(work, Reading))
    print(
        f"{KILLS} kills: {done} lists, {changing.seen} changes seen, {len(copying.opened)} tasks; {lost} requests lost"
    )


def test_when_the_first_process_is_killed_all_end_and_the_address_is_free(family: Family) -> None:
    service = family.service
    assert service.client().put("/files/kept.txt", b"kept")["code"] == 200
    pids = list_descendants(service.process.pid)
    assert len(pids) > PROCESSES  # with the records engine
    service.kill()
    wait_until_gone(pids)
    socket.create_server(("127.0.0.1", family.port)).close()
    again = start_service(service.data, MANGROVE_PROCESSES=str(PROCESSES))
    try:
        assert again.client().bytes("/files/kept.txt").content == b"kept"
    finally:
        again.stop()


def test_all_processors_are_used_unless_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MANGROVE_PROCESSES")
    with run_service(tmp_path / "data") as service:
        family = Family(service, service.client().token)
        assert len(family.list_servers()) == min(len(os.sched_getaffinity(0)), 4)


def test_one_process_is_enough_where_memory_is_short(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    assert find_free_memory(tmp_path) == math.inf  # nothing is acknowledged
    (tmp_path / "proc/meminfo").write_text("MemTotal: 4000000 kB\nMemAvailable: 2000000 kB\n")
    (group / "memory.max").write_text("max\n")
    assert find_free_memory(tmp_path) == 2_048_000_000
    (group / "memory.max").write_text("1000000000\n")
    (group / "memory.current").write_text("300000000\n")
    assert find_free_memory(tmp_path) == 700_000_000 < MIN_FREE_MEMORY_BYTES


def test_when_it_is_asked_to_end_all_end(family: Family) -> None:
    pids = list_descendants(family.service.process.pid)
    assert family.service.stop() == 0
    wait_until_gone(pids)
    socket.create_server(("127.0.0.1", family.port)).close()


def test_slow_clients_of_one_process_hold_up_no_other(family: Family) -> None:
    """Uploads that never go on are under way from the first to the last of the other requests."""
    slow = _open_uploads(family, family.list_servers()[0])
    with family.connect_each() as callers:
        assert len(callers) == PROCESSES
        for caller in callers.values():
            for _ in range(30):  # well within the minute after which the service gives up such an upload
                assert "one.txt" in caller.list_names("/files")
    for upload in slow:
        upload.setblocking(False)
        with pytest.raises(BlockingIOError):  # it was not answered: its process waits for the rest
            upload.recv(1)
        upload.close()


def _open_uploads(family: Family, pid: int) -> list[socket.socket]:
    """SLOW connections to the process, each with the beginning of an upload."""
    connections: list[socket.socket] = []
    head = f"PUT /api/fs/put HTTP/1.1\r\nhost: x\r\nauthorization: {family.token}\r\ncontent-length: 1000\r\n"
    while len(connections) < SLOW:
        caller = family.connect()
        if caller.pid == pid:
            connection = caller.detach()
            connection.sendall(f"{head}file-path: /files/slow{len(connections)}\r\n\r\nbegin".encode())
            connections.append(connection)
        else:
            caller.close()
    return connections


def test_a_process_that_stood_still_shows_what_changed_meanwhile(family: Family) -> None:
    with family.connect_each() as callers:
        assert len(callers) == PROCESSES
        still, *others = callers
        assert "new.txt" not in callers[still].list_names("/files")
        os.kill(still, signal.SIGSTOP)
        try:
            callers[others[0]].put("/files/new.txt", b"new")
            callers[others[0]].save(announcement="new")
            for pid in others:
                assert "new.txt" in callers[pid].list_names("/files")
        finally:
            os.kill(still, signal.SIGCONT)
        assert "new.txt" in callers[still].list_names("/files")
        assert callers[still].ask("/api/public/settings")["announcement"] == "new"


def test_tasks_pause_in_every_process_as_soon_as_that_is_answered(family: Family, tmp_path: Path) -> None:
    with family.connect_each() as callers:
        assert len(callers) == PROCESSES
        for pid, caller in callers.items():
            for other in callers.values():
                caller.save(copy_task_threads_num="0")
                name = uuid4().hex
                (family.service.data / "files" / name).write_text(name)
                other.ask("/api/fs/copy", src_dir="/files", dst_dir="/second", names=[name])
                time.sleep(PAUSE_SECONDS)
                assert not (tmp_path / "second" / name).exists(), f"{pid} paused it, {other.pid} was asked"
                caller.save(copy_task_threads_num="5")
                settle(family.service.client())
                assert (tmp_path / "second" / name).read_text() == name
