"""Uploads over HTTP: whole or not at all, refused before their bytes are read (behaviour 5.14, 5.15)."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from tests.contract.api import fixtures
from tests.service import PART, Client, Service

ROUTES = ["put", "form"]


def list_parts(service: Service, folder: str) -> list[str]:
    """The unfinished uploads to a folder."""
    return service.unfinished(fixtures.disk(service, folder))


def read_stored(service: Service, path: str) -> bytes:
    return fixtures.disk(service, path).read_bytes()


def send(client: Client, route: str, path: str, content: bytes, **headers: str) -> dict[str, Any]:
    """Upload by either route."""
    extra = {"file-path": quote(path)} | {name.replace("_", "-"): value for name, value in headers.items()}
    if route == "put":
        return client.envelope(client.http.put("/api/fs/put", content=content, headers=extra))
    return client.envelope(client.http.put("/api/fs/form", files={"file": ("ignored", content)}, headers=extra))


def form(client: Client, path: str, body: bytes, kind: str = "multipart/form-data; boundary=b") -> dict[str, Any]:
    """A form upload written by hand."""
    headers = {"file-path": quote(path), "content-type": kind}
    return client.envelope(client.http.put("/api/fs/form", content=body, headers=headers))


def check_failure(answer: dict[str, Any], code: int, message: str) -> None:
    assert (answer["code"], answer["message"], answer["data"]) == (code, message, None)


def wait_until(reached: Callable[[], bool]) -> None:
    """Wait for it, 10 seconds at most."""
    end = time.monotonic() + 10
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextmanager
def open_upload(client: Client, path: str, *lines: str, route: str = "put") -> Iterator[socket.socket]:
    """A connection on which the head of an upload was sent."""
    address = urlsplit(client.address)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        head = [f"PUT /api/fs/{route} HTTP/1.1", f"Host: {address.netloc}", f"File-Path: {quote(path)}", *lines]
        if client.token:
            head.append(f"Authorization: {client.token}")
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        yield connection


def read_answer(connection: socket.socket) -> dict[str, Any]:
    """The envelope that arrives on a connection."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += receive(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    fields = [line.partition(b":") for line in head.lower().split(b"\r\n")]
    length = next(int(value) for name, _, value in fields if name == b"content-length")
    while len(body) < length:
        body += receive(connection)
    found: dict[str, Any] = json.loads(body)
    return found


def receive(connection: socket.socket) -> bytes:
    block = connection.recv(65536)
    assert block, "the connection ended before the answer"
    return block


@pytest.mark.parametrize("route", ROUTES)
def test_an_upload_stores_the_bytes_and_answers_null(service: Service, admin: Client, folder: str, route: str) -> None:
    content = bytes(range(256)) * 5000
    answer = send(admin, route, f"{folder}/data.bin", content)
    assert (answer["code"], answer["message"], answer["data"]) == (200, "success", None)
    assert read_stored(service, f"{folder}/data.bin") == content
    assert admin.ok("/api/fs/get", path=f"{folder}/data.bin")["size"] == len(content)
    assert list_parts(service, folder) == []


@pytest.mark.parametrize("route", ROUTES)
def test_an_empty_body_makes_an_empty_file(service: Service, admin: Client, folder: str, route: str) -> None:
    assert send(admin, route, f"{folder}/empty", b"")["code"] == 200
    assert read_stored(service, f"{folder}/empty") == b""
    assert admin.ok("/api/fs/get", path=f"{folder}/empty")["size"] == 0


@pytest.mark.parametrize("route", ROUTES)
def test_missing_folders_are_made_on_the_way(service: Service, admin: Client, folder: str, route: str) -> None:
    assert admin.names(folder) == []
    assert send(admin, route, f"{folder}/a/b/c.txt", b"deep")["code"] == 200
    assert read_stored(service, f"{folder}/a/b/c.txt") == b"deep"
    assert admin.names(folder) == ["a"]


