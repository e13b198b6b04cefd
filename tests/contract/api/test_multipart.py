"""Uploads in parts over HTTP."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from threading import Event
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests import servers
from tests.contract.api import fixtures
from tests.contract.api.fixtures import check_failure
from tests.contract.api.multipart_client import MIB, MultipartClient, format_crc32
from tests.contract.api.task_client import wait_until
from tests.contract.api.upload_client import read_stored
from tests.support.service import Client, Service, run_forked

CONTENT = os.urandom(2 * MIB + 77)
CHUNKS = [CONTENT[start : start + MIB] for start in range(0, len(CONTENT), MIB)]
SNAPSHOT = {
    "upload_id", "state", "attempt", "path", "size", "chunk_size", "total_chunks", "received", "received_bytes",
    "frontier", "storage_progress", "direct",
}  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One of its own: uploads that are not completed leave what they have in staging, at which other tests look."""
    with run_forked(tmp_path_factory.mktemp("multipart") / "data") as service:
        yield service


@pytest.fixture(scope="module")
def admin(service: Service) -> Client:
    return service.client()


@pytest.fixture
def multipart(admin: Client) -> MultipartClient:
    return MultipartClient(admin)


def send_all(multipart: MultipartClient, id: str) -> None:
    for index, content in enumerate(CHUNKS):
        assert multipart.chunk(id, index, content)["code"] == 200


def is_stored(service: Service, path: str, content: bytes = CONTENT) -> bool:
    try:
        return read_stored(service, path) == content
    except FileNotFoundError:
        return False


def test_chunks_in_any_order_become_the_file(service: Service, multipart: MultipartClient, folder: str) -> None:
    path = f"{folder}/new/a b+ä%.bin"
    begun = multipart.begin(path, len(CONTENT))
    assert set(begun) == SNAPSHOT | {"resumed"}
    assert (begun["state"], begun["received"], begun["resumed"], begun["direct"]) == ("receiving", None, False, False)
    assert (begun["path"], begun["size"], begun["chunk_size"], begun["total_chunks"]) == (path, len(CONTENT), MIB, 3)
    id = begun["upload_id"]
    assert multipart.chunk(id, 2, CHUNKS[2])["data"]["received"] == [[2, 2]]
    assert multipart.chunk(id, 0, b"x" * MIB)["data"]["frontier"] == 1
    missing = multipart.complete(id)
    check_failure(missing, 400, f"cannot complete: {MIB + 77} of {len(CONTENT)} bytes received, chunks that are "
                  "missing or have another size: 1")  # fmt: skip
    assert multipart.chunk(id, 1, CHUNKS[1], x_chunk_crc32=format_crc32(CHUNKS[1]))["data"]["received"] == [[0, 2]]
    assert multipart.chunk(id, 0, CHUNKS[0])["data"]["received_bytes"] == len(CONTENT)  # it replaces what was there
    done = multipart.complete(id)
    assert (done["code"], done["data"]["state"], done["data"]["task"]["status"]) == (200, "completed", "uploading")
    wait_until(lambda: is_stored(service, path))
    again = multipart.complete(id)["data"]
    assert (again["state"], again["received"], again["received_bytes"]) == ("completed", [[0, 2]], len(CONTENT))


def test_what_is_no_upload_is_refused(multipart: MultipartClient, folder: str) -> None:
    path = f"{folder}/x"
    check_failure(multipart.init(path, "many"), 400, "X-File-Size is not a number of bytes")
    check_failure(multipart.init(path, ""), 400, "multipart upload requires a valid X-File-Size header")
    check_failure(
        multipart.init(path, 0), 400,
        "multipart upload requires a positive X-File-Size; upload empty files via /fs/put",
    )  # fmt: skip
    check_failure(multipart.init(path, 5 << 50), 413, "at most 671088640000 bytes can be uploaded in parts there")
    for answer in (multipart.complete("x"), multipart.abort("x"), multipart.chunk("x", 0, b""), multipart.status(
        upload_id="x"), multipart.status(path=path, size=7)):  # fmt: skip
        check_failure(answer, 404, "multipart upload session not found")
    check_failure(multipart.status(path=path), 400, "upload_id, or path and size, are required")


