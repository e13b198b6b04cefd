"""The file routes over HTTP: what they show, change and refuse, and the words they use (behaviour 5)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

import pytest

from tests.contract.api import fixtures
from tests.service import Client, Service

OBJECT = {"name", "size", "is_dir", "modified", "created", "sign", "thumb", "type", "hashinfo", "hash_info"}
MISSING_FOLDER = "failed get objs: failed get dir: failed to get obj: object not found"
MISSING_SOURCE = "failed to get src object: failed to get obj: object not found"
TRANSFERS = ["move", "copy"]


def fill(admin: Client, folder: str, *names: str) -> None:
    """Files holding their own name; a name that ends with a slash is a folder."""
    for name in names:
        if name.endswith("/"):
            admin.ok("/api/fs/mkdir", path=f"{folder}/{name}")
        else:
            answer = admin.put(f"{folder}/{name}", name.encode())
            assert answer["code"] == 200, answer


def list_names(client: Client, path: str, **body: Any) -> list[str]:
    """Names in the order of the answer."""
    return [row["name"] for row in client.ok("/api/fs/list", path=path, **body)["content"]]


def read_text(admin: Client, path: str) -> str:
    return admin.bytes(path).text


def read_tree(service: Service, folder: str) -> dict[str, str]:
    """All files below a folder, from disk."""
    root = fixtures.disk(service, folder)
    return {str(file.relative_to(root)): file.read_text() for file in root.rglob("*") if file.is_file()}


def check_failure(answer: dict[str, Any], code: int, message: str) -> None:
    assert (answer["code"], answer["message"], answer["data"]) == (code, message, None)


def test_a_listing_has_exactly_the_documented_fields(admin: Client, folder: str) -> None:
    fill(admin, folder, "notes.txt", "sub/")
    answer = admin.ok("/api/fs/list", path=folder)
    fields = {"content", "total", "readme", "header", "write", "write_content_bypass", "provider"}
    assert set(answer) == fields
    assert (answer["total"], answer["provider"], answer["write"]) == (2, "Local", True)
    file, sub = answer["content"]
    assert set(file) == set(sub) == OBJECT
    assert (file["name"], file["size"], file["is_dir"], file["type"]) == ("notes.txt", 9, False, 4)
    assert (file["hashinfo"], file["hash_info"], file["thumb"]) == ("null", None, "")
    assert file["sign"].endswith("=:0")
    assert (sub["name"], sub["size"], sub["is_dir"], sub["type"], sub["sign"]) == ("sub", 0, True, 1, "")


@pytest.mark.parametrize(
    ("page", "per_page", "shown"),
    [
        (1, 2, ["a", "b"]),
        (2, 2, ["c", "d"]),
        (3, 2, ["e"]),
        (4, 2, []),
        (0, 2, ["a", "b"]),
        (-3, 2, ["a", "b"]),
        (1, 0, ["a", "b", "c", "d", "e"]),
        (1, -1, ["a", "b", "c", "d", "e"]),
        (2, 0, []),
        (2**50, 2**50, []),
    ],
)
def test_a_page_is_a_slice_and_total_counts_all(
    admin: Client, folder: str, page: int, per_page: int, shown: list[str]
) -> None:
    fill(admin, folder, *"edcba")
    by_body = admin.ok("/api/fs/list", path=folder, page=page, per_page=per_page)
    by_query = admin.get("/api/fs/list", path=folder, page=page, per_page=per_page)["data"]
    assert [row["name"] for row in by_body["content"]] == shown
    assert by_body["total"] == 5
    assert by_query == by_body


def test_an_empty_folder_lists_as_an_empty_array(admin: Client, folder: str) -> None:
    answer = admin.ok("/api/fs/list", path=folder)
    assert (answer["content"], answer["total"], answer["provider"]) == ([], 0, "Local")


@pytest.mark.parametrize(
    ("fields", "order"),
    [
        ({}, ["B", "a1", "a10", "a2", "z", "x"]),
        ({"extract_folder": "front"}, ["B", "z", "a1", "a10", "a2", "x"]),
        ({"extract_folder": "back"}, ["a1", "a10", "a2", "x", "B", "z"]),
        ({"order_by": "name"}, ["B", "a1", "a2", "a10", "x", "z"]),
        ({"order_by": "name", "order_direction": "desc"}, ["z", "x", "a10", "a2", "a1", "B"]),
        (
            {"order_by": "name", "order_direction": "desc", "extract_folder": "front"},
            ["z", "B", "x", "a10", "a2", "a1"],
        ),
        ({"order_by": "size", "extract_folder": "back"}, ["a2", "a10", "x", "a1", "B", "z"]),
        ({"order_by": "size", "order_direction": "desc", "extract_folder": "back"}, ["a1", "x", "a10", "a2", "B", "z"]),
        ({"order_by": "modified", "extract_folder": "back"}, ["a1", "x", "a2", "a10", "B", "z"]),
    ],
)
def test_the_storage_decides_the_order(admin: Client, tmp_path: Path, fields: dict[str, str], order: list[str]) -> None:
    with fixtures.local(admin, tmp_path, **fields) as mounted:
        for name, size, modified in [("a1", 4, 1000), ("a10", 2, 4000), ("a2", 1, 3000), ("x", 3, 2000)]:
            answer = admin.put(f"{mounted}/{name}", b"#" * size, last_modified=str(modified))
            assert answer["code"] == 200
        fill(admin, mounted, "B/", "z/")
        found = list_names(admin, mounted)
        if not fields:
            assert found == sorted(order)
            return
        cut = slice(0, 4) if fields.get("extract_folder") == "back" and "order_by" in fields else slice(None)
        assert found[cut] == order[cut]
        assert sorted(found) == sorted(order)


def test_numbers_in_names_are_compared_as_numbers_at_any_length(admin: Client, tmp_path: Path) -> None:
    names = ["v2.1", "v2.1x", "v10", "v" + "9" * 60, "va"]
    for name in names:
        (tmp_path / name).touch()
    with fixtures.local(admin, tmp_path, order_by="name") as mounted:
        assert list_names(admin, mounted) == ["v2.1", "v2.1x", "v10", "v" + "9" * 60, "va"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("film.MKV", 2),
        ("song.flac", 3),
        ("main.py", 4),
        ("photo.JPG", 5),
        ("data.bin", 0),
        ("README", 0),
        ("archive.txt.gz", 0),
        (".md", 4),
        ("m3u8", 2),
    ],
)
def test_the_type_code_follows_the_last_extension(admin: Client, folder: str, name: str, code: int) -> None:
    fill(admin, folder, name)
    assert admin.ok("/api/fs/list", path=folder)["content"][0]["type"] == code
    assert admin.ok("/api/fs/get", path=f"{folder}/{name}")["type"] == code


def test_a_folder_is_type_1_whatever_its_name(admin: Client, folder: str) -> None:
    fill(admin, folder, "film.mkv/")
    assert admin.ok("/api/fs/list", path=folder)["content"][0]["type"] == 1
    assert admin.ok("/api/fs/get", path=f"{folder}/film.mkv")["type"] == 1


def test_an_extension_added_to_a_setting_changes_the_type(admin: Client, folder: str) -> None:
    fill(admin, folder, "song.tracker")
    with fixtures.settings(admin, audio_types="mp3, TRACKER"):
        assert admin.ok("/api/fs/list", path=folder)["content"][0]["type"] == 3
    assert admin.ok("/api/fs/list", path=folder)["content"][0]["type"] == 0


def test_mounts_follow_the_real_entries_in_their_own_order(admin: Client, folder: str) -> None:
    fill(admin, folder, "zebra", "m/")
    with (
        fixtures.virtual(admin, f"{folder}/b", order=2),
        fixtures.virtual(admin, f"{folder}/c", order=1),
        fixtures.virtual(admin, f"{folder}/a/deep", order=2),
        fixtures.virtual(admin, f"{folder}/m", order=0),
    ):
        assert list_names(admin, folder) == ["m", "zebra", "c", "a", "b"]
        answer = admin.ok("/api/fs/list", path=folder, page=2, per_page=2)
        assert [row["name"] for row in answer["content"]] == ["c", "a"]
        assert answer["total"] == 5
        row = answer["content"][0]
        assert (row["is_dir"], row["size"], row["type"], row["sign"]) == (True, 0, 1, "")
        assert [row["name"] for row in admin.ok("/api/fs/dirs", path=folder)] == ["m", "c", "a", "b"]
    assert list_names(admin, folder) == ["m", "zebra"]


def test_folders_that_only_lead_to_mounts_are_listed_where_no_storage_is(admin: Client) -> None:
    top = f"/{uuid4().hex}"
    with fixtures.virtual(admin, f"{top}/way/mount") as mounted:
        answer = admin.ok("/api/fs/list", path=top)
        assert [row["name"] for row in answer["content"]] == ["way"]
        assert (answer["provider"], answer["total"]) == ("unknown", 1)
        way = admin.ok("/api/fs/get", path=f"{top}/way")
        assert (way["name"], way["is_dir"], way["provider"], way["raw_url"]) == ("way", True, "unknown", "")
        found = admin.ok("/api/fs/get", path=mounted)
        assert (found["name"], found["is_dir"], found["provider"]) == ("mount", True, "Virtual")
        assert found["modified"] == admin.ok("/api/fs/list", path=f"{top}/way")["content"][0]["modified"]
        check_failure(
            admin.post("/api/fs/list", path=f"{top}/other"),
            500,
            f"failed get storage: storage not found; rawPath: {top}/other",
        )


def test_a_mount_inside_a_mount_serves_its_own_part(admin: Client, folder: str, tmp_path: Path) -> None:
    fill(admin, folder, "in/", "in/outer.txt")
    (tmp_path / "inner.txt").write_text("inner")
    with fixtures.local(admin, tmp_path, f"{folder}/in"):
        assert list_names(admin, f"{folder}/in") == ["inner.txt"]
        assert admin.post("/api/fs/get", path=f"{folder}/in/outer.txt")["code"] == 500
    assert list_names(admin, f"{folder}/in") == ["outer.txt"]


def test_a_broken_storage_still_shows_as_a_folder(admin: Client, tmp_path: Path) -> None:
    top = f"/{uuid4().hex}"
    lost = tmp_path / "lost"
    lost.mkdir()
    with fixtures.local(admin, lost, f"{top}/broken"):
        lost.rmdir()
        assert list_names(admin, top) == ["broken"]
        assert admin.post("/api/fs/list", path=f"{top}/broken")["code"] == 500
        assert str(tmp_path) not in admin.post("/api/fs/list", path=f"{top}/broken")["message"]


def test_balanced_mounts_show_once_and_take_turns(admin: Client, tmp_path: Path) -> None:
    top = f"/{uuid4().hex}"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").touch()
    with (
        fixtures.local(admin, tmp_path / "one", f"{top}/disk.balance1"),
        fixtures.local(admin, tmp_path / "two", f"{top}/disk.balance2"),
    ):
        assert list_names(admin, top) == ["disk"]
        assert {tuple(list_names(admin, f"{top}/disk")) for _ in range(6)} == {("one.txt",), ("two.txt",)}


def test_refresh_sees_what_changed_behind_our_back(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "a")
    assert list_names(admin, folder) == ["a"]
    fixtures.disk(service, folder).joinpath("b").write_text("new")
    assert list_names(admin, folder, refresh=True) == ["a", "b"]


def test_a_changed_folder_is_seen_soon_without_refresh_too(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "a")
    assert list_names(admin, folder) == ["a"]
    fixtures.disk(service, folder).joinpath("b").write_text("new")
    time.sleep(0.1)
    assert list_names(admin, folder) == ["a", "b"]


def test_refresh_needs_the_right_to_write(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "a")
    with fixtures.user(service, admin, 0) as reader, fixtures.user(service, admin, fixtures.WRITE) as writer:
        check_failure(reader.post("/api/fs/list", path=folder, refresh=True), 403, "Refresh without permission")
        assert list_names(reader, folder) == ["a"]
        assert list_names(writer, folder, refresh=True) == ["a"]
        assert reader.get("/api/fs/list", path=folder, refresh="true")["code"] == 200
        with fixtures.meta(admin, folder, write=True):
            assert list_names(reader, folder, refresh=True) == ["a"]


def test_write_says_whether_the_caller_may_put_files_here(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "sub/")

    def flags(client: Client, path: str) -> tuple[bool, bool]:
        answer = client.ok("/api/fs/list", path=path)
        return answer["write"], answer["write_content_bypass"]

    with fixtures.user(service, admin, 0) as reader, fixtures.user(service, admin, fixtures.WRITE) as writer:
        assert flags(reader, folder) == (False, False)
        assert flags(writer, folder) == (True, False)
        with fixtures.meta(admin, folder, write=True):
            assert flags(reader, folder) == (True, True)
            assert flags(reader, f"{folder}/sub") == (False, False)
        with fixtures.meta(admin, folder, write=True, w_sub=True):
            assert flags(reader, f"{folder}/sub") == (True, True)
        with fixtures.meta(admin, folder, write_users=[2**40]):
            assert flags(writer, folder) == (False, False)


def test_readme_and_header_reach_below_only_with_their_sub_flag(admin: Client, folder: str) -> None:
    fill(admin, folder, "sub/", "file")
    with fixtures.meta(admin, folder, readme="# read", header="head", header_sub=True):
        here, below = admin.ok("/api/fs/list", path=folder), admin.ok("/api/fs/list", path=f"{folder}/sub")
        assert (here["readme"], here["header"]) == ("# read", "head")
        assert (below["readme"], below["header"]) == ("", "head")
        file = admin.ok("/api/fs/get", path=f"{folder}/file")
        assert (file["readme"], file["header"]) == ("", "head")


def test_hidden_names_are_nowhere_to_be_seen(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "shown.txt", "shown.key", "private/", "private/inside.txt")
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~1) as user:
        with fixtures.meta(admin, folder, hide="\\.key$\n\n^private$"):
            answer = user.ok("/api/fs/list", path=folder)
            assert ([row["name"] for row in answer["content"]], answer["total"]) == (["shown.txt"], 1)
            assert user.ok("/api/fs/dirs", path=folder) == []
            assert user.ok("/api/fs/get", path=f"{folder}/shown.txt")["related"] is None
            for path in ("shown.key", "private", "private/inside.txt"):
                refused = "password is incorrect or you have no permission"
                check_failure(user.post("/api/fs/get", path=f"{folder}/{path}"), 403, refused)
            check_failure(user.post("/api/fs/rename", path=f"{folder}/shown.key", name="n"), 500, MISSING_SOURCE)
            assert user.ok("/api/fs/remove", dir=folder, names=["shown.key", "private"]) is None
        assert admin.names(folder) == ["private", "shown.key", "shown.txt"]


def test_a_copy_that_merges_does_not_carry_hidden_files_into_the_open(
    service: Service, admin: Client, folder: str
) -> None:
    fill(admin, folder, "from/d/", "from/d/open", "from/d/secret", "to/d/")
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~1) as user:
        with fixtures.meta(admin, f"{folder}/from", hide="secret", h_sub=True):
            user.ok("/api/fs/copy", src_dir=f"{folder}/from", dst_dir=f"{folder}/to", names=["d"], merge=True)
    assert read_tree(service, f"{folder}/to") == {"d/open": "from/d/open"}


def test_a_folder_password_opens_list_get_and_dirs(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "file", "sub/")
    with fixtures.user(service, admin, 0) as user, fixtures.meta(admin, folder, password="sesame", p_sub=True):
        for verb, path in (("list", folder), ("dirs", folder), ("get", f"{folder}/file"), ("other", f"{folder}/file")):
            for password in ("", "Sesame"):
                answer = user.post(f"/api/fs/{verb}", path=path, password=password)
                check_failure(answer, 403, "password is incorrect or you have no permission")
        assert list_names(user, folder, password="sesame") == ["file", "sub"]
        assert user.ok("/api/fs/get", path=f"{folder}/file", password="sesame")["size"] == 4
        assert [row["name"] for row in user.ok("/api/fs/dirs", path=folder, password="sesame")] == ["sub"]


@pytest.mark.parametrize(
    ("path", "code", "message"),
    [
        ("{folder}/file", 500, "failed get objs: not a folder"),
        ("{folder}/none", 500, MISSING_FOLDER),
        ("{folder}/file/below", 500, MISSING_FOLDER),
        ("/no-such-mount/x", 500, "failed get storage: storage not found; rawPath: /no-such-mount/x"),
        ("{folder}/../../x", 403, "using relative path is not allowed"),
        ("{folder}\\..\\x", 403, "using relative path is not allowed"),
        ("{folder}/a\0b", 400, "path has a NUL byte"),
    ],
)
@pytest.mark.parametrize("verb", ["list", "dirs"])
def test_list_and_dirs_say_why_a_folder_cannot_be_shown(
    admin: Client, folder: str, verb: str, path: str, code: int, message: str
) -> None:
    fill(admin, folder, "file")
    check_failure(admin.post(f"/api/fs/{verb}", path=path.format(folder=folder)), code, message)


def test_a_missing_folder_of_a_driver_without_direct_lookup_is_worded_shorter(admin: Client) -> None:
    with fixtures.virtual(admin) as mounted:
        check_failure(
            admin.post("/api/fs/list", path=f"{mounted}/none"), 500, "failed get objs: failed get dir: object not found"
        )
        check_failure(admin.post("/api/fs/get", path=f"{mounted}/none"), 500, "object not found")


def test_a_storage_that_refuses_to_work_says_its_status(admin: Client) -> None:
    path = f"/{uuid4().hex}"
    fields = {"mount_path": path, "driver": "UrlTree", "addition": '{"url_structure": "nonsense"}'}
    number = admin.post("/api/admin/storage/create", **fields)["data"]["id"]
    try:
        reason = "storage status: invalid line: nonsense, because url is required for file: storage not init"
        check_failure(admin.post("/api/fs/list", path=path), 500, f"failed get objs: {reason}")
        check_failure(admin.post("/api/fs/get", path=f"{path}/x"), 500, reason)
    finally:
        admin.ok("/api/admin/storage/delete", params={"id": number})


@pytest.mark.parametrize("spelling", ["{0}/", "/{0}", "{0}/./", "{0}//", "{1}", "{2}"])
def test_equivalent_spellings_of_a_path_are_one_path(admin: Client, folder: str, spelling: str) -> None:
    fill(admin, folder, "a")
    written = spelling.format(folder, folder.lstrip("/"), folder.replace("/", "\\"))
    assert list_names(admin, written) == ["a"]


def test_dots_inside_a_name_are_no_escape(admin: Client, folder: str) -> None:
    fill(admin, folder, "a..b/", "a..b/..c")
    assert list_names(admin, f"{folder}/a..b") == ["..c"]


def test_get_has_exactly_the_documented_fields(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "a b+ü.txt")
    path = f"{folder}/a b+ü.txt"
    found = admin.ok("/api/fs/get", path=path)
    assert set(found) == OBJECT | {"raw_url", "readme", "header", "provider", "related"}
    assert (found["name"], found["size"], found["is_dir"], found["provider"]) == ("a b+ü.txt", 10, False, "Local")
    expected = f"{service.address}/p{quote(path, safe='/+')}?sign={found['sign']}"
    assert found["raw_url"] == expected
    assert found["sign"] == admin.ok("/api/fs/list", path=folder)["content"][0]["sign"]
    assert admin.bytes(path).text == "a b+ü.txt"
    assert admin.get("/api/fs/get", path=path)["data"] == found


def test_get_of_a_folder_has_neither_link_nor_signature(admin: Client, folder: str) -> None:
    found = admin.ok("/api/fs/get", path=folder)
    assert (found["raw_url"], found["sign"], found["is_dir"], found["size"]) == ("", "", True, 0)
    assert found["name"] == folder.rpartition("/")[2]


def test_the_root_without_a_storage_is_named_root(admin: Client) -> None:
    found = admin.ok("/api/fs/get")
    assert (found["name"], found["is_dir"], found["provider"]) == ("root", True, "unknown")
    assert found["modified"] == found["created"] == "0001-01-01T00:00:00Z"
    assert admin.ok("/api/fs/get", path="/files")["provider"] == "Local"


def test_related_are_the_siblings_with_the_same_stem(admin: Client, folder: str) -> None:
    fill(admin, folder, "film.mkv", "film.srt", "film.en.srt", "film2/", "other.srt", "Film.nfo")
    found = admin.ok("/api/fs/get", path=f"{folder}/film.mkv")
    assert sorted(row["name"] for row in found["related"]) == ["film.en.srt", "film.srt", "film2"]
    assert all(set(row) == OBJECT for row in found["related"])
    subtitle = next(row for row in found["related"] if row["name"] == "film.srt")
    assert subtitle["sign"] == admin.ok("/api/fs/get", path=f"{folder}/film.srt")["sign"]
    assert admin.ok("/api/fs/get", path=f"{folder}/other.srt")["related"] is None


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("{folder}/none", "failed to get obj: object not found"),
        ("/no-such-mount/x", "failed get storage: storage not found; rawPath: /no-such-mount/x"),
    ],
)
def test_get_says_what_is_missing(admin: Client, folder: str, path: str, message: str) -> None:
    check_failure(admin.post("/api/fs/get", path=path.format(folder=folder)), 500, message)


def test_links_name_the_address_the_client_used(admin: Client, folder: str) -> None:
    fill(admin, folder, "file")
    body = {"path": f"{folder}/file"}

    def base(path: str = "/api/fs/get", **headers: str) -> str:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        url = admin.envelope(admin.http.post(path, json=body, headers=sent))["data"]["raw_url"]
        return str(url).partition(folder)[0]

    assert base(x_forwarded_proto="https", x_forwarded_host="cloud.example:8443") == "https://cloud.example:8443/p"
    assert base(host="other.example") == "http://other.example/p"
    assert base("/openlist/api/fs/get") == f"{admin.address}/openlist/p"
    assert "<" not in base(x_forwarded_host='evil"><script>')
    assert base(x_forwarded_proto="javascript").startswith("http://")


def test_dirs_names_folders_only(admin: Client, folder: str) -> None:
    fill(admin, folder, "b/", "a/", "file")
    rows = admin.ok("/api/fs/dirs", path=folder)
    assert [row["name"] for row in rows] == ["a", "b"]
    assert all(set(row) == {"name", "modified"} for row in rows)
    assert admin.ok("/api/fs/dirs", path=f"{folder}/a") == []
    assert admin.get("/api/fs/dirs", path=folder)["data"] == rows


def test_force_root_is_for_administrators(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "home/", "home/own/")
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS, f"{folder}/home") as user:
        check_failure(user.post("/api/fs/dirs", path=folder, force_root=True), 403, "Permission denied")
        assert [row["name"] for row in user.ok("/api/fs/dirs", path="/")] == ["own"]
    assert [row["name"] for row in admin.ok("/api/fs/dirs", path=folder, force_root=True)] == ["home"]


def test_mkdir_makes_missing_parents_and_is_content_with_what_exists(
    service: Service, admin: Client, folder: str
) -> None:
    for _ in range(2):
        assert admin.ok("/api/fs/mkdir", path=f"{folder}/a/b/c") is None
    assert fixtures.disk(service, f"{folder}/a/b/c").is_dir()
    assert list_names(admin, folder) == ["a"]
    assert admin.ok("/api/fs/mkdir", path="/files") is None


def test_mkdir_refuses_where_a_file_stands(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "file")
    check_failure(admin.post("/api/fs/mkdir", path=f"{folder}/file"), 500, "file exists")
    assert admin.post("/api/fs/mkdir", path=f"{folder}/file/below")["code"] == 500
    assert admin.post("/api/fs/mkdir", path=f"{folder}/file/below/deeper")["code"] == 500
    assert read_tree(service, folder) == {"file": "file"}
    check_failure(
        admin.post("/api/fs/mkdir", path="/no-such-mount/x"),
        500,
        "failed get storage: storage not found; rawPath: /no-such-mount/x",
    )


def test_rename_gives_files_and_folders_new_names(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "old.txt", "dir/", "dir/inside")
    assert admin.ok("/api/fs/rename", path=f"{folder}/old.txt", name="nëw.txt") is None
    admin.ok("/api/fs/rename", path=f"{folder}/dir", name="renamed")
    admin.ok("/api/fs/rename", path=f"{folder}/renamed", name="renamed")
    assert read_tree(service, folder) == {"nëw.txt": "old.txt", "renamed/inside": "dir/inside"}
    assert list_names(admin, folder) == ["nëw.txt", "renamed"]


def test_rename_replaces_only_when_asked_to(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "a", "b")
    check_failure(admin.post("/api/fs/rename", path=f"{folder}/a", name="b"), 403, "file [b] exists")
    assert read_tree(service, folder) == {"a": "a", "b": "b"}
    admin.ok("/api/fs/rename", path=f"{folder}/a", name="b", overwrite=True)
    assert read_tree(service, folder) == {"b": "a"}
    assert admin.ok("/api/fs/get", path=f"{folder}/b")["size"] == 1


def test_rename_never_destroys_a_folder(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "a", "full/", "full/kept", "moved/", "moved/x")
    for name in ("a", "moved"):
        answer = admin.post("/api/fs/rename", path=f"{folder}/{name}", name="full", overwrite=True)
        assert answer["code"] == 500
        assert answer["message"].startswith(f"rename [{name}]: ")
    assert read_tree(service, folder) == {"a": "a", "full/kept": "full/kept", "moved/x": "moved/x"}


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "../x", "/"])
def test_a_new_name_is_one_name(admin: Client, folder: str, name: str) -> None:
    fill(admin, folder, "a")
    refused = "using relative path is not allowed"
    check_failure(admin.post("/api/fs/rename", path=f"{folder}/a", name=name), 403, refused)
    rename = [{"src_name": "a", "new_name": name}]
    answer = admin.post("/api/fs/batch_rename", src_dir=folder, rename_objects=rename)
    if name:
        check_failure(answer, 403, refused)
    else:
        assert answer["code"] == 200
    assert list_names(admin, folder) == ["a"]


@pytest.mark.parametrize("name", ["x" * 256, "ü" * 128, "a\nb", "a\x7fb", "a\0b"])
def test_a_new_name_fits_every_storage(admin: Client, folder: str, name: str) -> None:
    fill(admin, folder, "a")
    assert admin.post("/api/fs/rename", path=f"{folder}/a", name=name)["code"] == 400
    assert list_names(admin, folder) == ["a"]


def test_what_is_missing_or_a_mount_cannot_be_renamed(admin: Client, folder: str) -> None:
    check_failure(admin.post("/api/fs/rename", path=f"{folder}/none", name="b"), 500, MISSING_SOURCE)
    with fixtures.virtual(admin, f"{folder}/way/mount") as mounted:
        check_failure(admin.post("/api/fs/rename", path=mounted, name="b"), 500, "rename root folder is not allowed")
        check_failure(admin.post("/api/fs/rename", path=f"{folder}/way", name="b"), 500, "permission denied")
        fill(admin, folder, "file")
        check_failure(
            admin.post("/api/fs/rename", path=f"{folder}/file", name="way", overwrite=True), 403, "file [way] exists"
        )


def test_batch_rename_renames_all(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "a", "b", "c")
    pairs = [("a", "1"), ("b", "2"), ("", "x"), ("c", ""), ("c", "c")]
    rename = [{"src_name": old, "new_name": new} for old, new in pairs]
    assert admin.ok("/api/fs/batch_rename", src_dir=folder, rename_objects=rename[:4]) is None
    assert read_tree(service, folder) == {"1": "a", "2": "b", "c": "c"}
    assert admin.post("/api/fs/batch_rename")["code"] == 200


@pytest.mark.parametrize(
    ("pairs", "code", "message"),
    [
        ([("a", "x"), ("none", "y")], 500, MISSING_SOURCE),
        ([("a", "x"), ("b", "../y")], 403, "using relative path is not allowed"),
        ([("a", "x"), ("../b", "y")], 403, "using relative path is not allowed"),
        ([("a", "x"), ("b", "c")], 403, "file [c] exists"),
        ([("a", "x"), ("b", "x")], 403, "file [x] exists"),
        ([("a", "b"), ("b", "a")], 403, "file [b] exists"),
    ],
)
def test_batch_rename_checks_all_before_it_renames_one(
    service: Service, admin: Client, folder: str, pairs: list[tuple[str, str]], code: int, message: str
) -> None:
    fill(admin, folder, "a", "b", "c")
    rename = [{"src_name": old, "new_name": new} for old, new in pairs]
    check_failure(admin.post("/api/fs/batch_rename", src_dir=folder, rename_objects=rename), code, message)
    assert read_tree(service, folder) == {"a": "a", "b": "b", "c": "c"}


@pytest.mark.parametrize(
    ("pattern", "template", "names"),
    [
        (r"^(\w+)-(\d+)\.txt$", "${2}_$1.txt", ["1_track.txt", "2_track.txt", "rest.md"]),
        (r"track", "t", ["rest.md", "t-1.txt", "t-2.txt"]),
        (r"(?P<stem>[a-z]+)-", "${stem}+", ["rest.md", "track+1.txt", "track+2.txt"]),
        (r"-", "$$", ["rest.md", "track$1.txt", "track$2.txt"]),
        (r"(\d)\.txt", "$1x.txt", ["rest.md", "track-.txt"]),
        (r"t", "T$9", ["Track-1.TxT", "Track-2.TxT", "resT.md"]),
        (r"nothing", "x", ["rest.md", "track-1.txt", "track-2.txt"]),
    ],
)
def test_regex_rename_replaces_as_go_does(
    admin: Client, folder: str, pattern: str, template: str, names: list[str]
) -> None:
    fill(admin, folder, "track-1.txt", "track-2.txt", "rest.md")
    if len(names) < 3:
        admin.ok("/api/fs/remove", dir=folder, names=["track-2.txt"])
    body = {"src_dir": folder, "src_name_regex": pattern, "new_name_regex": template}
    assert admin.ok("/api/fs/regex_rename", **body) is None
    assert admin.names(folder) == names


@pytest.mark.parametrize(
    ("pattern", "template", "code", "message"),
    [
        (r"\d", "/$0", 403, "using relative path is not allowed"),
        (r"^.*$", "..", 403, "using relative path is not allowed"),
        (r"^.*$", "", 403, "using relative path is not allowed"),
        (r"\d", "", 403, "file [track-.txt] exists"),
        (r"track-1", "track-2", 403, "file [track-2.txt] exists"),
    ],
)
def test_regex_rename_checks_all_before_it_renames_one(
    service: Service, admin: Client, folder: str, pattern: str, template: str, code: int, message: str
) -> None:
    fill(admin, folder, "track-1.txt", "track-2.txt")
    before = read_tree(service, folder)
    body = {"src_dir": folder, "src_name_regex": pattern, "new_name_regex": template}
    check_failure(admin.post("/api/fs/regex_rename", **body), code, message)
    assert read_tree(service, folder) == before


@pytest.mark.parametrize("pattern", ["(", "[", "a**", r"(?<!x)y", r"\1"])
def test_a_pattern_that_does_not_compile_is_named(admin: Client, folder: str, pattern: str) -> None:
    body = {"src_dir": f"{folder}/none", "src_name_regex": pattern, "new_name_regex": "x"}
    answer = admin.post("/api/fs/regex_rename", **body)
    assert answer["code"] == 500
    assert answer["message"].startswith("error parsing regexp: ")


def test_a_pattern_cannot_keep_the_service_busy(admin: Client, folder: str) -> None:
    fill(admin, folder, "a" * 200 + "!")
    began = time.monotonic()
    body = {"src_dir": folder, "src_name_regex": "^((a+)+)+$", "new_name_regex": "x"}
    assert admin.post("/api/fs/regex_rename", **body)["code"] == 200
    assert time.monotonic() - began < 2
    check_failure(admin.post("/api/fs/regex_rename", **(body | {"src_dir": f"{folder}/none"})), 500, MISSING_FOLDER)


@pytest.mark.parametrize("verb", TRANSFERS)
def test_move_and_copy_carry_files_and_keep_their_times(
    service: Service, admin: Client, folder: str, verb: str
) -> None:
    fill(admin, folder, "from/", "to/", "from/b", "from/empty/")
    admin.put(f"{folder}/from/a", b"content", last_modified="1577934245678")
    body = {"src_dir": f"{folder}/from", "dst_dir": f"{folder}/to", "names": ["a", "b", "empty"]}
    assert admin.ok(f"/api/fs/{verb}", **body) is None
    assert admin.names(f"{folder}/to") == ["a", "b", "empty"]
    assert admin.names(f"{folder}/from") == ([] if verb == "move" else ["a", "b", "empty"])
    assert read_text(admin, f"{folder}/to/a") == "content"
    assert admin.ok("/api/fs/get", path=f"{folder}/to/a")["modified"].startswith("2020-01-02T03:04:05.678")


@pytest.mark.parametrize(("verb", "word"), [("move", "Move"), ("copy", "Copy")])
def test_existing_clients_are_told_that_it_was_done_at_once(admin: Client, folder: str, verb: str, word: str) -> None:
    fill(admin, folder, "a", "to/")
    body = {"src_dir": folder, "dst_dir": f"{folder}/to", "names": ["a"]}
    assert admin.ok(f"/openlist/api/fs/{verb}", **body) == {"message": f"{word} operations completed immediately"}
    assert read_text(admin, f"{folder}/to/a") == "a"


def test_a_moved_folder_takes_everything_along(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "d/", "d/x", "d/e/", "d/e/y", "to/")
    assert list_names(admin, f"{folder}/d/e") == ["y"]
    admin.ok("/api/fs/move", src_dir=folder, dst_dir=f"{folder}/to", names=["d"])
    assert read_tree(service, folder) == {"to/d/x": "d/x", "to/d/e/y": "d/e/y"}
    check_failure(admin.post("/api/fs/list", path=f"{folder}/d/e"), 500, MISSING_FOLDER)
    assert list_names(admin, f"{folder}/to/d/e") == ["y"]


@pytest.mark.parametrize("verb", TRANSFERS)
def test_a_taken_name_refuses_the_whole_transfer(service: Service, admin: Client, folder: str, verb: str) -> None:
    fill(admin, folder, "a", "b", "to/", "to/b")
    before = read_tree(service, folder)
    body = {"src_dir": folder, "dst_dir": f"{folder}/to", "names": ["a", "b"]}
    check_failure(admin.post(f"/api/fs/{verb}", **body), 403, "file [b] exists")
    assert read_tree(service, folder) == before


@pytest.mark.parametrize("verb", TRANSFERS)
def test_a_transfer_overwrites_or_skips_when_asked_to(service: Service, admin: Client, folder: str, verb: str) -> None:
    fill(admin, folder, "a", "b", "to/", "to/b")
    body = {"src_dir": folder, "dst_dir": f"{folder}/to", "names": ["a", "b"]}
    admin.ok(f"/api/fs/{verb}", **body, skip_existing=True)
    assert read_tree(service, f"{folder}/to") == {"a": "a", "b": "to/b"}
    assert read_tree(service, folder)["b"] == "b"
    fill(admin, folder, "a")
    admin.ok(f"/api/fs/{verb}", **body, overwrite=True)
    assert read_tree(service, f"{folder}/to") == {"a": "a", "b": "b"}


@pytest.mark.parametrize("verb", TRANSFERS)
def test_an_item_that_fails_names_itself(service: Service, admin: Client, folder: str, verb: str) -> None:
    fill(admin, folder, "a", "to/", "to/a/", "to/a/kept")
    body = {"src_dir": folder, "dst_dir": f"{folder}/to", "names": ["a"], "overwrite": True}
    check_failure(admin.post(f"/api/fs/{verb}", **body), 500, f"{verb} [a]: file exists")
    assert read_tree(service, folder) == {"a": "a", "to/a/kept": "to/a/kept"}


@pytest.mark.parametrize("verb", TRANSFERS)
@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"names": []}, 400, "Empty file names"),
        ({"names": ["a", ""]}, 400, "invalid file name []"),
        ({"names": ["a", "."]}, 400, "invalid file name [.]"),
        ({"names": ["a", "../a"]}, 403, "using relative path is not allowed"),
        ({"names": ["a", ".."]}, 403, "using relative path is not allowed"),
        ({"names": ["a", "none"]}, 500, MISSING_SOURCE),
        ({"dst_dir": "{0}/none"}, 500, "failed to get dst dir: failed to get obj: object not found"),
        ({"dst_dir": "{0}", "overwrite": True}, 500, "{1} in place"),
        ({"dst_dir": "{0}"}, 403, "file [a] exists"),
        (
            {"names": ["d"], "dst_dir": "{0}/d/e"},
            500,
            "the destination folder is a subfolder of the source folder",
        ),
        ({"src_dir": "/nowhere"}, 500, "failed get src storage: storage not found; rawPath: /nowhere"),
        ({"dst_dir": "/nowhere"}, 500, "failed get dst storage: storage not found; rawPath: /nowhere"),
        ({"names": ["d"], "dst_dir": "{0}/a"}, 500, "not a folder"),
    ],
)
def test_a_transfer_that_cannot_be_changes_nothing(
    service: Service, admin: Client, folder: str, verb: str, change: dict[str, Any], code: int, message: str
) -> None:
    fill(admin, folder, "a", "d/", "d/e/", "to/")
    body = {"src_dir": folder, "dst_dir": f"{folder}/to", "names": ["a"]} | change
    body = {key: value.format(folder) if isinstance(value, str) else value for key, value in body.items()}
    check_failure(admin.post(f"/api/fs/{verb}", **body), code, message.format(folder, verb))
    assert read_tree(service, folder) == {"a": "a"}
    assert admin.names(folder) == ["a", "d", "to"]


@pytest.mark.parametrize("verb", TRANSFERS)
def test_what_a_storage_cannot_do_by_itself_becomes_a_task_for_each_name(
    service: Service, admin: Client, folder: str, verb: str
) -> None:
    fill(admin, folder, "a", "d/", "d/b")
    with fixtures.virtual(admin) as elsewhere:
        body = {"src_dir": folder, "dst_dir": elsewhere, "names": ["a", "d"]}
        check_failure(admin.post(f"/api/fs/{verb}", **(body | {"names": ["a", "missing"]})), 500, MISSING_SOURCE)
        assert admin.names(elsewhere) == []
        tasks = {task["id"] for task in admin.ok(f"/openlist/api/fs/{verb}", **body)["tasks"]}
        assert len(tasks) == 2
        end = time.monotonic() + 10
        while tasks & {row["id"] for row in admin.get(f"/api/task/{verb}/undone")["data"]}:
            assert time.monotonic() < end
            time.sleep(0.01)
        done = [row for row in admin.get(f"/api/task/{verb}/done")["data"] if row["id"] in tasks]
        assert [(row["state"], row["error"]) for row in done] == [("succeeded", "")] * 2
        assert (admin.names(elsewhere), admin.names(f"{elsewhere}/d")) == (["a", "d"], ["b"])
    assert read_tree(service, folder) == ({"a": "a", "d/b": "d/b"} if verb == "copy" else {})
    assert admin.envelope(admin.http.post(f"/api/task/{verb}/delete_some", json=sorted(tasks)))["data"] == {}


@pytest.mark.parametrize("verb", TRANSFERS)
def test_a_mount_is_no_item(admin: Client, folder: str, verb: str) -> None:
    fill(admin, folder, "to/", "from/", "from/mount")
    with fixtures.virtual(admin, f"{folder}/mount"), fixtures.virtual(admin, f"{folder}/to/taken/deep"):
        body = {"src_dir": folder, "dst_dir": f"{folder}/to", "names": ["mount"]}
        check_failure(admin.post(f"/api/fs/{verb}", **body), 500, "permission denied")
        fill(admin, folder, "taken")
        check_failure(admin.post(f"/api/fs/{verb}", **(body | {"names": ["taken"]})), 403, "file [taken] exists")
    assert admin.names(f"{folder}/to") == []


def test_a_merging_copy_adds_what_is_missing(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "d/", "d/new", "d/old", "d/sub/", "d/sub/deep", "f", "to/d/sub/")
    admin.put(f"{folder}/to/d/old", b"kept")
    admin.put(f"{folder}/to/f", b"kept too")
    admin.ok("/api/fs/copy", src_dir=folder, dst_dir=f"{folder}/to", names=["d", "f"], merge=True)
    assert read_tree(service, f"{folder}/to") == {
        "d/new": "d/new",
        "d/old": "kept",
        "d/sub/deep": "d/sub/deep",
        "f": "kept too",
    }
    assert read_tree(service, f"{folder}/d") == {"new": "d/new", "old": "d/old", "sub/deep": "d/sub/deep"}


def test_a_copied_file_is_a_file_of_its_own(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "a", "to/")
    admin.ok("/api/fs/copy", src_dir=folder, dst_dir=f"{folder}/to", names=["a"])
    admin.put(f"{folder}/a", b"changed")
    assert read_tree(service, folder) == {"a": "changed", "to/a": "a"}


def test_recursive_move_gathers_files_and_leaves_folders(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "from/d/e/", "from/a", "from/d/b", "from/d/e/c", "to/")
    body = {"src_dir": f"{folder}/from", "dst_dir": f"{folder}/to"}
    answer = admin.post("/openlist/api/fs/recursive_move", **body)
    assert (answer["code"], answer["message"], answer["data"]) == (200, "Successfully moved 3 files", None)
    assert read_tree(service, folder) == {"to/a": "from/a", "to/b": "from/d/b", "to/c": "from/d/e/c"}
    assert list_names(admin, f"{folder}/from/d") == ["e"]
    assert admin.post("/openlist/api/fs/recursive_move", **body)["message"] == "Successfully moved 0 files"
    assert admin.post("/api/fs/recursive_move", **body) == {"code": 200, "message": "success", "data": None}
    fill(admin, folder, "from/x")
    assert admin.post("/openlist/api/fs/recursive_move", **body)["message"] == "Successfully moved 1 file"


@pytest.mark.parametrize(
    ("policy", "code", "after"),
    [
        ("cancel", 403, {"from/a": "from/a", "from/d/b": "from/d/b", "to/b": "to/b"}),
        ("", 403, {"from/a": "from/a", "from/d/b": "from/d/b", "to/b": "to/b"}),
        ("skip", 200, {"from/d/b": "from/d/b", "to/a": "from/a", "to/b": "to/b"}),
        ("overwrite", 200, {"to/a": "from/a", "to/b": "from/d/b"}),
        ("whatever", 400, {"from/a": "from/a", "from/d/b": "from/d/b", "to/b": "to/b"}),
    ],
)
def test_recursive_move_keeps_to_its_conflict_policy(
    service: Service, admin: Client, folder: str, policy: str, code: int, after: dict[str, str]
) -> None:
    fill(admin, folder, "from/d/", "from/a", "from/d/b", "to/", "to/b")
    body = {"src_dir": f"{folder}/from", "dst_dir": f"{folder}/to", "conflict_policy": policy}
    answer = admin.post("/api/fs/recursive_move", **body)
    assert answer["code"] == code
    if code == 403:
        assert answer["message"] == "file [b] exists"
    assert read_tree(service, folder) == after


def test_two_files_of_one_name_cancel_a_recursive_move(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "from/d/", "from/e/", "from/d/same", "from/e/same", "to/")
    body = {"src_dir": f"{folder}/from", "dst_dir": f"{folder}/to", "conflict_policy": "cancel"}
    check_failure(admin.post("/api/fs/recursive_move", **body), 403, "file [same] exists")
    assert read_tree(service, folder) == {"from/d/same": "from/d/same", "from/e/same": "from/e/same"}


def test_recursive_move_into_the_same_folder_flattens_it(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "stays", "d/", "d/rises")
    body = {"src_dir": folder, "dst_dir": folder, "conflict_policy": "overwrite"}
    assert admin.post("/openlist/api/fs/recursive_move", **body)["message"] == "Successfully moved 1 file"
    assert read_tree(service, folder) == {"stays": "stays", "rises": "d/rises"}


@pytest.mark.parametrize("missing", ["src_dir", "dst_dir"])
def test_recursive_move_needs_both_folders(service: Service, admin: Client, folder: str, missing: str) -> None:
    fill(admin, folder, "from/", "from/a", "to/")
    body = {"src_dir": f"{folder}/from", "dst_dir": f"{folder}/to"} | {missing: f"{folder}/none"}
    check_failure(admin.post("/api/fs/recursive_move", **body), 500, MISSING_FOLDER)
    assert read_tree(service, folder) == {"from/a": "from/a"}


def test_remove_takes_folders_with_all_they_hold(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "d/e/", "d/e/x", "file", "kept")
    assert admin.ok("/api/fs/remove", dir=folder, names=["d", "file", "never was"]) is None
    assert read_tree(service, folder) == {"kept": "kept"}
    assert list_names(admin, folder) == ["kept"]
    assert admin.ok("/api/fs/remove", dir=f"{folder}/none", names=["x"]) is None


@pytest.mark.parametrize(
    ("names", "code", "message"),
    [
        ([], 400, "Empty file names"),
        (["a", ""], 400, "invalid file name []"),
        (["a", "."], 400, "invalid file name [.]"),
        (["a", ".."], 403, "using relative path is not allowed"),
        (["a", "../outside"], 403, "using relative path is not allowed"),
        (["a", "mount"], 500, "remove [mount]: permission denied"),
    ],
)
def test_remove_refuses_before_it_removes_anything(
    service: Service, admin: Client, folder: str, names: list[str], code: int, message: str
) -> None:
    fill(admin, folder, "outside", "in/", "in/a")
    with fixtures.virtual(admin, f"{folder}/in/mount"):
        check_failure(admin.post("/api/fs/remove", dir=f"{folder}/in", names=names), code, message)
    assert read_tree(service, folder) == {"outside": "outside", "in/a": "in/a"}


def test_a_symbolic_link_is_removed_and_not_followed(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "real/", "real/kept", "d/")
    root = fixtures.disk(service, folder)
    (root / "d" / "link").symlink_to(root / "real")
    admin.ok("/api/fs/remove", dir=folder, names=["d"])
    assert read_tree(service, folder) == {"real/kept": "real/kept"}


def test_remove_empty_directory_keeps_files_and_the_folder_itself(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "a/b/c/", "a/d/", "full/empty/", "full/file", "top")
    assert admin.ok("/api/fs/remove_empty_directory", src_dir=folder) is None
    assert admin.names(folder) == ["full", "top"]
    assert admin.names(f"{folder}/full") == ["file"]
    admin.ok("/api/fs/remove", dir=folder, names=["full", "top"])
    admin.ok("/api/fs/remove_empty_directory", src_dir=folder)
    assert fixtures.disk(service, folder).is_dir()
    check_failure(admin.post("/api/fs/remove_empty_directory", src_dir=f"{folder}/none"), 500, MISSING_FOLDER)


def test_remove_empty_directory_spares_mounts_and_hidden_folders(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "mounts/here/", "hidden/", "seen/")
    with (
        fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~1) as user,
        fixtures.virtual(admin, f"{folder}/mounts/here"),
        fixtures.meta(admin, folder, hide="^hidden$"),
    ):
        user.ok("/api/fs/remove_empty_directory", src_dir=folder)
    assert admin.names(folder) == ["hidden", "mounts"]
    assert fixtures.disk(service, f"{folder}/mounts/here").is_dir()


def test_other_is_not_offered_by_any_driver(admin: Client, folder: str) -> None:
    fill(admin, folder, "a")
    check_failure(admin.post("/api/fs/other", path=f"{folder}/a", method="video_preview"), 500, "not implement")
    missing = "failed get storage: storage not found; rawPath: /no-such-mount/x"
    check_failure(admin.post("/api/fs/other", path="/no-such-mount/x"), 500, missing)


def test_link_gives_administrators_an_address_that_works(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "a")
    found = admin.ok("/api/fs/link", path=f"{folder}/a")
    sign = admin.ok("/api/fs/get", path=f"{folder}/a")["sign"]
    assert found == {
        "url": f"{service.address}/p{folder}/a?d&sign={sign}",
        "header": None,
        "Expiration": None,
        "concurrency": 0,
        "part_size": 0,
        "content_length": 0,
    }
    assert service.nobody().http.get(found["url"]).text == "a"
    assert urlsplit(admin.ok("/api/fs/link", path=f"{folder}/none")["url"]).path == f"/p{folder}/none"
    check_failure(admin.post("/api/fs/link", path="/nowhere"), 500, "storage not found; rawPath: /nowhere")
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as user:
        check_failure(user.post("/api/fs/link", path=f"{folder}/a"), 403, "You are not an admin")


def test_link_of_a_driver_with_addresses_is_that_address(admin: Client) -> None:
    structure = {"url_structure": "d:\n  f.bin:7:https://example.com/f.bin"}
    with fixtures.mount(admin, "UrlTree", addition=structure) as mounted:
        assert admin.ok("/api/fs/link", path=f"{mounted}/d/f.bin")["url"] == "https://example.com/f.bin"
        check_failure(admin.post("/api/fs/link", path=f"{mounted}/d"), 500, "failed link: not a file")
        missing = "failed link: failed to get file: failed to get obj: object not found"
        check_failure(admin.post("/api/fs/link", path=f"{mounted}/none"), 500, missing)


CHANGES: list[tuple[int, str, dict[str, Any]]] = [
    (fixtures.WRITE, "mkdir", {"path": "{0}/new"}),
    (fixtures.RENAME, "rename", {"path": "{0}/a", "name": "n"}),
    (fixtures.RENAME, "batch_rename", {"src_dir": "{0}", "rename_objects": [{"src_name": "a", "new_name": "n"}]}),
    (fixtures.RENAME, "regex_rename", {"src_dir": "{0}", "src_name_regex": "^a$", "new_name_regex": "n"}),
    (fixtures.MOVE, "move", {"src_dir": "{0}", "dst_dir": "{0}/d", "names": ["a"]}),
    (fixtures.MOVE, "recursive_move", {"src_dir": "{0}/d", "dst_dir": "{0}"}),
    (fixtures.COPY, "copy", {"src_dir": "{0}", "dst_dir": "{0}/d", "names": ["a"]}),
    (fixtures.DELETE, "remove", {"dir": "{0}", "names": ["a"]}),
    (fixtures.DELETE, "remove_empty_directory", {"src_dir": "{0}"}),
]


@pytest.fixture(scope="module")
def poor(service: Service, admin: Client) -> Iterator[Client]:
    """A user with none of the rights that change files, and all others."""
    kinds = fixtures.WRITE | fixtures.RENAME | fixtures.MOVE | fixtures.COPY | fixtures.DELETE
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~kinds) as user:
        yield user


@pytest.fixture(scope="module")
def users_by_right(service: Service, admin: Client) -> Iterator[dict[int, tuple[Client, Client]]]:
    """For each right: a user with it alone, and one with all but it."""
    with ExitStack() as stack:
        yield {
            right: (
                stack.enter_context(fixtures.user(service, admin, right)),
                stack.enter_context(fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~right)),
            )
            for right in (fixtures.WRITE, fixtures.RENAME, fixtures.MOVE, fixtures.COPY, fixtures.DELETE)
        }


@pytest.mark.parametrize(("right", "verb", "body"), CHANGES, ids=[verb for _, verb, _ in CHANGES])
def test_each_change_needs_its_own_right_and_no_other(
    service: Service,
    admin: Client,
    folder: str,
    users_by_right: dict[int, tuple[Client, Client]],
    right: int,
    verb: str,
    body: dict[str, Any],
) -> None:
    fill(admin, folder, "a", "d/")
    body = {key: value.format(folder) if isinstance(value, str) else value for key, value in body.items()}
    may, may_not = users_by_right[right]
    check_failure(may_not.post(f"/api/fs/{verb}", **body), 403, "permission denied")
    assert read_tree(service, folder) == {"a": "a"}
    assert admin.names(folder) == ["a", "d"]
    assert may.post(f"/api/fs/{verb}", **body)["code"] == 200


@pytest.mark.parametrize(("right", "verb", "body"), CHANGES, ids=[verb for _, verb, _ in CHANGES])
def test_a_list_of_writers_stops_everybody_else(
    service: Service, admin: Client, folder: str, right: int, verb: str, body: dict[str, Any]
) -> None:
    fill(admin, folder, "a", "d/")
    body = {key: value.format(folder) if isinstance(value, str) else value for key, value in body.items()}
    with fixtures.meta(admin, folder, write_users=[2**40], write_users_sub=True, write=True, w_sub=True):
        check_failure(admin.post(f"/api/fs/{verb}", **body), 403, "permission denied")
    assert read_tree(service, folder) == {"a": "a"}


@pytest.mark.parametrize(("right", "verb", "body"), CHANGES, ids=[verb for _, verb, _ in CHANGES])
def test_a_rule_that_opens_writing_replaces_no_other_right(
    admin: Client, poor: Client, folder: str, right: int, verb: str, body: dict[str, Any]
) -> None:
    fill(admin, folder, "a", "d/")
    body = {key: value.format(folder) if isinstance(value, str) else value for key, value in body.items()}
    with fixtures.meta(admin, folder, write=True, w_sub=True):
        assert poor.post(f"/api/fs/{verb}", **body)["code"] == (200 if right == fixtures.WRITE else 403)


def test_a_user_sees_and_changes_only_what_is_below_his_base_path(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "home/", "home/own", "home2/", "home2/foreign", "foreign")
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS, f"{folder}/home") as user:
        assert list_names(user, "/") == ["own"]
        assert user.ok("/api/fs/get", path="/")["name"] == "home"
        found = user.ok("/api/fs/get", path="/own")
        assert urlsplit(found["raw_url"]).path == f"/p{folder}/home/own"
        assert user.http.get(found["raw_url"]).text == "home/own"
        for path in (f"{folder}/foreign", "/../foreign", "/..", "../home2", f"{folder}/home/own"):
            assert user.post("/api/fs/get", path=path)["code"] in (403, 500)
        user.ok("/api/fs/mkdir", path="/made")
        user.ok("/api/fs/rename", path="/own", name="mine")
        user.ok("/api/fs/move", src_dir="/", dst_dir="/made", names=["mine"])
        relative = "using relative path is not allowed"
        for names in (["../foreign"], [".."]):
            check_failure(user.post("/api/fs/remove", dir="/", names=names), 403, relative)
        check_failure(user.post("/api/fs/move", src_dir="/", dst_dir="/../home2", names=["made"]), 403, relative)
        check_failure(user.post("/api/fs/copy", src_dir="/../home2", dst_dir="/", names=["foreign"]), 403, relative)
        user.ok("/api/fs/remove", dir=folder, names=["foreign"])
    assert read_tree(service, folder) == {
        "home/made/mine": "home/own",
        "home2/foreign": "home2/foreign",
        "foreign": "foreign",
    }


def test_mounts_outside_the_base_path_do_not_show(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "home/")
    with (
        fixtures.virtual(admin, f"{folder}/home/inside"),
        fixtures.virtual(admin, f"{folder}/outside"),
        fixtures.virtual(admin, f"{folder}/homeless"),
        fixtures.user(service, admin, 0, f"{folder}/home") as user,
    ):
        assert list_names(user, "/") == ["inside"]
        assert [row["name"] for row in user.ok("/api/fs/dirs", path="/")] == ["inside"]


def test_a_user_whose_base_path_is_a_mount_gets_that_mount(service: Service, admin: Client) -> None:
    with fixtures.virtual(admin) as mounted, fixtures.user(service, admin, 0, mounted) as user:
        found = user.ok("/api/fs/get", path="/")
        assert (found["name"], found["provider"], found["is_dir"]) == (mounted[1:], "Virtual", True)