@pytest.mark.parametrize("route", ROUTES)
def test_an_upload_replaces_unless_overwrite_is_exactly_false(
    service: Service, admin: Client, folder: str, route: str
) -> None:
    path = f"{folder}/file"
    for number, overwrite in enumerate(["", "true", "False", "0"]):
        assert send(admin, route, path, str(number).encode(), overwrite=overwrite)["code"] == 200
        assert read_stored(service, path) == str(number).encode()
    check_failure(send(admin, route, path, b"new", overwrite="false"), 403, "file exists")
    assert read_stored(service, path) == b"3"
    assert send(admin, route, f"{folder}/other", b"new", overwrite="false")["code"] == 200


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"plain.txt", "plain.txt"),
        (b"two words.txt", "two words.txt"),
        (b"two%20words.txt", "two words.txt"),
        (b"a+b.txt", "a+b.txt"),
        ("n\u00e4me.txt".encode(), "näme.txt"),
        (b"n%C3%A4me.txt", "näme.txt"),
        (b"100%25.txt", "100%.txt"),
        (b"%2520.txt", "%20.txt"),
        (b"a..b", "a..b"),
        (b"trailing/", "trailing"),
        (b"x//y", "x/y"),
        (b"q%3Fr%23s;t", "q?r#s;t"),
    ],
)
def test_file_path_may_be_percent_encoded_or_not(
    service: Service, admin: Client, folder: str, sent: bytes, name: str
) -> None:
    headers: dict[Any, Any] = {"file-path": folder.encode() + b"/" + sent}
    assert admin.envelope(admin.http.put("/api/fs/put", content=b"here", headers=headers))["code"] == 200
    assert read_stored(service, f"{folder}/{name}") == b"here"


@pytest.mark.parametrize(
    ("sent", "code", "message"),
    [
        (b"/files/a%zz", 400, 'invalid URL escape "%zz"'),
        (b"/files/100%", 400, 'invalid URL escape "%"'),
        (b"/files/%4", 400, 'invalid URL escape "%4"'),
        (b"/files/%ff", 400, "File-Path is not valid Unicode"),
        (b"/files/a%00b", 400, "path has a NUL byte"),
        (b"/files/a%0Ab", 400, "name has a control character"),
        (b"/files/" + b"x" * 256, 400, "name is too long"),
        (b"/files/%2e%2e/x", 403, "using relative path is not allowed"),
        (b"/files/..%5cx", 403, "using relative path is not allowed"),
        (b"/files/sub/../../x", 403, "using relative path is not allowed"),
        (b"", 500, "failed get storage: storage not found; rawPath: /"),
        (b"/files", 500, "failed get storage: storage not found; rawPath: /files"),
        (b"/no-such-mount/x", 500, "failed get storage: storage not found; rawPath: /no-such-mount/x"),
    ],
)
def test_a_file_path_that_is_none_is_refused(
    service: Service, admin: Client, sent: bytes, code: int, message: str
) -> None:
    headers: dict[Any, Any] = {"file-path": sent}
    before = sorted((service.data / "files").iterdir())
    check_failure(admin.envelope(admin.http.put("/api/fs/put", content=b"x", headers=headers)), code, message)
    assert sorted((service.data / "files").iterdir()) == before


def test_without_a_file_path_there_is_no_upload(admin: Client) -> None:
    message = "failed get storage: storage not found; rawPath: /"
    check_failure(admin.envelope(admin.http.put("/api/fs/put", content=b"x")), 500, message)


@pytest.mark.parametrize("route", ROUTES)
def test_last_modified_is_in_milliseconds(service: Service, admin: Client, folder: str, route: str) -> None:
    assert send(admin, route, f"{folder}/old", b"x", last_modified="1577934245678")["code"] == 200
    assert admin.ok("/api/fs/get", path=f"{folder}/old")["modified"].startswith("2020-01-02T03:04:05.678")
    assert fixtures.disk(service, f"{folder}/old").stat().st_mtime == pytest.approx(1577934245.678, abs=1e-4)
    assert send(admin, route, f"{folder}/new", b"x")["code"] == 200
    assert fixtures.disk(service, f"{folder}/new").stat().st_mtime == pytest.approx(time.time(), abs=30)


