"""Copies between storages, which are tasks: the time from the request until no task runs and all files have arrived."""

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

from bench.processes import get_family_cpu_seconds
from bench.rows import LARGE_FILE, LARGE_FILE_DIVISOR, Row, Workspace, row
from bench.subjects import Subject
from tests.servers import KEYS

SMALL_FILE_COUNT, UPLOAD_FILE_COUNT = 10_000, 1_000
TASKS = 50
RCLONE_TRANSFERS = 32
MAX_COPY_SECONDS = 120.0
POLL_SECONDS, POLL_SHARE = 0.01, 0.02  # the interval grows with the time that the copy has taken


def _count(folder: Path) -> int:
    """Return the number of files whose names are not hidden."""
    try:
        with os.scandir(folder) as entries:
            return sum(not entry.name.startswith(".") for entry in entries)
    except FileNotFoundError:
        return 0


def _wait(subject: Subject, folder: Path, count: int) -> None:
    """Wait until `count` files have arrived and no copy is under way."""
    began = time.monotonic()
    while _count(folder) < count or subject.ask("/api/task/copy/undone"):
        seconds = time.monotonic() - began
        if seconds > MAX_COPY_SECONDS:
            raise RuntimeError(f"{subject.name}: {_count(folder)} of {count} files after {seconds:.0f} s")
        time.sleep(POLL_SECONDS + POLL_SHARE * seconds)


def _time_copy(subject: Subject, source: str, target: str, name: str, arrives: Path, count: int) -> float:
    """Return the seconds from the request to the last file."""
    began = time.perf_counter()
    subject.ask("/api/fs/copy", src_dir=source, dst_dir=target, names=[name])
    _wait(subject, arrives, count)
    return time.perf_counter() - began


@contextmanager
def _make_target(subject: Subject) -> Iterator[Path]:
    """Make an empty folder of the subject and remove it at the end."""
    folder = subject.folder / uuid4().hex
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@row("copy 10,000 small files, Local to Local", "files/s", least=1.5)
def copy_many(workspace: Workspace, subject: Subject) -> float:
    source = workspace.make_files(SMALL_FILE_COUNT)
    with _make_target(subject) as folder:
        mounts = subject.mount_local(source.parent), subject.mount_local(folder)
        return SMALL_FILE_COUNT / _time_copy(subject, *mounts, source.name, folder / source.name, SMALL_FILE_COUNT)


def copy_by_rclone(workspace: Workspace) -> float:
    """Return the files per second of rclone's own copy to the same server."""
    source, buckets = workspace.make_files(UPLOAD_FILE_COUNT), workspace.buckets
    server = f"provider=Other,endpoint='{buckets.endpoint}',force_path_style=true,no_check_bucket=true,region=us-east-1"
    keys = ",".join(f"{key}={value}" for key, value in KEYS.items())
    environment = os.environ | {"RCLONE_CONFIG": str(workspace.folder / "rclone-client.conf")}
    with buckets.make() as bucket:
        target = f":s3,{server},{keys}:{bucket.name}/{source.name}"
        command = [str(Path(sys.executable).parent / "rclone"), "copy", str(source), target]
        began = time.perf_counter()
        subprocess.run(
            [*command, "--transfers", str(RCLONE_TRANSFERS)], env=environment, check=True, capture_output=True
        )
        seconds = time.perf_counter() - began
        assert _count(bucket / source.name) == UPLOAD_FILE_COUNT
    return UPLOAD_FILE_COUNT / seconds


@row("copy 1,000 small files, Local to S3", "files/s", least=2, reference=("by rclone's own copy", copy_by_rclone))
def copy_to_s3(workspace: Workspace, subject: Subject) -> float:
    source, buckets = workspace.make_files(UPLOAD_FILE_COUNT), workspace.buckets
    with buckets.make() as bucket:
        mounts = subject.mount_local(source.parent), subject.mount_bucket(buckets.endpoint, bucket.name)
        return UPLOAD_FILE_COUNT / _time_copy(subject, *mounts, source.name, bucket / source.name, UPLOAD_FILE_COUNT)


@row("copy 256 MiB, S3 to Local", "MB/s", least=1.2)
def copy_from_s3(workspace: Workspace, subject: Subject) -> float:
    with _make_target(subject) as folder:
        mounts = subject.mount_bucket(workspace.buckets.endpoint, "large"), subject.mount_local(folder)
        os.sync()
        seconds = _time_copy(subject, *mounts, LARGE_FILE, folder, 1)
        size = (folder / LARGE_FILE).stat().st_size
        assert size == workspace.size // LARGE_FILE_DIVISOR
        return size / 1e6 / seconds


@row("one task of one small file, queue to done", "ms CPU", most=10, absolute=True)
def copy_one(workspace: Workspace, subject: Subject) -> float:
    """Return the mean over TASKS tasks, for all processes of the service, with the request."""
    source = workspace.make_files(TASKS)
    with _make_target(subject) as folder:
        mounts = {"src_dir": subject.mount_local(source), "dst_dir": subject.mount_local(folder)}
        before = get_family_cpu_seconds(subject.pid)
        for name in sorted(os.listdir(source)):
            subject.ask("/api/fs/copy", **mounts, names=[name])
        _wait(subject, folder, TASKS)
        return (get_family_cpu_seconds(subject.pid) - before) / TASKS * 1000


ROWS: tuple[Row, ...] = (copy_many, copy_to_s3, copy_from_s3, copy_one)
