"""Archives that are made as tasks: what is in them, what is refused, and what a worker that died leaves."""

from __future__ import annotations

import io
import random
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mangrove.core.platform import platform
from mangrove.core.problems import AccessDenied, BadRequest, NameConflict
from mangrove.identity.rights import Right
from mangrove.tasks.compress import packing_step, selections
from mangrove.tasks.core import steps
from mangrove.tasks.core.model import State
from mangrove.tree.operations import packing
from mangrove.web import zip_links
from tests.support.task_env import ALL_RIGHTS, Disk, TaskEnv
from tests.unit.tasks.copying import SUCCEEDED

LARGE = random.Random(2).randbytes(3 << 20)
FILES = {"in/a.txt": b"a", "in/deep/é 你": b"bb", "in/large.bin": LARGE, "z.txt": b"z", "empty": b""}
NAMES = ["in.zip", "in.tar.gz"]


def read(name: str, content: bytes) -> dict[str, bytes]:
    """The files in an archive, which is not damaged."""
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            assert file.testzip() is None
            return {info.filename: file.read(info) for info in file.infolist() if not info.is_dir()}
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as tar:
        bodies = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        return {path: body.read() for path, body in bodies.items() if body is not None}


def put_all(disk: Disk) -> None:
    for name, content in FILES.items():
        disk.put(name, content)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part has a few blocks, and each step ends after one."""
    monkeypatch.setattr(packing_step, "PART_BYTES", 100_000)
    monkeypatch.setattr(packing, "SMALL_FILE_BYTES", 1000)
    monkeypatch.setattr(steps.Run, "has_time", lambda run: False)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("steps_are_short", [False, True])
def test_selection_is_packed_into_an_archive(
    task_env: TaskEnv, request: pytest.FixtureRequest, name: str, steps_are_short: bool
) -> None:
    if steps_are_short:
        request.getfixturevalue("small_parts")
    source, target = task_env.disk(), task_env.disk()
    put_all(source)
    task = task_env.compress(source.mount, target.mount, name, "in", "z.txt", "empty")
    task_env.run_all()
    assert (task_env.view(task), task_env.list_staged()) == (SUCCEEDED, [])
    assert read(name, target.files()[name]) == FILES
    assert task_env.read(task).view.total_bytes == sum(map(len, FILES.values()))


def test_archive_is_stored_in_a_bucket(task_env: TaskEnv) -> None:
    source, target = task_env.bucket(), task_env.bucket()
    put_all(source)
    task = task_env.compress(source.mount, target.mount, "all.zip")
    task_env.run_all()
    assert task_env.view(task) == SUCCEEDED
    folder = source.mount.removeprefix("/")
    assert read("all.zip", target.files()["all.zip"]) == {f"{folder}/{path}": body for path, body in FILES.items()}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("checkpoint", ["compress.part", "compress.packed", "compress.stored", "copy.started"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_archive_is_whole_after_a_worker_died(
    task_env: TaskEnv, small_parts: None, monkeypatch: pytest.MonkeyPatch, name: str, checkpoint: str, count: int
) -> None:
    source, target = task_env.disk(), task_env.disk()
    put_all(source)
    task = task_env.compress(source.mount, target.mount, name, "in", "z.txt", "empty")
    passed = 0

    def die(passed_name: str) -> None:
        nonlocal passed
        if passed_name == checkpoint:
            passed += 1
            if passed == count:
                raise RuntimeError("killed")

    for module in list_users_of_checkpoints():
        monkeypatch.setattr(module, "pass_checkpoint", die)
    task_env.run_all(lambda state, nth: task_env.restart_process())
    assert task_env.view(task)[0] in (State.SUCCEEDED, State.FAILED)
    if task_env.view(task)[0] == State.FAILED:
        from mangrove.tasks.core import queue

        queue.retry(task.kind, task.id, task_env.caller())
        task_env.run_all()
    assert task_env.view(task) == SUCCEEDED
    assert read(name, target.files()[name]) == FILES


def list_users_of_checkpoints() -> list[object]:
    """The modules in which the machine passes checkpoints."""
    from mangrove.tasks.compress import worker
    from mangrove.tasks.core import file_copy, partials

    return [worker, packing_step, file_copy, partials]


@pytest.mark.parametrize("name", NAMES)
def test_file_that_changes_midway_is_replaced_and_named(task_env: TaskEnv, small_parts: None, name: str) -> None:
    source, target = task_env.disk(), task_env.disk()
    put_all(source)
    task = task_env.compress(source.mount, target.mount, name, "in", "z.txt")

    def before(state: str, nth: int) -> None:
        if (state, nth) == ("Pack", 3):
            source.put("in/large.bin", LARGE[:-1])

    task_env.run(task, before)
    error = "1 of 6 items failed: in/large.bin: the file changed meanwhile"
    assert task_env.view(task) == (State.FAILED, error)
    files = read(name, target.files()[name])
    assert files["in/large.bin.error.txt"] == b"the file changed meanwhile\n"
    assert files["z.txt"] == b"z"


def test_rights_count_at_each_step(task_env: TaskEnv, small_parts: None) -> None:
    source, target = task_env.disk(), task_env.disk()
    put_all(source)
    changes: list[tuple[Callable[[], None], str]] = [
        (lambda: task_env.may(0), "permission denied"),
        (lambda: task_env.may(ALL_RIGHTS, disabled=True), ""),
    ]
    for change, message in changes:
        task_env.may(ALL_RIGHTS, disabled=False)
        task = task_env.compress(source.mount, target.mount, "x.zip", "in")

        def before(state: str, nth: int, change: Callable[[], None] = change) -> None:
            if (state, nth) == ("Pack", 2):
                change()

        task_env.run(task, before)
        task_env.may(ALL_RIGHTS, disabled=False)
        assert task_env.view(task)[0] == State.FAILED
        assert message in task_env.view(task)[1]
        assert target.files() == {}


def test_entries_that_a_rule_locks_meanwhile_are_left_out(task_env: TaskEnv, small_parts: None) -> None:
    source, target = task_env.disk(), task_env.disk()
    put_all(source)
    task_env.may(ALL_RIGHTS & ~Right.SKIP_PASSWORD)
    task = task_env.compress(source.mount, target.mount, "x.zip", "in", "z.txt")

    def before(state: str, nth: int) -> None:
        if (state, nth) == ("Pack", 0):
            task_env.rule(f"{source.mount}/in/deep", password="key", p_sub=True)

    task_env.run(task, before)
    assert task_env.view(task) == SUCCEEDED
    assert set(read("x.zip", target.files()["x.zip"])) == {"in/a.txt", "in/large.bin", "z.txt"}


def test_request_is_refused_where_the_archive_cannot_be_stored(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    put_all(source)
    target.put("taken.zip", b"other")
    for name, problem in (
        ("taken.zip", NameConflict), ("x.rar", BadRequest), (".zip", BadRequest), ("../x.zip", AccessDenied),
    ):  # fmt: skip
        with pytest.raises(problem):
            task_env.compress(source.mount, target.mount, name, "in")
    task_env.may(0)
    with pytest.raises(AccessDenied):
        task_env.compress(source.mount, target.mount, "x.zip", "in")
    assert target.files() == {"taken.zip": b"other"}


def test_name_that_is_taken_meanwhile_is_kept(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    put_all(source)
    task = task_env.compress(source.mount, target.mount, "x.zip", "in")
    target.put("x.zip", b"other")
    task_env.run_all()
    assert task_env.view(task) == (State.FAILED, "file exists")
    assert target.files() == {"x.zip": b"other"}


def test_more_than_an_archive_may_hold_fails(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    put_all(source)
    task_env.set(zip_max_files="4")
    task = task_env.compress(source.mount, target.mount, "x.zip", "in")
    task_env.run_all()
    assert task_env.view(task) == (State.FAILED, "more than 4 files and folders are too many for an archive")


def test_archive_for_a_link_stays_in_staging(task_env: TaskEnv) -> None:
    from mangrove.tasks import submit

    source = task_env.disk()
    put_all(source)
    task_env.may(0)
    task = task_env.do(submit.pack_into_staging(task_env.access(source.mount, Right.READ), ["in"], "in.zip"))
    task_env.run_all()
    assert task_env.view(task) == SUCCEEDED
    path = task_env.folder / "staging" / task.id / "in.zip"
    assert set(read("in.zip", path.read_bytes())) == {"in/a.txt", "in/deep/é 你", "in/large.bin"}


def test_selection_that_is_too_large_for_an_answer_is_packed_by_a_task(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = task_env.disk()
    put_all(source)
    monkeypatch.setattr(platform(), "max_file_bytes", 100_000)
    folder = task_env.access(source.mount, Right.READ)
    small = task_env.do(zip_links.make_link(folder, ["z.txt"], "http://here"))
    assert small.task is None
    link = task_env.do(zip_links.make_link(folder, ["in"], "http://here"))
    assert link.task is not None
    assert link.url.startswith(f"http://here/zip{source.mount}?id={link.task.id}&sign=")
    task_env.run_all()
    assert task_env.view(link.task) == SUCCEEDED
    selection = task_env.do(selections.load_selection(link.task.id))
    assert (selection.names, selection.archive) == (["in"], "in.zip")
    assert (task_env.folder / "staging" / link.task.id / selection.archive).stat().st_size > len(LARGE)


def test_unzip_reads_the_archive(task_env: TaskEnv, small_parts: None, tmp_path: Path) -> None:
    import subprocess

    if shutil.which("unzip") is None:
        pytest.skip("unzip is not installed")
    source, target = task_env.disk(), task_env.disk()
    put_all(source)
    task_env.compress(source.mount, target.mount, "x.zip")
    task_env.run_all()
    (tmp_path / "x.zip").write_bytes(target.files()["x.zip"])
    subprocess.run(["unzip", "-tq", tmp_path / "x.zip"], check=True)
