"""Plans of folders: written down slice by slice and through failures, every entry once; and what carries them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from mangrove.drivers.base import DriverContext
from mangrove.drivers.local.driver import Local
from mangrove.paths import TreePath
from mangrove.problems import Unreachable
from mangrove.records.tasks import Task
from mangrove.tasks import authorization, file_copy, manifest, staging, transfer
from mangrove.tasks.file_copy import Endpoint
from mangrove.tasks.manifest import Manifest
from mangrove.tasks.steps import Run

FACTS = {"verb": "copy", "name": "tree", "overwrite": False, "leave": False}


def local(folder: Path) -> Local:
    folder.mkdir(exist_ok=True)
    return Local(Local.Options(root_folder_path=str(folder)), DriverContext())


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of 40 files in 13 folders, the source of every plan; chunks of a manifest hold seven rows."""
    root = tmp_path / "source" / "tree"
    for number in range(40):
        path = root / f"d{number % 4}" / f"e{number % 3}" / f"f{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * number)
    (root / "empty").mkdir()
    monkeypatch.setattr(staging, "_driver", local(tmp_path / "staging"))
    monkeypatch.setattr(manifest, "CHUNK", 7)
    source = Endpoint(local(tmp_path / "source"), TreePath("/tree"))

    async def route(run: Run) -> Any:
        goal: Any = SimpleNamespace(end=Endpoint(source.driver, TreePath("/to")))
        return transfer.TransferRoute(source, goal, None)

    async def prepare(goal: Any) -> None:
        """The target is no part of a plan."""

    monkeypatch.setattr(transfer, "_route", route)
    monkeypatch.setattr(authorization, "prepare", prepare)
    return root


def shape(root: Path) -> list[tuple[str, int, bool]]:
    below = [(str(one.relative_to(root)), 0 if one.is_dir() else one.stat().st_size, one.is_dir()) for one in
             root.rglob("*")]  # fmt: skip
    return sorted([("", 0, True), *below])


def work(work: Callable[[Run], Awaitable[bool]], seconds: float) -> tuple[Task, int]:
    """Slice after slice, each going on from what the one before kept; the task and the number of slices."""
    view = {"total_bytes": 0, "status": "", "progress": 0.0}
    task = Task(
        id=uuid4().hex, kind="copy", owner=1, view=view, spec=dict(FACTS), cursor={}, cancel=False, done=False,
        gone=False, attempt=0, created=0.0,
        touched=0.0,
    )  # fmt: skip
    slices, more = 0, True
    while more:
        slices += 1
        run = Run(task, "token", seconds)
        try:
            more = asyncio.run(work(run))  # type: ignore[arg-type]
        except Unreachable:
            more = True
        task = replace(task, view=run.view, cursor=run.cursor)
    return task, slices


def planned(task: Task) -> list[tuple[str, int, bool]]:
    """What the manifest holds, folders before what is in them."""

    async def read() -> list[Any]:
        rows: list[Any] = []
        made = Manifest(task.id, "entries-0", task.cursor["entries"])
        while found := await made.rows(len(rows)):
            rows += found
        return rows

    rows = asyncio.run(read())
    places = {row[0]: index for index, row in enumerate(rows)}
    for row in rows:
        assert not row[0] or places[row[0].rpartition("/")[0]] < places[row[0]]
    return sorted((name, 0 if is_dir else size, is_dir) for name, size, _, is_dir, _ in rows)


@pytest.mark.parametrize("seconds", [60.0, 0.0])
def test_a_plan_holds_every_entry_once_in_one_slice_or_in_many(tree: Path, seconds: float) -> None:
    task, slices = work(transfer.plan, seconds)
    assert planned(task) == shape(tree)
    assert task.view["total_bytes"] == sum(range(40))
    assert slices == (1 if seconds else 19)


@pytest.mark.parametrize("failing", [1, 2, 5, 14])
@pytest.mark.parametrize("seconds", [60.0, 0.0])
def test_a_plan_goes_on_after_a_failure_as_if_nothing_had_been(
    tree: Path, monkeypatch: pytest.MonkeyPatch, failing: int, seconds: float
) -> None:
    note, noted = transfer._note, 0

    async def once(*args: Any) -> Any:
        nonlocal noted
        noted += 1
        answer = await note(*args)
        if noted == failing + 1:
            raise Unreachable
        return answer

    monkeypatch.setattr(transfer, "_note", once)
    task, _ = work(transfer.plan, seconds)
    assert noted > failing + 1
    assert planned(task) == shape(tree)
    assert task.view["total_bytes"] == sum(range(40))


def test_of_works_done_together_the_first_failure_waits_for_the_others() -> None:
    ended: list[int] = []

    async def one(number: int) -> int:
        await asyncio.sleep(number / 100)
        if number in (1, 2):
            raise Unreachable(str(number))
        ended.append(number)
        return number

    with pytest.raises(Unreachable, match="1"):
        asyncio.run(file_copy.together(map(one, range(5))))
    assert ended == [0, 3, 4]
    assert asyncio.run(file_copy.together(map(one, (3, 0)))) == [3, 0]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(b"", b"", True), (b"abc", b"abc", True), (b"abc", b"abd", False), (b"abc", b"abcd", False), (b"a", None, False)],
)
def test_files_are_alike_when_their_bytes_are(tmp_path: Path, one: bytes, other: bytes | None, same: bool) -> None:
    driver = local(tmp_path / "r")
    (tmp_path / "r" / "one").write_bytes(one)
    if other is not None:
        (tmp_path / "r" / "other").write_bytes(other)
    ends = Endpoint(driver, TreePath("/one")), Endpoint(driver, TreePath("/other"))
    assert asyncio.run(file_copy.alike(*ends)) is same
