"""Copies between storages, which are tasks: from the request until none is under way and all has arrived."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from bench.comparison.rows import LARGE, QUARTER, Place, row
from bench.comparison.subjects import Subject
from bench.cpu import get_family_seconds
from tests.servers import KEYS

MANY, FEW = 10_000, 1_000
TASKS = 50
TRANSFERS = 32  # of rclone's own copy, at once
MOST_SECONDS = 120.0
LOOK_SECONDS, LOOK_PART = 0.01, 0.02  # between two looks, and more the longer it takes


def _count(folder: Path) -> int:
    """The files there that have their own names."""
    try:
        with os.scandir(folder) as entries:
            return sum(not entry.name.startswith(".") for entry in entries)
    except FileNotFoundError:
        return 0


def _wait(subject: Subject, folder: Path, count: int) -> None:
    """Until so many files have arrived and no copy is under way; that list is asked for only then, it may be long."""
    began = time.monotonic()
    while _count(folder) < count or subject.ask("/api/task/copy/undone"):
        seconds = time.monotonic() - began
        if seconds > MOST_SECONDS:
            raise RuntimeError(f"{subject.name}: {_count(folder)} of {count} files after {seconds:.0f} s")
        time.sleep(LOOK_SECONDS + LOOK_PART * seconds)


def _time_copy(subject: Subject, source: str, target: str, name: str, arrives: Path, count: int) -> float:
    """Seconds."""
    began = time.perf_counter()
    subject.ask("/api/fs/copy", src_dir=source, dst_dir=target, names=[name])
    _wait(subject, arrives, count)
    return time.perf_counter() - began


@contextmanager
def _make_target(subject: Subject) -> Iterator[Path]:
    """A new empty folder of the subject's own."""
    folder = subject.folder / uuid4().hex
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@row("copy 10,000 small files, Local to Local", "files/s", least=1.5)
def copy_many(place: Place, subject: Subject) -> float:
    source = place.make_files(MANY)
    with _make_target(subject) as folder:
        places = subject.mount_local(source.parent), subject.mount_local(folder)
        return MANY / _time_copy(subject, *places, source.name, folder / source.name, MANY)


def copy_by_rclone(place: Place) -> float:
    """Files/s of rclone's own copy to the same server."""
    source, buckets = place.make_files(FEW), place.buckets
    server = f"provider=Other,endpoint='{buckets.endpoint}',force_path_style=true,no_check_bucket=true,region=us-east-1"
    keys = ",".join(f"{key}={value}" for key, value in KEYS.items())
    environment = os.environ | {"RCLONE_CONFIG": str(place.folder / "rclone-client.conf")}
    with buckets.make() as bucket:
        target = f":s3,{server},{keys}:{bucket.name}/{source.name}"
        command = [str(Path(sys.executable).parent / "rclone"), "copy", str(source), target]
        began = time.perf_counter()
        subprocess.run([*command, "--transfers", str(TRANSFERS)], env=environment, check=True, capture_output=True)
        seconds = time.perf_counter() - began
        assert _count(bucket / source.name) == FEW
    return FEW / seconds


@row("copy 1,000 small files, Local to S3", "files/s", least=2, beside=("by rclone's own copy", copy_by_rclone))
def copy_to_s3(place: Place, subject: Subject) -> float:
    source, buckets = place.make_files(FEW), place.buckets
    with buckets.make() as bucket:
        places = subject.mount_local(source.parent), subject.mount_bucket(buckets.endpoint, bucket.name)
        return FEW / _time_copy(subject, *places, source.name, bucket / source.name, FEW)


@row("copy 256 MiB, S3 to Local", "MB/s", least=1.2)
def copy_from_s3(place: Place, subject: Subject) -> float:
    with _make_target(subject) as folder:
        places = subject.mount_bucket(place.buckets.endpoint, "large"), subject.mount_local(folder)
        os.sync()
        seconds = _time_copy(subject, *places, LARGE, folder, 1)
        size = (folder / LARGE).stat().st_size
        assert size == place.size // QUARTER
        return size / 1e6 / seconds


@row("one task of one small file, queue to done", "ms CPU", most=10, absolute=True)
def copy_one(place: Place, subject: Subject) -> float:
    """Of all processes of the service and the request that opens the task, the mean of TASKS."""
    source = place.make_files(TASKS)
    with _make_target(subject) as folder:
        places = {"src_dir": subject.mount_local(source), "dst_dir": subject.mount_local(folder)}
        before = get_family_seconds(subject.pid)
        for name in sorted(os.listdir(source)):
            subject.ask("/api/fs/copy", **places, names=[name])
        _wait(subject, folder, TASKS)
        return (get_family_seconds(subject.pid) - before) / TASKS * 1000
