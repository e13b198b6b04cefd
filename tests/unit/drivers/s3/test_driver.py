"""What the driver suite cannot see of S3: what is left on the server, whole copies of great objects, odd servers."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import boto3
import httpx
import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from mangrove.drivers import base
from mangrove.drivers.base import DriverContext, Entry, Upload, make_parts_key
from mangrove.drivers.s3 import copy as s3copy
from mangrove.drivers.s3 import driver as s3
from mangrove.drivers.s3 import upload as s3upload
from mangrove.paths import TreePath
from mangrove.problems import (
    BadRequest,
    Exists,
    Forbidden,
    NotFound,
    NotSupported,
    StorageProblem,
    Unreachable,
)
from tests import servers
from tests.contract.drivers import actions

P = TreePath
MIB = 1 << 20


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with servers.moto_s3() as endpoint:
        yield endpoint


class Bucket:
    """A bucket of its own on moto, seen from behind the driver's back."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint, self.name = endpoint, f"b{uuid4().hex}"
        keys = {"aws_access_key_id": "x", "aws_secret_access_key": "y"}
        self.client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
        self.client.create_bucket(Bucket=self.name)

    def options(self, **more: Any) -> s3.S3Options:
        values = {"sign_url_expire": 0, **servers.s3_options(self.endpoint, self.name)}
        return s3.S3Options.model_validate(values | more)

    def put(self, *keys: str, content: bytes = b"x") -> None:
        """Past moto's HTTP, which takes 5 ms for an object and refuses some keys."""
        for key in keys:
            s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(self.name, key, content)

    def keys(self) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return sorted(item["Key"] for page in pages for item in page.get("Contents", []))

    def dangling(self) -> int:
        return len(self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", []))


@pytest.fixture
def bucket(moto: str) -> Bucket:
    return Bucket(moto)


def used(options: s3.S3Options, work: Callable[[s3.S3], Awaitable[Any]], modified: float = 0.0) -> Any:
    """What `work` answers on a started driver."""

    async def whole() -> Any:
        driver = s3.S3(options, DriverContext(modified=modified))
        await driver.start()
        try:
            return await work(driver)
        finally:
            await driver.stop()

    return asyncio.run(whole())


async def many(size: int, block: int = MIB) -> AsyncIterator[bytes]:
    for start in range(0, size, block):
        yield bytes(min(block, size - start))


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield bytes(MIB)
        await asyncio.sleep(0)


def test_the_form_is_as_published() -> None:
    described = {item.name: item._asdict() for item in s3.S3Options.list_form_items()}
    assert list(described) == [
        "root_folder_path", "bucket", "endpoint", "region", "access_key_id", "secret_access_key", "session_token",
        "custom_host", "enable_custom_host_presign", "sign_url_expire", "placeholder", "force_path_style",
        "list_object_version", "remove_bucket", "add_filename_to_disposition", "enable_direct_upload",
        "direct_upload_host", "user_agent",
    ]  # fmt: skip
    required = {name for name, item in described.items() if item["required"]}
    assert required == {"root_folder_path", "bucket", "endpoint", "access_key_id", "secret_access_key"}
    defaults = {name: item["default"] for name, item in described.items() if item["default"]}
    assert defaults == {
        "root_folder_path": "/", "sign_url_expire": "4", "list_object_version": "v1", "enable_direct_upload": "false",
    }  # fmt: skip
    assert described["list_object_version"]["options"] == "v1,v2"
    assert s3.S3Options.list_secrets() >= {"secret_access_key", "session_token"}


def test_start_refuses_what_cannot_work(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_: s3.S3) -> None: ...

    with pytest.raises(StorageProblem, match="bucket is required"):
        used(bucket.options(bucket=""), nothing)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mangrovelocal")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mangrovelocal")
    with pytest.raises(StorageProblem, match="are required on this machine"):
        used(bucket.options(access_key_id="", secret_access_key=""), nothing)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "role")
    used(bucket.options(access_key_id="", secret_access_key=""), nothing)


