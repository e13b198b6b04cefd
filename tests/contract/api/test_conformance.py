"""Parts of the interface without a file of their own: defaults, `null`, the OpenAPI document, a backup put back."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import jsonschema
import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import find_id, guest, stranger
from tests.support.service import Client, Service, run_forked

NOTHING = json.dumps({"num_file": 0, "num_folder": 0, "max_file_size": 10, "min_file_size": 1})


@pytest.fixture(scope="module")
def document(service: Service) -> dict[str, Any]:
    document: dict[str, Any] = service.anonymous().http.get("/openapi.json").json()
    return document


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The administrator of a new service."""
    with run_forked(tmp_path_factory.mktemp("empty") / "data") as service:
        yield service.client()


# Defaults


def test_fields_left_out_of_a_storage_get_the_documents_defaults(admin: Client) -> None:
    path = f"/{uuid4().hex}"
    id = admin.ok("/api/admin/storage/create", mount_path=path, driver="Virtual", addition=NOTHING)["id"]
    row = admin.get("/api/admin/storage/get", id=id)["data"]
    admin.ok("/api/admin/storage/delete", params={"id": id})
    told = {key: value for key, value in row.items() if key not in ("id", "modified", "addition")}
    assert told == {
        "mount_path": path, "order": 0, "driver": "Virtual", "cache_expiration": 30, "custom_cache_policies": "",
        "status": "work", "remark": "", "disabled": False, "disable_index": False, "enable_sign": False,
        "order_by": "", "order_direction": "", "extract_folder": "", "web_proxy": False,
        "webdav_policy": "native_proxy", "proxy_range": False, "down_proxy_url": "", "disable_proxy_sign": False,
    }  # fmt: skip


def test_id_and_status_in_a_storages_body_are_not_taken(admin: Client) -> None:
    body = {"mount_path": f"/{uuid4().hex}", "driver": "Virtual", "addition": NOTHING, "enable_sign": "true"}
    id = admin.ok("/api/admin/storage/create", **body, id=987_654, status="broken")["id"]
    assert id != 987_654
    assert admin.ok("/api/admin/storage/update", **body, id=id, status="broken") == {"id": id}
    row = admin.get("/api/admin/storage/get", id=id)["data"]
    admin.ok("/api/admin/storage/delete", params={"id": id})
    assert (row["status"], row["enable_sign"]) == ("work", True)


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/api/fs/list", {"path": None, "password": None, "page": None, "per_page": None, "refresh": None}),
        ("/api/fs/get", {"path": "/", "password": None}),
        ("/api/fs/dirs", {"path": "/", "password": None, "force_root": None}),
        ("/api/fs/batch_rename", {"src_dir": None, "rename_objects": None}),
        ("/api/fs/batch_rename", {"src_dir": "/files", "rename_objects": [{"src_name": None, "new_name": None}]}),
    ],
)
def test_a_null_in_a_body_counts_as_a_field_left_out(admin: Client, route: str, body: dict[str, Any]) -> None:
    left_out = {key: value for key, value in body.items() if value is not None}
    answer = admin.post(route, **body)
    assert answer["code"] == 200
    assert answer == admin.post(route, **left_out)


@pytest.mark.parametrize("query", ["list?path=/&page=&per_page=&password=", "get?path=", "dirs?path=/&force_root="])
def test_an_empty_query_value_counts_as_one_left_out(admin: Client, query: str) -> None:
    answer = admin.envelope(admin.http.get(f"/api/fs/{query}"))
    assert answer["code"] == 200
    assert answer == admin.get(f"/api/fs/{query.partition('?')[0]}")


def test_a_null_where_something_is_required_is_told_as_missing(admin: Client) -> None:
    for route in ("/api/auth/login", "/api/admin/user/create", "/api/admin/meta/create", "/api/admin/storage/create"):
        body = {"username": None, "path": None, "mount_path": None, "password": None}
        answer = admin.post(route, **body)
        assert (answer["code"], "is required" in answer["message"]) == (400, True), route