def test_a_chunk_that_is_not_what_was_announced_changes_nothing(multipart: MultipartClient, folder: str) -> None:
    id = multipart.begin(f"{folder}/x", len(CONTENT))["upload_id"]
    assert multipart.chunk(id, 0, CHUNKS[0])["code"] == 200
    check_failure(multipart.chunk(id, "x", b""), 400, "X-Chunk-Index is not a number")
    check_failure(multipart.chunk(id, 3, b""), 400, "there is no chunk 3: the upload has 3")
    check_failure(multipart.chunk(id, 2, b"short"), 400, "chunk 2 has 5 bytes instead of 77")
    check_failure(multipart.chunk(id, 2, b"x" * 78), 400, "chunk 2 has more than its 77 bytes")
    wrong = multipart.chunk(id, 0, b"y" * MIB, x_chunk_crc32="AAAAAA==")
    check_failure(wrong, 400, "chunk 0 does not have the CRC-32 that was given")
    assert multipart.status(upload_id=id)["data"]["received"] == [[0, 0]]


def test_the_same_file_goes_on_where_it_was(service: Service, multipart: MultipartClient, folder: str) -> None:
    path, told = f"{folder}/x", {"last_modified": "1700000000000"}
    id = multipart.begin(path, len(CONTENT), **told)["upload_id"]
    multipart.chunk(id, 1, CHUNKS[1])
    other = MultipartClient(service.client())
    again = other.begin(path, len(CONTENT), **told)
    assert (again["upload_id"], again["resumed"], again["received"]) == (id, True, [[1, 1]])
    assert other.status(path=path, size=len(CONTENT))["data"]["upload_id"] == id
    for different in ({"last_modified": "1700000000001"}, told | {"x_file_sha256": "00"}, {}):
        assert other.begin(path, len(CONTENT), **different)["resumed"] is False
    assert other.begin(path, len(CONTENT) + 1, **told)["upload_id"] != id


def test_a_session_is_its_users_alone(service: Service, admin: Client, multipart: MultipartClient, folder: str) -> None:
    id = multipart.begin(f"{folder}/x", 5)["upload_id"]
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as user:
        other = MultipartClient(user)
        for answer in (other.chunk(id, 0, b"12345"), other.complete(id), other.abort(id), other.status(upload_id=id)):
            check_failure(answer, 403, "multipart upload session belongs to another user")
        signing = user.post("/api/fs/multipart/sign", upload_id=id, chunks=[])
        check_failure(signing, 403, "multipart upload session belongs to another user")


def test_rights_are_checked_at_the_beginning_and_at_the_end(
    service: Service, admin: Client, multipart: MultipartClient, folder: str
) -> None:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~fixtures.WRITE) as reader:
        check_failure(MultipartClient(reader).init(f"{folder}/x", 5), 403, "permission denied")
    with fixtures.user(service, admin, fixtures.WRITE) as writer:
        theirs = MultipartClient(writer)
        id = theirs.begin(f"{folder}/x", 5)["upload_id"]
        assert theirs.chunk(id, 0, b"12345")["code"] == 200
        with fixtures.meta(admin, folder, write_users=[0]):
            check_failure(theirs.complete(id), 403, "permission denied")
            check_failure(theirs.chunk(id, 0, b"67890"), 403, "permission denied")
        assert admin.names(folder) == []
        assert theirs.complete(id)["code"] == 200
        wait_until(lambda: is_stored(service, f"{folder}/x", b"12345"))


def test_token_that_is_revoked_between_two_chunks_sends_no_more(
    service: Service, admin: Client, multipart: MultipartClient, folder: str
) -> None:
    token = admin.ok("/api/me/token/create", title=uuid4().hex, protocols=["api"])
    by_token = MultipartClient(Client(service.address, f"Bearer {token['token']}"))
    id = by_token.begin(f"{folder}/x", len(CONTENT))["upload_id"]
    assert by_token.chunk(id, 0, CHUNKS[0])["code"] == 200
    admin.ok("/api/me/token/delete", params={"id": token["id"]})
    for answer in (by_token.chunk(id, 1, CHUNKS[1]), by_token.complete(id), by_token.abort(id)):
        check_failure(answer, 401, "token is invalidated")
    assert multipart.status(upload_id=id)["data"]["received"] == [[0, 0]]
    send_all(multipart, id)
    assert multipart.complete(id)["code"] == 200, "its owner continues"
    wait_until(lambda: is_stored(service, f"{folder}/x"))


def test_what_is_there_is_replaced_only_when_that_is_wanted(
    service: Service, admin: Client, multipart: MultipartClient, folder: str
) -> None:
    path = f"{folder}/x"
    id = multipart.begin(path, 5, overwrite="false")["upload_id"]
    assert multipart.chunk(id, 0, b"parts")["code"] == 200
    assert admin.put(path, b"put")["code"] == 200
    check_failure(multipart.complete(id), 403, "file exists")
    check_failure(multipart.init(path, 5, overwrite="false"), 403, "file exists")
    assert read_stored(service, path) == b"put"
    other = multipart.begin(path, 5)["upload_id"]
    multipart.chunk(other, 0, b"other")
    assert multipart.complete(other)["code"] == 200
    wait_until(lambda: is_stored(service, path, b"other"))


