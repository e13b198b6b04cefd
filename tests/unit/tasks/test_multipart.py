"""Uploads in parts that are interrupted anywhere: continued, aborted or swept."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from mangrove.core.problems import (
    BadRequest,
    NameConflict,
    RecordNotFound,
    RelativePath,
    ResourceNotFound,
    StorageProblem,
    TooLarge,
)
from mangrove.drivers.base import Upload
from mangrove.identity.rights import Right
from mangrove.records import storages, users
from mangrove.records.tasks import uploads as records
from mangrove.tasks import sweep
from mangrove.tasks.upload import completion, multipart
from mangrove.tasks.upload import sessions as upload_sessions
from mangrove.tasks.upload.multipart import MAX_CHUNK_SIZE, MAX_CHUNKS, NewUpload
from mangrove.tasks.upload.sessions import SESSION_SECONDS, Session, SessionState
from tests.support.platforms import use_boot
from tests.support.task_env import Bucket, Disk, TaskEnv

MIB = 1 << 20
Side = Disk | Bucket


class Cut(Exception):
    """The process ended here."""


@pytest.fixture(params=["disk", "bucket"])
def side(request: pytest.FixtureRequest, task_env: TaskEnv) -> Side:
    """A storage whose uploads wait in staging, and one that accepts the parts itself."""
    return task_env.disk() if request.param == "disk" else task_env.bucket(enable_direct_upload=True)


async def body(content: bytes) -> AsyncIterator[bytes]:
    yield content


def begin(task_env: TaskEnv, path: str, size: int = 5, identity: str = "one", overwrite: bool = True) -> Session:
    new = NewUpload(Upload(size, 1.0), overwrite, {}, identity, None)
    progress, _ = task_env.do(multipart.begin(task_env.access(path, Right.WRITE), new))
    return progress.session


def load(task_env: TaskEnv, session: Session) -> Session:
    """As another request reads it."""
    return task_env.do(upload_sessions.load(task_env.caller(Right.WRITE), session.id))


def send(task_env: TaskEnv, session: Session, content: bytes = b"bytes", index: int = 0) -> None:
    caller = task_env.caller(Right.WRITE)
    task_env.do(multipart.write_chunk(caller, load(task_env, session), index, body(content), ""))


def complete(task_env: TaskEnv, session: Session) -> Session:
    upload = load(task_env, session)
    task_env.do(completion.complete(task_env.caller(Right.WRITE), upload, ""))
    return upload


def abort(task_env: TaskEnv, session: Session) -> None:
    task_env.do(completion.abort(task_env.caller(Right.WRITE), load(task_env, session)))


def cut_at(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> pytest.MonkeyPatch:
    """End the process at a function, once it is undone."""

    async def end(*_: Any, **__: Any) -> None:
        raise Cut

    monkeypatch.setattr(owner, name, end)
    return monkeypatch


def exists(id: str) -> bool:
    try:
        records.get(id)
    except RecordNotFound:
        return False
    return True


def test_a_begin_that_was_cut_off_is_gone_on_with(
    task_env: TaskEnv, side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(Cut):
        cut_at(patch, Session, "begin_parts")
        begin(task_env, f"{side.mount}/f")
    session = begin(task_env, f"{side.mount}/f")  # the intent was recorded: there is one session
    place = records.make_file_key(task_env.user.id, f"{side.mount}/f", 5)
    assert [upload_found.id for upload_found in records.find(place)] == [session.id]
    send(task_env, session)
    assert complete(task_env, session).is_completed
    task_env.run_all()
    assert side.files() == {"f": b"bytes"}


def test_write_chunk_while_completing_is_no_failure(
    task_env: TaskEnv, side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The completion was cut off, so the client sends on (25 C7): it learns that all is there, and nothing changes."""
    session = begin(task_env, f"{side.mount}/f")
    send(task_env, session)
    with monkeypatch.context() as patch, pytest.raises(Cut):
        complete(task_env, cut_at(patch, completion, "_finish") and session)
    completing = load(task_env, session)
    caller = task_env.caller(Right.WRITE)
    progress = task_env.do(multipart.write_chunk(caller, completing, 0, body(b"other"), ""))
    assert [(part.number, part.size) for part in progress.parts] == [(1, 5)]
    assert completing.explain_end() == "the upload is being completed"
    with pytest.raises(BadRequest, match="is being completed"):
        task_env.do(multipart.sign(caller, completing, [(0, "")]))
    assert complete(task_env, session).is_completed
    task_env.run_all()
    assert side.files() == {"f": b"bytes"}


