"""Many URLs, many archives, and copies into a folder that cannot be read: one task for each request."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from mangrove.core.problems import BadRequest
from mangrove.identity.rights import Right
from mangrove.records.tasks import lists as task_lists
from mangrove.records.tasks.model import Task
from mangrove.tasks import enqueue, submit
from mangrove.tasks.core import queue, staging, steps
from mangrove.tasks.core.model import State
from mangrove.tasks.download import fetching, listed
from mangrove.tasks.download.declaration import DownloadSpec
from mangrove.tasks.submit import DecompressOptions
from mangrove.tasks.transfer.declaration import TransferSpec
from tests.support import origin
from tests.support.origin import Origin
from tests.support.task_env import Disk, TaskEnv
from tests.unit.tasks.copying import SUCCEEDED
from tests.unit.tasks.test_decompress import pack

COUNT = enqueue.MAX_SINGLE_TASKS + 5
PART = 64 << 10  # bytes


@pytest.fixture
def web(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> Iterator[Origin]:
    """A server that downloads may reach; failed requests are repeated at once, and groups are small."""
    task_env.set(offline_download_allowed_hosts="127.0.0.1")
    monkeypatch.setattr(fetching, "IN_FLIGHT_BYTES", PART)
    monkeypatch.setattr(listed, "MAX_SMALL_BYTES", PART)
    monkeypatch.setattr(listed, "MAX_GROUP_ROWS", listed.SMALL_CONCURRENCY)
    monkeypatch.setattr(listed, "FETCH_RETRY_SECONDS", 0.0)
    with origin.origin() as server:
        yield server


def serve(web: Origin, count: int = COUNT) -> dict[str, bytes]:
    """Serve files; every seventh is large."""
    files = {f"f{number}": bytes([number]) * (1 if number % 7 else 3 * PART + 1) for number in range(count)}
    for name, content in files.items():
        web.at(f"/{name}", origin.file(content))
    return files


def download(task_env: TaskEnv, target: Disk, *urls: str) -> list[Task]:
    access = task_env.access(target.mount, Right.OFFLINE_DOWNLOAD)
    return task_env.do(submit.download(access, urls, "SimpleHttp", "delete_on_upload_succeed"))


def decompress(task_env: TaskEnv, source: Disk, target: Disk, names: list[str], **options: bool) -> list[Task]:
    ends = task_env.access(source.mount, Right.DECOMPRESS), task_env.access(target.mount, Right.DECOMPRESS)
    return task_env.do(submit.decompress(*ends, names, DecompressOptions(**options)))


@pytest.mark.parametrize("has_time", [True, False])
def test_many_urls_are_one_task_and_few_transfers(
    task_env: TaskEnv, web: Origin, has_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, target = serve(web), task_env.disk()
    if not has_time:
        monkeypatch.setattr(steps.Run, "has_time", lambda run: False)
    (task,) = download(task_env, target, *(f"{web.address}/{name}" for name in files))
    assert task.view.name == f"download {web.address}/f0 and {COUNT - 1} more to ({target.mount})"
    task_env.run_all()
    assert (task_env.view(task), target.files(), task_env.list_staged()) == (SUCCEEDED, files, [])
    transfers = list(task_lists.list_rows("offline_download_transfer", True))
    assert len(transfers) == -(-COUNT // listed.SMALL_CONCURRENCY)


def test_url_that_fails_is_named_and_a_retry_fetches_it_alone(task_env: TaskEnv, web: Origin) -> None:
    files, target = serve(web), task_env.disk()
    web.at("/f3", origin.status(404))
    web.at("/f7", origin.status(403))
    (task,) = download(task_env, target, *(f"{web.address}/{name}" for name in files))
    task_env.run_all()
    state, error = task_env.view(task)
    assert (state, error.partition(": ")[0]) == (State.FAILED, f"2 of {COUNT} items failed")
    assert f"{web.address}/f3: http status code 404" in error
    assert target.files() == {name: content for name, content in files.items() if name not in ("f3", "f7")}
    serve(web)
    before = len(web.requests)
    queue.retry("offline_download", task.id, task_env.caller())
    task_env.run_all()
    assert (task_env.view(task), target.files(), task_env.list_staged()) == (SUCCEEDED, files, [])
    assert {request.path for request in web.requests[before:]} == {"/f3", "/f7"}


def test_list_of_urls_survives_the_death_of_its_worker(
    task_env: TaskEnv, web: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies after the transfer of a group is enqueued and before the record has that."""
    files, target = serve(web), task_env.disk()
    (task,) = download(task_env, target, *(f"{web.address}/{name}" for name in files))
    chain_transfer = listed.chain_transfer

    async def die(run: fetching.DownloadRun, policy: str) -> None:
        await chain_transfer(run, policy)
        raise BaseException("Killed")

    monkeypatch.setattr(listed, "chain_transfer", die)
    with pytest.raises(BaseException, match="Killed"):
        task_env.run(task)
    monkeypatch.setattr(listed, "chain_transfer", chain_transfer)
    monkeypatch.setattr(steps.leases, "LEASE_SECONDS", 0)
    task_env.restart_process()
    task_env.run_all()
    assert (task_env.view(task), target.files(), task_env.list_staged()) == (SUCCEEDED, files, [])


