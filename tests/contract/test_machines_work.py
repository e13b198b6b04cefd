"""Every machine with its real workers, in our runner and in moto's interpreter: same states, same outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mangrove.records.tasks.model import Task
from mangrove.standalone.machines import load_machine
from mangrove.tasks.core import file_copy, queue, steps
from mangrove.tasks.core.model import State
from mangrove.tasks.core.registry import KINDS, find_machine
from mangrove.tasks.decompress import worker as decompress
from mangrove.tasks.download import fetching
from mangrove.tasks.remove import worker as removal
from mangrove.tasks.transfer import batches
from mangrove.tasks.transfer import worker as transfer
from tests.contract.machine_jobs import (
    BODY,
    PART,
    PIECE,
    REMOVAL_VERBS,
    SECOND_WORKERS,
    SMALL,
    TREE,
    VERBS,
    Job,
    Tidying,
    pack,
)
from tests.contract.test_machines import DEFINITIONS
from tests.support import origin
from tests.support.interpreters import Interpreter, run_here, start_moto
from tests.support.origin import Origin
from tests.support.task_env import ALL_RIGHTS, Before, TaskEnv, calls

pytestmark = pytest.mark.long


# steps of that worker; a tree begins with three folders
INTERRUPTED_STEPS = {
    "transfer": 5,
    "remove": 5,
    "remove_empty_directory": 35,
    "download": 2,
    "decompress": 2,
}
SUCCEEDED, CANCELED, FAILED = (State.SUCCEEDED, ""), (State.CANCELED, "context canceled"), State.FAILED


@pytest.fixture(scope="module")
def there() -> Iterator[Interpreter]:
    with start_moto() as run:
        yield run


@pytest.fixture(scope="module")
def web() -> Iterator[Origin]:
    with origin.origin() as web:
        web.at("/file.bin", origin.file(BODY))
        yield web


@pytest.fixture(autouse=True)
def fine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches, parts and pauses between saves so small that there is much to be interrupted; a slice is as long as its
    work, however slow the machine is."""
    monkeypatch.setattr(steps.Run, "has_time", lambda run: True)
    monkeypatch.setattr(batches, "MAX_BATCH_FILES", 2)
    monkeypatch.setattr(batches, "MAX_DIRECT_BATCH_FILES", 2)
    monkeypatch.setattr(transfer, "SAVE_INTERVAL_SECONDS", 0)
    monkeypatch.setattr(batches, "SAVE_INTERVAL_SECONDS", 0)
    monkeypatch.setattr(removal, "SAVE_INTERVAL_SECONDS", 0)
    monkeypatch.setattr(decompress, "SAVE_INTERVAL_SECONDS", 0)
    monkeypatch.setattr(file_copy, "IN_FLIGHT_BYTES", PART)
    monkeypatch.setattr(fetching, "IN_FLIGHT_BYTES", PIECE)


def work_in_small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """End every slice as soon as it has done something."""
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)
    monkeypatch.setattr(decompress, "is_enough", lambda skipping, work: True)


machine_of = {verb: KINDS[verb].machine for verb in VERBS} | {
    "remove": "remove", "remove_empty_directory": "remove", "recursive_move": "transfer"
}  # fmt: skip


@dataclass
class Ended:
    """The ends of a task and of those that continue it."""

    paths: list[list[str]]
    states: list[tuple[int, str]]
    files: dict[str, bytes]


@pytest.fixture
def both(task_env: TaskEnv, there: Interpreter, web: Origin) -> Callable[..., tuple[Job, Ended]]:
    """Do a job in both interpreters, each time from a new state, and compare everything; return the job and its end."""
    task_env.set(offline_download_allowed_hosts="127.0.0.1")

    def run(verb: str, before: Callable[[Job, Task], Before] | None = None, **opened: Any) -> tuple[Job, Ended]:
        ends: list[Ended] = []
        job = (Tidying if verb in REMOVAL_VERBS else Job)(task_env, web, verb)
        for interpreter in (run_here, there):
            ends.append(run_to_end(job, interpreter, before, opened))
            assert not job.target.unfinished()
        assert ends[0] == ends[1]
        return job, ends[0]

    return run


