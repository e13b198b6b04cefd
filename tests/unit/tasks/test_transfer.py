"""TransferEnqueuer: plans written down slice by slice and through failures, every entry once; and what follows them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mangrove.core import runtime
from mangrove.core.paths import TreePath
from mangrove.core.problems import Unreachable
from mangrove.drivers.base import DriverContext, EntriesPage, Entry, list_all
from mangrove.drivers.local.driver import Local
from mangrove.records.tasks.model import Lease, Task, TaskView
from mangrove.tasks.core import model, queue, staging, steps
from mangrove.tasks.core.authorization import TargetAccess
from mangrove.tasks.core.leases import HeldTask
from mangrove.tasks.core.model import State
from mangrove.tasks.core.staging import ManifestEntry, StagedPath, Staging
from mangrove.tasks.core.steps import Run
from mangrove.tasks.transfer import worker as transfer
from mangrove.tasks.transfer.declaration import TRANSFER, TransferCursor, TransferSpec
from mangrove.tasks.transfer.step import TransferRoute
from mangrove.tasks.transfer.worker import TransferRun
from tests.support.task_env import TaskEnv

SUCCEEDED = (State.SUCCEEDED, "")
SPEC = TransferSpec(target_dir="/to", name="tree", overwrite=False)


class BreakingLocal(Local):
    """Lists entry by entry, and once cannot be reached after `entries` of them."""

    entries = 1 << 30

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        async for batch in super().list(path):
            for entry in batch:
                if self.entries == 0:
                    self.entries = 1 << 30
                    raise Unreachable
                self.entries -= 1
                yield [entry]


class PagedLocal(Local):
    """Lists in pages of two entries, the `failing`th of which cannot be reached; `asked`: folders and starts."""

    capabilities = replace(Local.capabilities, list_page=True)

    failing = 0

    def __init__(self, options: Any, context: DriverContext) -> None:
        super().__init__(options, context)
        self.listings: list[tuple[str, str]] = []

    async def list_page(self, path: TreePath, start: str = "", prefix: str = "") -> EntriesPage:
        self.listings.append((path, start))
        if len(self.listings) == self.failing:
            raise Unreachable
        entries_sorted = sorted(await list_all(self, path), key=lambda entry: entry.name)
        at = int(start or 0)
        return EntriesPage(entries_sorted[at : at + 2], str(at + 2) if at + 2 < len(entries_sorted) else "")


def open_local(folder: Path, kind: type[Local] = Local) -> Local:
    folder.mkdir(exist_ok=True)
    return kind(Local.Options(root_folder_path=str(folder)), DriverContext())


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tree of 40 files in 13 folders, the source of every plan; chunks of a manifest hold seven rows."""
    root = tmp_path / "source" / "tree"
    for number in range(40):
        path = root / f"d{number % 4}" / f"e{number % 3}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * number)
    (root / "empty").mkdir()
    monkeypatch.setattr(staging, "ROWS_PER_FILE", 7)
    monkeypatch.setenv("MANGROVE_DATA", str(tmp_path))
    with runtime.use(runtime.Runtime()):
        runtime.put(Staging, Staging(open_local(tmp_path / "staging")))
        yield root


def make_route(driver: Local) -> TransferRoute:
    target: TargetAccess = None  # type: ignore[assignment]  # it is no part of a plan
    return TransferRoute(StagedPath(driver, TreePath("/tree")), target, None, False)


def make_plan(tree: Path, failing: int = 1 << 30) -> Callable[[TransferRun], Awaitable[bool]]:
    """Plan the copy of a tree whose storage fails once after `failing` entries."""
    driver = open_local(tree.parent, BreakingLocal)
    assert isinstance(driver, BreakingLocal)
    driver.entries = failing
    return lambda run: transfer.write_lists(run, make_route(driver))


def shape(root: Path) -> list[tuple[str, int, bool]]:
    below = [(str(child.relative_to(root)), 0 if child.is_dir() else child.stat().st_size, child.is_dir()) for child in
             root.rglob("*")]  # fmt: skip
    return sorted([("", 0, True), *below])


