"""Copies between storages as tasks, beside `cp` in the same run."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from uuid import uuid4

from bench.environment import Environment as Place
from bench.environment import fill
from bench.memory import Growth
from bench.table import work

LOOK_SECONDS = 0.02
QUARTER = 4  # the file from and to S3 is this part of the large one
LARGER = 4  # the file between Local storages is so many times the large one
ROUNDS = 3  # the best one counts
STATES = 5  # that a copy goes through: Plan, Planned, Move, Moved, Settle


def _mount_second(place: Place) -> str:
    """The mount path of a second Local storage."""
    folder = place.folder / uuid4().hex
    folder.mkdir()
    addition = json.dumps({"root_folder_path": str(folder), "show_hidden": True})
    path = f"/{folder.name}"
    place.client.ok("/api/admin/storage/create", mount_path=path, driver="Local", addition=addition)
    return path


def _time_copy(place: Place, source: str, target: str, name: str) -> float:
    """Seconds that a copy took as a task; the growth of memory is kept for another line."""
    client = place.client
    with Growth(place.service.process.pid) as growth:
        began = time.perf_counter()
        client.ok("/api/fs/copy", src_dir=source, dst_dir=target, names=[name])
        while client.get("/api/task/copy/undone")["data"]:
            time.sleep(LOOK_SECONDS)
        seconds = time.perf_counter() - began
    last = client.get("/api/task/copy/done")["data"][-1]
    assert last["state"] == "succeeded", last
    place.kept["task"] = max(place.kept.get("task", 0.0), growth.bytes / (1 << 20))
    return seconds


def _make_large(place: Place, size: int) -> str:
    """The name of a file of `size` bytes in /files."""
    name = f"large {size}.bin"
    path = place.data / "files" / name
    if not path.exists():
        place.token()
        with path.open("wb") as file:
            for _ in range(0, size, 1 << 20):
                file.write(os.urandom(1 << 20))
    os.sync()
    return name


@work("copy of four large files in one, between Local storages", "MB/s", peer="1,450")
def copy_large(place: Place) -> float:
    size = LARGER * place.size
    name = _make_large(place, size)
    source, ours, theirs = place.data / "files" / name, [], []
    for _ in range(ROUNDS):  # in turn: a disk is not as fast at every moment
        theirs.append(_time_cp(source, place.folder / uuid4().hex))
        target = _mount_second(place)
        ours.append(_time_copy(place, "/files", target, name))
        (place.folder / target.strip("/") / name).unlink()
    source.unlink()
    place.kept["cp"] = size / 1e6 / min(theirs)
    place.kept["of cp"] = min(theirs) / min(ours)
    return size / 1e6 / min(ours)


@work("the same by cp", "MB/s")
def copy_by_cp(place: Place) -> float:
    return _get_kept(place, "cp")


@work("ours by cp's", "", least=1.0)
def compare_with_cp(place: Place) -> float:
    return _get_kept(place, "of cp")


def _get_kept(place: Place, name: str) -> float:
    if name not in place.kept:
        copy_large(place)
    return place.kept[name]


def _time_cp(source: Path, target: Path) -> float:
    """Seconds that cp took."""
    os.sync()
    began = time.perf_counter()
    subprocess.run(["cp", "--reflink=auto", source, target], check=True)
    seconds = time.perf_counter() - began
    target.unlink()
    return seconds


@work("copy of a file, S3 to Local", "MB/s", least=318, peer="318")
def copy_from_s3(place: Place) -> float:
    size = place.size // QUARTER
    bucket, name, taken = place.mount_s3(), _make_large(place, size), []
    _time_copy(place, "/files", bucket, name)
    for _ in range(ROUNDS):
        target = _mount_second(place)
        taken.append(_time_copy(place, bucket, target, name))
        (place.folder / target.strip("/") / name).unlink()  # memory that was in use before is not asked of the host
    return size / 1e6 / min(taken)


@work("memory growth during these copies", "MiB", most=112)
def measure_growth(place: Place) -> float:
    if "task" not in place.kept:
        copy_from_s3(place)
    return place.kept["task"]


def _make_many(place: Place) -> list[str]:
    """The names of a hundred files in /files/many."""
    folder = place.data / "files" / "many"
    if not folder.exists():
        place.token()
        fill(folder, 100)
    return sorted(os.listdir(folder))


def _open_copies(place: Place, count: int) -> str:
    """Open as many copies of small files; the mount they go to."""
    names, target = _make_many(place), _mount_second(place)
    for number in range(0, count, len(names)):
        place.client.ok("/api/fs/mkdir", path=f"{target}/{number}")
        place.client.ok("/api/fs/copy", src_dir="/files/many", dst_dir=f"{target}/{number}", names=names)
    return target


def _finish(place: Place) -> None:
    while place.client.get("/api/task/copy/undone", per_page=1)["data"]:
        time.sleep(LOOK_SECONDS)


def _time_list(place: Place, status_key: str, **paging: int) -> float:
    """Milliseconds of a list, the best of a few."""
    taken, client = [], place.client
    for _ in range(5):
        began = time.perf_counter()
        assert client.get(f"/api/task/copy/{status_key}", **paging)["code"] == 200
        taken.append(time.perf_counter() - began)
    return min(taken) * 1000


def _set_workers(place: Place, count: int) -> None:
    """How many copies run at once."""
    setting = [{"key": "copy_task_threads_num", "value": str(count)}]
    assert place.client.http.post(
        "/api/admin/setting/save", json=setting, headers={"Authorization": place.token()}
    ).json()["code"] == 200  # fmt: skip


@work("1,000 queued tasks, list of the undone", "ms", most=50)
def list_queued(place: Place) -> float:
    _set_workers(place, 0)
    _open_copies(place, 1_000)
    taken = _time_list(place, "undone")
    began = time.perf_counter()
    _set_workers(place, 5)
    _finish(place)
    place.kept["transition"] = (time.perf_counter() - began) * 1000 / 1_000 / STATES
    return taken


@work("one state transition, work of a small copy and all", "ms")
def time_transition(place: Place) -> float:
    if "transition" not in place.kept:
        list_queued(place)
    return place.kept["transition"]


@work("10,000 finished tasks, list of one page of 50", "ms", most=20, peer="116")
def list_page(place: Place) -> float:
    _open_copies(place, 9_000)
    _finish(place)
    return _time_list(place, "done", page=1, per_page=50)


@work("10,000 finished tasks, all in one list", "ms")
def list_whole(place: Place) -> float:
    return _time_list(place, "done")
