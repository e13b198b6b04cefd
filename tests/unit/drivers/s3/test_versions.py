"""One version of a file: read, copied and removed as the one that was meant, or not at all."""

from __future__ import annotations

import os
import time

import pytest

from mangrove.core.problems import EntryChanged
from mangrove.drivers import base
from mangrove.drivers.base import Entry, Upload, make_parts_key
from mangrove.drivers.s3.driver import S3
from tests.contract.drivers import actions
from tests.unit.drivers.s3.bucket import MIB, Bucket, P, run_on_driver
from tests.unit.drivers.s3.proxy import Exchange, Proxy

IGNORED = [(), ("if-match",)]  # headers that the server does not know


def test_move_by_parts_keeps_version_put_during_completion(proxy: Proxy, bucket_behind: Bucket) -> None:
    """By the parts of a task: the put is answered while CompleteMultipartUpload is under way."""
    bucket, old = bucket_behind, os.urandom(6 * MIB)
    bucket.put("s", content=old)

    def complete_slowly(_: Exchange) -> None:
        bucket.put("s", content=b"newer")
        time.sleep(0.2)

    async def work(driver: S3) -> None:
        entry, upload = await driver.stat(P("/s")), Upload(len(old), 0.0)
        token = await driver.begin(P("/t"), upload, make_parts_key())
        spans = [(1, 0, 5 * MIB), (2, 5 * MIB, MIB)]
        receipts = [await driver.copy_part_from(driver, P("/s"), P("/t"), token, *span) for span in spans]
        proxy.once("complete_multipart_upload", complete_slowly)
        await driver.finish(P("/t"), token, receipts, upload)
        await actions.fails(driver.remove_unchanged(P("/s"), entry), EntryChanged)

    run_on_driver(bucket.options(), work)
    assert (bucket.get("s"), bucket.get("t")) == (b"newer", old)


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("ignored", IGNORED)
def test_move_within_bucket_keeps_version_put_during_copy(
    proxy: Proxy, bucket_behind: Bucket, overwrite: bool, ignored: tuple[str, ...]
) -> None:
    bucket = bucket_behind
    bucket.put("s", content=b"old")
    proxy.strip(*ignored)

    async def work(driver: S3) -> None:
        await driver.can_refuse_existing()
        put_newer = "copy_object" if overwrite else "complete_multipart_upload"

        def put(exchange: Exchange) -> None:
            if exchange.operation == put_newer:
                bucket.put("s", content=b"newer")

        proxy.after.append(put)
        await actions.fails(driver.move(P("/s"), P("/t"), overwrite=overwrite), EntryChanged)

    run_on_driver(bucket.options(), work)
    assert (bucket.get("s"), bucket.get("t")) == (b"newer", b"old")


def test_a_folder_moves_but_for_the_file_that_changed_meanwhile(proxy: Proxy, bucket_behind: Bucket) -> None:
    bucket = bucket_behind
    bucket.put("d/a", "d/b", "d/sub/c", content=b"old")

    def change(exchange: Exchange) -> None:
        if exchange.operation == "copy_object" and exchange.key == "e/b":
            bucket.put("d/b", content=b"newer")
            bucket.put("d/new", content=b"newer")

    async def work(driver: S3) -> None:
        proxy.after.append(change)
        with pytest.raises(EntryChanged, match=r"^d/b: "):
            await driver.move(P("/d"), P("/e"))

    run_on_driver(bucket.options(), work)
    assert bucket.keys() == ["d/b", "d/new", "e/a", "e/b", "e/sub/c"]
    assert (bucket.get("d/b"), bucket.get("e/b")) == (b"newer", b"old")


@pytest.mark.parametrize("ignored", IGNORED)
def test_only_the_file_that_was_meant_is_removed(proxy: Proxy, bucket_behind: Bucket, ignored: tuple[str, ...]) -> None:
    bucket = bucket_behind
    proxy.strip(*ignored)

    async def work(driver: S3) -> None:
        bucket.put("d/f", content=b"old")
        entry_alone = await driver.stat(P("/d/f"))
        listed = (await base.list_all(driver, P("/d")))[0]
        for other in (b"new", b"longer"):
            bucket.put("d/f", content=other)
            for entry in (entry_alone, listed):
                await actions.fails(driver.remove_unchanged(P("/d/f"), entry), EntryChanged)
        await actions.fails(driver.remove_unchanged(P("/d/f"), Entry("f", 7, 0.0, False)), EntryChanged)
        for look in ("stat", "list", "size"):
            bucket.put("d/f", content=b"longer")
            entry = Entry("f", 6, 0.0, False) if look == "size" else await driver.stat(P("/d/f"))
            entry = (await base.list_all(driver, P("/d")))[0] if look == "list" else entry
            await driver.remove_unchanged(P("/d/f"), entry)
            assert bucket.keys() == ["d/.mangrove"]
            await driver.remove_unchanged(P("/d/f"), entry)

    run_on_driver(bucket.options(), work)