@pytest.mark.parametrize("text", ["Thu, 02 Jan 2020 03:04:05 GMT", "-1", "1e9", "9" * 18, "9" * 400])
def test_a_last_modified_that_is_no_such_number_is_refused(admin: Client, folder: str, text: str) -> None:
    check_failure(
        send(admin, "put", f"{folder}/f", b"x", last_modified=text),
        400,
        "Last-Modified is not a number of milliseconds since 1970",
    )
    assert admin.names(folder) == []


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
    assert list_parts(service, folder) == []


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
    assert list_parts(service, folder) == []


def test_a_content_length_wins_over_x_file_size(service: Service, admin: Client, folder: str) -> None:
    assert send(admin, "put", f"{folder}/f", b"12345", x_file_size="99")["code"] == 200
    assert read_stored(service, f"{folder}/f") == b"12345"
    check_failure(
        send(admin, "put", f"{folder}/f", b"12345", x_file_size="-1"), 400, "X-File-Size is not a number of bytes"
    )


CUT: dict[str, tuple[str, list[str], bytes]] = {
    "length": ("put", ["Content-Length: 5000000"], b"x" * 2_000_000),
    "chunks": ("put", ["Transfer-Encoding: chunked"], b"F4240\r\n" + b"x" * 1_000_000 + b"\r\nF4240\r\nyy"),
    "form": (
        "form",
        ["Content-Length: 5000000", "Content-Type: multipart/form-data; boundary=b"],
        b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n' + b"x" * 2_000_000,
    ),
}


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
    with open_upload(admin, f"{folder}/f", "Content-Length: 6") as connection:
        connection.sendall(b"new")
        wait_until(lambda: bool(list_parts(service, folder)))
        assert admin.bytes(f"{folder}/f").content == b"old"
        connection.sendall(b"est")
        assert read_answer(connection)["code"] == 200
    assert admin.bytes(f"{folder}/f").content == b"newest"


def test_of_two_uploads_at_once_one_is_stored_whole(service: Service, admin: Client, folder: str) -> None:
    bodies = [bytes([number]) * 1_500_000 for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda body: send(admin, "put", f"{folder}/f", body), bodies))
    assert [answer["code"] for answer in answers] == [200] * 4
    assert read_stored(service, f"{folder}/f") in bodies
    assert list_parts(service, folder) == []


@pytest.mark.parametrize("route", ROUTES)
def test_a_file_or_folder_in_the_way_is_never_destroyed(
    service: Service, admin: Client, folder: str, route: str
) -> None:
    admin.put(f"{folder}/file", b"kept")
    admin.put(f"{folder}/sub/kept", b"kept")
    inner = folder.removeprefix("/files")
    answer = send(admin, route, f"{folder}/file/below", b"x")
    check_failure(answer, 500, f"failed to make dir [{inner}/file]: file exists")
    answer = send(admin, route, f"{folder}/file/below/deeper", b"x")
    check_failure(answer, 500, f"failed to make dir [{inner}/file/below]: file exists")
    check_failure(send(admin, route, f"{folder}/sub", b"x"), 500, "file exists")
    check_failure(send(admin, route, f"{folder}/sub", b"x", overwrite="false"), 403, "file exists")
    assert read_stored(service, f"{folder}/file") == read_stored(service, f"{folder}/sub/kept") == b"kept"


@pytest.mark.parametrize("route", ROUTES)
def test_a_mount_folder_is_no_file(admin: Client, folder: str, route: str) -> None:
    with fixtures.virtual(admin, f"{folder}/way/mount") as mounted:
        for path in (mounted, f"{folder}/way"):
            check_failure(
                send(admin, route, path, b"x"), 500, f"failed get storage: storage not found; rawPath: {path}"
            )


