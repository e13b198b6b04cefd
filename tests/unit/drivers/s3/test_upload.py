"""Traces of an upload that is refused, cut, cancelled or lost; and the upload that is aborted."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from mangrove.core.problems import BadRequest, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import Upload, make_parts_key
from mangrove.drivers.s3 import objects as uploads
from mangrove.drivers.s3.driver import S3
from tests.contract.drivers import actions
from tests.unit.drivers.s3.bucket import MIB, Bucket, P, endless, many, run_on_driver
from tests.unit.drivers.s3.proxy import Exchange, Proxy


@pytest.mark.parametrize("size", [0, 5, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 20 * MIB])
@pytest.mark.parametrize("known", [True, False])
def test_bodies_of_all_sizes_come_back(bucket: Bucket, size: int, known: bool) -> None:
    written = os.urandom(size)

    async def work(driver: S3) -> tuple[int, bytes, bytes]:
        chunks = (written[start : start + 700_001] for start in range(0, size, 700_001))
        upload = Upload(size if known else None, 1.7e9, "text/x-test")
        entry = await driver.write(P("/f"), actions.body(*chunks), upload)
        return entry.size, await actions.content(driver, "/f"), await actions.content(driver, "/f", size // 2, 3)

    expected = written[size // 2 : size // 2 + 3]
    if not size:
        with pytest.raises(StorageProblem):
            run_on_driver(bucket.options(), work)
        return
    assert run_on_driver(bucket.options(), work) == (size, written, expected)
    assert bucket.client.head_object(Bucket=bucket.name, Key="f")["ContentType"] == "text/x-test"


def test_a_body_of_one_part_is_one_put(bucket: Bucket) -> None:
    async def work(driver: S3) -> base.Entry:
        return await driver.write(P("/f"), many(8 * MIB), Upload(8 * MIB, 1.7e9))

    entry = run_on_driver(bucket.options(), work)
    assert "-" not in entry.etag


@pytest.mark.parametrize("size", [3, 9 * MIB])
@pytest.mark.parametrize("announced", [1, 8 * MIB, 30 * MIB])
def test_another_size_than_announced_stores_nothing(bucket: Bucket, size: int, announced: int) -> None:
    bucket.put("f", content=b"old")
    with pytest.raises(BadRequest, match="instead of the announced"):
        run_on_driver(bucket.options(), lambda driver: driver.write(P("/f"), many(size), Upload(announced, 1.7e9)))
    assert (bucket.keys(), bucket.dangling()) == (["f"], 0)
    assert bucket.client.get_object(Bucket=bucket.name, Key="f")["Body"].read() == b"old"


def test_a_cut_body_leaves_no_upload_behind(bucket: Bucket) -> None:
    bucket.put("f", content=b"old")
    with pytest.raises(ConnectionResetError):
        body = actions.cut(bytes(30 * MIB))
        run_on_driver(bucket.options(), lambda driver: driver.write(P("/f"), body, Upload(None, 1.7e9)))
    assert (bucket.keys(), bucket.dangling()) == (["f"], 0)
    assert bucket.client.get_object(Bucket=bucket.name, Key="f")["Body"].read() == b"old"


@pytest.mark.parametrize("operation", ["create_multipart_upload", "upload_part"])
def test_a_cancelled_write_leaves_no_upload_behind(bucket_behind: Bucket, proxy: Proxy, operation: str) -> None:
    arrived, released, aborted = threading.Event(), threading.Event(), threading.Event()
    answered: list[str] = []

    def hold(exchange: Exchange) -> None:
        arrived.set()
        released.wait(120)

    def note(exchange: Exchange) -> None:
        answered.append(exchange.operation)
        if exchange.operation == "abort_multipart_upload":
            aborted.set()

    async def work(driver: S3) -> None:
        writing = asyncio.create_task(driver.write(P("/f"), endless(), Upload(None, 1.7e9)))
        assert await asyncio.to_thread(arrived.wait, 120)
        writing.cancel()
        await asyncio.wait([writing], timeout=0.1)
        released.set()
        await asyncio.wait([writing])
        assert writing.cancelled()
        assert await asyncio.to_thread(aborted.wait, 120)

    proxy.once(operation, hold)
    proxy.after.append(note)
    run_on_driver(bucket_behind.options(), work)
    assert operation in answered
    assert answered[-1] == "abort_multipart_upload"
    assert (bucket_behind.keys(), bucket_behind.dangling()) == ([], 0)


def test_cancelled_put_ends_after_its_answer(bucket_behind: Bucket, proxy: Proxy) -> None:
    """Otherwise it would arrive later, over a file that another client has stored meanwhile."""
    arrived, released, answered = threading.Event(), threading.Event(), threading.Event()
    order: list[str] = []

    def hold(exchange: Exchange) -> None:
        arrived.set()
        released.wait(120)

    def note(exchange: Exchange) -> None:
        if exchange.operation == "put_object":
            order.append("answered")
            answered.set()

    async def work(driver: S3) -> None:
        writing = asyncio.create_task(driver.write(P("/f"), actions.body(b"late"), Upload(4, 1.7e9)))
        await asyncio.to_thread(arrived.wait, 120)
        writing.add_done_callback(lambda _: order.append("cancelled"))
        writing.cancel()
        await asyncio.wait([writing], timeout=0.2)
        released.set()
        await asyncio.wait([writing])
        await asyncio.to_thread(answered.wait, 120)

    proxy.once("put_object", hold)
    proxy.after.append(note)
    run_on_driver(bucket_behind.options(), work)
    assert order == ["answered", "cancelled"]


def test_parts_grow_with_the_announced_size() -> None:
    for size in (1, 80 << 30, 5 << 40):
        part = uploads.plan_part_size(size)
        assert part >= uploads.PART
        assert part * uploads.MAX_PARTS >= size


def test_recovery_of_copy_keeps_upload_of_other_copy(bucket: Bucket) -> None:
    async def work(driver: S3) -> int | None:
        path, upload = P("/f"), Upload(3, 0.0)
        first, second = make_parts_key(), make_parts_key()
        await driver.begin(path, upload, first)  # by a worker that ends before it records the token
        token = await driver.begin(path, upload, second)
        receipts = [await driver.write_part(path, token, 1, 0, b"abc")]
        await driver.abort_by_key(path, first)
        return (await driver.finish(path, token, receipts, upload)).size

    assert run_on_driver(bucket.options(), work) == 3
    assert bucket.client.get_object(Bucket=bucket.name, Key="f")["Body"].read() == b"abc"


@pytest.mark.parametrize("begun", [True, False])
def test_an_upload_that_cannot_be_proven_ones_own_stays(bucket: Bucket, begun: bool) -> None:
    """Also the only one, without a part, begun since: the attempt may have ended before it reached the server."""

    async def work(driver: S3) -> None:
        key = make_parts_key()
        if begun:
            await driver.begin(P("/f"), Upload(3, 0.0), key)
        bucket.client.create_multipart_upload(Bucket=bucket.name, Key="f")
        await driver.abort_by_key(P("/f"), key)

    run_on_driver(bucket.options(), work)
    assert bucket.dangling() == 1 + begun


def test_an_upload_is_aborted_by_its_token_alone(bucket: Bucket) -> None:
    async def work(driver: S3) -> None:
        tokens = [await driver.begin(P("/f"), Upload(3, 0.0), make_parts_key()) for _ in range(2)]
        await driver.abort(P("/f"), tokens[0])
        await driver.abort(P("/f"), tokens[0])
        assert [upload["UploadId"] for upload in bucket.uploads()] == [tokens[1]]

    run_on_driver(bucket.options(), work)