def test_an_upload_that_is_given_up_leaves_nothing(service: Service, multipart: MultipartClient, folder: str) -> None:
    staging = service.data / "staging"
    before = set(os.listdir(staging))
    id = multipart.begin(f"{folder}/x", len(CONTENT))["upload_id"]
    multipart.chunk(id, 0, CHUNKS[0])
    assert set(os.listdir(staging)) - before
    assert multipart.abort(id)["data"]["state"] == "aborted"
    assert set(os.listdir(staging)) <= before
    assert multipart.abort(id)["code"] == 200
    check_failure(multipart.complete(id), 400, "upload failed (aborted): it takes no more chunks")
    check_failure(multipart.chunk(id, 0, CHUNKS[0]), 400, "upload failed (aborted): it takes no more chunks")


def test_a_hash_that_does_not_fit_ends_the_upload(service: Service, multipart: MultipartClient, folder: str) -> None:
    good, bad = sha256(b"12345").hexdigest(), "ab" * 32
    for digest, code in ((good, 200), (bad, 400)):
        id = multipart.begin(f"{folder}/{code}", 5, x_file_sha256=digest)["upload_id"]
        multipart.chunk(id, 0, b"12345")
        assert multipart.complete(id)["code"] == code
    wait_until(lambda: is_stored(service, f"{folder}/200", b"12345"))
    failed = multipart.status(upload_id=id)["data"]
    reason = "the received bytes do not match X-File-Sha256"
    assert (failed["state"], failed["error"]) == ("failed_permanent", reason)


def test_the_settings_switch_it_off_and_bound_its_chunks(
    admin: Client, multipart: MultipartClient, folder: str
) -> None:
    def save(**values: str) -> None:
        admin.envelope(
            admin.http.post(
                "/api/admin/setting/save", json=[{"key": key, "value": value} for key, value in values.items()]
            )
        )

    path, size = f"{folder}/x", 500 * MIB
    try:
        save(multipart_chunk_size="3")
        assert multipart.begin(path, size, 9 * MIB)["chunk_size"] == 3 * MIB
        assert multipart.begin(path, size, 1)["chunk_size"] == MIB
        save(multipart_enabled="false")
        check_failure(multipart.init(path, size), 403, "multipart upload is disabled")
    finally:
        save(multipart_chunk_size="10", multipart_enabled="true")
    assert multipart.begin(path, 40_000 * MIB, MIB)["chunk_size"] == 4 * MIB  # else they were too many


def test_many_completions_at_once_store_one_file(service: Service, multipart: MultipartClient, folder: str) -> None:
    id = multipart.begin(f"{folder}/x", len(CONTENT))["upload_id"]
    send_all(multipart, id)
    with ThreadPoolExecutor(4) as pool:
        answers = [job.result() for job in [pool.submit(multipart.complete, id) for _ in range(4)]]
    assert [answer["data"]["state"] for answer in answers] == ["completed"] * 4, answers
    assert len({answer["data"]["task"]["id"] for answer in answers if "task" in answer["data"]}) == 1
    wait_until(lambda: is_stored(service, f"{folder}/x"))


def test_the_same_chunk_is_stored_by_one_request_at_a_time(
    service: Service, multipart: MultipartClient, folder: str
) -> None:
    id = multipart.begin(f"{folder}/x", 5)["upload_id"]
    ending = Event()

    def body() -> Iterator[bytes]:
        yield b"12"
        ending.wait(60)
        yield b"345"

    headers = {"x-upload-id": id, "x-chunk-index": "0"}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(service.client().http.put, "/api/fs/multipart/chunk", content=body(), headers=headers)
        wait_until(lambda: multipart.complete(id)["code"] == 409)
        check_failure(multipart.chunk(id, 0, b"67890"), 409, "chunk is being uploaded by another request")
        ending.set()
        assert first.result().json()["code"] == 200
    assert multipart.complete(id)["code"] == 200
    wait_until(lambda: is_stored(service, f"{folder}/x", b"12345"))


@pytest.fixture(scope="module")
def bucket(s3: Callable[[], str], admin: Client) -> Any:
    endpoint, name = s3(), f"b{uuid4().hex}"
    with closing(servers.make_client("s3", endpoint)) as client:
        client.create_bucket(Bucket=name)
        options = servers.s3_options(endpoint, name, enable_direct_upload=True)
        with fixtures.mount(admin, "S3", addition=options) as path:
            yield path, name, client


