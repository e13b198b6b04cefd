"""The trash over HTTP: removed entries are listed, restored and deleted."""

from __future__ import annotations

from pathlib import Path

import httpx

from mangrove.drivers.part_names import TRASH
from tests.contract.api import fixtures
from tests.contract.api.fixtures import NOTHING_THERE, disk
from tests.support.service import ADMIN_PASSWORD, Client, Service


def find_ids(client: Client, folder: str) -> list[str]:
    return [row["id"] for row in client.ok("/api/fs/trash/list", path=folder)["content"]]


def test_removed_file_is_listed_and_restored(admin: Client, folder: str) -> None:
    admin.put(f"{folder}/a.txt", b"content")
    assert admin.ok("/api/fs/remove", dir=folder, names=["a.txt"]) is None
    (row,) = admin.ok("/api/fs/trash/list", path=folder)["content"]
    assert (row["path"], row["name"], row["size"], row["is_dir"]) == (f"{folder}/a.txt", "a.txt", 7, False)
    assert (row["remover"], row["replaced"]) == ("admin", False)
    assert row["expires"] > row["removed"]
    answer = admin.ok("/api/fs/trash/restore", ids=[row["id"]])
    assert answer == {"done": [{"id": row["id"], "path": f"{folder}/a.txt"}], "failed": [], "task": None}
    assert admin.bytes(f"{folder}/a.txt").text == "content"
    assert find_ids(admin, folder) == []


def test_undo_by_names_restores_what_was_removed_last(admin: Client, folder: str) -> None:
    admin.put(f"{folder}/a.txt", b"content")
    admin.ok("/api/fs/remove", dir=folder, names=["a.txt"])
    answer = admin.ok("/api/fs/trash/restore", dir=folder, names=["a.txt", "missing"])
    assert [row["path"] for row in answer["done"]] == [f"{folder}/a.txt"]
    assert admin.names(folder) == ["a.txt"]
    answer = admin.post("/api/fs/trash/restore", dir=folder, names=["missing"])
    assert "none of these names is in the trash" in answer["message"]


def test_entry_that_is_deleted_cannot_be_restored(service: Service, admin: Client, folder: str) -> None:
    admin.put(f"{folder}/a.txt", b"content")
    admin.ok("/api/fs/remove", dir=folder, names=["a.txt"])
    (id,) = find_ids(admin, folder)
    assert len(admin.ok("/api/fs/trash/delete", ids=[id])["done"]) == 1
    assert not (disk(service, "/files") / TRASH / id.partition("-")[2]).exists()
    answer = admin.ok("/api/fs/trash/restore", ids=[id])
    assert answer == {"done": [], "failed": [{"id": id, "message": "the entry is not in the trash"}], "task": None}


def test_trash_of_a_folder_is_emptied(admin: Client, folder: str) -> None:
    for name in ("a", "b"):
        admin.put(f"{folder}/{name}", b"x")
    admin.ok("/api/fs/remove", dir=folder, names=["a", "b"])
    assert admin.ok("/api/fs/trash/empty", path=folder) == {"deleted": 2, "failed": 0, "more": False}
    assert find_ids(admin, folder) == []


def test_hidden_folder_is_answered_as_not_found(admin: Client, folder: str) -> None:
    admin.put(f"{folder}/a.txt", b"content")
    admin.ok("/api/fs/remove", dir=folder, names=["a.txt"])
    (id,) = find_ids(admin, folder)
    path = f"/files/{TRASH}/{id.partition('-')[2]}"
    missing = admin.post("/api/fs/get", path="/files/missing")
    assert missing["message"] == NOTHING_THERE
    for inner in (f"/files/{TRASH}", path, f"{path}/a.txt"):
        assert admin.post("/api/fs/get", path=inner) == missing
        assert admin.http.get(f"/d{inner}").status_code in (401, 404)  # without a signature
    assert TRASH not in admin.names("/files")


def test_names_of_the_hidden_folder_are_refused(admin: Client, folder: str) -> None:
    admin.put(f"{folder}/a.txt", b"content")
    for answer in (
        admin.post("/api/fs/mkdir", path=f"{folder}/{TRASH}"),
        admin.post("/api/fs/rename", path=f"{folder}/a.txt", name=TRASH),
    ):
        assert answer["code"] != 200
        assert "reserved for the trash" in answer["message"]


def test_user_sees_own_entries_below_the_base_path(service: Service, admin: Client, folder: str) -> None:
    rights = fixtures.ALL_RIGHTS & ~3
    admin.put(f"{folder}/a.txt", b"content")
    admin.put(f"{folder}/b.txt", b"content")
    admin.ok("/api/fs/remove", dir=folder, names=["b.txt"])
    with fixtures.user(service, admin, rights, folder) as user:
        user.ok("/api/fs/remove", dir="/", names=["a.txt"])
        assert [row["path"] for row in user.ok("/api/fs/trash/list")["content"]] == ["/a.txt"]
        assert [row["path"] for row in user.ok("/api/fs/trash/list", path="/")["content"]] == ["/a.txt", "/b.txt"]
        assert user.ok("/api/fs/trash/restore", dir="/", names=["a.txt"])["done"][0]["path"] == "/a.txt"
    assert admin.names(folder) == ["a.txt"]


