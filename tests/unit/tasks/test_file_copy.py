"""One file carried between real storages: what a dead worker leaves, what counts as ours, what is verified, what is
refused; and what never passes through us."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from mangrove.drivers.base import Upload, make_parts_key
from mangrove.drivers.s3 import copy as s3copy
from mangrove.drivers.s3 import upload as s3upload
from mangrove.drivers.s3.driver import S3
from mangrove.paths import TreePath
from mangrove.problems import BadRequest, NotFound
from mangrove.records import tasks as records
from mangrove.records.tasks import Task
from mangrove.tasks import file_copy, queue, requests, steps, transfer
from mangrove.tasks.file_copy import Endpoint
from mangrove.tasks.kinds import State
from tests import servers
from tests.task_env import ALL_RIGHTS, Before, Bucket, Disk, TaskEnv

PART = 5 << 20  # bytes; what S3 takes as the least
LARGE = bytes(range(256)) * (9 * (1 << 20) // 256)  # two parts
SUCCEEDED = (State.SUCCEEDED, "")
BYTES = {"GetObject", "PutObject", "UploadPart"}  # operations that bring bytes through us
Side = Disk | Bucket


class Death(Exception):
    """A worker that is gone in the middle of its work, as a function is whose time is over."""


Death.__name__ = "Sandbox.Timedout"


@pytest.fixture(autouse=True)
def fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_copy, "PART", PART)
    monkeypatch.setattr(file_copy, "IN_FLIGHT", 1)


@pytest.fixture(params=["disk", "bucket"])
def target(request: pytest.FixtureRequest, task_env: TaskEnv) -> Side:
    side: Side = getattr(task_env, request.param)()
    return side


def dying(monkeypatch: pytest.MonkeyPatch, place: str, times: int = 1) -> None:
    """Workers die when they come to a place of `mangrove.checkpoints`, the first so many times."""
    left = [times]

    def reached(name: str) -> None:
        if name == place and left[0]:
            left[0] -= 1
            raise Death(name)

    monkeypatch.setattr(file_copy, "reached", reached)


def following(task_env: TaskEnv, task: Task, look: Callable[[], None]) -> Before:
    """Looks at what the first worker has left before the second begins, whose time has come."""

    def before(name: str, nth: int) -> None:
        if (name, nth) == ("Move", 1):
            look()
        records.release_leases(task.kind)

    return before


@pytest.mark.parametrize("place", ["copy.intended", "copy.started", "copy.ready", "copy.part", "copy.finished"])
def test_whatever_a_dead_worker_has_begun_is_gone_on_with_or_dropped(
    task_env: TaskEnv, target: Side, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = task_env.disk() if isinstance(target, Bucket) else task_env.bucket()
    source.put("f", LARGE)
    task = task_env.copy(source.mount, target.mount, "f")
    dying(monkeypatch, place)
    left: list[int] = []
    before = following(task_env, task, lambda: left.append(len(target.unfinished())))
    task_env.run(task, before)
    assert left == [0 if place in ("copy.intended", "copy.finished") else 1]
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"f": LARGE})
    assert (target.unfinished(), task_env.staged()) == ([], [])


@pytest.mark.parametrize("verb", [queue.cancel, queue.delete])
@pytest.mark.parametrize("place", ["copy.intended", "copy.started", "copy.part"])
def test_what_a_dead_worker_has_begun_goes_when_the_task_is_stopped(
    task_env: TaskEnv, target: Side, place: str, verb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = task_env.disk()
    source.put("f", LARGE)
    if isinstance(target, Disk):
        monkeypatch.setattr(type(task_env.driver(target.mount)), "plan_part_copies", lambda self, source: (0, 0))
    task = task_env.copy(source.mount, target.mount, "f")
    dying(monkeypatch, place)
    task_env.run(task, following(task_env, task, lambda: verb("copy", task.id, task_env.caller())))
    assert (target.files(), target.unfinished()) == ({}, [])
    if verb is queue.cancel:
        assert task_env.view(task) == (State.CANCELED, queue.CANCELED)
        assert task_env.staged() == [task.id]  # what is to be carried, for a retry
        task_env.started.clear()
        queue.delete("copy", task.id, task_env.caller())
        task_env.run_all()
    assert not task_env.on_board(task)
    assert task_env.staged() == []


def test_only_uploads_of_the_lost_attempt_are_dropped(task_env: TaskEnv) -> None:
    bucket = task_env.bucket()
    driver = task_env.driver(bucket.mount)
    for key in ("f", "f", "f.other", "folder/f"):
        bucket.client.create_multipart_upload(Bucket=bucket.name, Key=key)
    later = f"{int(make_parts_key().partition('-')[0]) + 3600}-x"
    task_env.do(driver.abort_by_key(TreePath("/f"), later))
    assert sorted(bucket.unfinished()) == ["f", "f", "f.other", "folder/f"]
    task_env.do(driver.abort_by_key(TreePath("/f"), make_parts_key()))
    assert sorted(bucket.unfinished()) == ["f.other", "folder/f"]
    task_env.do(driver.abort_by_key(TreePath("/f"), make_parts_key()))


def test_only_the_part_file_of_the_lost_attempt_is_dropped(task_env: TaskEnv) -> None:
    disk = task_env.disk()
    driver = task_env.driver(disk.mount)
    mine, other = make_parts_key(), make_parts_key()
    for key in (mine, other):
        task_env.do(driver.begin(TreePath("/f"), Upload(9, 0.0), key))
    task_env.do(driver.abort_by_key(TreePath("/f"), mine))
    assert len(disk.unfinished()) == 1
    assert other in disk.unfinished()[0]
    task_env.do(driver.abort_by_key(TreePath("/nowhere/f"), mine))


@pytest.mark.parametrize(("verb", "content"), [("copy", b"theirs"), ("move", LARGE)])
def test_a_file_of_the_same_size_with_other_bytes_is_never_taken_for_ours(
    task_env: TaskEnv, target: Side, verb: str, content: bytes
) -> None:
    source = task_env.disk()
    mine = content[:-1] + bytes([content[-1] ^ 1])
    source.put("f", mine)
    task = getattr(task_env, verb)(source.mount, target.mount, "f")

    def before(name: str, nth: int) -> None:
        if name == "Move":
            target.put("f", content)

    task_env.run(task, before)
    assert task_env.view(task) == (State.FAILED, "1 of 1 items failed: f: file exists")
    assert (source.files(), target.files()) == ({"f": mine}, {"f": content})


def again(task_env: TaskEnv, side: str) -> tuple[Side, str]:
    """A storage with three files, and the mount of another one that is the same place."""
    found: Side
    if side == "bucket":
        found = task_env.bucket()
        other = task_env.mounted("S3", servers.s3_options(task_env.endpoint(), found.name))
    else:
        found = task_env.disk()
        alias = {"paths": found.mount, "write_conflict_policy": "all", "put_conflict_policy": "all"}
        local = {"root_folder_path": str(found.root), "show_hidden": True}
        other = task_env.mounted("Alias", alias) if side == "alias" else task_env.mounted("Local", local)
    for name, content in (("small", b"content"), ("large", LARGE), ("folder/small", b"content")):
        found.put(name, content)
    return found, other


@pytest.mark.parametrize("conflict", [{"overwrite": True}, {"merge": True}])
@pytest.mark.parametrize("name", ["small", "large", "folder"])
@pytest.mark.parametrize("side", ["disk", "bucket", "alias"])
def test_what_is_moved_onto_itself_through_another_mount_is_not_lost(
    task_env: TaskEnv, side: str, name: str, conflict: dict[str, bool]
) -> None:
    place, other = again(task_env, side)
    before = place.files()
    tasks = task_env.carry("move", place.mount, other, name, **conflict)
    for task in tasks:
        task_env.run(task)
        assert task_env.view(task)[0] == State.FAILED
    assert bool(tasks) == ("overwrite" in conflict or name == "folder")
    assert place.files() == before


def test_buckets_of_one_name_on_two_servers_are_two_places(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = task_env.bucket(), task_env.bucket()
    source.put("f", b"content")

    async def identify(self: S3, path: TreePath) -> set[str]:
        return {f"s3:bucket{path}"}

    monkeypatch.setattr(S3, "identify", identify)
    monkeypatch.setattr(S3, "plan_part_copies", lambda self, source: (0, 0))
    task = task_env.move(source.mount, target.mount, "f")
    time.sleep(1.1)  # S3 tells the time of an object in whole seconds
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    assert (source.files(), target.files()) == ({}, {"f": b"content"})


@pytest.mark.parametrize("size", [7, len(LARGE)])
def test_a_file_that_comes_to_stand_at_the_target_while_another_is_copied_there_stays(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    source, target = task_env.bucket(), task_env.disk()
    source.put("f", LARGE[:size])
    task = task_env.copy(source.mount, target.mount, "f")
    read = S3.read

    async def late(self: S3, *args: Any) -> Any:
        if args[0] == "/f":
            target.put("f", b"others")
        return await read(self, *args)

    monkeypatch.setattr(S3, "read", late)
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, "1 of 1 items failed: f: file exists")
    assert (target.files(), target.unfinished()) == ({"f": b"others"}, [])


def test_an_item_that_failed_before_a_worker_died_is_not_forgotten(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = task_env.disk(), task_env.bucket()
    source.put("d/a", b"mine")
    source.put("d/b", LARGE)
    task = task_env.copy(source.mount, target.mount, "d")
    dying(monkeypatch, "copy.part")
    look = following(task_env, task, lambda: None)

    def before(name: str, nth: int) -> None:
        if name == "Move":
            target.put("d/a", b"theirs")
        look(name, nth)

    task_env.run(task, before)
    assert task_env.view(task) == (State.FAILED, "1 of 3 items failed: a: file exists")
    assert target.files() == {"d/a": b"theirs", "d/b": LARGE}


def test_a_large_file_takes_as_many_slices_as_it_needs(
    task_env: TaskEnv, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = task_env.bucket() if isinstance(target, Disk) else task_env.disk()
    source.put("f", LARGE * 2)
    monkeypatch.setattr(steps.Run, "has_time", lambda self: False)
    task = task_env.copy(source.mount, target.mount, "f")
    visited = task_env.run(task)
    assert visited.count("Move") >= 4
    assert (task_env.view(task), target.files()) == (SUCCEEDED, {"f": LARGE * 2})
    assert target.unfinished() == []


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_a_file_with_the_same_bytes_counts_as_carried(task_env: TaskEnv, target: Side, verb: str) -> None:
    source = task_env.disk()
    source.put("f", b"content")
    task = getattr(task_env, verb)(source.mount, target.mount, "f")
    task_env.run(task, lambda name, nth: target.put("f", b"content") if name == "Move" else None)
    assert task_env.view(task) == SUCCEEDED
    assert (source.files(), target.files()) == ({"f": b"content"} if verb == "copy" else {}, {"f": b"content"})


@pytest.mark.parametrize(("verb", "content"), [("copy", LARGE), ("move", b"old")])
def test_a_source_that_changed_since_the_plan_fails_and_a_retry_takes_it_as_it_is_then(
    task_env: TaskEnv, target: Side, verb: str, content: bytes
) -> None:
    source = task_env.disk()
    source.put("f", content)
    task = getattr(task_env, verb)(source.mount, target.mount, "f")

    def change(name: str, nth: int) -> None:
        if name == "Move":
            source.put("f", content + b"new")

    task_env.run(task, change)
    assert task_env.view(task) == (State.FAILED, "1 of 1 items failed: f: the source changed since the task began")
    assert (source.files(), target.files()) == ({"f": content + b"new"}, {})
    queue.retry(verb, task.id, task_env.caller())
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    assert target.files() == {"f": content + b"new"}
    assert source.files() == ({"f": content + b"new"} if verb == "copy" else {})
    assert target.unfinished() == []


def test_a_source_that_changes_between_two_parts_fails_by_name_and_nothing_is_seen_of_it(
    task_env: TaskEnv, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = task_env.disk()
    source.put("tree/f", LARGE)
    source.put("tree/g", b"g")
    target.put("tree/f", b"what was there before")
    task = task_env.copy(source.mount, target.mount, "tree", overwrite=True)

    def reached(name: str) -> None:
        if name == "copy.part":
            os.utime(source.root / "tree/f", (1, 1))

    monkeypatch.setattr(file_copy, "reached", reached)
    task_env.run(task)
    said = "1 of 3 items failed: f: the source changed while it was copied"
    assert task_env.view(task) == (State.FAILED, said)
    assert target.files() == {"tree/f": b"what was there before", "tree/g": b"g"}
    assert target.unfinished() == []


def test_checksums_that_both_storages_know_are_compared(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two buckets have different keys, so that the bytes pass through us, and are spoilt on their way."""
    source, target = task_env.bucket(), task_env.bucket(session_token="another account's")
    source.put("tree/good", b"content")
    source.put("tree/spoilt", b"content")
    write = S3.write

    async def spoiling(driver: S3, path: TreePath, body: Any, upload: Upload) -> Any:
        async def blocks() -> Any:
            async for block in body:
                yield bytes([block[0] ^ 1]) + block[1:] if path.name == "spoilt" else block

        return await write(driver, path, blocks(), upload)

    monkeypatch.setattr(S3, "write", spoiling)
    task = task_env.move(source.mount, target.mount, "tree")
    task_env.run(task)
    said = "1 of 3 items failed: spoilt: the target's checksum differs from the source's"
    assert task_env.view(task) == (State.FAILED, said)
    assert source.files() == {"tree/spoilt": b"content"}
    assert target.files() == {"tree/good": b"content"}