def run_to_end(
    job: Job, run: Interpreter, before: Callable[[Job, Task], Before] | None, opened: dict[str, Any]
) -> Ended:
    first = job.open(**opened)
    paths, tasks = [], []
    while job.task_env.started:
        task = job.task_env.started.pop(0)
        machine = find_machine(task)
        work = calls(load_machine(machine)[1], before(job, task) if before and task.id == first.id else None)
        outcome = run(DEFINITIONS[machine], {"tid": task.id}, work)
        assert outcome.output is not None
        paths.append(outcome.visited)
        tasks.append(task)
    assert tasks[0].id == first.id
    return Ended(paths, [job.task_env.view(task) for task in tasks], job.target.files())


def is_straight(path: list[str]) -> bool:
    """Return True if every worker worked once."""
    return len(path) == len(set(path))


@pytest.mark.parametrize("verb", [*VERBS, *REMOVAL_VERBS])
def test_a_machine_does_its_work_in_one_slice(both: Callable[..., tuple[Job, Ended]], verb: str) -> None:
    job, end = both(verb)
    assert end.files == job.expected_files
    assert set(end.states) == {SUCCEEDED}
    assert all(is_straight(path) and path[-1] == "Settle" for path in end.paths)
    assert len(end.paths) == (1 if machine_of[verb] in ("transfer", "remove") else 2)
    assert job.task_env.list_staged() == []
    assert verb in ("copy", "offline_download", "decompress") or not job.list_source()