def test_listing_of_a_folder_says_for_how_long_removals_are_kept(admin: Client, folder: str) -> None:
    assert admin.ok("/api/fs/trash/list", path=folder)["days"] == 30
    assert admin.ok("/api/fs/trash/list", path="/")["days"] is None
    assert admin.ok("/api/fs/trash/list")["days"] is None


def test_storage_made_over_the_interface_removes_for_good(admin: Client, tmp_path: Path) -> None:
    with fixtures.local(admin, tmp_path) as mounted:
        assert admin.ok("/api/fs/trash/list", path=mounted)["days"] == 0
        admin.put(f"{mounted}/a.txt", b"content")
        admin.ok("/api/fs/remove", dir=mounted, names=["a.txt"])
        assert find_ids(admin, mounted) == []
    assert list(tmp_path.iterdir()) == []


def test_versions_of_a_file_are_listed_read_and_restored(admin: Client, tmp_path: Path) -> None:
    with fixtures.local(admin, tmp_path, addition={"keep_versions": 3}) as mounted:
        path = f"{mounted}/a.txt"
        for content in (b"first", b"second!", b"third"):
            admin.put(path, content)
        latest, second, first = admin.ok("/api/fs/versions", path=path)["content"]
        assert [(row["size"], row["is_latest"], row["deleted"]) for row in (latest, second, first)] == [
            (5, True, False), (7, False, False), (5, False, False),
        ]  # fmt: skip
        sign = admin.ok("/api/fs/versions", path=path)["sign"]
        for address in ("/d", "/p"):
            answer = admin.http.get(f"{address}{path}", params={"version": second["id"], "sign": sign})
            assert (answer.status_code, answer.text) == (200, "second!")
        admin.ok("/api/fs/versions/restore", path=path, id=first["id"])
        assert admin.bytes(path).text == "first"
        rows = admin.ok("/api/fs/versions", path=path)["content"]
        assert [row["size"] for row in rows] == [5, 5, 7, 5]
        answer = admin.post("/api/fs/versions/restore", path=path, id="missing")
        assert answer["message"] == NOTHING_THERE


def test_versions_of_a_missing_file_or_a_folder_are_refused(admin: Client, folder: str) -> None:
    assert admin.post("/api/fs/versions", path=f"{folder}/missing")["message"] == NOTHING_THERE
    assert admin.post("/api/fs/versions", path=folder)["message"] == "this is not a file"


def test_version_is_restored_only_with_the_right_to_write(service: Service, admin: Client, tmp_path: Path) -> None:
    with fixtures.local(admin, tmp_path, addition={"keep_versions": 3}) as mounted:
        for content in (b"first", b"second"):
            admin.put(f"{mounted}/a.txt", content)
        id = admin.ok("/api/fs/versions", path=f"{mounted}/a.txt")["content"][1]["id"]
        with fixtures.user(service, admin, 0) as user:
            assert user.post("/api/fs/versions/restore", path=f"{mounted}/a.txt", id=id)["code"] == 403
        assert admin.bytes(f"{mounted}/a.txt").text == "second"


def test_webdav_removes_into_the_trash_and_makes_the_name_anew(service: Service, admin: Client, folder: str) -> None:
    def send(method: str, path: str, content: bytes = b"", **headers: str) -> int:
        url = f"{service.address}/dav{folder}/{path}"
        return httpx.request(
            method, url, content=content, headers=headers, auth=("admin", ADMIN_PASSWORD)
        , timeout=60).status_code  # fmt: skip

    assert (send("MKCOL", "d"), send("PUT", "d/a.txt", b"first")) == (201, 201)
    assert send("DELETE", "d") == 204
    assert send("GET", "d/a.txt") == 404
    assert (send("MKCOL", "d"), send("PUT", "d/a.txt", b"second")) == (201, 201)
    assert send("DELETE", "d/a.txt") == 204
    assert send("PUT", "d/a.txt", b"third") == 201
    assert send("PUT", "b.txt", b"b") == 201
    destination = f"{service.address}/dav{folder}/d"
    assert send("COPY", "b.txt", destination=destination, overwrite="T") == 204
    assert send("GET", TRASH) == 404
    assert send("PROPFIND", "../.mangrove-trash/") in (404, 400)
    names = [row["path"].removeprefix(folder) for row in admin.ok("/api/fs/trash/list", path=folder)["content"]]
    assert names == ["/d", "/d/a.txt", "/d"]
