"""Uploads over HTTP: what is stored under which name, and what is in the way."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

import pytest

from tests.contract.api import fixtures
from tests.contract.api.fixtures import check_failure
from tests.contract.api.task_client import wait_until
from tests.contract.api.upload_client import (
    CUT,
    ROUTES,
    list_parts,
    open_upload,
    read_stored,
    send,
)
from tests.support.service import Client, Service


@pytest.mark.parametrize("route", ROUTES)
def test_an_upload_stores_the_bytes_and_answers_null(service: Service, admin: Client, folder: str, route: str) -> None:
    content = bytes(range(256)) * 5000
    answer = send(admin, route, f"{folder}/data.bin", content)
    assert (answer["code"], answer["message"], answer["data"]) == (200, "success", None)
    assert read_stored(service, f"{folder}/data.bin") == content
    assert admin.ok("/api/fs/get", path=f"{folder}/data.bin")["size"] == len(content)
    wait_until(lambda: not list_parts(service, folder))


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
        (b"", 500, "this is not a file"),
        (b"/files", 500, "this is not a file"),
        (b"/no-such-mount/x", 500, fixtures.NOT_MOUNTED),
    ],
)
def test_a_file_path_that_is_none_is_refused(
    service: Service, admin: Client, sent: bytes, code: int, message: str
) -> None:
    headers: dict[Any, Any] = {"file-path": sent}
    before = sorted((service.data / "files").iterdir())
    check_failure(admin.envelope(admin.http.put("/api/fs/put", content=b"x", headers=headers)), code, message)
    assert sorted((service.data / "files").iterdir()) == before


@pytest.mark.parametrize("prefix", ["", "/openlist"])
@pytest.mark.parametrize(("method", "route"), [("PUT", "put"), ("PUT", "form"), ("POST", "multipart/init")])
def test_upload_without_the_header_file_path_names_it(admin: Client, prefix: str, method: str, route: str) -> None:
    answer = admin.envelope(
        admin.http.request(method, f"{prefix}/api/fs/{route}", content=b"x", headers={"x-file-size": "1"})
    )
    check_failure(answer, 400, "the header File-Path is missing: it has the path of the file, percent-encoded")


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
def test_a_file_or_folder_in_the_way_is_never_destroyed(
    service: Service, admin: Client, folder: str, route: str
) -> None:
    admin.put(f"{folder}/file", b"kept")
    admin.put(f"{folder}/sub/kept", b"kept")
    answer = send(admin, route, f"{folder}/file/below", b"x")
    check_failure(answer, 500, "a file stands where a folder is needed")
    answer = send(admin, route, f"{folder}/file/below/deeper", b"x")
    check_failure(answer, 500, "a file stands where a folder is needed")
    check_failure(send(admin, route, f"{folder}/sub", b"x"), 500, "file exists")
    check_failure(send(admin, route, f"{folder}/sub", b"x", overwrite="false"), 403, "file exists")
    assert read_stored(service, f"{folder}/file") == read_stored(service, f"{folder}/sub/kept") == b"kept"


@pytest.mark.parametrize("route", ROUTES)
def test_a_mount_folder_is_no_file(admin: Client, folder: str, route: str) -> None:
    with fixtures.virtual(admin, f"{folder}/way/mount") as mounted:
        for path in (mounted, f"{folder}/way"):
            check_failure(send(admin, route, path, b"x"), 500, "this is not a file")


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
    known = set(staging.iterdir()) if staging.exists() else set()  # of other tests, of which some may go meanwhile
    others = set(service.find_unfinished(staging))
    with open_upload(admin, f"{folder}/f", "As-Task: true", *lines, route=route) as connection:
        connection.sendall(body)
        wait_until(lambda: bool(set(service.find_unfinished(staging)) - others))
        wait_until(lambda: not list_parts(service, folder))
    wait_until(lambda: set(service.find_unfinished(staging)) <= others and set(staging.iterdir()) <= known)
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