def test_how_full_a_storage_is_is_told_where_the_settings_want_it(admin: Client, tmp_path: Path) -> None:
    def list_told(client: Client, path: str) -> list[Any]:
        rows = client.ok("/api/fs/list", path="/")["content"]
        row = next(mount_row for mount_row in rows if f"/{mount_row['name']}" == path)
        return [mount_row.get("mount_details") for mount_row in (row, client.ok("/api/fs/get", path=path))]

    with fixtures.local(admin, tmp_path) as mounted, guest(admin) as visitor:
        assert list_told(admin, mounted) == [None, None]
        with fixtures.settings(admin, hide_storage_details="false"):
            assert list_told(visitor, mounted) == [None, None]
            for details in list_told(admin, mounted):
                assert set(details) == {"total_space", "used_space", "free_space"}
                assert details["total_space"] >= details["used_space"] + details["free_space"] > 0
        with fixtures.settings(admin, hide_storage_details_in_manage_page="false"):
            rows = admin.get("/api/admin/storage/list")["data"]["content"]
            assert (
                next(mount_row for mount_row in rows if mount_row["mount_path"] == mounted)["mount_details"][
                    "total_space"
                ]
                > 0
            )


# What monitors and browsers ask for


@pytest.mark.parametrize("path", ["/ping", "/openlist/ping"])
def test_a_monitor_may_ping_without_wanting_the_answer(service: Service, path: str) -> None:
    answer = stranger(service).http.head(path)
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "4", b"")


def test_a_favicon_that_is_a_data_address_is_given_itself(service: Service, admin: Client) -> None:
    http = stranger(service).http
    default = http.get("/favicon.ico")
    assert (default.status_code, default.headers["content-type"]) == (200, "image/svg+xml")
    assert default.text.startswith("<svg ")
    assert default.text.endswith("</svg>")
    with fixtures.settings(admin, favicon=f"data:image/png;base64,{base64.b64encode(b'picture').decode()}"):
        icon = http.get("/favicon.ico")
    assert (icon.content, icon.headers["content-type"]) == (b"picture", "image/png")
    with fixtures.settings(admin, favicon="data:text/html,<script>alert(1)</script>"):
        page = http.get("/favicon.ico")
    assert "sandbox" in page.headers["content-security-policy"]
    with fixtures.settings(admin, favicon="data:image/png;base64,x"):
        assert http.get("/favicon.ico").status_code == 404


# The OpenAPI document


@pytest.mark.rest
def test_the_document_is_valid_openapi(document: dict[str, Any]) -> None:
    from openapi_spec_validator import validate  # takes half a second, and every worker imports this module

    validate(document)


REFUSING = ("/@assets/", "/d/", "/p/", "/ae/", "/sd/", "/sad/", "/zip/", "/@s/", "/favicon", "/health", "/api/auth/sso")
SINGLE_SIGN_ON = {  # pages and redirects for browsers
    "/api/auth/get_sso_id", "/api/auth/sso", "/api/auth/sso_callback", "/api/auth/sso_get_token",
}  # fmt: skip