SHA, ETAG = "sha==", '"0123456789abcdef0123456789abcdef"'


@pytest.mark.parametrize(
    ("head", "known"),
    [
        ({}, {}),
        ({"ETag": ETAG}, {"md5": ETAG.strip('"')}),
        ({"ETag": ETAG, "ServerSideEncryption": "AES256"}, {"md5": ETAG.strip('"')}),
        ({"ETag": ETAG, "ServerSideEncryption": "aws:kms"}, {}),
        ({"ETag": ETAG, "SSECustomerAlgorithm": "AES256"}, {}),
        ({"ETag": ETAG.replace("0123", "01-3")}, {}),
        ({"ETag": '"x-2"', "ChecksumSHA256": SHA, "ChecksumType": "FULL_OBJECT"}, {"sha256": SHA}),
        (
            {"ETag": ETAG, "ChecksumCRC32": "a", "ChecksumSHA1": "b"},
            {"md5": ETAG.strip('"'), "crc32": "a", "sha1": "b"},
        ),
        ({"ChecksumSHA256": SHA, "ChecksumType": "COMPOSITE"}, {}),
        ({"ChecksumSHA256": f"{SHA}-2"}, {}),
    ],
)
def test_s3_knows_the_checksums_of_whole_objects_only(head: dict[str, str], known: dict[str, str]) -> None:
    assert s3upload.parse_checksums(head) == known