def work(plan: Callable[[TransferRun], Awaitable[bool]], seconds: float) -> tuple[Task, int]:
    """Slice after slice, each going on from what the one before saved; the task and the number of slices."""
    view = TaskView(uuid4().hex, "copy", "ann", 0, State.RUNNING, "", 0.0, None, None, 0, "")
    task = Task(
        id=view.id, kind="copy", owner=1, view=view, spec=SPEC.dump(), cursor={}, cancel=False, done=False,
        removed=False, attempt=0, created=0.0, lease=Lease(),
    )  # fmt: skip
    slices, more = 0, True
    while more:
        slices += 1
        run = Run(HeldTask(task, "token"), TRANSFER, seconds)
        try:
            more = asyncio.run(plan(run))  # type: ignore[arg-type]
        except Unreachable:
            more = True
        task = replace(task, view=run.view, cursor=run.cursor.dump())
    return task, slices


def read_plan(task: Task) -> list[tuple[str, int | None, bool]]:
    """Return the rows of the manifest, folders before their content."""

    async def read() -> list[ManifestEntry]:
        rows: list[ManifestEntry] = []
        entries = staging.open_entries(task.id, 0, TransferCursor.load(task.cursor).entry_count)
        while batch := await entries.read_rows(len(rows)):
            rows += batch
        return rows

    rows = asyncio.run(read())
    places = {row.path: index for index, row in enumerate(rows)}
    for row in rows:
        assert not row.path or places[row.path.rpartition("/")[0]] < places[row.path]
    return sorted((row.path, 0 if row.is_dir else row.size, row.is_dir) for row in rows)


@pytest.mark.parametrize("seconds", [60.0, 0.0])
def test_a_plan_holds_every_entry_once_in_one_slice_or_in_many(tree: Path, seconds: float) -> None:
    task, slices = work(make_plan(tree), seconds)
    assert read_plan(task) == shape(tree)
    assert task.view.total_bytes == sum(range(40))
    assert slices == (1 if seconds else 19)


@pytest.mark.parametrize("failing", [1, 2, 5, 14])
@pytest.mark.parametrize("seconds", [60.0, 0.0])
def test_a_plan_goes_on_after_a_failure_as_if_nothing_had_been(tree: Path, failing: int, seconds: float) -> None:
    task, slices = work(make_plan(tree, failing), seconds)
    assert slices == (2 if seconds else 20)
    assert read_plan(task) == shape(tree)
    assert task.view.total_bytes == sum(range(40))


@pytest.mark.parametrize("failing", [0, 3, 20])
def test_a_slice_of_a_plan_ends_inside_a_folder_that_is_listed_in_pages(tree: Path, failing: int) -> None:
    """However large a folder is: no page is asked for twice, but the one that failed."""
    for number in range(30):
        (tree / f"flat{number:02}").write_bytes(b"")
    driver = open_local(tree.parent, PagedLocal)
    assert isinstance(driver, PagedLocal)
    driver.failing = failing
    task, slices = work(lambda run: transfer.write_lists(run, make_route(driver)), 0.0)
    assert read_plan(task) == shape(tree)
    assert len([path for path, _ in driver.listings if path == "/tree"]) == 18 + (failing == 3)
    assert len(driver.listings) == len(set(driver.listings)) + (1 if failing else 0)
    assert slices == len(driver.listings) + 1


