"""Work with files and folders on every generic driver: the whole interface of a running service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.parser import BytesParser
from urllib.parse import quote

import pytest

from tests.contract.api.upload_client import send
from tests.protocol.places import Place, own_names, wait_for_task

pytestmark = pytest.mark.long


MODIFIED = 1_577_934_245  # seconds since the epoch, in 2020
LETTERS = b"abcdefghijklmnopqrstuvwxyz"
ODD_NAMES = (
    "ünï 日本 🎁.txt",
    "50%25 off%.txt",
    "a+b +.txt",
    "#1 a#b.txt",
    "it's & [so]; {x}, ~$!@^.txt",
    ".dot",
    "e\u0301.txt",
)


def test_folders_are_made_with_their_parents(place: Place) -> None:
    for _ in range(2):
        place.admin.ok("/api/fs/mkdir", path=f"{place.folder}/a/b c/d")
    assert place.read() == own_names("a/b c/d/")
    place.fill("file")
    answer = place.admin.post("/api/fs/mkdir", path=f"{place.folder}/file")
    assert (answer["code"], answer["message"]) == (500, "file exists")
    assert place.admin.post("/api/fs/mkdir", path=f"{place.folder}/file/below")["code"] == 500
    entry = place.admin.ok("/api/fs/get", path=f"{place.folder}/a/b c")
    assert (entry["name"], entry["is_dir"], entry["provider"]) == ("b c", True, place.kind.driver)
    missing = place.admin.post("/api/fs/list", path=f"{place.folder}/none")
    assert (missing["code"], "there is nothing at this address" in missing["message"]) == (500, True)


@pytest.mark.parametrize("route", ["put", "form"])
def test_uploads_arrive_at_once_and_as_tasks(place: Place, route: str) -> None:
    bodies = {"empty": b"", "short": b"short", "long.bin": bytes(range(256)) * 5000}
    for name, content in bodies.items():
        path = f"{place.folder}/new {route}/{name}"
        assert send(place.admin, route, path, content, last_modified=f"{MODIFIED}000")["code"] == 200
        task = send(place.admin, route, f"{path}.task", content, as_task="true")["data"]["task"]
        assert wait_for_task(place.admin, "upload", task["id"])["total_bytes"] == len(content)
        entry = place.admin.ok("/api/fs/get", path=path)
        assert (entry["size"], entry["is_dir"]) == (len(content), False)
    expected = bodies | {f"{name}.task": content for name, content in bodies.items()}
    assert place.read(f"{place.folder}/new {route}") == expected


def test_a_body_of_unknown_length_arrives(place: Place) -> None:
    def body() -> Iterator[bytes]:
        for letter in LETTERS:
            yield bytes([letter]) * 50_000

    assert place.admin.put(f"{place.folder}/chunks", body())["code"] == 200
    assert place.read() == {"chunks": b"".join(bytes([letter]) * 50_000 for letter in LETTERS)}


@pytest.mark.parametrize("route", ["put", "form"])
def test_an_upload_replaces_unless_it_must_not(place: Place, route: str) -> None:
    path = f"{place.folder}/a.txt"
    for content in (b"the first, a long one", b"2nd"):
        assert send(place.admin, route, path, content)["code"] == 200
        assert place.read() == {"a.txt": content}
    answer = send(place.admin, route, path, b"third", overwrite="false")
    assert (answer["code"], answer["message"]) == (403, "file exists")
    assert place.read() == {"a.txt": b"2nd"}
    assert send(place.admin, route, f"{place.folder}/b.txt", b"new", overwrite="false")["code"] == 200
    assert place.read() == {"a.txt": b"2nd", "b.txt": b"new"}


def test_odd_names_are_names(place: Place) -> None:
    for name in ODD_NAMES:
        place.admin.ok("/api/fs/mkdir", path=f"{place.folder}/in {name}")
    place.fill(*(f"in {name}/{name}" for name in ODD_NAMES))
    assert place.read() == own_names(*(f"in {name}/{name}" for name in ODD_NAMES))
    for name in ODD_NAMES:
        folder = f"{place.folder}/in {name}"
        place.admin.ok("/api/fs/rename", path=f"{folder}/{name}", name=f"new {name}")
        assert place.admin.ok("/api/fs/get", path=f"{folder}/new {name}")["name"] == f"new {name}"
        assert place.admin.names(folder) == [f"new {name}"]
        place.admin.ok("/api/fs/remove", dir=folder, names=[f"new {name}"])
        assert place.read(folder) == {}


def test_files_and_folders_are_renamed(place: Place) -> None:
    place.fill("old.txt", "dir/", "dir/sub/", "dir/sub/inside", "other")
    place.admin.ok("/api/fs/rename", path=f"{place.folder}/old.txt", name="nëw.txt")
    place.admin.ok("/api/fs/rename", path=f"{place.folder}/dir", name="renamed")
    expected = {"nëw.txt": b"old.txt", "renamed": None, "renamed/sub": None, "renamed/sub/inside": b"dir/sub/inside"}
    assert place.read() == expected | {"other": b"other"}
    answer = place.admin.post("/api/fs/rename", path=f"{place.folder}/other", name="nëw.txt")
    assert (answer["code"], answer["message"]) == (403, "file [nëw.txt] exists")
    assert (
        place.admin.post("/api/fs/rename", path=f"{place.folder}/other", name="renamed", overwrite=True)["code"] == 500
    )
    assert place.read() == expected | {"other": b"other"}
    place.admin.ok("/api/fs/rename", path=f"{place.folder}/other", name="nëw.txt", overwrite=True)
    assert place.read() == expected | {"nëw.txt": b"other"}


def test_many_are_renamed_by_a_list_and_by_a_pattern(place: Place) -> None:
    place.fill("a", "b", "c/", "c/inside")
    pairs = [("a", "x1.txt"), ("b", "x2.txt"), ("c", "x3")]
    objects = [{"src_name": old, "new_name": new} for old, new in pairs]
    place.admin.ok("/api/fs/batch_rename", src_dir=place.folder, rename_objects=objects)
    assert place.read() == {"x1.txt": b"a", "x2.txt": b"b", "x3": None, "x3/inside": b"c/inside"}
    pattern = {"src_name_regex": r"^x(\d)", "new_name_regex": "y-$1"}
    place.admin.ok("/api/fs/regex_rename", src_dir=place.folder, **pattern)
    assert place.read() == {"y-1.txt": b"a", "y-2.txt": b"b", "y-3": None, "y-3/inside": b"c/inside"}


def test_what_is_copied_and_moved_within_is_there_whole(place: Place) -> None:
    place.fill("one", "d/", "d/two", "d/e/", "d/e/three", "d/empty/", "to/", "away/")
    place.begin("copy", place.folder, f"{place.folder}/to", "one", "d")
    copied = {"one": b"one", "d": None, "d/two": b"d/two", "d/e": None, "d/e/three": b"d/e/three", "d/empty": None}
    assert place.read(f"{place.folder}/to") == copied
    place.begin("move", f"{place.folder}/to", f"{place.folder}/away", "one", "d")
    assert place.read(f"{place.folder}/away") == copied
    assert place.read(f"{place.folder}/to") == {}
    assert place.read(f"{place.folder}/d") == {
        name[2:]: content for name, content in copied.items() if name[:2] == "d/"
    }


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_a_taken_name_is_kept_skipped_or_replaced(place: Place, verb: str) -> None:
    place.fill("a", "b", "to/")
    assert place.admin.put(f"{place.folder}/to/a", b"old")["code"] == 200
    body = {"src_dir": place.folder, "dst_dir": f"{place.folder}/to", "names": ["a", "b"]}
    answer = place.admin.post(f"/api/fs/{verb}", **body)
    assert (answer["code"], answer["message"]) == (403, "file [a] exists")
    assert place.read(f"{place.folder}/to") == {"a": b"old"}
    place.begin(verb, place.folder, f"{place.folder}/to", "a", "b", skip_existing=True)
    assert place.read(f"{place.folder}/to") == {"a": b"old", "b": b"b"}
    place.begin(verb, place.folder, f"{place.folder}/to", "a", overwrite=True)
    assert place.read(f"{place.folder}/to") == {"a": b"a", "b": b"b"}


def test_recursive_move_gathers_files(place: Place) -> None:
    place.fill("from/", "from/d/", "from/d/e/", "from/a", "from/d/b", "from/d/e/c", "to/", "to/a")
    body = {"src_dir": f"{place.folder}/from", "dst_dir": f"{place.folder}/to"}
    answer = place.admin.post("/api/fs/recursive_move", **body, conflict_policy="cancel")
    assert (answer["code"], answer["message"]) == (403, "file [a] exists")
    answer = place.admin.post("/openlist/api/fs/recursive_move", **body, conflict_policy="overwrite")
    assert (answer["code"], answer["message"]) == (200, "Successfully moved 3 files")
    assert place.read(f"{place.folder}/to") == {"a": b"from/a", "b": b"from/d/b", "c": b"from/d/e/c"}
    assert place.read(f"{place.folder}/from") == {"d": None, "d/e": None}


def test_empty_folders_are_removed_and_no_others(place: Place) -> None:
    place.fill("a/", "a/b/", "a/b/c/", "full/", "full/empty/", "full/file", "top")
    place.admin.ok("/api/fs/remove_empty_directory", src_dir=place.folder)
    assert place.read() == own_names("full/file", "top")


def test_what_is_removed_is_gone_with_all_it_holds(place: Place) -> None:
    place.fill("d/", "d/e/", "d/e/x", "d/empty/", "file", "kept")
    for _ in range(2):
        place.admin.ok("/api/fs/remove", dir=place.folder, names=["d", "file", "never was"])
        assert place.read() == {"kept": b"kept"}


def test_ranges_of_a_file_are_its_bytes(place: Place) -> None:
    content = LETTERS * 10_000  # more than one block of Crypt
    assert place.admin.put(f"{place.folder}/a+b%.txt", content, last_modified=f"{MODIFIED}000")["code"] == 200
    size = len(content)
    for requested_range, start, stop in (
        ("0-0", 0, 1), ("65530-65545", 65530, 65546), ("200000-", 200_000, size), ("-7", size - 7, size),
        ("0-999999999", 0, size),
    ):  # fmt: skip
        answer = place.admin.bytes(f"{place.folder}/a+b%.txt", range=f"bytes={requested_range}")
        assert (answer.status_code, answer.content) == (206, content[start:stop]), requested_range
        assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{size}"
    answer = place.admin.bytes(f"{place.folder}/a+b%.txt", range="bytes=0-1,131070-131075,-1")
    head = f"Content-Type: {answer.headers['content-type']}\r\n\r\n".encode()
    parts = [part.get_payload() for part in BytesParser().parsebytes(head + answer.content).get_payload()]
    assert parts == [content[a:b].decode() for a, b in ((0, 2), (131_070, 131_076), (size - 1, size))]
    assert place.admin.bytes(f"{place.folder}/a+b%.txt", range=f"bytes={size}-").status_code == 416


def test_a_download_can_be_asked_for_its_head_and_left_early(place: Place) -> None:
    content = bytes(3 << 20)
    assert place.admin.put(f"{place.folder}/large", content)["code"] == 200
    url = place.admin.ok("/api/fs/get", path=f"{place.folder}/large")["raw_url"]
    head = place.admin.http.head(url)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(len(content)), b"")
    for _ in range(5):
        with place.admin.http.stream("GET", url) as answer:
            assert next(answer.iter_raw(1000)) == content[:1000]
    began = time.monotonic()
    assert place.admin.bytes(f"{place.folder}/large").content == content
    assert time.monotonic() - began < 20
    assert place.admin.http.get(f"/d{quote(place.folder)}/large").status_code == 401