@pytest.mark.parametrize("verb", [*VERBS, *REMOVAL_VERBS])
def test_a_machine_does_its_work_in_many_slices(
    both: Callable[..., tuple[Job, Ended]], verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_in_small_slices(monkeypatch)
    job, end = both(verb)
    assert end.files == job.expected_files
    assert set(end.states) == {SUCCEEDED}
    # a storage moves the files of a listing at once
    worker = "Plan" if verb == "recursive_move" else SECOND_WORKERS[machine_of[verb]]
    assert end.paths[0].count(worker) >= 4
    assert verb in ("copy", "offline_download", "decompress") or not job.list_source()
    assert job.task_env.list_staged() == []


EXISTING_FILES = "2 of 10 items failed: d0/f0: file exists; d1/f1: file exists"


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_items_that_fail_are_named_and_the_others_arrive(both: Callable[..., tuple[Job, Ended]], verb: str) -> None:
    def before(job: Job, task: Task) -> Before:
        for name in ("tree/d0/f0", "tree/d1/f1"):
            job.target.put(name, b"mine")
        return lambda name, nth: None

    job, end = both(verb, before)
    existing = {"tree/d0/f0": b"mine", "tree/d1/f1": b"mine"}
    assert end.files == TREE | existing
    assert end.states == [(FAILED, EXISTING_FILES)]
    assert job.list_source() == (TREE if verb == "copy" else {name: TREE[name] for name in existing})


def test_a_download_that_is_not_there_fails_with_its_address(both: Callable[..., tuple[Job, Ended]]) -> None:
    _, end = both("offline_download", url="/nothing")
    assert end.paths == [["Begin", "Wait", "Poll", "Settle"]]
    assert (end.states[0][0], end.files) == (FAILED, {})
    assert "404" in end.states[0][1]


def test_what_is_no_archive_fails_before_anything_is_unpacked(both: Callable[..., tuple[Job, Ended]]) -> None:
    job, end = both("decompress", content=b"no archive" * 100)
    assert end.paths == [["Plan", "Settle"]]
    assert (end.states[0][0], end.files) == (FAILED, {})
    assert end.states[0][1]
    assert job.task_env.list_staged() == []


def test_entries_that_are_refused_are_named_and_the_others_arrive(both: Callable[..., tuple[Job, Ended]]) -> None:
    _, end = both("decompress", content=pack(**SMALL, **{"../evil": b"e"}))
    assert end.files == SMALL
    assert [state for state, _ in end.states] == [FAILED, State.SUCCEEDED]
    assert end.states[0][1].startswith("1 entry is not unpacked: ../evil: ")


def midway(act: Callable[[Job, Task], None]) -> Callable[[Job, Task], Before]:
    """Something happens between two slices of the worker that moves bytes."""

    def make(job: Job, task: Task) -> Before:
        def before(name: str, nth: int) -> None:
            machine = machine_of[job.verb]
            if (name, nth) == (SECOND_WORKERS[machine], INTERRUPTED_STEPS.get(job.verb, INTERRUPTED_STEPS[machine])):
                act(job, task)

        return before

    return make


def check_whole_or_absent(job: Job, end: Ended) -> None:
    """Nothing at the target is in part."""
    assert end.files.items() <= job.expected_files.items()
    if job.verb in ("copy", "move"):
        assert (job.list_source() | end.files) == TREE
        assert 0 < len(end.files) < len(TREE)
    if job.verb == "copy":
        assert job.list_source() == TREE


@pytest.mark.parametrize("verb", VERBS)
def test_a_machine_that_is_cancelled_midway_leaves_nothing_half_done(
    both: Callable[..., tuple[Job, Ended]], verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that follows a long one reads its task again, and ends before it copies. One that follows a short step
    notices the cancellation when it saves. So that both interpreters do the same, no step is short."""
    work_in_small_slices(monkeypatch)
    monkeypatch.setattr(steps, "MAX_UNWRITTEN_SECONDS", 0)
    job, end = both(verb, midway(lambda job, task: queue.cancel(verb, task.id, job.task_env.caller())))
    assert end.states == [CANCELED]
    assert end.paths[0][-2:] == [SECOND_WORKERS[machine_of[verb]], "Settle"]
    check_whole_or_absent(job, end)
    if verb in ("offline_download", "decompress"):
        assert (end.files, job.task_env.list_staged()) == ({}, [])


@pytest.mark.parametrize("verb", ["remove", "remove_empty_directory"])
def test_a_removal_that_is_cancelled_midway_removes_nothing_more(
    both: Callable[..., tuple[Job, Ended]], verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_in_small_slices(monkeypatch)
    monkeypatch.setattr(steps, "MAX_UNWRITTEN_SECONDS", 0)  # as after any slice that is not that short
    job, end = both(verb, midway(lambda job, task: queue.cancel("move", task.id, job.task_env.caller())))
    assert end.states == [CANCELED]
    assert end.paths[0][-2:] == ["Remove", "Settle"]
    if verb == "remove":
        assert len(end.files) > len(job.expected_files)
    else:
        assert 0 < len(job.list_source()) < 2 * len(Tidying.FOLDERS)
    assert job.expected_files.items() <= end.files.items()


@pytest.mark.parametrize(
    ("verb", "disabled"), [*((verb, False) for verb in VERBS), ("move", True), ("offline_download", True)]
)
def test_machine_fails_when_owner_loses_right(
    both: Callable[..., tuple[Job, Ended]], verb: str, disabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    work_in_small_slices(monkeypatch)
    reason = "the account that requested this does not exist any more" if disabled else "permission denied"
    permission = ALL_RIGHTS if disabled else 0
    job, end = both(verb, midway(lambda job, task: job.task_env.may(permission, disabled=disabled)))
    assert end.states == [(FAILED, reason)]
    assert end.paths[0][-2:] == [SECOND_WORKERS[machine_of[verb]], "Settle"]
    check_whole_or_absent(job, end)


class Death(Exception):
    """A function that is gone in the middle of its work."""


Death.__name__ = "Sandbox.Timedout"


@pytest.mark.parametrize("saves", [0, 2])
@pytest.mark.parametrize("verb", [*VERBS, *REMOVAL_VERBS])
def test_worker_death_between_saves_is_continued_by_next(
    both: Callable[..., tuple[Job, Ended]], verb: str, saves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mangrove.records.tasks import model as tasks

    keep, left = tasks.save, [10**9]

    def die(*args: Any, **changes: Any) -> Task:
        left[0] -= 1
        if left[0] < 0:
            raise Death("gone")
        return keep(*args, **changes)

    def before(job: Job, task: Task) -> Before:
        deaths = iter([saves])

        def each(name: str, nth: int) -> None:
            left[0] = next(deaths, 10**9) if name == SECOND_WORKERS[machine_of[verb]] else 10**9
            job.task_env.restart_process()

        return each

    monkeypatch.setattr(tasks, "save", die)
    monkeypatch.setattr(steps, "MAX_UNWRITTEN_SECONDS", 0)
    job, end = both(verb, before)
    assert end.files == job.expected_files
    assert set(end.states) == {SUCCEEDED}
    assert all(is_straight(path) for path in end.paths)  # a retry is not a state of its own
    assert verb != "move" or not job.list_source()
    assert job.task_env.list_staged() == []


def test_two_executions_of_one_task_do_its_work_once(task_env: TaskEnv) -> None:
    job = Job(task_env, None, "copy")  # type: ignore[arg-type]
    task = job.open()

    def before(name: str, nth: int) -> None:
        if (name, nth) == ("Move", 0):
            task_env.run(task)  # a whole other execution between two states of this one

    task_env.run(task, before)
    assert (task_env.view(task), job.target.files()) == (SUCCEEDED, TREE)
