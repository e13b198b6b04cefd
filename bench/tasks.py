"""Copies between storages as tasks, beside `cp` in the same run."""

from __future__ import annotations

import json
import os
import shutil
import time
from uuid import uuid4

from bench.memory import Growth
from bench.place import Place, fill
from bench.table import work

LOOK_SECONDS = 0.02
QUARTER = 4  # the file from and to S3 is this part of the large one


def _second(place: Place) -> str:
    """The mount path of a second Local storage."""
    folder = place.folder / uuid4().hex
    folder.mkdir()
    addition = json.dumps({"root_folder_path": str(folder), "show_hidden": True})
    path = f"/{folder.name}"
    place.client.ok("/api/admin/storage/create", mount_path=path, driver="Local", addition=addition)
    return path


def _copied(place: Place, source: str, target: str, name: str) -> float:
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


def _large(place: Place, size: int) -> str:
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


@work("copy of 10,000 small files between Local storages", "files/s", least=5000, peer="7,400")
def small(place: Place) -> float:
    return 10_000 / _copied(place, "/files", _second(place), place.local(10_000).rpartition("/")[2])


@work("copy of 1,000 small files, Local to S3", "files/s", least=300, peer="235")
def small_to_s3(place: Place) -> float:
    name = place.local(1_000).rpartition("/")[2]
    return 1_000 / _copied(place, "/files", place.mount_s3(), name)


@work("copy of a large file between Local storages", "MB/s", peer="1,450")
def large(place: Place) -> float:
    return place.size / 1e6 / _copied(place, "/files", _second(place), _large(place, place.size))


@work("the same by cp", "MB/s")
def by_cp(place: Place) -> float:
    source = place.data / "files" / _large(place, place.size)
    target = place.folder / uuid4().hex
    began = time.perf_counter()
    shutil.copy(source, target)
    seconds = time.perf_counter() - began
    target.unlink()
    return place.size / 1e6 / seconds


@work("copy of a file, S3 to Local", "MB/s", least=318, peer="318")
def from_s3(place: Place) -> float:
    size = place.size // QUARTER
    bucket, name = place.mount_s3(), _large(place, size)
    _copied(place, "/files", bucket, name)
    return size / 1e6 / _copied(place, bucket, _second(place), name)


@work("memory growth during these copies", "MiB", most=112)
def growth(place: Place) -> float:
    if "task" not in place.kept:
        from_s3(place)
    return place.kept["task"]


def _uploads(place: Place, count: int) -> None:
    """As many finished uploads on the board."""
    source = fill_once(place)
    for _ in range(0, count, len(source)):
        place.client.ok("/api/fs/copy", src_dir="/files/many", dst_dir=_second(place), names=source)
    while place.client.get("/api/task/copy/undone")["data"]:
        time.sleep(LOOK_SECONDS)


def fill_once(place: Place) -> list[str]:
    """The names of a hundred files in /files/many."""
    folder = place.data / "files" / "many"
    if not folder.exists():
        place.token()
        fill(folder, 100)
    return sorted(os.listdir(folder))


@work("list of 1,000 finished tasks", "ms", most=50)
def listed(place: Place) -> float:
    _uploads(place, 1_000)
    began = time.perf_counter()
    rounds = 5
    for _ in range(rounds):
        assert len(place.client.get("/api/task/copy/done")["data"]) >= 1_000
    return (time.perf_counter() - began) / rounds * 1000