@pytest.mark.parametrize("size", [0, 5, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 20 * MIB])
@pytest.mark.parametrize("known", [True, False])
def test_bodies_of_all_sizes_come_back(bucket: Bucket, size: int, known: bool) -> None:
    written = os.urandom(size)

    async def work(driver: s3.S3) -> tuple[int, bytes, bytes]:
        chunks = (written[start : start + 700_001] for start in range(0, size, 700_001))
        upload = Upload(size if known else None, 1.7e9, "text/x-test")
        entry = await driver.write(P("/f"), actions.body(*chunks), upload)
        return entry.size, await actions.content(driver, "/f"), await actions.content(driver, "/f", size // 2, 3)

    expected = written[size // 2 : size // 2 + 3]
    if not size:
        with pytest.raises(StorageProblem):
            used(bucket.options(), work)
        return
    assert used(bucket.options(), work) == (size, written, expected)
    assert bucket.client.head_object(Bucket=bucket.name, Key="f")["ContentType"] == "text/x-test"


def test_a_body_of_one_part_is_one_put(bucket: Bucket) -> None:
    async def work(driver: s3.S3) -> base.Entry:
        return await driver.write(P("/f"), many(8 * MIB), Upload(8 * MIB, 1.7e9))

    entry = used(bucket.options(), work)
    assert "-" not in entry.etag


@pytest.mark.parametrize("size", [3, 9 * MIB])
@pytest.mark.parametrize("announced", [1, 8 * MIB, 30 * MIB])
def test_another_size_than_announced_stores_nothing(bucket: Bucket, size: int, announced: int) -> None:
    bucket.put("f", content=b"old")
    with pytest.raises(BadRequest, match="instead of the announced"):
        used(bucket.options(), lambda driver: driver.write(P("/f"), many(size), Upload(announced, 1.7e9)))
    assert (bucket.keys(), bucket.dangling()) == (["f"], 0)
    assert bucket.client.get_object(Bucket=bucket.name, Key="f")["Body"].read() == b"old"


def test_a_cut_body_leaves_no_upload_behind(bucket: Bucket) -> None:
    bucket.put("f", content=b"old")
    with pytest.raises(ConnectionResetError):
        used(bucket.options(), lambda driver: driver.write(P("/f"), actions.cut(bytes(30 * MIB)), Upload(None, 1.7e9)))
    assert (bucket.keys(), bucket.dangling()) == (["f"], 0)
    assert bucket.client.get_object(Bucket=bucket.name, Key="f")["Body"].read() == b"old"


@pytest.mark.parametrize("operation", ["create_multipart_upload", "upload_part"])
def test_a_cancelled_write_leaves_no_upload_behind(bucket: Bucket, operation: str) -> None:
    async def work(driver: s3.S3) -> list[str]:
        reached, happened = threading.Event(), []
        plain = {name: getattr(driver.client, name) for name in (operation, "abort_multipart_upload")}

        def slow(**arguments: Any) -> Any:
            reached.set()
            answer = plain[operation](**arguments)
            time.sleep(0.3)
            happened.append(operation)
            return answer

        def abort(**arguments: Any) -> Any:
            happened.append("abort")
            return plain["abort_multipart_upload"](**arguments)

        setattr(driver.client, operation, slow)
        driver.client.abort_multipart_upload = abort
        writing = asyncio.create_task(driver.write(P("/f"), endless(), Upload(None, 1.7e9)))
        await asyncio.to_thread(reached.wait, 10)
        await asyncio.sleep(0.1)
        writing.cancel()
        await asyncio.wait([writing])
        assert writing.cancelled()
        await asyncio.sleep(0.5)
        return happened

    happened = used(bucket.options(), work)
    assert happened[-1] == "abort"
    assert (bucket.keys(), bucket.dangling()) == ([], 0)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_listing_comes_in_pages_without_what_is_no_entry(bucket: Bucket, version: str) -> None:
    wanted = [f"ä file {number:04}+%&.txt" for number in range(2500)]
    hidden = ["", ".mangrove", "back\\slash", "line\nfeed", ".", ".."]
    bucket.put(*(f"in/d/{name}" for name in [*wanted, *hidden]))

    async def work(driver: s3.S3) -> list[list[base.Entry]]:
        return [list(batch) async for batch in driver.list(P("/d"))]

    options = bucket.options(root_folder_path="/in", list_object_version=version)
    batches = used(options, work)
    entries = [entry for batch in batches for entry in batch]
    assert len(batches) == 3
    assert sorted(entry.name for entry in entries) == wanted
    assert abs(entries[0].modified - time.time()) < 600


# moto's v1 says that it encodes and does not encode common prefixes
@pytest.mark.parametrize(("version", "name"), [("v1", "ä folder"), ("v2", "ä folder +%&")])
def test_a_folder_is_as_old_as_its_storage(bucket: Bucket, version: str, name: str) -> None:
    bucket.put(f"d/{name}/deep/f", "d/f")
    options = bucket.options(list_object_version=version)
    entries = used(options, lambda driver: base.list_all(driver, P("/d")), modified=1234.0)
    folders = [entry for entry in entries if entry.is_dir]
    assert folders == [base.Entry(name, 0, 1234.0, True)]
    assert used(options, lambda driver: driver.stat(P(f"/d/{name}")), modified=1234.0) == folders[0]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_only_the_chosen_list_call_is_used(bucket: Bucket, version: str) -> None:
    bucket.put("d/f")
    seen: set[str] = set()

    async def work(driver: s3.S3) -> None:
        driver.client.meta.events.register("before-call.s3", lambda model, **_: seen.add(model.name))
        await driver.stat(P("/d"))
        await driver.rename(P("/d"), P("/e"))
        await driver.remove(P("/e"))

    used(bucket.options(list_object_version=version), work)
    assert {name for name in seen if name.startswith("List")} == {"ListObjectsV2" if version == "v2" else "ListObjects"}


def test_an_empty_folder_is_there_and_a_file_is_none(bucket: Bucket) -> None:
    bucket.put("f")

    async def work(driver: s3.S3) -> None:
        await driver.makedirs(P("/a/b"))
        assert await actions.names(driver, "/a/b") == []
        assert (await driver.stat(P("/a"))).is_dir
        await actions.fails(base.list_all(driver, P("/f")), NotSupported)
        await actions.fails(driver.read(P("/missing"), 0, 0), NotFound)
        for path in ("/f", "/f/below"):
            await actions.fails(driver.makedirs(P(path)), Exists)

    used(bucket.options(), work)
    assert bucket.keys() == ["a/b/.mangrove", "f"]


def test_a_missing_bucket_is_named_as_the_reason(bucket: Bucket) -> None:
    with pytest.raises(StorageProblem, match="bucket does not exist"):
        used(bucket.options(bucket="nosuchbucket"), lambda driver: base.list_all(driver, P("/")))


def test_folders_move_whole_and_leave_their_parent(bucket: Bucket) -> None:
    for key in ("p/ä +%&/f", "p/ä +%&/sub/g"):
        bucket.put(key, content=key.encode())
    used(bucket.options(), lambda driver: driver.move(P("/p/ä +%&"), P("/q")))
    assert bucket.keys() == ["p/.mangrove", "q/f", "q/sub/g"]
    used(bucket.options(), lambda driver: driver.copy(P("/q"), P("/p/r +%")))
    assert bucket.keys() == ["p/.mangrove", "p/r +%/f", "p/r +%/sub/g", "q/f", "q/sub/g"]
    used(bucket.options(), lambda driver: driver.remove(P("/q")))
    assert bucket.keys() == ["p/.mangrove", "p/r +%/f", "p/r +%/sub/g"]


@pytest.mark.parametrize("verb", ["move", "copy"])
def test_more_than_a_thousand_objects_need_a_task(bucket: Bucket, verb: str) -> None:
    bucket.put(*(f"d/{number:04}" for number in range(1001)))
    before = bucket.keys()
    with pytest.raises(NotSupported):
        used(bucket.options(), lambda driver: getattr(driver, verb)(P("/d"), P("/e")))
    assert bucket.keys() == before
    used(bucket.options(), lambda driver: driver.remove(P("/d")))
    assert bucket.keys() == []


def test_the_root_is_never_removed(bucket: Bucket) -> None:
    bucket.put("keep")
    with pytest.raises(Forbidden):
        used(bucket.options(), lambda driver: driver.remove(P("/")))
    assert bucket.keys() == ["keep"]


def test_a_great_object_is_work_for_a_task_that_lets_the_server_copy_it_in_parts(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3copy, "LARGEST_COPY", 6 * MIB)
    written = os.urandom(13 * MIB)
    bucket.put("a +%ä", content=written)
    source, target, upload = P("/a +%ä"), P("/b"), Upload(len(written), 0.0)
    for verb in ("copy", "move"):
        with pytest.raises(NotSupported):
            used(bucket.options(), lambda driver, verb=verb: getattr(driver, verb)(source, target))
    assert bucket.keys() == ["a +%ä"]

    async def in_parts(driver: s3.S3) -> Entry:
        token = await driver.begin(target, upload, make_parts_key())
        receipts = [
            await driver.copy_part_from(
                driver, source, target, token, number, start, min(5 * MIB, len(written) - start)
            )
            for number, start in enumerate(range(0, len(written), 5 * MIB), 1)
        ]
        return await driver.finish(target, token, receipts, upload)

    assert used(bucket.options(), in_parts).size == len(written)
    found = bucket.client.get_object(Bucket=bucket.name, Key="b")
    assert found["Body"].read() == written
    assert found["ETag"].strip('"').endswith("-3")
    assert (bucket.keys(), bucket.dangling()) == (["a +%ä", "b"], 0)


def test_links_give_the_bytes_under_their_name(bucket: Bucket) -> None:
    bucket.put("a b+ä.txt", content=b"linked")
    link = used(bucket.options(add_filename_to_disposition=True), lambda driver: driver.link(P("/a b+ä.txt")))
    answer = httpx.get(link.url)
    assert (answer.status_code, answer.content, link.lifetime) == (200, b"linked", 4 * 3600)
    name = "a%20b%2B%C3%A4.txt"
    assert answer.headers["content-disposition"] == f"attachment; filename=\"{name}\"; filename*=utf-8''{name}"
    plain = used(bucket.options(sign_url_expire=1000), lambda driver: driver.link(P("/a b+ä.txt")))
    assert plain.lifetime == 7 * 24 * 3600  # no signature is valid for longer
    assert "X-Amz-Expires=604800" in plain.url
    assert httpx.get(plain.url).headers["content-disposition"] == "attachment"


def test_a_custom_host_takes_the_place_of_the_endpoint(bucket: Bucket) -> None:
    async def link(driver: s3.S3) -> str:
        return (await driver.link(P("/f"))).url

    assert used(bucket.options(custom_host="cdn.test"), link) == f"https://cdn.test/{bucket.name}/f"
    assert used(bucket.options(custom_host="http://cdn.test", remove_bucket=True), link) == "http://cdn.test/f"
    signed = used(bucket.options(custom_host="cdn.test", enable_custom_host_presign=True), link)
    assert signed.startswith(f"https://cdn.test/{bucket.name}/f?")
    assert "X-Amz-Signature=" in signed


@contextmanager
def odd(status: int, content: bytes, announced: int | None = None) -> Iterator[s3.S3Options]:
    """A server that answers everything the same; one that announces more than it has stays silent after it."""
    over = threading.Event()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(announced or len(content)))
            self.end_headers()
            self.wfile.write(content)
            if announced:
                self.wfile.flush()
                over.wait(20)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        values = {"sign_url_expire": 0, **servers.s3_options(endpoint, "bucket")}
        yield s3.S3Options.model_validate(values)
    finally:
        over.set()
        server.shutdown()
        server.server_close()


def test_a_server_without_ranges_never_gives_wrong_bytes() -> None:
    with odd(200, b"0123456789") as options:
        with pytest.raises(StorageProblem, match="ranges"):
            used(options, lambda driver: actions.content(driver, "/f", 4))


def test_leaving_a_stalled_body_holds_nobody_up() -> None:
    async def work(driver: s3.S3) -> float:
        stream: Any = await driver.read(P("/f"))
        async for _ in stream:
            break
        await asyncio.sleep(0.2)  # the next block is being waited for
        began = time.monotonic()
        await stream.aclose()
        return time.monotonic() - began

    with odd(200, bytes(base.BLOCK + 1), announced=9 * MIB) as options:
        assert used(options, work) < 1


PAGE = (
    b"<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a</Key><Size>1</Size>"
    b"<LastModified>2026-01-01T00:00:00Z</LastModified></Contents></ListBucketResult>"
)


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (200, PAGE, Unreachable),  # the same page for ever
        (200, PAGE.replace(b"<Size>1</Size>", b""), StorageProblem),
        (200, b"<html>not closed", Unreachable),
        (403, b"<Error><Code>SignatureDoesNotMatch</Code><Message>AKIDTEST</Message></Error>", Forbidden),
        (501, b"<Error><Code>NotImplemented</Code></Error>", NotSupported),
        (503, b"<Error><Code>SlowDown</Code></Error>", Unreachable),
    ],
)
def test_odd_answers_to_a_listing_end_it(status: int, content: bytes, kind: type[StorageProblem]) -> None:
    with odd(status, content) as options:
        with pytest.raises(kind) as caught:
            used(options, lambda driver: base.list_all(driver, P("/")))
    assert "TEST" not in caught.value.message