@pytest.mark.parametrize("route", ROUTES)
def test_a_storage_that_takes_no_bytes_says_so(admin: Client, route: str) -> None:
    structure = {"url_structure": "d:\n  f:https://example.com/f"}
    with fixtures.mount(admin, "UrlTree", addition=structure) as mounted:
        answer = send(admin, route, f"{mounted}/d/new", b"x")
        assert answer["code"] in (405, 500)
        assert admin.names(f"{mounted}/d") == ["f"]


@pytest.mark.parametrize("route", ROUTES)
def test_an_alias_that_may_not_be_written_refuses(service: Service, admin: Client, folder: str, route: str) -> None:
    admin.ok("/api/fs/mkdir", path=f"{folder}/d")
    with fixtures.mount(admin, "Alias", addition={"paths": folder}) as mounted:
        check_failure(send(admin, route, f"{mounted}/d/new", b"x"), 500, "failed to store [new]: permission denied")
    assert admin.names(f"{folder}/d") == []


@pytest.mark.parametrize("route", ROUTES)
def test_an_upload_is_a_task_when_as_task_is_exactly_true(
    service: Service, admin: Client, folder: str, route: str
) -> None:
    for number, as_task in enumerate(["", "false", "True", "1"]):
        assert send(admin, route, f"{folder}/{number}", b"x", as_task=as_task)["data"] is None
        assert read_stored(service, f"{folder}/{number}") == b"x"
    task = send(admin, route, f"{folder}/f", b"later", as_task="true")["data"]["task"]
    wait_until(lambda: [row["state"] for row in get_task(admin, task["id"])] == ["succeeded"])
    assert read_stored(service, f"{folder}/f") == b"later"
    admin.ok("/api/task/upload/delete", params={"tid": task["id"]})


def get_task(client: Client, id: str) -> Any:
    return client.ok("/api/task/upload/info", params={"tid": id})


@pytest.mark.parametrize("way", sorted(CUT))
def test_a_body_of_a_task_that_is_cut_leaves_nothing_staged_and_no_task(
    service: Service, admin: Client, folder: str, way: str
) -> None:
    route, lines, body = CUT[way]
    staging = service.data / "staging"
    known = set(staging.iterdir()) if staging.exists() else set()
    with open_upload(admin, f"{folder}/f", "As-Task: true", *lines, route=route) as connection:
        connection.sendall(body)
        wait_until(lambda: bool(service.unfinished(staging)))
        assert list_parts(service, folder) == []
    wait_until(lambda: not service.unfinished(staging) and set(staging.iterdir()) == known)
    assert folder not in str([admin.get(f"/api/task/upload/{shelf}") for shelf in ("done", "undone")])
    assert admin.names(folder) == []


@pytest.mark.parametrize("route", ROUTES)
def test_both_addresses_answer_an_upload_alike(service: Service, admin: Client, folder: str, route: str) -> None:
    headers = {"file-path": quote(f"{folder}/f")}
    body: dict[str, Any] = {"content": b"x"} if route == "put" else {"files": {"file": b"x"}}
    answer = admin.envelope(admin.http.put(f"/openlist/api/fs/{route}", headers=headers, **body))
    assert (answer["code"], answer["data"]) == (200, None)
    assert read_stored(service, f"{folder}/f") == b"x"


def test_system_files_are_ignored_when_the_setting_says_so(admin: Client, folder: str) -> None:
    names = [".DS_Store", "desktop.ini", "Thumbs.db", "@eaDir", "._resource"]
    with fixtures.settings(admin, ignore_system_files="true"):
        for name in names:
            check_failure(send(admin, "put", f"{folder}/{name}", b"x"), 403, "system file upload ignored")
        assert send(admin, "put", f"{folder}/fine", b"x")["code"] == 200
    assert admin.names(folder) == ["fine"]
    assert send(admin, "put", f"{folder}/.DS_Store", b"x")["code"] == 200


