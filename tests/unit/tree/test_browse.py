"""Listings, single objects, sub-folders and links, as one caller may see them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from mangrove import configuration
from mangrove.core.problems import AccessDenied, EntryNotFound, NotAFile, StorageProblem, StorageUnavailable
from mangrove.identity.rights import Right
from mangrove.tree.listing import browse, objects
from mangrove.tree.listing.browse import PageRequest
from mangrove.tree.operations import links
from tests.unit.tree import builders
from tests.unit.tree.environment import ALL_RIGHTS, TreeEnv
from tests.unit.tree.memory_folders import MemoryFolders

BASE = "https://here"


def list_folder(
    tree: TreeEnv, path: str, part: PageRequest | None = None, password: str = "", refresh: bool = False
) -> Any:
    access = tree.access(path, password=password)
    answer = tree.run(browse.list_folder(access, part or PageRequest(), refresh, BASE))
    return orjson.loads(orjson.dumps(answer))


def list_names(tree: TreeEnv, path: str, part: PageRequest | None = None) -> list[str]:
    return [row["name"] for row in list_folder(tree, path, part)["content"]]


def list_subfolders(tree: TreeEnv, path: str) -> list[str]:
    rows = tree.run(browse.list_subfolders(tree.access(path)))
    return [row["name"] for row in orjson.loads(orjson.dumps(rows))]


def get_object(tree: TreeEnv, path: str) -> dict[str, Any]:
    answer = tree.run(objects.get_object(tree.access(path), BASE))
    return answer | {"related": orjson.loads(orjson.dumps(answer["related"]))}


@pytest.mark.parametrize(
    ("page", "per_page", "expected"),
    [(1, 0, (0, 5)), (2, 0, (5, 5)), (1, 2, (0, 2)), (3, 2, (4, 5)), (4, 2, (5, 5)), (0, 2, (0, 2)), (-1, -1, (0, 5))],
)
def test_a_slice_lies_within_the_whole(page: int, per_page: int, expected: tuple[int, int]) -> None:
    assert PageRequest(page, per_page).indices(5) == expected


def test_a_folder_is_listed_with_the_mounts_in_it(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "a", "b", "sub/x", order_by="name")
    tree.mount_disk("/disk/sub")
    tree.mount_disk("/disk/z/deep")
    answer = list_folder(tree, "/disk")
    assert [row["name"] for row in answer["content"]] == ["a", "b", "sub", "z"]
    assert (answer["total"], answer["provider"], answer["write"]) == (4, "Local", True)
    assert list_names(tree, "/disk", PageRequest(2, 3)) == ["z"]
    assert list_names(tree, "/disk", PageRequest(1, 3)) == ["a", "b", "sub"]
    assert list_names(tree, "/disk", PageRequest(2, 2)) == ["sub", "z"]


def test_the_root_shows_the_mounts_alone(tree: TreeEnv) -> None:
    with pytest.raises(StorageProblem, match="please add a storage first"):
        list_folder(tree, "/")
    tree.mount_disk("/disk")
    tree.set(hide_storage_details="false")
    answer = list_folder(tree, "/")
    assert ([row["name"] for row in answer["content"]], answer["provider"]) == (["disk"], "unknown")
    assert answer["content"][0]["mount_details"]["total_space"] > 0
    tree.set(hide_storage_details="true")
    assert "mount_details" not in list_folder(tree, "/")["content"][0]


def test_what_rules_hide_is_neither_listed_nor_counted(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "a", "hidden", "closed/x")
    tree.add_rule("/disk", hide="^hidden$", readme="hello", header="top")
    tree.add_rule("/disk/closed", read_users=[0])
    answer = list_folder(tree, "/disk")
    assert ([row["name"] for row in answer["content"]], answer["total"]) == (["a"], 1)
    assert (answer["readme"], answer["header"]) == ("hello", "top")
    assert list_subfolders(tree, "/disk") == []
    tree.change_user(ALL_RIGHTS | Right.SEE_HIDDEN)
    assert sorted(list_names(tree, "/disk")) == ["a", "hidden"]


def test_a_password_is_asked_for_and_makes_links_signed(tree: TreeEnv) -> None:
    tree.set(token="key")
    tree.mount_disk("/disk", "a")
    tree.add_rule("/disk", password="secret", p_sub=True)
    for read in (lambda: list_folder(tree, "/disk"), lambda: get_object(tree, "/disk/a")):
        with pytest.raises(AccessDenied):
            read()
    row = list_folder(tree, "/disk", password="secret")["content"][0]
    links.verify(configuration.cached().settings, "/disk/a", row["sign"])


def test_a_refresh_needs_the_right_to_write(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "a")
    assert list_folder(tree, "/disk", refresh=True)["total"] == 1
    tree.change_user(0)
    with pytest.raises(AccessDenied, match="Refresh"):
        list_folder(tree, "/disk", refresh=True)


def test_failures_have_the_words_clients_know(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "file")
    tree.mount("/links", "UrlTree", options={"url_structure": "nonsense"})
    for path, text in (
        ("/disk/none", "failed get objs: failed get dir: failed to get obj: object not found"),
        ("/disk/file", "failed get objs: not a folder"),
        ("/none", "failed get storage: storage not found; rawPath: /none"),
    ):
        with pytest.raises(StorageProblem) as refusal:
            list_folder(tree, path)
        assert refusal.value.message == text
    with pytest.raises(StorageUnavailable, match=r"^failed get objs: storage status: invalid line"):
        list_folder(tree, "/links")
    with pytest.raises(StorageUnavailable, match=r"^storage status: "):
        get_object(tree, "/links/x")
    with pytest.raises(EntryNotFound, match=r"^failed to get obj: object not found"):
        get_object(tree, "/disk/none")


def test_an_object_is_shown_with_its_address_and_relatives(tree: TreeEnv) -> None:
    tree.set(token="key")
    tree.mount_disk("/disk", "film.mkv", "film.srt", "film.hidden", "other", enable_sign=True)
    tree.add_rule("/disk", hide="hidden")
    answer = get_object(tree, "/disk/film.mkv")
    assert (answer["name"], answer["size"], answer["is_dir"], answer["provider"]) == ("film.mkv", 8, False, "Local")
    assert answer["raw_url"].startswith(f"{BASE}/p/disk/film.mkv?sign=")
    assert [row["name"] for row in answer["related"]] == ["film.srt"]
    links.verify(configuration.cached().settings, "/disk/film.srt", answer["related"][0]["sign"])
    links.verify(configuration.cached().settings, "/disk/film.mkv", answer["sign"])


def test_mounts_and_folders_above_them_are_objects_of_their_own(tree: TreeEnv) -> None:
    assert (get_object(tree, "/")["name"], get_object(tree, "/")["provider"]) == ("root", "unknown")
    tree.mount_disk("/a/disk")
    for path, name, provider in (("/", "root", "unknown"), ("/a", "a", "unknown"), ("/a/disk", "disk", "Local")):
        answer = get_object(tree, path)
        assert (answer["name"], answer["provider"], answer["is_dir"], answer["raw_url"]) == (name, provider, True, "")


def test_sub_folders_are_listed_without_files(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "file", "b/", "a/", order_by="name")
    tree.mount_disk("/disk/c")
    assert list_subfolders(tree, "/disk") == ["a", "b", "c"]


def test_a_direct_link_is_the_storages_own_or_ours(tree: TreeEnv) -> None:
    address = "https://example.org/file"
    tree.mount("/links", "UrlTree", options={"url_structure": f"d:\n  file:{address}"})
    tree.mount_disk("/disk", "file")
    assert tree.run(objects.get_link(tree.access("/links/d/file"), BASE)).url == address
    assert tree.run(objects.get_link(tree.access("/disk/file"), BASE)).url.startswith(f"{BASE}/p/disk/file?d&sign=")
    assert get_object(tree, "/links/d/file")["raw_url"] == address
    with pytest.raises(NotAFile, match=r"^failed link: not a file$"):
        tree.run(objects.get_link(tree.access("/links/d"), BASE))
    with pytest.raises(EntryNotFound, match=r"^failed link: failed to get file: failed to get obj: object not found$"):
        tree.run(objects.get_link(tree.access("/links/none"), BASE))


def test_callers_with_same_view_share_encoded_pages(tree: TreeEnv) -> None:
    driver = MemoryFolders()
    driver.folders["/"] = ["a", "b", "c"]
    access = builders.access(driver, "/", Right.READ)
    for page in (1, 2, 1):
        tree.run(browse.list_folder(access, PageRequest(page, 2), False, BASE))
    assert driver.reads == 1
