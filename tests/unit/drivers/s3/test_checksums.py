"""A byte that is flipped on the way is noticed: by the server where it verifies a checksum, by the driver elsewhere."""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Awaitable, Callable

import pytest

from mangrove.core.problems import StorageProblem, Unreachable
from mangrove.drivers.base import Upload
from mangrove.drivers.s3.driver import S3
from tests.contract.drivers import actions
from tests.unit.drivers.s3 import damage
from tests.unit.drivers.s3.bucket import MIB, Bucket, P, many, run_on_driver
from tests.unit.drivers.s3.proxy import Exchange, Proxy, flip

UPLOAD_OPERATIONS = ("put_object", "upload_part")


def verify(exchange: Exchange) -> None:
    """Be a server that verifies CRC-32, as AWS does."""
    told = exchange.headers.get("x-amz-checksum-crc32")
    if told and told != base64.b64encode(zlib.crc32(exchange.body).to_bytes(4, "big")).decode():
        exchange.respond(400, "BadDigest")


def forget(*headers: str) -> Callable[[Exchange], None]:
    """Be a server that says nothing of these in its answers."""

    def look(exchange: Exchange) -> None:
        for name in headers:
            exchange.answer_headers.pop(name, None)

    return look


@pytest.mark.parametrize("case", damage.CASES)
@pytest.mark.parametrize("kind", ["echoes", "verifies", "is ignorant"])
def test_bytes_damaged_on_the_way_are_noticed(
    proxy: Proxy, bucket_behind: Bucket, case: Callable[[S3, Proxy], Awaitable[None]], kind: str
) -> None:
    if kind == "is ignorant":
        proxy.after.append(forget("x-amz-checksum-crc32"))

    async def work(driver: S3) -> None:
        await case(driver, proxy)

    if kind == "verifies":
        proxy.verify = verify
    run_on_driver(bucket_behind.options(), work)
    assert bucket_behind.dangling() == 0


@pytest.mark.parametrize("operation", UPLOAD_OPERATIONS)
def test_what_is_damaged_once_is_sent_again(proxy: Proxy, bucket_behind: Bucket, operation: str) -> None:
    written = os.urandom(9 * MIB if operation == "upload_part" else 9)
    proxy.once(operation, damage.damage_body)

    async def work(driver: S3) -> bool:
        await driver.write(P("/f"), actions.body(written), Upload(len(written), 0.0))
        return await driver.proves_writes()

    assert run_on_driver(bucket_behind.options(), work)
    assert bucket_behind.get("f") == written


def test_what_another_stored_after_a_damaged_put_is_not_removed(proxy: Proxy, bucket_behind: Bucket) -> None:
    damage.damage_every(proxy, "put_object")

    def overtake(exchange: Exchange) -> None:
        if exchange.operation == "put_object":
            bucket_behind.put("f", content=b"theirs")

    proxy.after.append(overtake)
    with pytest.raises(Unreachable, match="damaged in transit"):
        run_on_driver(bucket_behind.options(), lambda driver: actions.put(driver, "/f"))
    assert bucket_behind.get("f") == b"theirs"


@pytest.mark.parametrize("status", [400, 501])
@pytest.mark.parametrize("refused", [("x-amz-checksum-crc32",), ("x-amz-checksum-crc32", "content-md5")])
def test_refused_checksum_is_replaced_and_remembered(
    proxy: Proxy, bucket_behind: Bucket, status: int, refused: tuple[str, ...]
) -> None:
    def refuse(exchange: Exchange) -> None:
        if any(name in exchange.headers for name in (*refused, "x-amz-checksum-algorithm")):
            exchange.respond(status, "NotImplemented")

    async def work(driver: S3) -> None:
        for name in ("/a", "/b", "/c", "/d"):
            await actions.put(driver, name)
        before = len(proxy.seen)
        await actions.put(driver, "/e")
        assert len(proxy.seen) == before + 1
        await driver.write(P("/large"), many(9 * MIB), Upload(None, 0.0))

    proxy.before.append(refuse)
    run_on_driver(bucket_behind.options(), work)
    assert bucket_behind.keys() == ["a", "b", "c", "d", "e", "large"]
    last = proxy.seen[-2].headers
    assert ("content-md5" in last) == (len(refused) == 1)


