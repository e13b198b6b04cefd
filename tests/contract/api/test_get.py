"""One file or folder shown over HTTP: get, dirs, other, link, and spellings of a path."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import pytest

from tests.contract.api import fixtures
from tests.contract.api.fixtures import (
    OBJECT,
    check_failure,
    fill,
    list_names,
)
from tests.support.service import Client, Service


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
    entry = admin.ok("/api/fs/get", path=path)
    assert set(entry) == OBJECT | {"raw_url", "readme", "header", "provider", "related"}
    assert (entry["name"], entry["size"], entry["is_dir"], entry["provider"]) == ("a b+ü.txt", 10, False, "Local")
    expected = f"{service.address}/p{quote(path, safe='/+')}?sign={entry['sign']}"
    assert entry["raw_url"] == expected
    assert entry["sign"] == admin.ok("/api/fs/list", path=folder)["content"][0]["sign"]
    assert admin.bytes(path).text == "a b+ü.txt"
    assert admin.get("/api/fs/get", path=path)["data"] == entry


def test_get_of_a_folder_has_neither_link_nor_signature(admin: Client, folder: str) -> None:
    entry = admin.ok("/api/fs/get", path=folder)
    assert (entry["raw_url"], entry["sign"], entry["is_dir"], entry["size"]) == ("", "", True, 0)
    assert entry["name"] == folder.rpartition("/")[2]


def test_the_root_without_a_storage_is_named_root(admin: Client) -> None:
    entry = admin.ok("/api/fs/get")
    assert (entry["name"], entry["is_dir"], entry["provider"]) == ("root", True, "unknown")
    assert entry["modified"] == entry["created"] == "0001-01-01T00:00:00Z"
    assert admin.ok("/api/fs/get", path="/files")["provider"] == "Local"


def test_related_are_the_siblings_with_the_same_stem(admin: Client, folder: str) -> None:
    fill(admin, folder, "film.mkv", "film.srt", "film.en.srt", "film2/", "other.srt", "Film.nfo")
    entry = admin.ok("/api/fs/get", path=f"{folder}/film.mkv")
    assert sorted(row["name"] for row in entry["related"]) == ["film.en.srt", "film.srt", "film2"]
    assert all(set(row) == OBJECT for row in entry["related"])
    subtitle = next(row for row in entry["related"] if row["name"] == "film.srt")
    assert subtitle["sign"] == admin.ok("/api/fs/get", path=f"{folder}/film.srt")["sign"]
    assert admin.ok("/api/fs/get", path=f"{folder}/other.srt")["related"] is None


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("{folder}/none", fixtures.NOTHING_THERE),
        ("/no-such-mount/x", fixtures.NOT_MOUNTED),
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

    assert base("/openlist/api/fs/get") == f"{admin.address}/openlist/p"
    assert base() == base(x_forwarded_proto="https", x_forwarded_host="cloud.example:8443") == f"{admin.address}/p"
    assert base(host="other.example") == f"{admin.address}/p"  # no address here is a trusted proxy


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


def test_other_is_not_offered_by_any_driver(admin: Client, folder: str) -> None:
    fill(admin, folder, "a")
    request = {"path": f"{folder}/a", "method": "video_preview"}
    check_failure(admin.post("/api/fs/other", **request), 500, "the storage cannot do this")
    check_failure(admin.post("/openlist/api/fs/other", **request), 500, "not implement")
    missing = fixtures.NOT_MOUNTED
    check_failure(admin.post("/api/fs/other", path="/no-such-mount/x"), 500, missing)


def test_link_gives_administrators_an_address_that_works(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "a")
    link = admin.ok("/api/fs/link", path=f"{folder}/a")
    sign = admin.ok("/api/fs/get", path=f"{folder}/a")["sign"]
    assert link == {
        "url": f"{service.address}/p{folder}/a?d&sign={sign}",
        "header": None,
        "Expiration": None,
        "concurrency": 0,
        "part_size": 0,
        "content_length": 0,
    }
    assert service.anonymous().http.get(link["url"]).text == "a"
    assert urlsplit(admin.ok("/api/fs/link", path=f"{folder}/none")["url"]).path == f"/p{folder}/none"
    check_failure(admin.post("/api/fs/link", path="/nowhere"), 500, fixtures.NOT_MOUNTED)
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as user:
        check_failure(user.post("/api/fs/link", path=f"{folder}/a"), 403, "You are not an admin")


def test_link_of_a_driver_with_addresses_is_that_address(admin: Client) -> None:
    structure = {"url_structure": "d:\n  f.bin:7:https://example.com/f.bin"}
    with fixtures.mount(admin, "UrlTree", addition=structure) as mounted:
        assert admin.ok("/api/fs/link", path=f"{mounted}/d/f.bin")["url"] == "https://example.com/f.bin"
        check_failure(admin.post("/api/fs/link", path=f"{mounted}/d"), 500, "this is not a file")
        missing = fixtures.NOTHING_THERE
        check_failure(admin.post("/api/fs/link", path=f"{mounted}/none"), 500, missing)
