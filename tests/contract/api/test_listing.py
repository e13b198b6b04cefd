"""Folders listed over HTTP: fields, order, pages, mounts, what is hidden."""

from __future__ import annotations

import time
from pathlib import Path
from uuid import uuid4

import pytest

from tests.contract.api import fixtures
from tests.contract.api.fixtures import (
    NOT_MOUNTED,
    NOTHING_THERE,
    OBJECT,
    check_failure,
    fill,
    list_names,
    read_tree,
)
from tests.support.service import Client, Service


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
    assert file["sign"].endswith(":0")
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


def test_folders_that_only_lead_to_mounts_are_listed_where_no_storage_is(admin: Client) -> None:
    top = f"/{uuid4().hex}"
    with fixtures.virtual(admin, f"{top}/way/mount") as mounted:
        answer = admin.ok("/api/fs/list", path=top)
        assert [row["name"] for row in answer["content"]] == ["way"]
        assert (answer["provider"], answer["total"]) == ("unknown", 1)
        way = admin.ok("/api/fs/get", path=f"{top}/way")
        assert (way["name"], way["is_dir"], way["provider"], way["raw_url"]) == ("way", True, "unknown", "")
        entry = admin.ok("/api/fs/get", path=mounted)
        assert (entry["name"], entry["is_dir"], entry["provider"]) == ("mount", True, "Virtual")
        assert entry["modified"] == admin.ok("/api/fs/list", path=f"{top}/way")["content"][0]["modified"]
        check_failure(
            admin.post("/api/fs/list", path=f"{top}/other"),
            500,
            NOT_MOUNTED,
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
    end = time.monotonic() + 120
    while list_names(admin, folder) != ["a", "b"]:
        assert time.monotonic() < end
        time.sleep(0.02)


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
            check_failure(user.post("/api/fs/rename", path=f"{folder}/shown.key", name="n"), 500, NOTHING_THERE)
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
        ("{folder}/file", 500, "this is not a folder"),
        ("{folder}/none", 500, NOTHING_THERE),
        ("{folder}/file/below", 500, NOTHING_THERE),
        ("/no-such-mount/x", 500, NOT_MOUNTED),
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


def test_missing_folder_without_direct_lookup_has_shorter_message(admin: Client) -> None:
    with fixtures.virtual(admin) as mounted:
        check_failure(
            admin.post("/openlist/api/fs/list", path=f"{mounted}/none"),
            500,
            "failed get objs: failed get dir: object not found",
        )
        check_failure(admin.post("/openlist/api/fs/get", path=f"{mounted}/none"), 500, "object not found")


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


# Another order than the storage's


def test_nothing_can_be_written_where_no_storage_is(admin: Client, tmp_path: Path) -> None:
    place = f"/{uuid4().hex}"
    with fixtures.local(admin, tmp_path, f"{place}/deep"):
        assert admin.ok("/api/fs/list", path=place)["write"] is False
        assert admin.ok("/api/fs/list", path=f"{place}/deep")["write"] is True