def test_a_form_may_hold_other_fields_and_any_file_name(service: Service, admin: Client, folder: str) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="other"\r\n\r\nnot this\r\n'
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="../../evil"\r\n'
        b"Content-Type: text/x-odd\r\n\r\nline\r\n--\r\n-- --b is not the end\r\n\r\n-"
        b'\r\n--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nnor this\r\n--b--\r\n'
    )
    answer = form(admin, f"{folder}/f", body)
    assert answer["code"] == 200, answer
    assert read_stored(service, f"{folder}/f") == b"line\r\n--\r\n-- --b is not the end\r\n\r\n-"
    assert admin.names(folder) == ["f"]


FILE_PART = b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n'


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        (
            "multipart/form-data; boundary=b",
            b'--b\r\nContent-Disposition: form-data; name="f"\r\n\r\nx\r\n--b--\r\n',
            "http: no such file",
        ),
        ("application/octet-stream", b"x", "request Content-Type isn't multipart/form-data"),
        ("multipart/form-data", b"x", "no multipart boundary param in Content-Type"),
        ("multipart/form-data; boundary=b", b"", "multipart: NextPart: EOF"),
        ("multipart/form-data; boundary=b", FILE_PART[:20], "multipart: NextPart: EOF"),
    ],
)
def test_a_form_without_a_file_says_what_is_wrong(
    admin: Client, folder: str, kind: str, body: bytes, message: str
) -> None:
    check_failure(form(admin, f"{folder}/f", body, kind), 500, message)
    assert admin.names(folder) == []


@pytest.mark.parametrize("end", [b"", b"\r\n--b", b"\r\n--c--\r\n"])
def test_a_form_without_its_end_leaves_the_old_file(service: Service, admin: Client, folder: str, end: bytes) -> None:
    admin.put(f"{folder}/f", b"old")
    answer = form(admin, f"{folder}/f", FILE_PART + b"content" + end)
    assert (answer["code"], answer["message"].endswith("multipart: NextPart: EOF")) == (500, True)
    assert read_stored(service, f"{folder}/f") == b"old"
    assert list_parts(service, folder) == []


def test_a_form_for_no_storage_is_worded_in_its_own_way(admin: Client) -> None:
    check_failure(form(admin, "/no-such-mount/x", b""), 400, "storage not found; rawPath: /no-such-mount/x")


def test_the_headers_of_a_form_part_are_bounded(admin: Client, folder: str) -> None:
    for header in (b"Content-Disposition: " + b"x" * 100_000, b"X: y\r\n" * 10_000):
        answer = form(admin, f"{folder}/f", b"--b\r\n" + header)
        assert answer["code"] in (400, 500)
        assert "exceeded" in answer["message"] or "too long" in answer["message"]
    answer = form(admin, f"{folder}/f", b"", f"multipart/form-data; boundary={'b' * 5000}")
    assert (answer["code"], "internal error" in answer["message"]) == (400, False)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("lines", "code", "message"),
    [
        (["Overwrite: false"], 403, "file exists"),
        (["As-Task: true", "Overwrite: false"], 403, "file exists"),
        (["As-Task: true", "X-File-Sha1: zz"], 400, "X-File-Sha1 is not hexadecimal"),
        (["Last-Modified: soon"], 400, "Last-Modified is not a number of milliseconds since 1970"),
        (["X-File-Md5: zz"], 400, "X-File-Md5 is not hexadecimal"),
    ],
)
def test_a_refusal_does_not_wait_for_the_body(
    service: Service, admin: Client, folder: str, route: str, lines: list[str], code: int, message: str
) -> None:
    admin.put(f"{folder}/f", b"old")
    length = ["Content-Length: 100000000", "Content-Type: multipart/form-data; boundary=b"]
    with open_upload(admin, f"{folder}/f", *length, *lines, route=route) as connection:
        check_failure(read_answer(connection), code, message)
    assert read_stored(service, f"{folder}/f") == b"old"
    assert list_parts(service, folder) == []


