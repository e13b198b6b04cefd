"""Rows of everyday work, whose aims are ratios to a peer: folders, requests, files, copies, searches, memory."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from uuid import uuid4

from bench.load import measure_rate
from bench.processes import get_family_cpu_seconds
from bench.rows import LARGE_FILE, Row, Workspace, row
from bench.searching import NAMES, make_names, search, wait_for_index
from bench.subjects import Subject
from bench.tables import measure_seconds, wait_until
from tests.support.service import ADMIN_PASSWORD

LARGE_FOLDER, HUGE_FOLDER, ENTRIES, PAGE_SIZE = 100_000, 200_000, 1000, 50
REPEATS, CLIENTS, TASKS = 20, 4, 50
SMALL_FILES, UPLOADED_FILES = 10_000, 1_000
SETTLE_SECONDS = 2.0  # storages start in the background
MAX_COPY_SECONDS = 120.0


@row("idle memory, per process", "MB", most=1.3)
def idle_memory(workspace: Workspace, subject: Subject) -> float:
    subject.restart()
    time.sleep(SETTLE_SECONDS)
    return subject.get_memory_per_process() / 1e6


@row("100,000 entries, cold page", "s", most=0.6)
def local_cold(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(LARGE_FOLDER))
    subject.restart()
    return measure_seconds(partial(subject.list_page, path, LARGE_FOLDER))


@row("100,000 entries, warm page", "s", most=0.005)
def local_warm(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(LARGE_FOLDER))
    subject.list_page(path, LARGE_FOLDER)
    return measure_seconds(partial(subject.list_page, path, LARGE_FOLDER), REPEATS)


@row("10,000 keys of S3, cold page", "s", most=0.8)
def keys_cold(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_bucket(workspace.buckets.endpoint, "keys")
    subject.restart()
    return measure_seconds(partial(subject.list_page, path, PAGE_SIZE))


@row("ping", "req/s", least=0.5)
def ping(workspace: Workspace, subject: Subject) -> float:
    return measure_rate(workspace, subject, "/ping").per_second


@row("me", "req/s", least=0.4)
def me(workspace: Workspace, subject: Subject) -> float:
    return measure_rate(workspace, subject, "/api/me").per_second


@row("login (argon2id on purpose)", "req/s", least=60, absolute=True)
def login(workspace: Workspace, subject: Subject) -> float:
    """Measure sign-ins. Check every answer, because a refusal is fast."""
    credentials = {"username": "admin", "password": ADMIN_PASSWORD}
    return measure_rate(workspace, subject, "/api/auth/login", is_checked=True, **credentials).per_second


@row("list of 1,000, warm", "req/s", least=10)
def whole_list(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(ENTRIES))
    return measure_rate(workspace, subject, "/api/fs/list", path=path, page=1, per_page=0).per_second


@row("page of 50, warm", "req/s", least=5)
def page(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(ENTRIES))
    return measure_rate(workspace, subject, "/api/fs/list", path=path, page=1, per_page=PAGE_SIZE).per_second


@row("get one entry, warm", "req/s", least=4)
def get_entry(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(workspace.make_files(ENTRIES))
    return measure_rate(workspace, subject, "/api/fs/get", path=f"{path}/file 000500.txt").per_second


@row("put 1 GiB", "MB/s", least=1)
def put(workspace: Workspace, subject: Subject) -> float:
    os.sync()
    with subject.make_target() as (folder, path), subject.connect() as connection:
        seconds = measure_seconds(partial(connection.put, f"{path}/{LARGE_FILE}", workspace.size))
        assert (folder / LARGE_FILE).stat().st_size == workspace.size
    return workspace.size / 1e6 / seconds


def _get(workspace: Workspace, subject: Subject, clients: int) -> float:
    with subject.make_target() as (_, path), ExitStack() as stack, ThreadPoolExecutor(clients) as pool:
        connections = [stack.enter_context(subject.connect()) for _ in range(clients)]
        connections[0].put(f"{path}/{LARGE_FILE}", workspace.size)
        target = subject.get_target("get", path=f"{path}/{LARGE_FILE}")
        os.sync()
        sizes: list[int] = []
        seconds = measure_seconds(
            lambda: sizes.extend(pool.map(lambda connection: connection.get(target), connections))
        )
    assert sizes == [workspace.size] * clients
    return clients * workspace.size / 1e6 / seconds


get = row("get 1 GiB", "MB/s", least=1)(partial(_get, clients=1))
get_by_many = row("get 1 GiB, by 4 clients", "MB/s", least=1)(partial(_get, clients=CLIENTS))


def _count(folder: Path) -> int:
    """Return the number of files whose names are not hidden."""
    return sum(not name.startswith(".") for name in os.listdir(folder)) if folder.exists() else 0


def _copy(subject: Subject, source: str, target: str, name: str, arrives: Path, count: int) -> None:
    """Copy, and wait until `count` files have arrived and no task runs."""
    subject.ask("/api/fs/copy", src_dir=source, dst_dir=target, names=[name])
    _wait(subject, arrives, count)


def _wait(subject: Subject, folder: Path, count: int) -> None:
    def is_done() -> bool:
        return _count(folder) >= count and not subject.ask("/api/task/copy/undone")

    wait_until(is_done, MAX_COPY_SECONDS, f"{subject.name}: copy of {count} files")


@row("put 256 MiB, S3", "MB/s", least=1)
def put_to_s3(workspace: Workspace, subject: Subject) -> float:
    buckets = workspace.buckets
    with buckets.make() as bucket, subject.connect() as connection:
        path = subject.mount_bucket(buckets.endpoint, bucket.name)
        seconds = measure_seconds(partial(connection.put, f"{path}/{LARGE_FILE}", buckets.large_size))
        assert (bucket / LARGE_FILE).stat().st_size == buckets.large_size
    return buckets.large_size / 1e6 / seconds


@row("get 256 MiB, S3", "MB/s", least=1)
def get_from_s3(workspace: Workspace, subject: Subject) -> float:
    """Read a file of S3 through the service: the storage has `web_proxy`."""
    buckets = workspace.buckets
    path = subject.mount_bucket(buckets.endpoint, "large")
    target = subject.get_target("get", path=f"{path}/{LARGE_FILE}")
    sizes: list[int] = []
    with subject.connect() as connection:
        seconds = measure_seconds(lambda: sizes.append(connection.get(target)))
    assert sizes == [buckets.large_size]
    return buckets.large_size / 1e6 / seconds


@row("copy 10,000 small files, Local to Local", "files/s", least=1.5)
def copy_many(workspace: Workspace, subject: Subject) -> float:
    source = workspace.make_files(SMALL_FILES)
    with subject.make_target() as (folder, path):
        copy = partial(_copy, subject, subject.mount_local(source.parent), path, source.name)
        return SMALL_FILES / measure_seconds(partial(copy, folder / source.name, SMALL_FILES))


@row("copy 1,000 small files, Local to S3", "files/s", least=2)
def copy_to_s3(workspace: Workspace, subject: Subject) -> float:
    source, buckets = workspace.make_files(UPLOADED_FILES), workspace.buckets
    with buckets.make() as bucket:
        mounts = subject.mount_local(source.parent), subject.mount_bucket(buckets.endpoint, bucket.name)
        copy = partial(_copy, subject, *mounts, source.name, bucket / source.name, UPLOADED_FILES)
        return UPLOADED_FILES / measure_seconds(copy)


@row("copy 256 MiB, S3 to Local", "MB/s", least=1.2)
def copy_from_s3(workspace: Workspace, subject: Subject) -> float:
    with subject.make_target() as (folder, path):
        source = subject.mount_bucket(workspace.buckets.endpoint, "large")
        os.sync()
        seconds = measure_seconds(partial(_copy, subject, source, path, LARGE_FILE, folder, 1))
        size = (folder / LARGE_FILE).stat().st_size
    assert size == workspace.buckets.large_size
    return size / 1e6 / seconds


@row("one task of one small file, queue to done", "ms CPU", most=10, absolute=True)
def copy_one(workspace: Workspace, subject: Subject) -> float:
    """Return the mean over TASKS tasks, for all processes of the service, with the request."""
    source = workspace.make_files(TASKS)
    with subject.make_target() as (folder, path):
        mounts = {"src_dir": subject.mount_local(source), "dst_dir": path}
        before = get_family_cpu_seconds(subject.pid)
        for name in sorted(os.listdir(source)):
            subject.ask("/api/fs/copy", **mounts, names=[name])
        _wait(subject, folder, TASKS)
        return (get_family_cpu_seconds(subject.pid) - before) / TASKS * 1000


@row("index, build of 121,000 names", "names/s", least=3)
def build(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(make_names(workspace.folder / "names"))
    wait_for_index(subject)

    def work() -> None:
        subject.ask("/api/admin/index/build", paths=[path])
        wait_for_index(subject)

    return NAMES / measure_seconds(work)


@row("search for a rare word", "ms", most=0.7)
def rare_word(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(make_names(workspace.folder / "names"))
    wait_for_index(subject)
    return measure_seconds(partial(search, subject, path, "quagga", 1), REPEATS) * 1000


@row("search right after a put into a folder of 200,000", "ms", most=50, absolute=True)
def search_after_put(workspace: Workspace, subject: Subject) -> float:
    """Return the milliseconds of the slowest of several searches, all of which have to find the new file."""
    folder = workspace.make_files(HUGE_FOLDER)
    path, name = subject.mount_local(folder), f"okapi{uuid4().hex}"
    wait_for_index(subject)
    with subject.connect() as connection:
        connection.put(f"{path}/{name}.txt", 1)
    try:
        return max(measure_seconds(partial(search, subject, path, name, 1)) for _ in range(REPEATS)) * 1000
    finally:
        os.unlink(folder / f"{name}.txt")


@row("memory after this bench, per process", "MB", most=1.2)
def memory_after(workspace: Workspace, subject: Subject) -> float:
    return subject.get_memory_per_process() / 1e6


ROWS: tuple[Row, ...] = (
    idle_memory, local_cold, local_warm, keys_cold, ping, me, login, whole_list, page, get_entry, put, get,
    get_by_many, put_to_s3, get_from_s3, copy_many, copy_to_s3, copy_from_s3, copy_one, build, rare_word,
    search_after_put, memory_after,
)  # fmt: skip