def test_a_plan_counts_the_bytes_of_known_sizes_only(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = Local.list

    async def list_some_sizes(self: Local, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        async for batch in listing(self, path):
            yield [entry._replace(size=None) if entry.name == "f39" else entry for entry in batch]

    monkeypatch.setattr(Local, "list", list_some_sizes)
    task, _ = work(make_plan(tree), 60.0)
    assert task.view.total_bytes == sum(range(39))
    assert ("d3/e0/f39", None, False) in read_plan(task)


def test_a_file_whose_size_is_not_known_is_copied_whole(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = task_env.disk(), task_env.disk()
    files = {"tree/small": b"small", "tree/large": bytes(range(256)) * (9 << 12), "tree/empty": b""}
    for name, content in files.items():
        source.put(name, content)
    hide_sizes(task_env, source.mount, monkeypatch)
    task = task_env.copy(source.mount, target.mount, "tree")
    task_env.run(task)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, files)
    assert task_env.read(task).view.total_bytes == 0


@pytest.mark.parametrize(("content", "state"), [(b"mine", State.SUCCEEDED), (b"theirs", State.FAILED)])
def test_equal_bytes_of_unknown_size_count_as_copied(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch, content: bytes, state: State
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f", b"mine")
    hide_sizes(task_env, source.mount, monkeypatch)
    task = task_env.copy(source.mount, target.mount, "f")
    task_env.run(task, lambda name, nth: target.put("f", content) if name == "Move" else None)
    assert task_env.view(task) == (state, "" if state is State.SUCCEEDED else "1 of 1 items failed: f: file exists")
    assert target.files() == {"f": content}


def test_a_move_of_files_of_unknown_size_removes_them_once_they_are_stored(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("tree/f", b"content")
    hide_sizes(task_env, source.mount, monkeypatch)
    task = task_env.move(source.mount, target.mount, "tree")
    task_env.run(task)
    assert (task_env.view(task), source.files(), target.files()) == (SUCCEEDED, {}, {"tree/f": b"content"})


def hide_sizes(task_env: TaskEnv, mount: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a storage does not know how large its files are."""
    driver = task_env.driver(mount)
    stat, listing = driver.stat, driver.list

    async def stat_without_size(path: TreePath) -> Entry:
        entry: Entry = await stat(path)
        return entry._replace(size=None)

    async def list_without_sizes(path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        async for batch in listing(path):
            yield [entry._replace(size=None) for entry in batch]

    monkeypatch.setattr(driver, "stat", stat_without_size)
    monkeypatch.setattr(driver, "list", list_without_sizes)


@pytest.mark.long
def test_emptied_folders_are_removed_in_many_slices_over_chunk_borders(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "ROWS_PER_FILE", 4)
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)
    source, target = task_env.disk(), task_env.disk()
    for number in range(11):
        source.put(f"tree/d{number}/e/f", b"%d" % number)
    files = source.files()
    task = task_env.move(source.mount, target.mount, "tree")
    task_env.run(task)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, files)
    assert list(source.root.iterdir()) == []
    assert task_env.list_staged() == []


def test_a_retry_copies_what_failed_and_what_was_not_reached(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    for name in ("tree/a", "tree/b", "tree/c"):
        source.put(name, b"mine")
    task = task_env.copy(source.mount, target.mount, "tree")
    task_env.run(task, lambda name, nth: target.put("tree/b", b"theirs") if name == "Move" else None)
    assert task_env.view(task) == (State.FAILED, "1 of 4 items failed: b: file exists")
    (target.root / "tree/b").unlink()
    queue.retry("copy", task.id, task_env.caller())
    task_env.run(task)
    cursor = TransferCursor.load(task_env.read(task).cursor)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, source.files())
    assert (cursor.round, cursor.entry_count, cursor.attempt) == (1, 1, 1)


def test_lists_are_removed_on_success_while_staged_source_stays(task_env: TaskEnv) -> None:
    target, stage = task_env.disk(), f"{uuid4().hex}.0"
    staged = task_env.folder / "staging" / stage / "body"
    staged.mkdir(parents=True)
    (staged / "f").write_bytes(b"content")
    spec = TransferSpec(
        source=f"/{stage}/body", target_dir=target.mount, name="", overwrite=True, delete_policy=model.DELETE_NEVER
    )
    task = queue.enqueue("offline_download_transfer", task_env.user, queue.TaskRequest("a transfer", spec))
    task_env.run(task)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"f": b"content"})
    assert task_env.list_staged() == [stage]
