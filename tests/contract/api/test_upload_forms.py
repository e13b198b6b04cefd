"""Uploads as forms."""

from __future__ import annotations

import pytest

from tests.contract.api import fixtures
from tests.contract.api.fixtures import check_failure
from tests.contract.api.task_client import wait_until
from tests.contract.api.upload_client import (
    form,
    list_parts,
    read_stored,
)
from tests.support.service import Client, Service


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
            "the form has no part `file`",
        ),
        ("application/octet-stream", b"x", "the content type is not multipart/form-data"),
        ("multipart/form-data", b"x", "the content type has no boundary"),
        ("multipart/form-data; boundary=b", b"", "the form is cut off"),
        ("multipart/form-data; boundary=b", FILE_PART[:20], "the form is cut off"),
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
    assert (answer["code"], answer["message"].endswith("the form is cut off")) == (500, True)
    assert read_stored(service, f"{folder}/f") == b"old"
    wait_until(lambda: not list_parts(service, folder))


def test_a_form_for_no_storage_is_worded_in_its_own_way(admin: Client) -> None:
    check_failure(form(admin, "/no-such-mount/x", b""), 400, fixtures.NOT_MOUNTED)


def test_the_headers_of_a_form_part_are_bounded(admin: Client, folder: str) -> None:
    for header in (b"Content-Disposition: " + b"x" * 100_000, b"X: y\r\n" * 10_000):
        answer = form(admin, f"{folder}/f", b"--b\r\n" + header)
        assert answer["code"] in (400, 500)
        assert "exceeded" in answer["message"] or "too long" in answer["message"]
    answer = form(admin, f"{folder}/f", b"", f"multipart/form-data; boundary={'b' * 5000}")
    assert (answer["code"], "internal error" in answer["message"]) == (400, False)