class Watch:
    """The operations of S3 that a storage is asked for."""

    def __init__(self, driver: Any) -> None:
        self.asked: list[str] = []
        self.bytes = 0
        for client in (driver._client, driver._patient):
            client.meta.events.register("before-call.s3", self._note)

    def _note(self, model: Any, params: dict[str, Any], **_: Any) -> None:
        self.asked.append(model.name)
        body = params.get("body")
        self.bytes += len(body) if isinstance(body, bytes) and model.name in BYTES else 0


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_copies_between_buckets_of_one_server_stay_in_the_server(
    task_env: TaskEnv, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3copy, "PART", PART)
    monkeypatch.setattr(s3copy, "PARTS_AT_ONCE", 1)
    source, target = task_env.bucket(), task_env.bucket()
    files = {"tree/a": b"a" * 9, "tree/empty": b"", "tree/d/middle": LARGE[: 6 << 20], "tree/large": LARGE}
    for name, content in files.items():
        source.put(name, content)
    watches = [Watch(task_env.driver(side.mount)) for side in (source, target)]
    task = getattr(task_env, verb)(source.mount, target.mount, "tree")
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    assert (target.files(), source.files()) == (files, files if verb == "copy" else {})
    asked = [name for watch in watches for name in watch.asked]
    assert asked.count("CopyObject") == 3
    assert asked.count("UploadPartCopy") == 2
    assert not {"GetObject", "UploadPart"} & set(asked)
    assert sum(watch.bytes for watch in watches) == 0  # PutObject only marks empty folders
    assert target.unfinished() == []