def test_an_upload_is_begun_on_a_server_that_refuses_checksums_of_uploads(proxy: Proxy, bucket_behind: Bucket) -> None:
    def refuse(exchange: Exchange) -> None:
        if "x-amz-checksum-algorithm" in exchange.headers:
            exchange.respond(400, "InvalidArgument")

    proxy.before.append(refuse)
    run_on_driver(bucket_behind.options(), lambda driver: driver.write(P("/f"), many(9 * MIB), Upload(None, 0.0)))
    assert bucket_behind.get("f") == bytes(9 * MIB)


def test_a_refusal_for_another_reason_is_told_as_it_is(proxy: Proxy, bucket_behind: Bucket) -> None:
    def refuse(exchange: Exchange) -> None:
        if exchange.operation == "put_object":
            exchange.respond(400, "KeyTooLongError")

    async def work(driver: S3) -> None:
        with pytest.raises(StorageProblem, match="KeyTooLongError"):
            await actions.put(driver, "/f")
        proxy.before.remove(refuse)
        await actions.put(driver, "/f")

    proxy.before.append(refuse)
    run_on_driver(bucket_behind.options(), work)
    assert "x-amz-checksum-crc32" in proxy.seen[-1].headers


@pytest.mark.parametrize("size", [0, 9, 9 * MIB])
def test_every_put_and_part_carries_a_checksum_in_a_plain_header(
    proxy: Proxy, bucket_behind: Bucket, size: int
) -> None:
    run_on_driver(bucket_behind.options(), lambda driver: driver.write(P("/f"), many(size), Upload(None, 0.0)))
    sent = [exchange for exchange in proxy.seen if exchange.operation in UPLOAD_OPERATIONS]
    assert sent
    for exchange in sent:
        verify(exchange)
        assert exchange.headers.keys() & {"x-amz-checksum-crc32", "content-md5"}
        assert exchange.status == 200
        assert not exchange.headers.keys() & {"x-amz-trailer", "content-encoding", "transfer-encoding"}


def test_only_answers_that_prove_it_prove_a_write(proxy: Proxy, bucket_behind: Bucket) -> None:
    def encrypt(exchange: Exchange) -> None:
        """As SSE-KMS answers: an ETag that is no MD5, which only the header tells."""
        if exchange.operation == "put_object" and exchange.key == "kms":
            exchange.answer_headers["x-amz-server-side-encryption"] = "aws:kms"
            exchange.answer_headers["etag"] = f'"{"0" * 32}"'
            forget("x-amz-checksum-crc32")(exchange)

    async def work(driver: S3) -> list[bool]:
        proofs = [await driver.proves_writes()]
        for name in ("/plain", "/kms", "/plain"):
            await actions.put(driver, name)
            proofs.append(await driver.proves_writes())
        return proofs

    proxy.after.append(encrypt)
    assert run_on_driver(bucket_behind.options(), work) == [False, True, False, False]


@pytest.mark.parametrize("has_md5", [True, False])
def test_a_stored_checksum_is_compared_when_a_file_is_read(proxy: Proxy, bucket_behind: Bucket, has_md5: bool) -> None:
    bucket = bucket_behind
    bucket.client.put_object(Bucket=bucket.name, Key="f", Body=b"content", ChecksumAlgorithm="SHA256")

    def look(exchange: Exchange) -> None:
        if exchange.operation == "get_object":
            exchange.answer = flip(exchange.answer)
            exchange.answer_headers.pop("x-amz-checksum-sha256" if has_md5 else "etag")

    proxy.after.append(look)
    with pytest.raises(Unreachable, match="damaged in transit"):
        run_on_driver(bucket.options(), lambda driver: actions.content(driver, "/f"))


def test_a_file_of_parts_is_read_although_its_checksum_is_one_of_parts(bucket: Bucket) -> None:
    async def work(driver: S3) -> bytes:
        await driver.write(P("/f"), many(9 * MIB), Upload(None, 0.0))
        return await actions.content(driver, "/f")

    assert run_on_driver(bucket.options(), work) == bytes(9 * MIB)
