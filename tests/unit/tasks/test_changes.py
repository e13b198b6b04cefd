"""Every verb and every task, on storages that are watched: an intent is there when something is changed, and the log
says afterwards what is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Upload
from mangrove.drivers.local.driver import Local
from mangrove.identity.rights import Right
from mangrove.records import index_changes, storages
from mangrove.records.index_changes import ChangeKind
from mangrove.tasks import submit
from mangrove.tree.operations import changes, transfers, uploads
from mangrove.tree.operations.plans import TransferRequest
from tests.support import origin
from tests.support.task_env import Disk, TaskEnv
from tests.unit.tasks.test_decompress import pack
from tests.unit.tree.environment import stream

TREE = {"top": b"0", "d/f": b"1", "d/g": b"2", "d/x/h": b"33", "d/x/y/i": b"4", "big": b"x" * (9 << 20)}


class Watch:
    """Changes by drivers: storage and folder of each entry, and if an intent was there before."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.changed: set[tuple[int, TreePath]] = set()
        self.unannounced: set[tuple[str, TreePath]] = set()
        self.verbs: set[str] = set()
        self.writes = 0
        self._ids: dict[str, int] = {}
        for verb in ("write", "makedirs", "remove", "remove_unchanged", "remove_empty"):
            self._watch(patch, verb, slice(1))
        for verb, changed in {"rename": slice(2), "move": slice(2), "copy": slice(1, 2)}.items():
            self._watch(patch, verb, changed)
        self._watch_copies(patch)
        real = index_changes.write

        def write(rows: Any, delete: Any = ()) -> None:
            self.writes += 1
            real(rows, delete)

        patch.setattr(index_changes, "write", write)

    def _watch(self, patch: pytest.MonkeyPatch, verb: str, changed: slice) -> None:
        """`changed`: which of its arguments are entries that become others."""
        real: Callable[..., Any] = getattr(Local, verb)

        @wraps(real)
        async def watched(driver: Local, *args: Any, **options: Any) -> Any:
            if verb != "write":
                self.note(driver, verb, args[changed])
                return await real(driver, *args, **options)

            async def body() -> Any:
                async for chunk in args[1]:
                    yield chunk
                self.note(driver, verb, args[:1])  # nothing is stored before the body's end

            return await real(driver, args[0], body(), *args[2:], **options)

        patch.setattr(Local, verb, watched)

    def _watch_copies(self, patch: pytest.MonkeyPatch) -> None:
        copy_from, finish = Local.copy_from, Local.finish

        async def copy_all(driver: Local, source: Any, files: Any) -> Any:
            self.note(driver, "copy_from", [file.target for file in files])
            return await copy_from(driver, source, files)

        async def finish_parts(driver: Local, path: TreePath, *args: Any) -> Any:
            self.note(driver, "finish", [path])
            return await finish(driver, path, *args)

        patch.setattr(Local, "copy_from", copy_all)
        patch.setattr(Local, "finish", finish_parts)

    def note(self, driver: Local, verb: str, paths: Sequence[TreePath]) -> None:
        """A driver is about to change the entries at `paths`; nothing where that is staging."""
        if driver.context.resolver is None:
            return
        mount = str(driver.context.mount_path)
        self._ids = self._ids if mount in self._ids else {storage.mount_path: storage.id for storage in storages.all()}
        self.verbs.add(verb)
        intents = find_intents(self._ids[mount])
        for path in paths:
            self.changed.add((self._ids[mount], path.parent))
            if not is_among(intents, path.parent):
                self.unannounced.add((verb, path))


def find_intents(storage_id: int) -> set[tuple[str, bool]]:
    rows = index_changes.read_of(storage_id)
    return {(row.path, row.deep) for row in rows if row.kind is ChangeKind.INTENT}


def is_among(intents: set[tuple[str, bool]], folder: TreePath) -> bool:
    return (folder, False) in intents or any((ancestor, True) in intents for ancestor in folder.ancestors())


def has_intent(storage_id: int, folder: TreePath) -> bool:
    return is_among(find_intents(storage_id), folder)


