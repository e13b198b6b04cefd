"""move, copy, recursive_move and the two ways to remove over HTTP."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import fixtures
from tests.contract.api.fixtures import (
    NOT_MOUNTED,
    NOTHING_THERE,
    check_failure,
    fill,
    list_names,
    read_tree,
)
from tests.support.service import Client, Service

TRANSFERS = ["move", "copy"]


def read_text(admin: Client, path: str) -> str:
    return admin.bytes(path).text


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
    check_failure(admin.post("/api/fs/list", path=f"{folder}/d/e"), 500, NOTHING_THERE)
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
def test_transfer_that_keeps_both_numbers_taken_names(service: Service, admin: Client, folder: str, verb: str) -> None:
    fill(admin, folder, "a", "b.txt", "b (2).txt", "to/", "to/b.txt")
    body = {"src_dir": folder, "dst_dir": f"{folder}/to", "names": ["a", "b.txt", "b (2).txt"]}
    admin.ok(f"/api/fs/{verb}", **body, keep_both=True)
    assert read_tree(service, f"{folder}/to") == {
        "a": "a", "b.txt": "to/b.txt", "b (2).txt": "b.txt", "b (2) (2).txt": "b (2).txt",
    }  # fmt: skip


def test_folder_that_is_moved_and_keeps_both_is_numbered_at_its_end(
    service: Service, admin: Client, folder: str
) -> None:
    fill(admin, folder, "d.e/", "d.e/in", "to/", "to/d.e/")
    admin.ok("/api/fs/move", src_dir=folder, dst_dir=f"{folder}/to", names=["d.e"], keep_both=True)
    assert read_tree(service, f"{folder}/to") == {"d.e (2)/in": "d.e/in"}


def test_copy_into_its_own_folder_that_keeps_both_is_a_duplicate(admin: Client, folder: str) -> None:
    fill(admin, folder, "a.txt")
    admin.ok("/api/fs/copy", src_dir=folder, dst_dir=folder, names=["a.txt"], keep_both=True)
    assert admin.names(folder) == ["a (2).txt", "a.txt"]


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
        ({"names": ["a", "none"]}, 500, NOTHING_THERE),
        ({"dst_dir": "{0}/none"}, 500, NOTHING_THERE),
        ({"dst_dir": "{0}", "overwrite": True}, 500, "{1} in place"),
        ({"dst_dir": "{0}"}, 403, "file [a] exists"),
        (
            {"names": ["d"], "dst_dir": "{0}/d/e"},
            500,
            "the destination folder is a subfolder of the source folder",
        ),
        ({"src_dir": "/nowhere"}, 500, NOT_MOUNTED),
        ({"dst_dir": "/nowhere"}, 500, NOT_MOUNTED),
        ({"names": ["d"], "dst_dir": "{0}/a"}, 500, "this is not a folder"),
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
    service: Service, admin: Client, folder: str, tmp_path: Path, verb: str
) -> None:
    fill(admin, folder, "a", "d/", "d/b")
    with fixtures.local(admin, tmp_path) as elsewhere:
        body = {"src_dir": folder, "dst_dir": elsewhere, "names": ["a", "d"]}
        check_failure(admin.post(f"/api/fs/{verb}", **(body | {"names": ["a", "missing"]})), 500, NOTHING_THERE)
        assert admin.names(elsewhere) == []
        tasks = {task["id"] for task in admin.ok(f"/openlist/api/fs/{verb}", **body)["tasks"]}
        assert len(tasks) == 2
        end = time.monotonic() + 120
        while tasks & {row["id"] for row in admin.get(f"/api/task/{verb}/undone")["data"]}:
            assert time.monotonic() < end
            time.sleep(0.01)
        done = [row for row in admin.get(f"/api/task/{verb}/done")["data"] if row["id"] in tasks]
        assert [(row["state"], row["error"]) for row in done] == [("succeeded", "")] * 2
        assert (admin.names(elsewhere), admin.names(f"{elsewhere}/d")) == (["a", "d"], ["b"])
    assert read_tree(service, folder) == ({"a": "a", "d/b": "d/b"} if verb == "copy" else {})
    assert admin.envelope(admin.http.post(f"/api/task/{verb}/delete_some", json=sorted(tasks)))["data"] == {}


def test_a_move_to_a_storage_that_does_not_keep_the_bytes_removes_nothing(
    service: Service, admin: Client, folder: str
) -> None:
    fill(admin, folder, "a")
    with fixtures.virtual(admin) as elsewhere:
        (task,) = admin.ok("/openlist/api/fs/move", src_dir=folder, dst_dir=elsewhere, names=["a"])["tasks"]
        while not (done := [row for row in admin.get("/api/task/move/done")["data"] if row["id"] == task["id"]]):
            time.sleep(0.01)
        assert "a: the target's bytes differ from the source's" in done[0]["error"]
    assert read_tree(service, folder) == {"a": "a"}
    admin.envelope(admin.http.post("/api/task/move/delete_some", json=[task["id"]]))


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
    check_failure(admin.post("/api/fs/recursive_move", **body), 500, NOTHING_THERE)
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
    check_failure(admin.post("/api/fs/remove_empty_directory", src_dir=f"{folder}/none"), 500, NOTHING_THERE)


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
