"""Rows of everyday work, whose aims are ratios to a peer: folders, requests, files, copies, searches, memory."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from uuid import uuid4

from bench.rows import measure_rate, print_rows, row
from bench.subjects import Subject
from bench.tables import measure_seconds, wait_until
from bench.workspace import FIRST_FILE, LARGE_BUCKET, NAMES, Workspace, make_names
from tests.support.proc import get_family_cpu_seconds
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
    path = subject.mount_bucket(workspace.endpoint, "keys")
    subject.restart()
    return measure_seconds(partial(subject.list_page, path, PAGE_SIZE))


ping = row("ping", "req/s", least=0.5)(partial(measure_rate, url="/ping"))
me = row("me", "req/s", least=0.4)(partial(measure_rate, url="/api/me"))


@row("login (argon2id on purpose)", "req/s", least=60, absolute=True)
def login(workspace: Workspace, subject: Subject) -> float:
    """Measure sign-ins. Check every answer, because a refusal is fast."""
    credentials = {"username": "admin", "password": ADMIN_PASSWORD}
    return measure_rate(workspace, subject, "/api/auth/login", is_checked=True, **credentials)


def _measure_files(workspace: Workspace, subject: Subject, url: str, name: str = "", **body: int) -> float:
    """Return the requests per second for a folder of ENTRIES files, or for the file `name` in it."""
    path = subject.mount_local(workspace.make_files(ENTRIES)) + name
    return measure_rate(workspace, subject, url, path=path, **body)


list_files = partial(_measure_files, url="/api/fs/list", page=1)
whole_list = row("list of 1,000, warm", "req/s", least=10)(partial(list_files, per_page=0))
page = row("page of 50, warm", "req/s", least=5)(partial(list_files, per_page=PAGE_SIZE))
get_entry = row("get one entry, warm", "req/s", least=4)(
    partial(_measure_files, url="/api/fs/get", name="/file 000500.txt")
)


def _put(subject: Subject, folder: Path, path: str, size: int) -> float:
    """Upload a large file to a path, where it arrives in a folder of the disk. Return MB/s."""
    os.sync()
    with subject.connect() as connection:
        seconds = measure_seconds(partial(connection.put, f"{path}/{FIRST_FILE}", size))
    assert (folder / FIRST_FILE).stat().st_size == size
    return size / 1e6 / seconds


def _get(subject: Subject, path: str, size: int, clients: int = 1) -> float:
    """Download a large file from a path by several clients at once. Return MB/s."""
    target = subject.get_target("get", path=f"{path}/{FIRST_FILE}")
    os.sync()
    with ExitStack() as stack, ThreadPoolExecutor(clients) as pool:
        gets = [stack.enter_context(subject.connect()).get for _ in range(clients)]
        sizes: list[int] = []
        seconds = measure_seconds(lambda: sizes.extend(pool.map(lambda get: get(target), gets)))
    assert sizes == [size] * clients
    return clients * size / 1e6 / seconds


def _copy(subject: Subject, source: str, target: str, name: str, folder: Path, count: int) -> float:
    """Copy to a path, where `count` files arrive in a folder of the disk. Return the seconds until no task runs."""
    began = time.perf_counter()
    subject.ask("/api/fs/copy", src_dir=source, dst_dir=target, names=[name])
    _wait(subject, folder, count)
    return time.perf_counter() - began


def _wait(subject: Subject, folder: Path, count: int) -> None:
    def is_done() -> bool:
        arrived = sum(not name.startswith(".") for name in os.listdir(folder)) if folder.exists() else 0
        return arrived >= count and not subject.ask("/api/task/copy/undone")

    wait_until(is_done, MAX_COPY_SECONDS, f"{subject.name}: copy of {count} files")


@row("put 1 GiB", "MB/s", least=1)
def put(workspace: Workspace, subject: Subject) -> float:
    with subject.make_target() as (folder, path):
        return _put(subject, folder, path, workspace.size)


def _put_and_get(workspace: Workspace, subject: Subject, clients: int) -> float:
    with subject.make_target() as (folder, path):
        _put(subject, folder, path, workspace.size)
        return _get(subject, path, workspace.size, clients)


get = row("get 1 GiB", "MB/s", least=1)(partial(_put_and_get, clients=1))
get_by_many = row("get 1 GiB, by 4 clients", "MB/s", least=1)(partial(_put_and_get, clients=CLIENTS))


@row("put 256 MiB, S3", "MB/s", least=1)
def put_to_s3(workspace: Workspace, subject: Subject) -> float:
    with workspace.make_bucket() as bucket:
        path = subject.mount_bucket(workspace.endpoint, bucket.name)
        return _put(subject, bucket, path, workspace.bucket_size)


@row("get 256 MiB, S3", "MB/s", least=1)
def get_from_s3(workspace: Workspace, subject: Subject) -> float:
    """Read a file of S3 through the service: the storage has `web_proxy`."""
    return _get(subject, subject.mount_bucket(workspace.endpoint, LARGE_BUCKET), workspace.bucket_size)


@row("copy 10,000 small files, Local to Local", "files/s", least=1.5)
def copy_many(workspace: Workspace, subject: Subject) -> float:
    source = workspace.make_files(SMALL_FILES)
    with subject.make_target() as (folder, path):
        mounts = subject.mount_local(source.parent), path
        return SMALL_FILES / _copy(subject, *mounts, source.name, folder / source.name, SMALL_FILES)


@row("copy 1,000 small files, Local to S3", "files/s", least=2)
def copy_to_s3(workspace: Workspace, subject: Subject) -> float:
    source = workspace.make_files(UPLOADED_FILES)
    with workspace.make_bucket() as bucket:
        mounts = subject.mount_local(source.parent), subject.mount_bucket(workspace.endpoint, bucket.name)
        return UPLOADED_FILES / _copy(subject, *mounts, source.name, bucket / source.name, UPLOADED_FILES)


@row("copy 256 MiB, S3 to Local", "MB/s", least=1.2)
def copy_from_s3(workspace: Workspace, subject: Subject) -> float:
    source = subject.mount_bucket(workspace.endpoint, LARGE_BUCKET)
    with subject.make_target() as (folder, path):
        os.sync()
        seconds = _copy(subject, source, path, FIRST_FILE, folder, 1)
        assert (folder / FIRST_FILE).stat().st_size == workspace.bucket_size
    return workspace.bucket_size / 1e6 / seconds


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


def _mount_names(workspace: Workspace, subject: Subject) -> str:
    """Return the mount path of a folder of NAMES names, which are in the index."""
    path = subject.mount_local(make_names(workspace.folder / "names"))
    subject.wait_for_index()
    return path


@row("index, build of 121,000 names", "names/s", least=3)
def build(workspace: Workspace, subject: Subject) -> float:
    path = _mount_names(workspace, subject)

    def work() -> None:
        subject.ask("/api/admin/index/build", paths=[path])
        subject.wait_for_index()

    return NAMES / measure_seconds(work)


@row("search for a rare word", "ms", most=0.7)
def rare_word(workspace: Workspace, subject: Subject) -> float:
    path = _mount_names(workspace, subject)
    return measure_seconds(partial(subject.search, path, "quagga", 1), REPEATS) * 1000


@row("search right after a put into a folder of 200,000", "ms", most=50, absolute=True)
def search_after_put(workspace: Workspace, subject: Subject) -> float:
    """Return the milliseconds of the slowest of several searches, all of which have to find the new file."""
    folder = workspace.make_files(HUGE_FOLDER)
    path, name = subject.mount_local(folder), f"okapi{uuid4().hex}"
    subject.wait_for_index()
    with subject.connect() as connection:
        connection.put(f"{path}/{name}.txt", 1)
    try:
        return max(measure_seconds(partial(subject.search, path, name, 1)) for _ in range(REPEATS)) * 1000
    finally:
        os.unlink(folder / f"{name}.txt")


@row("memory after this bench, per process", "MB", most=1.2)
def memory_after(workspace: Workspace, subject: Subject) -> float:
    return subject.get_memory_per_process() / 1e6


print_tables = partial(print_rows, "Everyday work", globals())
