"""Downloads by SimpleHttp as tasks: in parts, broken off, bounded, stopped; and what waits in staging."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from mangrove.records.tasks import lists as task_lists
from mangrove.tasks.core import queue, steps
from mangrove.tasks.core.model import State
from mangrove.tasks.core.steps import CANCELED
from mangrove.tasks.download import fetching
from mangrove.tasks.download.declaration import DownloadCursor
from mangrove.tools import http
from tests.support import origin
from tests.support.origin import Origin
from tests.support.task_env import TaskEnv
from tests.unit.tasks.copying import SUCCEEDED

PART = 64 << 10  # bytes
BODY = bytes(range(251)) * 1500


@pytest.fixture
def web(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> Iterator[Origin]:
    """A server that downloads may reach; what it sends is stored in small parts."""
    task_env.set(offline_download_allowed_hosts="127.0.0.1")
    monkeypatch.setattr(fetching, "IN_FLIGHT_BYTES", PART)
    with origin.origin() as server:
        yield server


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("size", [0, 1, PART // 2, PART, len(BODY)])
def test_a_file_arrives_whole_in_one_slice_or_in_many(
    task_env: TaskEnv, web: Origin, ranges: bool, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)
    target = task_env.disk()
    task = task_env.download(target.mount, web.at("/f.bin", origin.file(BODY[:size], ranges=ranges)))
    task_env.run_all()
    assert (task_env.view(task), target.files(), task_env.list_staged()) == (SUCCEEDED, {"f.bin": BODY[:size]}, [])
    assert DownloadCursor.load(task_env.read(task).cursor).complete


@pytest.mark.parametrize("size", [2 * PART, 2 * PART + 1])
def test_a_slice_ends_in_time_however_slowly_the_source_sends(
    task_env: TaskEnv, web: Origin, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer stalls inside a part: the complete parts count, and the next step continues behind them."""
    monkeypatch.setattr(steps.Run, "seconds_left", 0.05)
    monkeypatch.setattr(http, "MAX_DELAY", -1.0)  # received bytes are passed on immediately
    over, content = threading.Event(), bytes(range(256)) * (size // 256) + bytes(size % 256)
    send = origin.file(content, cut=PART + PART // 4)

    def stall(request: origin.Request) -> None:
        send(request)
        over.wait(60)

    target = task_env.disk()
    task = task_env.download(target.mount, web.at("/f.bin", stall))
    try:
        task_env.run_all()
    finally:
        over.set()
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"f.bin": content})
    assert len(web.requests) > 1


def test_a_file_of_more_than_the_limit_is_refused(task_env: TaskEnv, web: Origin) -> None:
    task_env.set(offline_download_max_size="1")
    target = task_env.disk()
    large = web.at("/large", origin.file(bytes((1 << 20) + 1)))
    task = task_env.download(target.mount, large)
    task_env.run_all()
    assert task_env.view(task) == (State.FAILED, "the file exceeds the limit of 1 MiB")
    assert (target.files(), task_env.list_staged()) == ({}, [])


@pytest.mark.parametrize("verb", [queue.cancel, queue.delete])
def test_a_download_that_is_stopped_midway_leaves_nothing_in_staging(
    task_env: TaskEnv, web: Origin, verb: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)
    target = task_env.disk()
    task = task_env.download(target.mount, web.at("/f.bin", origin.file(BODY)))
    staged: list[list[str]] = []

    def before(name: str, nth: int) -> None:
        if (name, nth) == ("Poll", 2):
            staged.append(task_env.list_staged())
            assert callable(verb)
            verb("offline_download", task.id, task_env.caller())

    task_env.run(task_env.started.pop(0), before)
    assert staged == [[queue.get_stage(task), f"{task.id}.parts"]]
    assert (target.files(), task_env.list_staged()) == ({}, [])
    if verb is queue.cancel:
        assert task_env.view(task) == (State.CANCELED, CANCELED)


def test_a_file_that_is_another_one_by_now_is_fetched_from_its_begin(
    task_env: TaskEnv, web: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)
    target, other = task_env.disk(), BODY[::-1]
    url = web.at("/f.bin", origin.file(BODY, etag='"one"'))
    task = task_env.download(target.mount, url)

    def before(name: str, nth: int) -> None:
        if (name, nth) == ("Poll", 2):
            web.at("/f.bin", origin.file(other, etag='"two"'))

    task_env.run(task_env.started.pop(0), before)
    task_env.run_all()
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"f.bin": other})


@pytest.mark.parametrize(("policy", "left"), [("delete_never", True), ("delete_always", False), ("", True)])
def test_what_was_staged_stays_or_goes_as_the_policy_says(
    task_env: TaskEnv, web: Origin, policy: str, left: bool
) -> None:
    target = task_env.disk()
    task = task_env.download(target.mount, web.at("/f", origin.file(b"f")), policy)
    task_env.run_all()
    assert target.files() == {"f": b"f"}
    assert (queue.get_stage(task) in task_env.list_staged()) is left


def test_two_workers_chain_one_transfer(task_env: TaskEnv, web: Origin) -> None:
    target = task_env.disk()
    task = task_env.download(target.mount, web.at("/f", origin.file(b"f")))

    def before(name: str, nth: int) -> None:
        if name == "Settle":
            assert queue.find_chained(queue.get_stage(task_env.read(task))) is not None
            task_env.restart_process()

    task_env.run(task_env.started.pop(0), before)
    (transfer,) = task_lists.list_rows("offline_download_transfer", False)
    assert transfer.id == queue.get_chained_id(queue.get_stage(task))
    assert transfer.view.name.startswith("transfer [](/f) to [")
    assert transfer.view.total_bytes == 1