@pytest.fixture
def watch(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> Watch:
    task_env.set(search_index="database", handle_hook_after_writing="true", offline_download_allowed_hosts="127.0.0.1")
    return Watch(monkeypatch)


@pytest.fixture
def source(task_env: TaskEnv) -> Disk:
    disk = task_env.disk()
    for path, content in TREE.items():
        disk.put(path, content)
    (disk.root / "empty" / "below").mkdir(parents=True)
    return disk


def act_in_one_storage(env: TaskEnv, disk: Disk) -> None:
    """Every operation within a request."""

    def at(path: str, right: Right) -> Any:
        return env.access(f"{disk.mount}{path}", right)

    env.do(uploads.write(at("/new/deep/f", Right.WRITE), stream(b"x"), Upload(1, 1.0), hashes={}))
    env.do(uploads.write(at("/top", Right.WRITE), stream(b"xy"), Upload(2, 1.0), hashes={}))
    env.do(changes.mkdir(at("/made/there", Right.WRITE)))
    env.do(transfers.rename(at("/d/f", Right.RENAME), "renamed", False))
    env.do(transfers.rename_all(at("/d", Right.RENAME), {"g": "g2", "x": "x2"}))
    env.do(transfers.rename_by_pattern(at("/d/x2", Right.RENAME), "^h$", "${0}"))
    env.do(transfers.transfer(TransferRequest(Right.MOVE, at("/d", Right.MOVE), at("/made", Right.MOVE), ["x2"])))
    env.do(transfers.move_files(at("/made", Right.MOVE), at("/new", Right.MOVE), "cancel"))
    env.do(changes.remove(at("/", Right.DELETE), ["d", "top"]))
    env.do(changes.remove_empty(at("/", Right.DELETE)))


def test_what_is_done_at_once_is_announced_when_it_is_done(task_env: TaskEnv, watch: Watch, source: Disk) -> None:
    act_in_one_storage(task_env, source)
    assert watch.unannounced == set()
    assert watch.verbs == {"write", "makedirs", "rename", "move", "remove", "remove_empty"}
    assert all(has_intent(*change) for change in watch.changed)


@pytest.mark.parametrize("kind", ["copy", "move", "merge", "within"])
def test_what_a_transfer_changes_is_announced_when_it_is_changed(
    task_env: TaskEnv, watch: Watch, source: Disk, kind: str
) -> None:
    target = source if kind == "within" else task_env.disk()
    into = f"{source.mount}/new" if kind == "within" else target.mount
    (source.root / "new").mkdir()
    if kind == "merge":
        target.put("d/x/z", b"5")
    verb = "move" if kind == "move" else "copy"
    task_env.transfer(verb, source.mount, into, "d", "big", "empty", merge=kind == "merge")
    task_env.run_all()
    assert watch.unannounced == set()
    assert "makedirs" in watch.verbs and (kind == "within" or "finish" in watch.verbs)
    assert all(has_intent(*change) for change in watch.changed)
    assert (kind == "move") == ({"remove_unchanged", "remove_empty"} <= watch.verbs)
    assert "d/x/y/i" in target.files() or "new/d/x/y/i" in target.files()
    assert watch.writes <= 40


def test_what_tasks_bring_from_elsewhere_is_announced_when_it_arrives(
    task_env: TaskEnv, watch: Watch, source: Disk
) -> None:
    target = task_env.disk()
    source.put("a.zip", pack({"in/a": b"a", "in/deep/b": b"bb"}))
    task_env.decompress(source.mount, target.mount, "a.zip", into_new_dir=True)
    put = task_env.access(f"{target.mount}/sent/f", Right.WRITE)
    task_env.do(submit.upload(put, stream(b"x"), Upload(1, 1.0), True, {}))
    with origin.origin() as web:
        task_env.download(f"{target.mount}/got", web.at("/f.bin", origin.file(b"abc")))
        task_env.run_all()
    assert target.files() == {"a/in/a": b"a", "a/in/deep/b": b"bb", "sent/f": b"x", "got/f.bin": b"abc"}
    assert watch.unannounced == set()
    assert all(has_intent(*change) for change in watch.changed)


def test_many_small_files_in_one_folder_cost_few_writes(task_env: TaskEnv, watch: Watch) -> None:
    source, target = task_env.disk(), task_env.disk()
    for number in range(300):
        source.put(f"d/{number}", b"x")
    task_env.copy(source.mount, target.mount, "d")
    task_env.run_all()
    (storage,) = [storage_found.id for storage_found in storages.all() if storage_found.mount_path == target.mount]
    rows = index_changes.read_of(storage)
    assert {entry.name for row in rows if row.path == "/d" for entry in row.entries} == {str(n) for n in range(300)}
    assert not [row for row in rows if row.kind is ChangeKind.READ]
    assert watch.writes <= 8
