"""The number of AWS calls of usual requests to a warm function, which is their cost: `bench/economy.py`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from mangrove.core import runtime
from mangrove.core.chunked import stream
from mangrove.core.config import Config
from mangrove.drivers.base import DriverContext, Upload
from mangrove.drivers.s3.driver import S3
from mangrove.tasks.core import staging
from mangrove.tasks.core.staging import Staging
from tests import servers
from tests.contract.test_warm import PASSWORD, data, in_process
from tests.support.platforms import use_cloud
from tests.support.recorder import Call, Recorder, Right

MAX_ATTEMPTS = 5  # of a request during which the computer must not stand still for OLD_SECONDS
OLD_SECONDS = 2.0  # after which a function asks whether what it knows still holds


class Observer:
    """Counts what is stored or read in a bucket."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def judge(self, needs: set[Right]) -> str:
        return ""

    def hides_absence(self, needs: set[Right]) -> bool:
        return False

    def note_call(self, call: Call, needs: set[Right]) -> None:
        self.calls.append(call.operation)


@pytest.fixture
def bucket() -> Iterator[tuple[Observer, dict[str, Any]]]:
    """Options of an empty bucket, and who is told of its calls."""
    with servers.moto_s3() as aws:
        name, observer = servers.make_bucket(aws), Observer()
        with serve(Recorder("", aws, observer)) as address:
            yield observer, servers.s3_options(address, name)


@contextmanager
def serve(recorder: Recorder) -> Iterator[str]:
    with recorder:
        Thread(target=recorder.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{recorder.server_port}"
        recorder.shutdown()


def test_usual_requests_make_no_more_calls_than_they_are_billed_for(
    records: None, tmp_path: Path, bucket: tuple[Observer, dict[str, Any]]
) -> None:
    from mangrove.records.store.base import count_calls

    observer, options = bucket
    calls: dict[str, tuple[int, list[str]]] = {}

    async def work(client: httpx.AsyncClient) -> None:
        async def count(name: str, **request: Any) -> Any:
            """The second one of two counts, as it finds what a warm process has."""
            await data(client.request(**request))
            before = count_calls()
            observer.calls.clear()
            answer = await data(client.request(**request))
            calls[name] = count_calls() - before, sorted(observer.calls)
            return answer

        switched = [{"key": "search_index", "value": "none"}]
        await data(client.post("/api/admin/setting/save", json=switched))
        mount = {"mount_path": "/bucket", "driver": "S3", "addition": json.dumps(options), "cache_expiration": 0}
        await data(client.post("/api/admin/storage/create", json=mount))
        headers = {"file-path": "/bucket/d/a.bin"}
        await count("put", method="PUT", url="/api/fs/put", content=bytes(1_000_000), headers=headers)
        listed = {"path": "/bucket/d", "page": 1, "per_page": 100, "refresh": True}
        await count("list", method="POST", url="/api/fs/list", json=listed)
        await count("get", method="POST", url="/api/fs/get", json={"path": "/bucket/d/a.bin"})
        known = runtime.get(Config)
        counts = []
        while 1 not in counts and len(counts) < MAX_ATTEMPTS:
            runtime.put(Config, replace(known, snapshot_seconds=OLD_SECONDS))
            before = count_calls()
            await asyncio.sleep(OLD_SECONDS)
            await data(client.post("/api/fs/get", json={"path": "/bucket/d/a.bin"}))
            counts.append(count_calls() - before)
            runtime.put(Config, known)
        assert counts[-1] == 1, f"the version and the session: {counts}"
        await count("login", method="POST", url="/api/auth/login", json={"username": "admin", "password": PASSWORD})

    in_process(tmp_path, work)
    assert calls["login"] in ((4, []), (5, [])), "with the version of the configuration every two seconds: 5"
    assert calls["list"] == (0, ["s3:LIST"]), "and one every two seconds, for the version and the session"
    assert calls["get"] == (0, ["s3:LIST"]), "of the names that begin alike: the file and what goes with it"
    assert calls["put"][0] == 0 and len(calls["put"][1]) <= 2, calls["put"]


def test_what_a_function_keeps_in_staging_is_one_call(bucket: tuple[Observer, dict[str, Any]]) -> None:
    observer, options = bucket
    use_cloud()

    async def work() -> None:
        driver = S3(S3.Options.parse(json.dumps(options)), DriverContext())
        await driver.start()
        runtime.put(Staging, Staging(driver))
        observer.calls.clear()
        await staging.store("id", "folder/rows-000000", stream(b"rows"), Upload(4, 0.0))
        assert observer.calls == ["s3:PUT"]
        assert b"".join([block async for block in await driver.read(staging.get_path("id", "folder/rows-000000"))])
        await driver.stop()

    asyncio.run(work())