def test_list_of_urls_stopped_in_a_group_continues_with_it(
    task_env: TaskEnv, web: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, target = serve(web), task_env.disk()
    (task,) = download(task_env, target, *(f"{web.address}/{name}" for name in files))
    monkeypatch.setattr(listed, "MAX_GROUP_ROWS", 1000)

    async def refuse(run: fetching.DownloadRun, policy: str) -> None:
        raise staging.ListLost("no transfer")

    monkeypatch.setattr(listed, "chain_transfer", refuse)
    task_env.run(task)
    assert (task_env.view(task)[0], target.files()) == (State.FAILED, {})
    monkeypatch.undo()
    task_env.set(offline_download_allowed_hosts="127.0.0.1")
    queue.retry("offline_download", task.id, task_env.caller())
    task_env.run_all()
    assert (task_env.view(task), target.files(), task_env.list_staged()) == (SUCCEEDED, files, [])


def test_ten_thousand_urls_are_one_task(task_env: TaskEnv) -> None:
    target = task_env.disk()
    urls = [f"https://example.com/{number}" for number in range(submit.MAX_TASKS_PER_REQUEST)]
    began = time.monotonic()
    (task,) = download(task_env, target, *urls)
    print(f"10,000 addresses were enqueued in {time.monotonic() - began:.2f} s")
    assert DownloadSpec.load(task.spec).count == submit.MAX_TASKS_PER_REQUEST
    with pytest.raises(BadRequest, match="10001 tasks in one request"):
        download(task_env, target, *urls, "https://example.com/more")


@pytest.mark.parametrize("into_new_dir", [True, False])
def test_many_archives_are_one_task(task_env: TaskEnv, into_new_dir: bool) -> None:
    source, target = task_env.disk(), task_env.disk()
    names = [f"a{number:02}.zip" for number in range(COUNT)]
    for name in names:
        source.put(name, pack({f"in/{name}": name.encode()}))
    (task,) = decompress(task_env, source, target, names, into_new_dir=into_new_dir)
    assert f"(/a00.zip and {COUNT - 1} more)" in task.view.name
    task_env.run_all()
    expected = {
        f"{name.removesuffix('.zip')}/in/{name}" if into_new_dir else f"in/{name}": name.encode() for name in names
    }
    assert (task_env.view(task), target.files(), task_env.list_staged()) == (SUCCEEDED, expected, [])


def test_archive_that_fails_is_named_and_a_retry_takes_it_alone(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    names = [f"a{number:02}.zip" for number in range(COUNT)]
    for name in names:
        source.put(name, pack({name: name.encode()}))
    (source.root / "a05.zip").write_bytes(b"no archive")
    (task,) = decompress(task_env, source, target, names, cache_full=True)
    task_env.run_all()
    state, error = task_env.view(task)
    assert state == State.FAILED and error.startswith(f"1 of {COUNT} items failed: a05.zip: ")
    assert len(target.files()) == COUNT - 1
    source.put("a05.zip", pack({"a05.zip": b"a05.zip"}))
    queue.retry("decompress", task.id, task_env.caller())
    task_env.run_all()
    assert (task_env.view(task), task_env.list_staged()) == (SUCCEEDED, [])
    assert target.files() == {name: name.encode() for name in names}


def test_right_to_unpack_is_evaluated_for_each_archive(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    names = [f"a{number:02}.zip" for number in range(COUNT)]
    for name in names:
        source.put(name, pack({name: name.encode()}))
    (task,) = decompress(task_env, source, target, names)
    task_env.rule(f"{source.mount}/a03.zip", read_users=[9999])
    task_env.run_all()
    state, error = task_env.view(task)
    assert state == State.FAILED and error.startswith(f"1 of {COUNT} items failed: a03.zip: ")
    assert "a03.zip" not in target.files() and len(target.files()) == COUNT - 1


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_many_copies_into_a_folder_that_cannot_be_read_are_one_task(task_env: TaskEnv, verb: str) -> None:
    source, target = task_env.disk(), task_env.disk()
    names = [f"f{number}" for number in range(COUNT)]
    for name in [*names, "sub/g"]:
        source.put(name, name.encode())
    (target.root / "drop").mkdir()
    task_env.rule(f"{target.mount}/drop", read_users=[9999], read_users_sub=True)
    (task,) = task_env.transfer(verb, source.mount, f"{target.mount}/drop", *names)
    assert TransferSpec.load(task.spec).write_only
    task_env.run(task)
    stored = target.files()
    assert (task_env.view(task), sorted(stored.values())) == (SUCCEEDED, sorted(name.encode() for name in names))
    assert all(path.startswith("drop/") for path in stored)


def test_list_into_a_folder_that_cannot_be_read_replaces_nothing(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    names = [f"f{number}" for number in range(COUNT)]
    for name in names:
        source.put(name, b"new")
    target.put("drop/f1", b"old")
    task_env.rule(f"{target.mount}/drop", read_users=[9999], read_users_sub=True)
    (task,) = task_env.transfer("copy", source.mount, f"{target.mount}/drop", *names, overwrite=True)
    task_env.run(task)
    assert target.files()["drop/f1"] == b"old"


def test_list_into_a_folder_that_cannot_be_written_any_more_fails(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    names = [f"f{number}" for number in range(COUNT)]
    for name in names:
        source.put(name, b"new")
    (target.root / "drop").mkdir()
    task_env.rule(f"{target.mount}/drop", read_users=[9999], read_users_sub=True)
    (task,) = task_env.transfer("copy", source.mount, f"{target.mount}/drop", *names)
    task_env.may(0)
    task_env.run(task)
    assert (task_env.view(task)[0], target.files()) == (State.FAILED, {})
