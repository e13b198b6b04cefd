"""The envelope of all answers under /api, for any request."""

from __future__ import annotations

import json

import pytest

from tests.support.service import Client, Service


def test_an_unknown_route_is_a_404_envelope(service: Service) -> None:
    answer = service.anonymous().get("/api/no/such")
    assert (answer["code"], answer["data"]) == (404, None)
    assert service.anonymous().http.get("/no/such").status_code == 404


@pytest.mark.parametrize("text", ["{", "[1,", "nonsense", '"text"', "5", "[]", '{"path": 5}', '{"page": 1e400}'])
def test_a_body_that_does_not_fit_is_a_400_envelope(admin: Client, text: str) -> None:
    answer = admin.envelope(admin.http.post("/api/fs/list", content=text))
    assert answer["code"] == 400
    assert "Traceback" not in answer["message"]


@pytest.mark.parametrize("page", [-1, 2**60, 10**30, "1", 1.5])
def test_numbers_out_of_bounds_are_refused_or_bounded(admin: Client, page: object) -> None:
    answer = admin.post("/api/fs/list", path="/", page=page, per_page=5)
    assert answer["code"] == (200 if page == -1 else 400)


def test_a_body_of_too_many_bytes_is_refused(admin: Client) -> None:
    assert admin.post("/api/fs/list", path="/", password="x" * (9 << 20))["code"] == 413


def test_a_storage_status_cannot_be_a_script(admin: Client) -> None:
    options = {"root_folder_path": "/no/<script>alert(1)</script>"}
    created = admin.post(
        "/api/admin/storage/create", mount_path="/script", driver="Local", addition=json.dumps(options)
    )
    row = admin.get("/api/admin/storage/get", id=created["data"]["id"])["data"]
    admin.ok("/api/admin/storage/delete", params={"id": row["id"]})
    assert row["status"] == "root folder /no/&lt;script&gt;alert(1)&lt;/script&gt; not exists"
    assert json.loads(row["addition"])["root_folder_path"] == options["root_folder_path"]


@pytest.mark.parametrize("path", ["/api/admin/scan/progress", "/api/fs/torrent/parse", "/api/public/share/x"])
def test_what_this_version_does_not_have_says_so(admin: Client, path: str) -> None:
    for prefix, word in (("", "NotAvailable"), ("/openlist", None)):
        answer = admin.http.post(prefix + path).json()
        assert (answer["code"], answer["data"], answer.get("problem")) == (404, None, word)
        assert answer["message"].endswith("not available")


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_driver_has_a_message(admin: Client, method: str) -> None:
    for prefix in ("", "/openlist"):
        answer = admin.envelope(admin.http.request(method, f"{prefix}/api/admin/message/get"))
        assert (answer["code"], answer["data"]) == (200, {"type": "", "content": ""})


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "PROPFIND"])
@pytest.mark.parametrize("path", ["/d/files/x", "/p/files/x", "/ae/files/x.zip", "/openlist/d/files/x"])
def test_another_method_on_a_file_is_405(service: Service, method: str, path: str) -> None:
    answer = service.anonymous().http.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "user/get"), ("POST", "user/cancel_2fa"), ("GET", "storage/get"), ("POST", "storage/disable"),
        ("POST", "storage/delete"), ("GET", "meta/get"), ("POST", "meta/delete"), ("POST", "user/delete"),
    ],
)  # fmt: skip
def test_unknown_record_id_is_named_by_its_word(admin: Client, method: str, path: str) -> None:
    for prefix, word in (("", "RecordNotFound"), ("/openlist", None)):
        url = f"{prefix}/api/admin/{path}"
        answer = admin.http.request(method, url, params={"id": 987654321}).json()
        assert (answer["code"], answer["data"], answer.get("problem")) == (500, None, word)
        assert answer["message"].endswith("record not found")