def test_what_is_put_right_before_the_removal_stays(proxy: Proxy, bucket_behind: Bucket) -> None:
    bucket = bucket_behind
    bucket.put("f", content=b"old")

    async def work(driver: S3) -> None:
        entry = await driver.stat(P("/f"))
        proxy.once("delete_object", lambda _: bucket.put("f", content=b"new"))
        await actions.fails(driver.remove_unchanged(P("/f"), entry), EntryChanged)

    run_on_driver(bucket.options(), work)
    assert bucket.get("f") == b"new"


@pytest.mark.parametrize("status", [400, 501])
def test_unconditional_removal_checks_version_right_before(proxy: Proxy, bucket_behind: Bucket, status: int) -> None:
    bucket = bucket_behind
    bucket.put("f", "g")
    proxy.once("delete_object", lambda exchange: exchange.respond(status, "NotImplemented"), "if-match")

    async def work(driver: S3) -> None:
        await driver.remove_unchanged(P("/f"), await driver.stat(P("/f")))

    run_on_driver(bucket.options(), work)
    assert bucket.keys() == ["g"]


@pytest.mark.parametrize("ignored", IGNORED)
@pytest.mark.parametrize(("offset", "length"), [(0, None), (1, None), (1, 1), (0, 2)])
def test_only_the_version_that_was_meant_is_read(
    proxy: Proxy, bucket_behind: Bucket, ignored: tuple[str, ...], offset: int, length: int | None
) -> None:
    bucket = bucket_behind
    proxy.strip(*ignored)

    async def work(driver: S3) -> None:
        for is_listed in (False, True):
            bucket.put("f", content=b"old")
            entry = (await base.list_all(driver, P("/")))[0] if is_listed else await driver.stat(P("/f"))
            body = await driver.read(P("/f"), offset, length, entry)
            assert b"".join([block async for block in body]) == b"old"[offset:][:length]
            for other in (b"new", b"longer"):
                bucket.put("f", content=other)
                await actions.fails(driver.read(P("/f"), offset, length, entry), EntryChanged)
            await actions.fails(
                driver.read(P("/f"), offset, length, entry._replace(etag="")), EntryChanged
            )  # by its size

    run_on_driver(bucket.options(), work)


@pytest.mark.parametrize("moment", ["within", "between"])
def test_parts_of_two_versions_never_make_a_file(proxy: Proxy, bucket_behind: Bucket, moment: str) -> None:
    """moto does not look at `x-amz-copy-source-if-match`: as a server that ignores it."""
    bucket = bucket_behind
    bucket.put("s", content=bytes(6 * MIB))

    def change(_: Exchange | None = None) -> None:
        bucket.put("s", content=b"x" * 6 * MIB)

    async def work(driver: S3) -> None:
        upload = Upload(6 * MIB, 0.0)
        token = await driver.begin(P("/t"), upload, make_parts_key())
        receipts = [await driver.copy_part_from(driver, P("/s"), P("/t"), token, 1, 0, 5 * MIB)]
        if moment == "between":
            change()
        else:
            proxy.once("upload_part_copy", change)
            await actions.fails(driver.copy_part_from(driver, P("/s"), P("/t"), token, 2, 5 * MIB, MIB), EntryChanged)
        receipts.append(await driver.copy_part_from(driver, P("/s"), P("/t"), token, 2, 5 * MIB, MIB))
        await actions.fails(driver.finish(P("/t"), token, receipts, upload), EntryChanged)
        await driver.abort(P("/t"), token)

    run_on_driver(bucket.options(), work)
    assert (bucket.keys(), bucket.dangling()) == (["s"], 0)


def test_receipts_of_an_older_service_still_make_a_file(bucket: Bucket) -> None:
    async def work(driver: S3) -> None:
        upload = Upload(3, 0.0)
        token = await driver.begin(P("/t"), upload, make_parts_key())
        length, etag, *_ = (await driver.write_part(P("/t"), token, 1, 0, b"abc")).split(" ")
        await driver.finish(P("/t"), token, [f"{length} {etag}"], upload)

    run_on_driver(bucket.options(), work)
    assert bucket.get("t") == b"abc"
