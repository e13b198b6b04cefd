"""mkdir and the three ways to rename over HTTP."""

from __future__ import annotations

import time

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
        NOT_MOUNTED,
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
    check_failure(admin.post("/api/fs/rename", path=f"{folder}/none", name="b"), 500, NOTHING_THERE)
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
        ([("a", "x"), ("none", "y")], 500, NOTHING_THERE),
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
    assert time.monotonic() - began < 60
    check_failure(admin.post("/api/fs/regex_rename", **(body | {"src_dir": f"{folder}/none"})), 500, NOTHING_THERE)
