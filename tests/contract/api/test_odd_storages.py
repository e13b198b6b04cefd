"""Storages that did not start, trees that many clients change concurrently, and values that do not fit into an
answer.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from mangrove.records.store.base import RecordConflict
from tests.contract.api import fixtures
from tests.contract.api.accounts import stranger
from tests.support import origin
from tests.support.service import PROCESSES, Client, Service

URL = "https://example.org/file.bin"


def failing(admin: Client, **addition: object) -> tuple[str, int]:
    """A Local storage that does not start; its mount path and id."""
    path = f"/{uuid4().hex}"
    made = admin.post(
        "/api/admin/storage/create", mount_path=path, driver="Local", addition=json.dumps(addition), order=0
    )
    assert made["code"] == 500
    return path, made["data"]["id"]


def test_a_local_storage_without_a_root_shows_nothing(admin: Client) -> None:
    path, number = failing(admin)
    try:
        answer = admin.post("/api/fs/list", path=path)
        assert answer["code"] == 500
        assert "root folder  not exists" in answer["message"]
        assert admin.put(f"{path}/x.txt", b"x")["code"] == 500
    finally:
        admin.ok("/api/admin/storage/delete", params={"id": number})


def test_a_recycle_bin_is_used_also_when_the_root_came_later(admin: Client, tmp_path: Path) -> None:
    root, recycled = tmp_path / "root", tmp_path / "bin"
    path, number = failing(admin, root_folder_path=str(root), recycle_bin_path=str(recycled))
    try:
        root.mkdir()
        (root / "x.txt").write_text("kept")
        admin.ok("/api/fs/remove", dir=path, names=["x.txt"])
        assert (recycled / "x.txt").read_text() == "kept"
    finally:
        admin.ok("/api/admin/storage/delete", params={"id": number})


def test_folders_made_at_once_in_a_url_tree_are_all_kept(admin: Client) -> None:
    options = {"url_structure": f"first:{URL}", "writable": True}
    with fixtures.mount(admin, "UrlTree", addition=options) as path, ThreadPoolExecutor(8) as pool:

        def make(number: int) -> int:
            client = Client(admin.address, admin.token)
            answer = client.post("/api/fs/mkdir", path=f"{path}/d{number}")
            while PROCESSES > 1 and answer["message"].endswith(RecordConflict.text):  # another process was quicker
                answer = client.post("/api/fs/mkdir", path=f"{path}/d{number}")
            code: int = answer["code"]
            return code

        assert set(pool.map(make, range(24))) == {200}
        assert admin.names(path) == sorted(["first", *(f"d{number}" for number in range(24))])
        admin.ok("/api/admin/storage/load_all")
        assert len(admin.names(path)) == 25


def test_a_url_tree_refuses_what_is_too_deep_and_goes_on(admin: Client) -> None:
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": f"a:{URL}", "writable": True}) as path:
        for depth in (120, 250):
            answer = admin.post("/api/fs/mkdir", path=path + "/x" * depth)
            assert answer["message"] == "this name or address cannot be stored in a UrlTree"
        admin.ok("/api/fs/mkdir", path=path + "/x" * 90)
        assert admin.names(path) == ["a", "x"]


@pytest.mark.parametrize("requested_range", ["", "bytes=0-3", "bytes=-1"])
def test_a_file_of_unknown_size_is_streamed_whole(admin: Client, requested_range: str) -> None:
    content = b"its size stands nowhere" * 1000
    with origin.origin() as elsewhere:
        url = elsewhere.at("/f.bin", origin.file(content))
        with fixtures.mount(
            admin, "UrlTree", addition={"url_structure": f"f.bin:{url}", "allowed_hosts": "127.0.0.1"}, web_proxy=True
        ) as path:
            assert admin.ok("/api/fs/list", path=path)["content"][0]["size"] == 0
            file = f"/p{path}/f.bin?sign={admin.ok('/api/fs/get', path=f'{path}/f.bin')['sign']}"
            answer = admin.http.get(file, headers={"range": requested_range} if requested_range else {})
            assert (answer.status_code, answer.content) == (200, content)
            assert "content-length" not in answer.headers
            assert answer.headers["accept-ranges"] == "none"
            head = admin.http.head(file)
            assert (head.status_code, head.content) == (200, b"")
            assert "content-length" not in head.headers
            same = admin.http.get(file, headers={"if-none-match": answer.headers["etag"]})
            assert (same.status_code, same.content) == (304, b"")


def test_a_time_after_the_year_9999_is_shown_as_unknown(admin: Client) -> None:
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": f"a:1:999999999999999999:{URL}"}) as path:
        (entry,) = admin.ok("/api/fs/list", path=path)["content"]
        assert (entry["name"], entry["modified"]) == ("a", "0001-01-01T00:00:00Z")


def test_a_name_that_no_account_can_have_is_refused_as_any_other(service: Service) -> None:
    for name in ("u" * 4096, "\N{SMILING FACE WITH SUNGLASSES}" * 1000):
        answer = stranger(service).post("/api/auth/login", username=name, password="x")
        assert (answer["code"], answer["message"]) == (401, "Invalid username or password")


def test_a_path_may_have_many_folders_but_not_any_number(admin: Client, folder: str) -> None:
    with fixtures.virtual(admin) as path:
        for place in (path, folder):
            deep = place + "/x" * 250
            assert fixtures.NOTHING_THERE in admin.post("/api/fs/get", path=deep)["message"]
            admin.ok("/api/fs/mkdir", path=deep)
            assert admin.ok("/api/fs/get", path=deep)["is_dir"] is True
            for verb in ("get", "list", "mkdir"):
                assert admin.post(f"/api/fs/{verb}", path=place + "/x" * 300)["message"] == "path is too deep"
            admin.ok("/api/fs/remove_empty_directory", src_dir=place)
            assert admin.names(place) == []


def test_a_virtual_storage_shows_the_same_on_every_connection(admin: Client) -> None:
    """C4: with several processes `list` and `get` differed, because each process generated a tree of its own."""
    options = {"num_file": 3, "num_folder": 2, "min_file_size": 1, "max_file_size": 9}
    with fixtures.mount(admin, "Virtual", addition=options) as path:
        clients = [Client(admin.address, admin.token) for _ in range(12)]  # connections are spread over the processes
        shown = clients[0].ok("/api/fs/list", path=path)["content"]
        assert len(shown) == 5
        for client in clients:
            assert client.ok("/api/fs/list", path=path)["content"] == shown
            for entry in shown:
                got = client.ok("/api/fs/get", path=f"{path}/{entry['name']}")
                assert (got["size"], got["is_dir"]) == (entry["size"], entry["is_dir"])
        clients[0].ok("/api/fs/rename", path=f"{path}/{shown[-1]['name']}", name="renamed")
        assert all("renamed" in client.names(path) for client in clients)