class TestBucket:
    """Chunks that go straight to a bucket, with the addresses that the service signs."""

    def test_chunks_go_to_the_bucket_and_become_the_object(self, multipart: MultipartClient, bucket: Any) -> None:
        path, name, client = bucket
        content = os.urandom(5 * MIB + 3)
        begun = multipart.begin(f"{path}/d/x.bin", len(content))
        id = begun["upload_id"]
        assert (begun["direct"], begun["chunk_size"], begun["total_chunks"]) == (True, 5 * MIB, 2)
        assert multipart.send_signed(id, 1, content[5 * MIB :]).status_code == 200
        check_failure(
            multipart.complete(id), 400,
            f"cannot complete: 3 of {len(content)} bytes received, chunks that are missing or have another size: 0",
        )  # fmt: skip
        assert multipart.send_signed(id, 0, content[: 5 * MIB]).status_code == 200
        assert multipart.status(upload_id=id)["data"]["received"] == [[0, 1]]
        done = multipart.complete(id)["data"]
        assert (done["state"], done["storage_progress"], "task" in done) == ("completed", 100, False)
        assert client.get_object(Bucket=name, Key="d/x.bin")["Body"].read() == content
        assert multipart.complete(id)["code"] == 200
        assert "Uploads" not in client.list_multipart_uploads(Bucket=name)

    def test_a_chunk_may_pass_through_the_service_as_well(self, multipart: MultipartClient, bucket: Any) -> None:
        path, name, client = bucket
        id = multipart.begin(f"{path}/y", 5)["upload_id"]
        assert multipart.chunk(id, 0, b"12345")["data"]["received"] == [[0, 0]]
        assert multipart.complete(id)["data"]["state"] == "completed"
        assert client.get_object(Bucket=name, Key="y")["Body"].read() == b"12345"

    def test_size_and_checksum_are_bound_by_the_signature(self, admin: Client, multipart: MultipartClient,
                                                          bucket: Any) -> None:  # fmt: skip
        id = multipart.begin(f"{bucket[0]}/z", 5)["upload_id"]
        chunks = [{"index": 0, "crc32": format_crc32(b"12345")}]
        (signed_chunk,) = admin.ok("/api/fs/multipart/sign", upload_id=id, chunks=chunks)["chunks"]
        signed = httpx.URL(signed_chunk["url"]).params["X-Amz-SignedHeaders"].split(";")
        assert {"content-length", "host", "x-amz-checksum-crc32"} <= set(signed)
        assert signed_chunk["headers"] == {"x-amz-checksum-crc32": format_crc32(b"12345")}
        for chunk, why in (
            ({"index": 1, "crc32": "AAAAAA=="}, "there is no chunk 1: the upload has 1"),
            ({"index": 0, "crc32": "x"}, "the CRC-32 of chunk 0 is not four bytes in Base64"),
        ):
            check_failure(admin.post("/api/fs/multipart/sign", upload_id=id, chunks=[chunk]), 400, why)
        multipart.abort(id)

    def test_a_whole_file_goes_to_the_bucket(self, admin: Client, bucket: Any) -> None:
        path, name, client = bucket
        fields = {"path": path, "file_name": "whole ü.txt", "file_size": 5, "tool": "HttpDirect"}
        info = admin.ok("/api/fs/get_direct_upload_info", **fields)
        assert (info["method"], info["chunk_size"]) == ("PUT", 0)
        assert "content-length" in httpx.URL(info["upload_url"]).params["X-Amz-SignedHeaders"]
        answer = httpx.put(info["upload_url"], content=b"whole", headers=info["headers"], timeout=60)
        assert answer.status_code == 200, answer.text
        assert client.get_object(Bucket=name, Key="whole ü.txt")["Body"].read() == b"whole"
        taken = admin.http.post("/api/fs/get_direct_upload_info", json=fields, headers={"overwrite": "false"}).json()
        assert (taken["code"], taken["message"]) == (403, "file exists")

    def test_elsewhere_there_is_no_such_address(self, admin: Client, multipart: MultipartClient, folder: str) -> None:
        check_failure(
            admin.post("/api/fs/get_direct_upload_info", path=folder, file_name="x", file_size=1),
            500,
            "the storage cannot do this",
        )
        id = multipart.begin(f"{folder}/x", 5)["upload_id"]
        check_failure(admin.post("/api/fs/multipart/sign", upload_id=id, chunks=[]), 500, "the storage cannot do this")
        escape = admin.post("/api/fs/get_direct_upload_info", path="/%2e%2e", file_name="x", file_size=1)
        check_failure(escape, 403, "using relative path is not allowed")
