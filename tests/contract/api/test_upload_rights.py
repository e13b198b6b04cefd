"""Uploads that are refused before their bytes are read, and what bounds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.api import fixtures
from tests.contract.api.fixtures import check_failure
from tests.contract.api.task_client import wait_until
from tests.contract.api.upload_client import (
    ROUTES,
    list_parts,
    open_upload,
    read_answer,
    read_stored,
    send,
)
from tests.support.service import PART, Client, Service


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
    wait_until(lambda: not list_parts(service, folder))


@pytest.mark.parametrize("route", ROUTES)
def test_without_the_right_no_byte_is_read(service: Service, admin: Client, folder: str, route: str) -> None:
    length = ["Content-Length: 100000000", "Expect: 100-continue", "Content-Type: multipart/form-data; boundary=b"]
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~fixtures.WRITE) as user:
        with open_upload(user, f"{folder}/f", *length, route=route) as connection:
            check_failure(read_answer(connection), 403, "permission denied")
        with fixtures.meta(admin, folder, write=True):
            assert send(user, route, f"{folder}/opened", b"x")["code"] == 200
            check_failure(send(user, route, f"{folder}/sub/not-below", b"x"), 403, "permission denied")
    with open_upload(service.anonymous(), f"{folder}/f", *length, route=route) as connection:
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
    wait_until(lambda: not list_parts(service, folder))


def test_names_of_unfinished_uploads_do_not_show(service: Service, admin: Client, folder: str) -> None:
    (fixtures.disk(service, folder) / f"{PART}{'a' * 24}.part").write_text("unfinished")
    assert admin.names(folder) == []
    assert admin.post("/api/fs/get", path=f"{folder}/{PART}{'a' * 24}.part")["code"] == 500
