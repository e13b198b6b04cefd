"""Behaviour of S3 outside the driver suite: its form, its start and stop, its folders, odd servers."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mangrove.core import deadlines
from mangrove.core.problems import (
    EntryExists,
    EntryNotFound,
    NotSupported,
    OutOfTime,
    StorageForbidden,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers import base
from mangrove.drivers.base import Upload
from mangrove.drivers.s3 import driver
from mangrove.drivers.s3.driver import S3, S3Options
from tests.contract.drivers import actions
from tests.unit.drivers.s3.bucket import MIB, Bucket, P, many, odd_server, run_on_driver


def test_the_form_is_as_published() -> None:
    described = {item.name: item._asdict() for item in S3Options.list_form_items()}
    assert list(described) == [
        "root_folder_path", "bucket", "endpoint", "region", "access_key_id", "secret_access_key", "session_token",
        "custom_host", "enable_custom_host_presign", "sign_url_expire", "placeholder", "force_path_style",
        "list_object_version", "remove_bucket", "add_filename_to_disposition", "enable_direct_upload",
        "direct_upload_host", "user_agent", "trash_days",
    ]  # fmt: skip
    required = {name for name, item in described.items() if item["required"]}
    assert required == {"root_folder_path", "bucket", "endpoint", "access_key_id", "secret_access_key"}
    defaults = {name: item["default"] for name, item in described.items() if item["default"]}
    assert defaults == {
        "root_folder_path": "/", "sign_url_expire": "4", "list_object_version": "v1", "enable_direct_upload": "false",
        "trash_days": "30",
    }  # fmt: skip
    assert described["list_object_version"]["options"] == "v1,v2"
    assert S3Options.list_secrets() >= {"secret_access_key", "session_token"}


def test_start_refuses_what_cannot_work(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_: S3) -> None: ...

    with pytest.raises(StorageProblem, match="bucket is required"):
        run_on_driver(bucket.options(bucket=""), nothing)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mangrovelocal")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mangrovelocal")
    with pytest.raises(StorageProblem, match="are required on this machine"):
        run_on_driver(bucket.options(access_key_id="", secret_access_key=""), nothing)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "role")
    run_on_driver(bucket.options(access_key_id="", secret_access_key=""), nothing)


def test_an_empty_folder_is_there_and_a_file_is_none(bucket: Bucket) -> None:
    bucket.put("f")

    async def work(driver: S3) -> None:
        await driver.makedirs(P("/a/b"))
        assert await actions.names(driver, "/a/b") == []
        assert (await driver.stat(P("/a"))).is_dir
        await actions.fails(base.list_all(driver, P("/f")), NotSupported)
        await actions.fails(driver.read(P("/missing"), 0, 0), EntryNotFound)
        for path in ("/f", "/f/below"):
            await actions.fails(driver.makedirs(P(path)), EntryExists)

    run_on_driver(bucket.options(), work)
    assert bucket.keys() == ["a/b/.mangrove", "f"]


def test_the_root_is_never_removed(bucket: Bucket) -> None:
    bucket.put("keep")
    with pytest.raises(StorageForbidden):
        run_on_driver(bucket.options(), lambda driver: driver.remove(P("/")))
    assert bucket.keys() == ["keep"]


def test_leaving_a_stalled_body_holds_nobody_up() -> None:
    async def work(driver: S3) -> float:
        stream: Any = await driver.read(P("/f"))
        async for _ in stream:
            break
        await asyncio.sleep(0.2)  # the next block is being waited for
        began = time.monotonic()
        await stream.aclose()
        return time.monotonic() - began

    with odd_server(200, bytes(base.BLOCK + 1), announced=9 * MIB) as options:
        assert run_on_driver(options, work) < 60


def test_an_empty_folder_goes_and_one_whose_names_cannot_be_shown_stays(bucket: Bucket) -> None:
    bucket.put("odd/.mangrove", "odd/a\\b.txt", "empty/.mangrove", "empty/")

    async def work(driver: S3) -> list[bool]:
        return [await driver.remove_empty(P(path)) for path in ("/odd", "/empty", "/missing")]

    assert run_on_driver(bucket.options(), work) == [False, True, True]
    assert bucket.keys() == ["odd/.mangrove", "odd/a\\b.txt"]


def test_stopping_storage_lets_calls_finish_then_ends_threads(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mangrove.drivers.threads.IDLE_TIMEOUT_SECONDS", 0.2)
    bucket.put("large", content=bytes(6 * MIB))
    others, threads = set(threading.enumerate()), set[threading.Thread]()

    async def work(driver: S3) -> int:
        async def body() -> AsyncIterator[bytes]:
            async for block in many(18 * MIB):
                if not threads:
                    threads.update(thread for thread in threading.enumerate() if thread.name.startswith("s3"))
                    await driver.stop()
                yield block

        read = 0
        async for block in await driver.read(P("/large")):
            if not read:
                await driver.write(P("/new"), body(), Upload(None, 0.0))
            read += len(block)
        with pytest.raises(Unreachable):
            await base.list_all(driver, P("/"))
        return read

    assert run_on_driver(bucket.options(), work) == 6 * MIB
    assert bucket.client.head_object(Bucket=bucket.name, Key="new")["ContentLength"] == 18 * MIB
    assert bucket.dangling() == 0
    gc.collect()
    assert threads - others
    for thread in threads - others:
        thread.join(60)
        assert not thread.is_alive()


def test_removal_ends_between_batches_and_next_one_continues(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(seconds: float = 0.0) -> None:
        if len(bucket.keys()) == 3:
            raise OutOfTime

    bucket.put(*(f"d/{number}" for number in range(5)))
    monkeypatch.setattr(driver, "MAX_OBJECTS_WITHOUT_TASK", 2)
    with monkeypatch.context() as patched, pytest.raises(OutOfTime):
        patched.setattr(deadlines, "check", end)
        run_on_driver(bucket.options(), lambda s3: s3.remove(P("/d")))
    assert bucket.keys() == ["d/2", "d/3", "d/4"]
    run_on_driver(bucket.options(), lambda s3: s3.remove(P("/d")))
    assert bucket.keys() == []