def test_an_object_that_changed_is_not_copied_by_the_server(task_env: TaskEnv) -> None:
    source, target = task_env.bucket(), task_env.bucket()
    source.put("f", b"old")
    task = task_env.copy(source.mount, target.mount, "f")
    task_env.run(task, lambda name, nth: source.put("f", b"newer") if name == "Move" else None)
    assert task_env.view(task) == (State.FAILED, "1 of 1 items failed: f: the source changed since the task began")
    assert target.files() == {}


def test_too_many_names_are_refused_before_anything_is_done(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f0", b"f")
    names = [f"f{number}" for number in range(requests.MOST_TASKS + 1)]
    for verb in ("copy", "move"):
        with pytest.raises(BadRequest, match="10001 tasks in one request, at most 10000 are opened"):
            task_env.carry(verb, source.mount, target.mount, *names)
    assert (task_env.started, target.files(), source.files()) == ([], {}, {"f0": b"f"})
    assert list(records.list_rows("copy", False)) == []


@pytest.mark.parametrize(
    ("verb", "rule"), [("copy", {"write_users": [9999], "write_users_sub": True}), ("move", {"read_users": [9999]})]
)
def test_a_folder_of_the_target_that_is_closed_meanwhile_takes_nothing_and_the_rest_arrives(
    task_env: TaskEnv, target: Side, verb: str, rule: dict[str, Any]
) -> None:
    source = task_env.disk()
    files = {"tree/a": b"a", "tree/closed/b": b"b", "tree/open/c": b"c"}
    for name, content in files.items():
        source.put(name, content)
    task = getattr(task_env, verb)(source.mount, target.mount, "tree")
    task_env.rule(f"{target.mount}/tree/closed", **rule)
    task_env.run(task)
    assert task_env.view(task) == (State.FAILED, "1 of 6 items failed: closed/b: permission denied")
    closed = {"tree/closed/b": b"b"}
    assert target.files() == {name: content for name, content in files.items() if name not in closed}
    assert source.files() == (files if verb == "copy" else closed)


def test_a_name_that_is_hidden_at_the_target_is_not_written_over_by_who_may_not_see_it(
    task_env: TaskEnv, target: Side
) -> None:
    source = task_env.disk()
    for name in ("tree/a", "tree/secret", "tree/d/secret"):
        source.put(name, b"mine")
    task_env.may(ALL_RIGHTS & ~1)  # may not see what is hidden
    task = task_env.copy(source.mount, target.mount, "tree", overwrite=True)
    target.put("tree/secret", b"theirs")
    task_env.rule(f"{target.mount}/tree", hide="^secret$", h_sub=True)
    task_env.run(task)
    state, error = task_env.view(task)
    assert state == State.FAILED
    assert error == "2 of 5 items failed: secret: permission denied; d/secret: permission denied"
    assert target.files() == {"tree/a": b"mine", "tree/secret": b"theirs"}


@pytest.mark.parametrize(("verb", "large"), [("copy", True), ("move", False)])
def test_a_right_that_is_taken_within_a_slice_stops_the_next_one(
    task_env: TaskEnv, target: Side, verb: str, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "BATCH", 1)
    monkeypatch.setattr("mangrove.tasks.steps.Run.has_time", lambda run: False)
    source = task_env.disk()
    files = {f"tree/f{number}": LARGE if large else b"%d" % number for number in range(3)}
    for name, content in files.items():
        source.put(name, content)
    task = getattr(task_env, verb)(source.mount, target.mount, "tree")
    task_env.run(
        task, lambda name, nth: task_env.may(ALL_RIGHTS, disabled=True) if (name, nth) == ("Move", 3) else None
    )
    task_env.may(disabled=False)
    assert task_env.view(task) == (State.FAILED, "who asked for this has no account any more")
    assert len(target.files()) == (1 if large and isinstance(target, Bucket) else 2)  # a large file is two slices there
    assert source.files() | target.files() == files
    assert target.unfinished() == []
    queue.retry(verb, task.id, task_env.caller())
    task_env.run(task)
    assert (task_env.view(task), target.files()) == (SUCCEEDED, files)


def test_a_target_storage_that_is_gone_midway_fails_the_task(task_env: TaskEnv) -> None:
    from mangrove.records import storages

    source, target = task_env.disk(), task_env.disk()
    source.put("tree/f", b"f")
    task = task_env.copy(source.mount, target.mount, "tree")

    def before(name: str, nth: int) -> None:
        if name == "Move":
            gone = next(one for one in storages.all() if one.mount_path == target.mount)
            storages.delete(gone.id)
            task_env.changed()

    task_env.run(task, before)
    state, error = task_env.view(task)
    assert state == State.FAILED
    assert "storage not found" in error
    assert target.files() == {}


def test_alike_reads_no_more_than_a_part_at_a_time_and_says_no_for_what_is_not_there(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = task_env.disk()
    disk.put("one", LARGE)
    disk.put("other", LARGE)
    driver = task_env.driver(disk.mount)
    asked: list[int] = []
    content = file_copy.content

    async def watched(end: Endpoint, offset: int, length: int) -> bytes:
        asked.append(length)
        return await content(end, offset, length)

    monkeypatch.setattr(file_copy, "content", watched)
    one, other, nothing = (Endpoint(driver, TreePath(f"/{name}")) for name in ("one", "other", "nothing"))
    assert task_env.do(file_copy.alike(one, other))
    assert max(asked) <= PART
    assert not task_env.do(file_copy.alike(one, nothing))
    with pytest.raises(NotFound):
        task_env.do(driver.stat(nothing.path))