@pytest.mark.parametrize("place", ["_mark_completed", "_mark_opened"])
def test_a_completion_that_was_cut_off_is_gone_on_with(
    task_env: TaskEnv, side: Side, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    session = begin(task_env, f"{side.mount}/f", overwrite=False)
    send(task_env, session)
    if place == "_mark_opened" and isinstance(side, Bucket):
        assert complete(task_env, session).is_completed  # no task transfers it
        return
    with monkeypatch.context() as patch, pytest.raises(Cut):
        cut_at(patch, completion, place)
        complete(task_env, session)
    assert load(task_env, session).state is SessionState.COMPLETING
    for _ in range(2):
        assert complete(task_env, session).is_completed
    task_env.run_all()
    assert (side.files(), side.unfinished(), task_env.list_staged()) == ({"f": b"bytes"}, [], [])


def test_a_completion_at_the_storage_wins_over_an_abort(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = task_env.bucket(enable_direct_upload=True)
    session = begin(task_env, f"{bucket.mount}/f")
    send(task_env, session)
    with monkeypatch.context() as patch, pytest.raises(Cut):
        cut_at(patch, completion, "_mark_completed")
        complete(task_env, session)
    with pytest.raises(BadRequest, match="the upload is completed"):
        abort(task_env, session)
    assert load(task_env, session).is_completed
    assert bucket.files() == {"f": b"bytes"}


def test_an_abort_wins_over_a_completion_that_has_not_reached_the_storage(
    task_env: TaskEnv, side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = begin(task_env, f"{side.mount}/f")
    send(task_env, session)
    late = load(task_env, session)
    with monkeypatch.context() as patch, pytest.raises(Cut):
        cut_at(patch, completion, "_finish")
        complete(task_env, session)
    abort(task_env, session)
    for upload in (late, load(task_env, session)):
        with pytest.raises(BadRequest, match=r"upload failed \(aborted\)"):
            task_env.do(completion.complete(task_env.caller(Right.WRITE), upload, ""))
    assert (side.files(), side.unfinished(), task_env.list_staged(), task_env.started) == ({}, [], [], [])


def test_a_completion_replaces_nothing_that_appeared_meanwhile(task_env: TaskEnv, side: Side) -> None:
    session = begin(task_env, f"{side.mount}/f", overwrite=False)
    send(task_env, session)
    side.put("f", b"other")
    with pytest.raises(NameConflict):
        complete(task_env, session)
    assert side.files() == {"f": b"other"}


def test_the_same_file_once_more_leaves_no_parts(task_env: TaskEnv, side: Side) -> None:
    for _ in range(2):
        session = begin(task_env, f"{side.mount}/f")
        send(task_env, session)
        assert complete(task_env, session).is_completed
        task_env.run_all()
    assert (side.files(), side.unfinished()) == ({"f": b"bytes"}, [])


def test_parts_that_the_storage_lost_end_the_session(task_env: TaskEnv) -> None:
    bucket = task_env.bucket(enable_direct_upload=True)
    session = begin(task_env, f"{bucket.mount}/f")
    bucket.client.abort_multipart_upload(Bucket=bucket.name, Key="f", UploadId=session.facts.partial.token)
    progress = task_env.do(multipart.look(load(task_env, session)))
    assert (progress.session.state, progress.session.facts.error) == (
        SessionState.FAILED, "the parts stored so far are gone",
    )  # fmt: skip
    assert begin(task_env, f"{bucket.mount}/f").id != session.id


def test_parts_that_a_power_cut_may_have_torn_are_sent_again(
    task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = task_env.disk()
    session = begin(task_env, f"{disk.mount}/f")
    send(task_env, session)
    use_boot(monkeypatch, "another")
    assert task_env.do(multipart.look(load(task_env, session))).parts == []
    send(task_env, session, b"again")
    complete(task_env, session)
    task_env.run_all()
    assert disk.files() == {"f": b"again"}


def test_another_storage_at_the_path_does_not_get_the_parts(task_env: TaskEnv) -> None:
    bucket = task_env.bucket(enable_direct_upload=True)
    session = begin(task_env, f"{bucket.mount}/f")
    send(task_env, session)
    (storage,) = [storage_found for storage_found in storages.all() if storage_found.mount_path == bucket.mount]
    storages.delete(storage.id)
    other = task_env.bucket(enable_direct_upload=True)
    (replacing,) = [storage_found for storage_found in storages.all() if storage_found.mount_path == other.mount]
    storages.change(replacing.id, mount_path=bucket.mount)
    with pytest.raises(StorageProblem, match="another storage is mounted there"):
        complete(task_env, session)
    assert other.files() == {}
    task_env.do(sweep.sweep())
    assert not exists(session.id)
    assert bucket.unfinished() == []


def test_who_was_moved_to_another_base_completes_nothing_outside_of_it(task_env: TaskEnv, side: Side) -> None:
    session = begin(task_env, f"{side.mount}/f")
    send(task_env, session)
    task_env.may(base_path=f"{side.mount}/sub")
    with pytest.raises(RelativePath):
        complete(task_env, session)
    assert side.files() == {}


@pytest.mark.parametrize("reason", ["age", "user"])
def test_what_was_abandoned_is_swept(task_env: TaskEnv, side: Side, reason: str) -> None:
    active = begin(task_env, f"{side.mount}/kept")
    owner = task_env.user
    task_env.user = users.create(username="other", password_hash="x", role=0, permission=0xFFFF)
    lost = begin(task_env, f"{side.mount}/lost")
    send(task_env, lost)
    if reason == "user":
        users.delete(task_env.user.id)
    else:
        record = records.get(lost.id)
        records.save(replace(record, created=time.time() - SESSION_SECONDS - 1))
        with pytest.raises(ResourceNotFound):
            load(task_env, lost)
    task_env.do(sweep.sweep())
    task_env.user = owner
    assert (exists(lost.id), records.list_receipts(lost.id)) == (False, [])
    send(task_env, active)
    complete(task_env, active)
    task_env.run_all()
    assert (side.files(), side.unfinished(), task_env.list_staged()) == ({"kept": b"bytes"}, [], [])


def test_a_session_in_use_is_no_orphan_of_staging(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = task_env.disk()
    session = begin(task_env, f"{disk.mount}/f")
    send(task_env, session)
    monkeypatch.setattr(sweep, "ORPHAN_SECONDS", -3600)
    task_env.do(sweep.sweep())
    complete(task_env, session)
    task_env.run_all()
    assert disk.files() == {"f": b"bytes"}


@pytest.mark.parametrize(
    ("size", "requested_size", "most", "is_direct", "length"),
    [
        (100 * MIB, None, 10 * MIB, False, 10 * MIB),
        (100 * MIB, 1, 10 * MIB, False, MIB),
        (100 * MIB, 1, 10 * MIB, True, 5 * MIB),
        (100 * MIB, 99 * MIB, 10 * MIB, True, 10 * MIB),
        (100 * MIB, None, 2 * MIB, True, 5 * MIB),
        (MAX_CHUNKS * 20 * MIB, None, 10 * MIB, True, 20 * MIB),
        (MAX_CHUNKS * MAX_CHUNK_SIZE, None, 999 * MIB, False, MAX_CHUNK_SIZE),
    ],
)
def test_chunks_are_as_wanted_within_their_bounds(
    size: int, requested_size: int | None, most: int, is_direct: bool, length: int
) -> None:
    assert multipart.plan_chunk_size(size, requested_size, most, is_direct) == length


def test_more_than_fits_into_chunks_is_refused() -> None:
    with pytest.raises(TooLarge):
        multipart.plan_chunk_size(MAX_CHUNKS * MAX_CHUNK_SIZE + 1, None, MIB, False)
