"""Bodies of uploads: hashes, chunks, interruptions, concurrent uploads.

Each file is stored completely or not at all.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.contract.api.fixtures import check_failure
from tests.contract.api.task_client import wait_until
from tests.contract.api.upload_client import (
    CUT,
    ROUTES,
    list_parts,
    open_upload,
    read_answer,
    read_stored,
    send,
)
from tests.support.service import Client, Service


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", ["md5", "sha1", "sha256"])
def test_a_right_hash_is_accepted_in_any_case(
    service: Service, admin: Client, folder: str, route: str, kind: str
) -> None:
    digest = hashlib.new(kind, b"content").hexdigest().upper()
    assert send(admin, route, f"{folder}/f", b"content", **{f"x_file_{kind}": digest})["code"] == 200
    assert read_stored(service, f"{folder}/f") == b"content"


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", ["md5", "sha1", "sha256"])
def test_a_wrong_hash_leaves_the_old_file(service: Service, admin: Client, folder: str, route: str, kind: str) -> None:
    admin.put(f"{folder}/f", b"old")
    digest = hashlib.new(kind, b"something else").hexdigest()
    message = f"the received bytes do not match X-File-{kind.capitalize()}"
    for name in ("f", "new"):
        check_failure(send(admin, route, f"{folder}/{name}", b"content", **{f"x_file_{kind}": digest}), 400, message)
    assert read_stored(service, f"{folder}/f") == b"old"
    assert admin.names(folder) == ["f"]
    wait_until(lambda: not list_parts(service, folder))


def test_a_hash_that_is_none_is_refused(admin: Client, folder: str) -> None:
    answer = send(admin, "put", f"{folder}/f", b"content", x_file_md5="not a hash")
    check_failure(answer, 400, "X-File-Md5 is not hexadecimal")
    assert admin.names(folder) == []


def test_a_chunked_body_needs_no_length(service: Service, admin: Client, folder: str) -> None:
    blocks = [bytes([number]) * 70_000 for number in range(20)]
    assert admin.put(f"{folder}/f", iter(blocks))["code"] == 200
    assert read_stored(service, f"{folder}/f") == b"".join(blocks)
    assert admin.put(f"{folder}/f", iter([b"12345"]), x_file_size="5")["code"] == 200
    assert read_stored(service, f"{folder}/f") == b"12345"


@pytest.mark.parametrize("announced", ["4", "6"])
def test_a_chunked_body_of_another_size_than_announced_leaves_the_old_file(
    service: Service, admin: Client, folder: str, announced: str
) -> None:
    admin.put(f"{folder}/f", b"old")
    answer = admin.put(f"{folder}/f", iter([b"12345"]), x_file_size=announced)
    check_failure(answer, 400, f"the body has 5 bytes instead of the announced {announced}")
    assert read_stored(service, f"{folder}/f") == b"old"
    wait_until(lambda: not list_parts(service, folder))


def test_a_content_length_wins_over_x_file_size(service: Service, admin: Client, folder: str) -> None:
    assert send(admin, "put", f"{folder}/f", b"12345", x_file_size="99")["code"] == 200
    assert read_stored(service, f"{folder}/f") == b"12345"
    check_failure(
        send(admin, "put", f"{folder}/f", b"12345", x_file_size="-1"), 400, "X-File-Size is not a number of bytes"
    )


@pytest.mark.parametrize("way", sorted(CUT))
@pytest.mark.parametrize("old", [b"old", None])
def test_a_body_that_is_cut_leaves_nothing_behind(
    service: Service, admin: Client, folder: str, way: str, old: bytes | None
) -> None:
    route, lines, body = CUT[way]
    if old is not None:
        admin.put(f"{folder}/f", old)
    with open_upload(admin, f"{folder}/f", *lines, route=route) as connection:
        connection.sendall(body)
        wait_until(lambda: bool(list_parts(service, folder)))
        assert admin.names(folder) == ([] if old is None else ["f"])
    wait_until(lambda: not list_parts(service, folder))
    assert admin.names(folder) == ([] if old is None else ["f"])
    if old is not None:
        assert read_stored(service, f"{folder}/f") == old


def test_a_malformed_chunk_leaves_nothing_behind(service: Service, admin: Client, folder: str) -> None:
    with open_upload(admin, f"{folder}/f", "Transfer-Encoding: chunked") as connection:
        connection.sendall(b"5\r\nabcde\r\n")
        wait_until(lambda: bool(list_parts(service, folder)))
        connection.sendall(b"not a size\r\n")
        wait_until(lambda: not list_parts(service, folder))
    assert admin.names(folder) == []


def test_the_old_file_is_served_whole_until_the_new_one_is_there(service: Service, admin: Client, folder: str) -> None:
    admin.put(f"{folder}/f", b"old")
    new = b"new" * 100_000  # a small body waits in memory
    with open_upload(admin, f"{folder}/f", f"Content-Length: {len(new)}") as connection:
        connection.sendall(new[:-1])
        wait_until(lambda: bool(list_parts(service, folder)))
        assert admin.bytes(f"{folder}/f").content == b"old"
        connection.sendall(new[-1:])
        assert read_answer(connection)["code"] == 200
    assert admin.bytes(f"{folder}/f").content == new


def test_of_two_uploads_at_once_one_is_stored_whole(service: Service, admin: Client, folder: str) -> None:
    bodies = [bytes([number]) * 1_500_000 for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda body: send(admin, "put", f"{folder}/f", body), bodies))
    assert [answer["code"] for answer in answers] == [200] * 4
    assert read_stored(service, f"{folder}/f") in bodies
    wait_until(lambda: not list_parts(service, folder))


@pytest.mark.parametrize("route", ROUTES)
def test_of_two_uploads_at_once_that_overwrite_nothing_one_is_refused(
    service: Service, admin: Client, folder: str, route: str
) -> None:
    for number in range(8):
        path, contents = f"{folder}/{number}", [bytes([65 + index]) * 300_000 for index in range(2)]

        def store(content: bytes, path: str = path) -> dict[str, Any]:
            return send(Client(admin.address, admin.token), route, path, content, overwrite="false")

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(store, contents))
        assert sorted(answer["code"] for answer in answers) == [200, 403]
        assert {answer["message"] for answer in answers} == {"success", "file exists"}
        assert read_stored(service, path) == contents[[answer["code"] for answer in answers].index(200)]
    wait_until(lambda: not list_parts(service, folder))
