"""Creation without replacing: decided atomically by the server if it can, and reported correctly if it cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mangrove.core.problems import EntryExists
from mangrove.drivers.base import CopyRequest, DriverContext, Upload, make_parts_key
from mangrove.drivers.s3 import conditions
from mangrove.drivers.s3.driver import S3, S3Options
from tests import servers
from tests.contract.drivers import actions
from tests.unit.drivers.s3.bucket import MIB, Bucket, P, many, run_on_driver
from tests.unit.drivers.s3.proxy import Exchange, Proxy

Work = Callable[[S3], Awaitable[Any]]


def keep(size: int | None) -> Upload:
    return Upload(size, 0.0, overwrite=False)


async def write_small(driver: S3) -> None:
    await driver.write(P("/t"), actions.body(b"mine"), keep(4))


async def write_empty(driver: S3) -> None:
    await driver.write(P("/t"), actions.body(), keep(0))


async def write_large(driver: S3) -> None:
    await driver.write(P("/t"), many(9 * MIB), keep(None))


async def finish(driver: S3) -> None:
    token = await driver.begin(P("/t"), keep(4), make_parts_key())
    try:
        await driver.finish(P("/t"), token, [await driver.write_part(P("/t"), token, 1, 0, b"mine")], keep(4))
    finally:
        await driver.abort(P("/t"), token)


async def copy(driver: S3) -> None:
    await driver.copy(P("/s"), P("/t"), overwrite=False)


async def copy_empty(driver: S3) -> None:
    await driver.copy(P("/e"), P("/t"), overwrite=False)


async def rename(driver: S3) -> None:
    await driver.rename(P("/s"), P("/t"), overwrite=False)


async def move(driver: S3) -> None:
    await driver.move(P("/s"), P("/t"), overwrite=False)


async def copy_from(driver: S3) -> None:
    entry = await driver.stat(P("/s"))
    assert entry.size is not None
    results = await driver.copy_from(driver, [CopyRequest(P("/s"), P("/t"), entry.size, entry.modified, False)])
    assert results is not None
    if results[0] is not None:
        raise results[0]


VERBS = [
    (write_small, "put_object"), (write_empty, "put_object"), (write_large, "complete_multipart_upload"),
    (finish, "complete_multipart_upload"), (copy, "complete_multipart_upload"), (copy_empty, "put_object"),
    (rename, "complete_multipart_upload"), (move, "complete_multipart_upload"),
    (copy_from, "complete_multipart_upload"),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "deciding"), VERBS)
def test_what_was_put_right_before_the_change_is_not_replaced(
    proxy: Proxy, bucket_behind: Bucket, verb: Work, deciding: str
) -> None:
    bucket = bucket_behind
    bucket.put("s", content=b"mine")
    bucket.put("e", content=b"")

    async def work(driver: S3) -> None:
        assert await driver.can_refuse_existing()
        proxy.once(deciding, lambda _: bucket.put("t", content=b"theirs"))
        await actions.fails(verb(driver), EntryExists)

    run_on_driver(bucket.options(), work)
    assert bucket.get("t") == b"theirs"
    assert bucket.get("s") == b"mine"
    assert (bucket.keys(), bucket.dangling()) == (["e", "s", "t"], 0)


@pytest.mark.parametrize("verb", [verb for verb, _ in VERBS])
@pytest.mark.parametrize("ignored", [(), ("if-none-match",)])
def test_what_is_free_is_taken_and_what_is_there_is_kept_by_every_server(
    proxy: Proxy, bucket_behind: Bucket, verb: Work, ignored: tuple[str, ...]
) -> None:
    bucket = bucket_behind
    proxy.strip(*ignored)

    async def work(driver: S3) -> None:
        bucket.put("s", content=b"mine")
        bucket.put("e", content=b"")
        await verb(driver)
        assert bucket.get("t") in (b"mine", b"", bytes(9 * MIB))
        bucket.put("s", content=b"mine")
        bucket.put("t", content=b"theirs")
        await actions.fails(verb(driver), EntryExists)
        bucket.client.delete_object(Bucket=bucket.name, Key="t")
        bucket.put("t/below")
        await actions.fails(verb(driver), EntryExists)

    run_on_driver(bucket.options(), work)
    assert (bucket.keys(), bucket.dangling()) == (["e", "s", "t/below"], 0)


def test_copy_keeps_metadata_if_only_uploads_are_conditional(bucket: Bucket) -> None:
    described = {"ContentType": "text/x-a", "CacheControl": "no-store", "Metadata": {"a": "b"}}
    bucket.client.put_object(Bucket=bucket.name, Key="s", Body=b"mine", **described)
    run_on_driver(bucket.options(), copy)
    head = bucket.client.head_object(Bucket=bucket.name, Key="t")
    assert {name: head[name] for name in described} == described


@pytest.mark.parametrize("verb", ["move", "copy"])
@pytest.mark.parametrize("late", ["t/f1", "t/.mangrove"])
def test_a_folder_that_comes_into_being_meanwhile_gets_nothing_of_another(
    proxy: Proxy, bucket_behind: Bucket, verb: str, late: str
) -> None:
    bucket = bucket_behind
    bucket.put("p/s/f0", "p/s/f1", "p/s/sub/f2", content=b"mine")

    async def work(driver: S3) -> None:
        assert await driver.can_refuse_existing()
        operation = "put_object" if late.endswith(".mangrove") else "create_multipart_upload"
        proxy.once(operation, lambda _: bucket.put(late, content=b"theirs"))
        await actions.fails(getattr(driver, verb)(P("/p/s"), P("/t"), overwrite=False), EntryExists)

    run_on_driver(bucket.options(), work)
    assert bucket.keys() == ["p/s/f0", "p/s/f1", "p/s/sub/f2", late]
    assert bucket.get(late) == b"theirs"


@pytest.mark.parametrize("placeholder", [(), ("p/s/.mangrove",)])
def test_a_folder_moves_to_a_free_name_with_what_it_holds(bucket: Bucket, placeholder: tuple[str, ...]) -> None:
    bucket.put("p/s/f", "p/s/sub/g", *placeholder)
    run_on_driver(bucket.options(), lambda driver: driver.move(P("/p/s"), P("/t"), overwrite=False))
    assert bucket.keys() == ["p/.mangrove", *(["t/.mangrove"] if placeholder else []), "t/f", "t/sub/g"]


def test_an_empty_folder_moves_to_a_free_name(bucket: Bucket) -> None:
    bucket.put("s/.mangrove")
    run_on_driver(bucket.options(), lambda driver: driver.move(P("/s"), P("/t"), overwrite=False))
    assert bucket.keys() == ["t/.mangrove"]


def test_a_server_is_tried_out_once_and_nothing_stays_of_it(proxy: Proxy, bucket_behind: Bucket) -> None:
    async def work(driver: S3) -> None:
        assert not proxy.count("put_object")
        assert [await driver.can_refuse_existing() for _ in range(3)] == [True] * 3

    run_on_driver(bucket_behind.options(root_folder_path="/in"), work)
    written = {exchange.key for exchange in proxy.seen if exchange.method in ("PUT", "POST", "DELETE")}
    assert written
    assert all(key.startswith("in/.mangrove-") for key in written)
    assert proxy.count("create_multipart_upload") == 1
    assert (bucket_behind.keys(), bucket_behind.dangling()) == ([], 0)


@pytest.mark.parametrize("blind", ["put_object", "complete_multipart_upload"])
@pytest.mark.parametrize("status", [0, 501])
def test_a_server_that_lacks_the_condition_is_said_to(
    proxy: Proxy, bucket_behind: Bucket, blind: str, status: int
) -> None:
    def answer(exchange: Exchange) -> None:
        if exchange.operation == blind and exchange.headers.pop("if-none-match", "") and status:
            exchange.respond(status, "NotImplemented")

    async def work(driver: S3) -> bool:
        first = await driver.can_refuse_existing()
        await write_small(driver)
        assert bucket_behind.get("t") == b"mine"
        return first

    proxy.before.append(answer)
    assert run_on_driver(bucket_behind.options(), work) is False
    assert (bucket_behind.keys(), bucket_behind.dangling()) == (["t"], 0 if status == 0 else bucket_behind.dangling())


@pytest.mark.parametrize(("after", "second"), [(0.0, True), (600.0, False)])
def test_a_server_that_refuses_the_trial_is_asked_again_after_a_while(
    proxy: Proxy, bucket_behind: Bucket, monkeypatch: pytest.MonkeyPatch, after: float, second: bool
) -> None:
    monkeypatch.setattr(conditions, "RETRY_TRIAL_AFTER_SECONDS", after)

    async def work(driver: S3) -> list[bool]:
        proxy.once("put_object", lambda exchange: exchange.respond(403, "AccessDenied"))
        return [await driver.can_refuse_existing(), await driver.can_refuse_existing()]

    assert run_on_driver(bucket_behind.options(), work) == [False, second]


def test_a_server_that_cannot_list_uploads_is_tried_all_the_same(proxy: Proxy, bucket_behind: Bucket) -> None:
    async def work(driver: S3) -> bool:
        proxy.once("list_multipart_uploads", lambda exchange: exchange.respond(501, "NotImplemented"))
        return await driver.can_refuse_existing()

    assert run_on_driver(bucket_behind.options(), work)


@pytest.mark.parametrize("endpoint", ["", "https://s3.eu-west-1.amazonaws.com", "s3.cn-north-1.amazonaws.com.cn"])
def test_aws_is_known_to_refuse(endpoint: str) -> None:
    options = S3Options(**servers.s3_options(endpoint, "bucket"))
    assert asyncio.run(S3(options, DriverContext()).can_refuse_existing())  # without a start: nothing is asked


def test_a_conflicting_request_is_tried_again(proxy: Proxy, bucket_behind: Bucket) -> None:
    async def work(driver: S3) -> None:
        assert await driver.can_refuse_existing()
        proxy.once("put_object", lambda exchange: exchange.respond(409, "ConditionalRequestConflict"))
        await write_small(driver)

    run_on_driver(bucket_behind.options(), work)
    assert bucket_behind.get("t") == b"mine"


@pytest.mark.parametrize(("verb", "deciding"), [VERBS[0], VERBS[2]])
def test_a_file_whose_first_answer_was_lost_is_ones_own(
    proxy: Proxy, bucket_behind: Bucket, verb: Work, deciding: str
) -> None:
    lost: list[str] = []

    def lose(exchange: Exchange) -> None:
        if exchange.operation == deciding and exchange.key == "t" and not lost:
            lost.append(exchange.key)
            exchange.status = -1

    async def work(driver: S3) -> None:
        assert await driver.can_refuse_existing()
        proxy.after.append(lose)
        await verb(driver)

    run_on_driver(bucket_behind.options(), work)
    assert lost == bucket_behind.keys() == ["t"]
