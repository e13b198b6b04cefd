"""One file copied between real storages: what counts as ours, what is verified; and what never passes through us."""

from __future__ import annotations

from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.drivers.base import Upload
from mangrove.drivers.s3 import copy as s3copy
from mangrove.drivers.s3.checksums import parse_checksums
from mangrove.drivers.s3.driver import S3
from mangrove.tasks.core import queue
from mangrove.tasks.core.model import State
from mangrove.tasks.core.worker_loop import run_in_loop
from tests.support.task_env import TaskEnv
from tests.unit.tasks.copying import LARGE, PART, SUCCEEDED, Side

pytestmark = pytest.mark.usefixtures("small_parts")


BYTES = {"GetObject", "PutObject", "UploadPart"}  # operations that bring bytes through us


@pytest.mark.parametrize(("verb", "content"), [("copy", b"theirs"), ("move", LARGE)])
def test_a_file_of_the_same_size_with_other_bytes_is_never_taken_for_ours(
    task_env: TaskEnv, target: Side, verb: str, content: bytes
) -> None:
    source = task_env.disk()
    changed = content[:-1] + bytes([content[-1] ^ 1])
    source.put("f", changed)
    task = getattr(task_env, verb)(source.mount, target.mount, "f")

    def before(name: str, nth: int) -> None:
        if name == "Move":
            target.put("f", content)

    task_env.run(task, before)
    assert task_env.view(task) == (State.FAILED, "1 of 1 items failed: f: file exists")
    assert (source.files(), target.files()) == ({"f": changed}, {"f": content})


@pytest.mark.parametrize("size", [7, len(LARGE)])
def test_file_created_at_target_during_copy_stays(
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


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_a_file_with_the_same_bytes_counts_as_copied(task_env: TaskEnv, target: Side, verb: str) -> None:
    source = task_env.disk()
    source.put("f", b"content")
    task = getattr(task_env, verb)(source.mount, target.mount, "f")
    task_env.run(task, lambda name, nth: target.put("f", b"content") if name == "Move" else None)
    assert task_env.view(task) == SUCCEEDED
    assert (source.files(), target.files()) == ({"f": b"content"} if verb == "copy" else {}, {"f": b"content"})


@pytest.mark.parametrize(("verb", "content"), [("copy", LARGE), ("move", b"old")])
def test_source_changed_since_plan_fails_and_retry_copies_it(
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


def test_checksums_that_both_storages_know_are_compared(task_env: TaskEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two buckets have different keys, so that the bytes pass through us, and are spoilt on their way."""
    source, target = task_env.bucket(), task_env.bucket(session_token="another account's")
    source.put("tree/good", b"content")
    source.put("tree/spoilt", b"content")
    write = S3.write

    async def spoil(driver: S3, path: TreePath, body: Any, upload: Upload) -> Any:
        async def blocks() -> Any:
            async for block in body:
                yield bytes([block[0] ^ 1]) + block[1:] if path.name == "spoilt" else block

        return await write(driver, path, blocks(), upload)

    monkeypatch.setattr(S3, "write", spoil)
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
    assert parse_checksums(head) == known


class Watch:
    """The operations of S3 that a storage is asked for."""

    def __init__(self, driver: Any) -> None:
        self.operations: list[str] = []
        self.bytes = 0
        for client in (driver.client, run_in_loop(driver.call.take_copy_client())):
            client.meta.events.register("before-call.s3", self._note)

    def _note(self, model: Any, params: dict[str, Any], **_: Any) -> None:
        self.operations.append(model.name)
        body = params.get("body")
        self.bytes += len(body) if isinstance(body, bytes) and model.name in BYTES else 0


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_copies_between_buckets_of_one_server_stay_in_the_server(
    task_env: TaskEnv, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3copy, "PART", PART)
    monkeypatch.setattr(s3copy, "PART_COPY_CONCURRENCY", 1)
    source, target = task_env.bucket(), task_env.bucket()
    files = {"tree/a": b"a" * 9, "tree/empty": b"", "tree/d/middle": LARGE[: 6 << 20], "tree/large": LARGE}
    for name, content in files.items():
        source.put(name, content)
    watches = [Watch(task_env.driver(target.mount))]  # both storages use the same clients
    task = getattr(task_env, verb)(source.mount, target.mount, "tree")
    task_env.run(task)
    assert task_env.view(task) == SUCCEEDED
    assert (target.files(), source.files()) == (files, files if verb == "copy" else {})
    operations = [name for watch in watches for name in watch.operations]
    # moto refuses to replace by uploads alone: each object but the empty one is an upload, the large one of two parts
    assert operations.count("UploadPartCopy") == 4
    assert "GetObject" not in operations
    assert sum(watch.bytes for watch in watches) == 0  # PutObject only marks empty folders
    assert target.unfinished() == []


def test_an_object_that_changed_is_not_copied_by_the_server(task_env: TaskEnv) -> None:
    source, target = task_env.bucket(), task_env.bucket()
    source.put("f", b"old")
    task = task_env.copy(source.mount, target.mount, "f")
    task_env.run(task, lambda name, nth: source.put("f", b"newer") if name == "Move" else None)
    assert task_env.view(task) == (State.FAILED, "1 of 1 items failed: f: the source changed since the task began")
    assert target.files() == {}