@pytest.mark.parametrize("route", ROUTES)
def test_without_the_right_no_byte_is_read(service: Service, admin: Client, folder: str, route: str) -> None:
    length = ["Content-Length: 100000000", "Expect: 100-continue", "Content-Type: multipart/form-data; boundary=b"]
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~fixtures.WRITE) as user:
        with open_upload(user, f"{folder}/f", *length, route=route) as connection:
            check_failure(read_answer(connection), 403, "permission denied")
        with fixtures.meta(admin, folder, write=True):
            assert send(user, route, f"{folder}/opened", b"x")["code"] == 200
            check_failure(send(user, route, f"{folder}/sub/not-below", b"x"), 403, "permission denied")
    with open_upload(service.nobody(), f"{folder}/f", *length, route=route) as connection:
        check_failure(read_answer(connection), 401, "Guest user is disabled, login please")
    assert admin.names(folder) == ["opened"]


def test_a_list_of_writers_stops_an_upload(admin: Client, folder: str) -> None:
    with fixtures.meta(admin, folder, write=True, write_users=[2**40], write_users_sub=True):
        for path in ("f", "sub/f"):
            check_failure(send(admin, "put", f"{folder}/{path}", b"x"), 403, "permission denied")
    assert admin.names(folder) == []


@pytest.mark.parametrize("route", ROUTES)
def test_an_upload_stays_below_the_base_path(service: Service, admin: Client, folder: str, route: str) -> None:
    admin.ok("/api/fs/mkdir", path=f"{folder}/home")
    with fixtures.user(service, admin, fixtures.WRITE, f"{folder}/home") as user:
        assert send(user, route, f"{folder}/f", b"x")["code"] == 200
        for path in ("/../f", "../f", "/a/../../f", "\\..\\f"):
            check_failure(send(user, route, path, b"x"), 403, "using relative path is not allowed")
    assert admin.names(folder) == ["home"]
    assert read_stored(service, f"{folder}/home{folder}/f") == b"x"


def test_an_upload_does_not_follow_a_link_out_of_the_storage(
    service: Service, admin: Client, folder: str, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("outside")
    root = fixtures.disk(service, folder)
    (root / "link").symlink_to(tmp_path)
    (root / "file").symlink_to(tmp_path / "secret")
    (root / "dangling").symlink_to(tmp_path / "made")
    for path in ("link/new", "link/secret", "file", "dangling"):
        assert send(admin, "put", f"{folder}/{path}", b"x")["code"] == 500
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"secret": "outside"}
    assert list_parts(service, folder) == []


def test_names_of_unfinished_uploads_do_not_show(service: Service, admin: Client, folder: str) -> None:
    (fixtures.disk(service, folder) / f"{PART}{'a' * 24}.part").write_text("unfinished")
    assert admin.names(folder) == []
    assert admin.post("/api/fs/get", path=f"{folder}/{PART}{'a' * 24}.part")["code"] == 500


@pytest.mark.parametrize("route", ROUTES)
def test_of_two_uploads_at_once_that_overwrite_nothing_one_is_refused(
    service: Service, admin: Client, folder: str, route: str
) -> None:
    for number in range(8):
        path, contents = f"{folder}/{number}", [bytes([65 + one]) * 300_000 for one in range(2)]

        def store(content: bytes, path: str = path) -> dict[str, Any]:
            return send(Client(admin.address, admin.token), route, path, content, overwrite="false")

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(store, contents))
        assert sorted(answer["code"] for answer in answers) == [200, 403]
        assert {answer["message"] for answer in answers} == {"success", "file exists"}
        assert read_stored(service, path) == contents[[answer["code"] for answer in answers].index(200)]
    assert list_parts(service, folder) == []