def test_parts_grow_with_the_announced_size() -> None:
    async def call(operation: str, **arguments: Any) -> None: ...

    for size in (1, 80 << 30, 5 << 40):
        part = s3upload.Store(call, "k", Upload(size, 1.7e9))._part
        assert part >= s3upload.PART
        assert part * s3upload.MOST_PARTS >= size


def test_an_empty_folder_goes_and_one_whose_names_cannot_be_shown_stays(bucket: Bucket) -> None:
    bucket.put("odd/.mangrove", "odd/a\\b.txt", "empty/.mangrove", "empty/")

    async def work(driver: s3.S3) -> list[bool]:
        return [await driver.remove_empty(P(path)) for path in ("/odd", "/empty", "/missing")]

    assert used(bucket.options(), work) == [False, True, True]
    assert bucket.keys() == ["odd/.mangrove", "odd/a\\b.txt"]


def test_what_is_under_way_when_a_storage_is_stopped_goes_on_and_then_its_threads_end(bucket: Bucket) -> None:
    bucket.put("large", content=bytes(6 * MIB))
    threads: list[threading.Thread] = []

    async def work(driver: s3.S3) -> int:
        async def body() -> AsyncIterator[bytes]:
            async for block in many(18 * MIB):
                if not threads:
                    threads.extend(one for one in threading.enumerate() if one.name.startswith("s3"))
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

    assert used(bucket.options(), work) == 6 * MIB
    assert bucket.client.head_object(Bucket=bucket.name, Key="new")["ContentLength"] == 18 * MIB
    assert bucket.dangling() == 0
    assert threads
    gc.collect()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()
