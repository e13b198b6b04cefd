"""Messages for a path where nothing is: a sentence for people, or the known sentence for existing clients."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tests.contract.api import fixtures
from tests.contract.api.download_client import make_signature, make_url, read_key
from tests.contract.api.fixtures import NOT_MOUNTED, NOTHING_THERE, fill
from tests.support.service import Client, Service

Ask = Callable[[Client, str, str], httpx.Response]  # of an administrator: a missing path, the folder that it may go to
MISSING = (
    "{folder}/none/x.zip",
    "/no-such-mount/x.zip",
    "{folder}/file/x.zip",
    "{folder}/file/y/x.zip",
)  # missing, unmounted, below a file
INTERNALS = ("rawpath", "obj", "storage not found", "failed", "local", "errno", "virtual", "driver", "traceback")


def _post(verb: str, **fields: object) -> Ask:
    """Post to a route of files; `{path}`, `{parent}` and `{folder}` in its fields stand for those."""

    def fit(value: object, path: str, folder: str) -> object:
        if isinstance(value, list):
            return [fit(item, path, folder) for item in value]
        if isinstance(value, str):
            return value.format(path=path, parent=path.rpartition("/")[0], folder=folder)
        return value

    def ask(admin: Client, path: str, folder: str) -> httpx.Response:
        body = {key: fit(value, path, folder) for key, value in fields.items()}
        return admin.http.post(f"/api/fs/{verb}", json=body)

    return ask


def _download(route: str) -> Ask:
    def ask(admin: Client, path: str, folder: str) -> httpx.Response:
        purpose = "links into archives" if route == "ae" else "links"
        sign = make_signature(read_key(admin, purpose), path)
        return admin.http.get(make_url(route, path), params={"inner": "x", "sign": sign})

    return ask


def _put(admin: Client, path: str, folder: str) -> httpx.Response:
    return admin.http.put("/api/fs/put", content=b"x", headers={"file-path": path})


def _send_form(admin: Client, path: str, folder: str) -> httpx.Response:
    return admin.http.put("/api/fs/form", files={"file": b"x"}, headers={"file-path": path})


READING = {
    "list": _post("list", path="{path}"),
    "dirs": _post("dirs", path="{path}"),
    "get": _post("get", path="{path}"),
    "rename": _post("rename", path="{path}", name="new"),
    "batch_rename": _post("batch_rename", src_dir="{parent}", rename_objects=[]),
    "regex_rename": _post("regex_rename", src_dir="{parent}", src_name_regex="a", new_name_regex="b"),
    "move": _post("move", src_dir="{parent}", dst_dir="{folder}", names=["x.zip"]),
    "copy": _post("copy", src_dir="{parent}", dst_dir="{folder}", names=["x.zip"]),
    "copy to": _post("copy", src_dir="{folder}", dst_dir="{path}", names=["file"]),
    "recursive_move": _post("recursive_move", src_dir="{path}", dst_dir="{folder}"),
    "remove": _post("remove", dir="{parent}", names=["x.zip"]),
    "remove_empty_directory": _post("remove_empty_directory", src_dir="{path}"),
    "archive/meta": _post("archive/meta", path="{path}"),
    "archive/list": _post("archive/list", path="{path}", inner_path="/"),
    "decompress": _post("archive/decompress", src_dir="{parent}", dst_dir="{folder}", name=["x.zip"]),
    "search": _post("search", parent="{path}", keywords="x", scope=0, page=1, per_page=9),
    "d": _download("d"),
    "p": _download("p"),
    "ae": _download("ae"),
}
WRITING = {"put": _put, "form": _send_form, "mkdir": _post("mkdir", path="{path}/deeper")}
PRECISE_ROUTES = ("list", "get", "rename", "copy", "archive/meta", "d", "p")  # routes that always say what is missing


@pytest.mark.parametrize("route", [*READING, *WRITING])
@pytest.mark.parametrize("missing", MISSING)
def test_c6_message_for_a_missing_path_names_no_internals(
    service: Service, admin: Client, folder: str, route: str, missing: str
) -> None:
    fill(admin, folder, "file")
    path = missing.format(folder=folder)
    if route in WRITING and "/none/" in missing:
        pytest.skip("writing makes the missing folders")
    answer = (READING | WRITING)[route](admin, path, folder)
    is_page = answer.headers["content-type"].startswith("text/html")
    message = answer.text.rpartition("<p>")[2] if is_page else answer.json()["message"]
    assert message
    for internal in (*INTERNALS, str(service.data).lower()):
        assert internal not in message.lower(), message
    if route in PRECISE_ROUTES:
        assert (NOT_MOUNTED if "mount" in missing else NOTHING_THERE) in message


@pytest.mark.parametrize(
    ("verb", "path", "message"),
    [
        ("list", "{folder}/none", "failed get objs: failed get dir: failed to get obj: object not found"),
        ("list", "{folder}/file", "failed get objs: not a folder"),
        ("list", "/no-such-mount/x", "failed get storage: storage not found; rawPath: /no-such-mount/x"),
        ("get", "{folder}/none", "failed to get obj: object not found"),
        ("get", "/no-such-mount/x", "failed get storage: storage not found; rawPath: /no-such-mount/x"),
        ("rename", "{folder}/none", "failed to get src object: failed to get obj: object not found"),
        ("rename", "/no-such-mount/x", "failed get storage: storage not found; rawPath: /no-such-mount"),
    ],
)
def test_openlist_message_for_a_missing_path_is_the_known_one(
    admin: Client, folder: str, verb: str, path: str, message: str
) -> None:
    fill(admin, folder, "file")
    answer = admin.post(f"/openlist/api/fs/{verb}", path=path.format(folder=folder), name="new")
    fixtures.check_failure(answer, 500, message)


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("{folder}/none", 404, "failed link: failed to get file: failed to get obj: object not found"),
        ("{folder}", 500, "failed link: not a file"),
        ("/no-such-mount/x", 500, "storage not found; rawPath: /no-such-mount/x"),
    ],
)
def test_openlist_page_for_a_missing_file_has_the_known_message(
    admin: Client, folder: str, path: str, status: int, message: str
) -> None:
    path = path.format(folder=folder)
    answer = admin.http.get("/openlist" + make_url("d", path, make_signature(read_key(admin), path)))
    assert (answer.status_code, f"<p>{message}</p>" in answer.text) == (status, True)