def test_the_document_shows_no_answer_that_is_never_given(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            told = set(operation["responses"])
            refuses = path == "/" or path.startswith(REFUSING)
            assert told == {"200"} or refuses, (method, path, told)
            content = operation["responses"].get("200", {}).get("content", {})
            is_json = path.startswith("/api/") and path not in SINGLE_SIGN_ON | {"/api/events"}
            assert ("application/json" in content) == (is_json or path in ("/manifest.json", "/health")), path
    assert not {"HTTPValidationError", "ValidationError"} & set(document["components"]["schemas"])


REQUIRED = {
    "/api/admin/driver/info": ("driver", "string"),
    "/api/events": ("path", "string"),
    "/api/admin/group/delete": ("id", "integer"),
    "/api/admin/group/get": ("id", "integer"),
    "/api/admin/lock/delete": ("token", "string"),
    "/api/admin/meta/delete": ("id", "integer"),
    "/api/admin/meta/get": ("id", "integer"),
    "/api/admin/setting/delete": ("key", "string"),
    "/api/admin/storage/delete": ("id", "integer"),
    "/api/admin/storage/disable": ("id", "integer"),
    "/api/admin/storage/enable": ("id", "integer"),
    "/api/admin/storage/get": ("id", "integer"),
    "/api/admin/user/app_password/delete": ("id", "integer"),
    "/api/admin/session/evict_all": ("uid", "integer"),
    "/api/admin/user/app_password/list": ("uid", "integer"),
    "/api/admin/user/cancel_2fa": ("id", "integer"),
    "/api/admin/user/del_cache": ("username", "string"),
    "/api/admin/user/delete": ("id", "integer"),
    "/api/admin/user/get": ("id", "integer"),
    "/api/admin/user/sshkey/delete": ("id", "integer"),
    "/api/admin/user/sshkey/list": ("uid", "integer"),
    "/api/admin/user/token/delete": ("id", "integer"),
    "/api/admin/user/token/list": ("uid", "integer"),
    "/api/auth/sso": ("method", "string"),
    "/api/me/app_password/delete": ("id", "integer"),
    "/api/me/sshkey/delete": ("id", "integer"),
    "/api/me/token/delete": ("id", "integer"),
    "/api/share/delete": ("id", "string"),
    "/api/share/disable": ("id", "string"),
    "/api/share/enable": ("id", "string"),
    "/api/share/get": ("id", "string"),
}


def test_a_query_parameter_that_must_be_there_is_shown_with_its_type(document: dict[str, Any]) -> None:
    shown = {
        path: (parameter["name"], parameter["schema"]["type"])
        for path, operations in document["paths"].items()
        for operation in operations.values()
        for parameter in operation.get("parameters", ())
        if parameter["required"] and parameter["in"] == "query"
    }
    assert shown == REQUIRED


def test_the_body_of_a_setting_and_a_storage_is_shown_as_the_list_gives_it(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert set(schemas["SettingReq"]["properties"]) == set(schemas["SettingRow"]["properties"])
    assert set(schemas["StorageReq"]["properties"]) == set(schemas["StorageRow"]["properties"]) - {"modified"}
    assert schemas["StorageReq"]["properties"]["cache_expiration"]["default"] == 30


READING: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/api/public/settings", {}),
    ("GET", "/api/public/archive_extensions", {}),
    ("GET", "/api/public/offline_download_tools", {}),
    ("GET", "/api/me", {}),
    ("GET", "/api/me/sshkey/list", {}),
    ("GET", "/api/me/app_password/list", {}),
    ("GET", "/api/admin/storage/list", {}),
    ("GET", "/api/admin/storage/get", {"id": 1}),
    ("GET", "/api/admin/driver/list", {}),
    ("GET", "/api/admin/driver/names", {}),
    ("GET", "/api/admin/driver/info", {"driver": "S3"}),
    ("GET", "/api/admin/setting/list", {}),
    ("GET", "/api/admin/setting/get", {"key": "version"}),
    ("GET", "/api/admin/setting/get", {"keys": "version,token"}),
    ("POST", "/api/admin/setting/default", {}),
    ("GET", "/api/admin/user/list", {}),
    ("GET", "/api/admin/user/get", {"id": 1}),
    ("GET", "/api/admin/user/sshkey/list", {"uid": 1}),
    ("GET", "/api/admin/user/app_password/list", {"uid": 1}),
    ("GET", "/api/admin/lock/list", {}),
    ("GET", "/api/admin/meta/list", {}),
    ("POST", "/api/auth/2fa/generate", {}),
    ("GET", "/api/fs/list", {"path": "{folder}"}),
    ("POST", "/api/fs/list", {"path": "{folder}"}),
    ("GET", "/api/fs/get", {"path": "{folder}/film.txt"}),
    ("POST", "/api/fs/get", {"path": "/"}),
    ("POST", "/api/fs/get", {"path": "{folder}"}),
    ("POST", "/api/fs/dirs", {"path": "/"}),
    ("GET", "/api/fs/dirs", {"path": "{folder}"}),
    ("POST", "/api/fs/link", {"path": "{folder}/film.txt"}),
]


def test_what_is_answered_fits_the_schemas_that_are_shown(admin: Client, folder: str, document: dict[str, Any]) -> None:
    admin.put(f"{folder}/film.txt", b"text")
    admin.put(f"{folder}/film.srt", b"text")
    with fixtures.meta(admin, folder, readme="read me"):
        for method, path, request in READING:
            sent = {key: str(value).format(folder=folder) for key, value in request.items()}
            answer = admin.get(path, **sent) if method == "GET" else admin.post(path, **sent)
            assert answer["code"] == 200, (path, answer)
            shown = document["paths"][path][method.lower()]["responses"]["200"]["content"]["application/json"]
            schema = shown["schema"] | {"components": document["components"]}
            checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
            wrong = [(list(error.absolute_path), error.message) for error in checker.iter_errors(answer)]
            assert not wrong, (method, path, wrong)


# A backup put back


@contextmanager
def _someone(admin: Client, name: str) -> Iterator[None]:
    """A disabled user with something in every field."""
    fields = {"username": name, "base_path": "/files", "permission": 255, "disabled": True, "sso_id": "s"}
    admin.ok("/api/admin/user/create", **fields, password=uuid4().hex, allow_ldap=False)
    try:
        yield
    finally:
        admin.ok("/api/admin/user/delete", params={"id": find_id(admin, name)})


KEYS = {"setting": "key", "user": "username", "meta": "path", "storage": "mount_path"}


def _backup(admin: Client) -> dict[str, list[dict[str, Any]]]:
    """Return the lists that the web client's backup page saves, without paging."""
    told = {kind: admin.get(f"/api/admin/{kind}/list")["data"] for kind in KEYS}
    return {kind: rows["content"] if kind != "setting" else rows for kind, rows in told.items()}


def test_a_backup_is_put_back_into_a_fresh_service_record_by_record(
    admin: Client, empty: Client, tmp_path: Path
) -> None:
    mark = uuid4().hex
    local = {"root_folder_path": str(tmp_path), "show_hidden": True, "mkdir_perm": "755"}
    with (
        fixtures.local(
            admin, tmp_path, f"/{mark}", local, order=3, cache_expiration=7, remark="one\ntwo", order_by="name",
            order_direction="desc", extract_folder="front", enable_sign=True, webdav_policy="use_proxy_url",
            down_proxy_url="http://x/y\nhttp://z", custom_cache_policies="/a:5", disable_proxy_sign=True,
        ),
        fixtures.mount(admin, "UrlTree", f"/{mark}/off", {"url_structure": "a:http://x/y"}, disabled=True, order=-1),
        fixtures.meta(
            admin, f"/{mark}", password="p", p_sub=True, write=True, w_sub=True, hide="^a\nb$", h_sub=True,
            readme="# r", r_sub=True, header="h", header_sub=True, read_users=[1], read_users_sub=True, write_users=[],
        ),
        fixtures.settings(admin, site_title=f"Title {mark}", link_expiration="5"),
        _someone(admin, mark),
    ):  # fmt: skip
        exported = json.loads(json.dumps(_backup(admin)))
    answer = empty.envelope(empty.http.post("/api/admin/setting/save", json=exported["setting"]))
    assert (answer["code"], answer["data"]) == (200, None)
    for kind in ("user", "meta", "storage"):
        for row in exported[kind]:
            if mark in row[KEYS[kind]]:
                empty.ok(f"/api/admin/{kind}/create", **row)
    backup = _backup(empty)
    for kind, key in KEYS.items():
        now = {row[key]: row for row in backup[kind]}
        expected = {row[key]: row for row in exported[kind] if kind == "setting" or mark in row[key]}
        assert expected
        expected.pop("index_progress", None)  # the empty service may have updated its own index meanwhile
        for name, row in expected.items():
            assert now[name] | {"id": 0, "modified": ""} == row | {"id": 0, "modified": ""}, (kind, name)
    names = [row["mount_path"] for row in backup["storage"]]
    assert names == [f"/{mark}/off", "/files", f"/{mark}"]
