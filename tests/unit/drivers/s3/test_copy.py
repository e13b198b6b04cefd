"""Copies within S3: of folders, of many objects, of great ones."""

from __future__ import annotations

import os

import pytest

from mangrove.core.problems import EntryNotFound, NotSupported, StorageProblem
from mangrove.drivers.base import CopyRequest, Entry, Upload, make_parts_key
from mangrove.drivers.s3 import copy
from mangrove.drivers.s3.driver import S3
from tests.unit.drivers.s3.bucket import MIB, Bucket, P, run_on_driver


def test_folders_move_whole_and_leave_their_parent(bucket: Bucket) -> None:
    for key in ("p/ä +%&/f", "p/ä +%&/sub/g"):
        bucket.put(key, content=key.encode())
    run_on_driver(bucket.options(), lambda driver: driver.move(P("/p/ä +%&"), P("/q")))
    assert bucket.keys() == ["p/.mangrove", "q/f", "q/sub/g"]
    run_on_driver(bucket.options(), lambda driver: driver.copy(P("/q"), P("/p/r +%")))
    assert bucket.keys() == ["p/.mangrove", "p/r +%/f", "p/r +%/sub/g", "q/f", "q/sub/g"]
    run_on_driver(bucket.options(), lambda driver: driver.remove(P("/q")))
    assert bucket.keys() == ["p/.mangrove", "p/r +%/f", "p/r +%/sub/g"]


@pytest.mark.long
@pytest.mark.parametrize("verb", ["move", "copy"])
def test_more_than_a_thousand_objects_need_a_task(bucket: Bucket, verb: str) -> None:
    bucket.put(*(f"d/{number:04}" for number in range(1001)))
    before = bucket.keys()
    with pytest.raises(NotSupported):
        run_on_driver(bucket.options(), lambda driver: getattr(driver, verb)(P("/d"), P("/e")))
    assert bucket.keys() == before
    run_on_driver(bucket.options(), lambda driver: driver.remove(P("/d")))
    assert bucket.keys() == []


def test_what_cannot_be_copied_is_answered_for_itself(bucket: Bucket) -> None:
    bucket.put("a", "b", "c")

    async def work(driver: S3) -> list[object]:
        modified = (await driver.stat(P("/a"))).modified
        files = [CopyRequest(P(name), P(f"/to{name}"), size, modified, True) for name, size in (("/a", 1), ("/b", 2))]
        results = await driver.copy_from(driver, [*files, CopyRequest(P("/none"), P("/to/none"), 1, modified, True)])
        return [type(result) for result in results or ()]

    assert run_on_driver(bucket.options(), work) == [type(None), StorageProblem, EntryNotFound]
    assert bucket.keys() == ["a", "b", "c", "to/a"]


def test_large_object_needs_task_that_copies_it_in_parts(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy, "MAX_COPY_BYTES", 6 * MIB)
    written = os.urandom(13 * MIB)
    bucket.put("a +%ä", content=written)
    source, target, upload = P("/a +%ä"), P("/b"), Upload(len(written), 0.0)
    for verb in ("copy", "move"):
        with pytest.raises(NotSupported):
            run_on_driver(bucket.options(), lambda driver, verb=verb: getattr(driver, verb)(source, target))
    assert bucket.keys() == ["a +%ä"]

    async def in_parts(driver: S3) -> Entry:
        token = await driver.begin(target, upload, make_parts_key())
        receipts = [
            await driver.copy_part_from(
                driver, source, target, token, number, start, min(5 * MIB, len(written) - start)
            )
            for number, start in enumerate(range(0, len(written), 5 * MIB), 1)
        ]
        return await driver.finish(target, token, receipts, upload)

    assert run_on_driver(bucket.options(), in_parts).size == len(written)
    stored = bucket.client.get_object(Bucket=bucket.name, Key="b")
    assert stored["Body"].read() == written
    assert stored["ETag"].strip('"').endswith("-3")
    assert (bucket.keys(), bucket.dangling()) == (["a +%ä", "b"], 0)
