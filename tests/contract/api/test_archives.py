"""Archives over HTTP: looked into, one folder listed, one file unpacked."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mangrove import archives
from mangrove.core.paths import MAX_PATH_DEPTH
from mangrove.tree.operations import archives as looked
from tests import servers
from tests.contract.api import fixtures
from tests.contract.api.archive_client import put_file, read_answer
from tests.contract.api.download_client import make_signature, read_key
from tests.servers.relay import Relay, relay
from tests.support.service import Client, Service
from tests.unit.archives.packing import FILES, tarred, zipped
from tests.unit.archives.test_formats import locked, seven

WRONG = (202, "wrong archive password", None)
DIALECTS = ["", "/openlist"]


def shape(nodes: Any) -> Any:
    """The tree as names: folders are dicts, files their sizes."""
    if nodes is None:
        return None
    return {node["name"]: shape(node["children"]) if node["is_dir"] else node["size"] for node in nodes}


def fetch(client: Client, path: str, inner: str, password: str = "", method: str = "GET") -> httpx.Response:
    """One member, by the address and signature that meta gives."""
    meta = client.ok("/api/fs/archive/meta", path=path, archive_pass=password)
    return client.http.request(
        method,
        meta["raw_url"],
        params={"inner": inner, "pass": password, "sign": meta["sign"]},
        headers={"authorization": ""},
    )


def test_the_extensions_that_are_public_are_those_that_are_read(service: Service) -> None:
    assert service.anonymous().get("/api/public/archive_extensions")["data"] == list(archives.EXTENSIONS)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_meta_shows_the_whole_tree_with_the_folders_that_are_only_in_paths(
    service: Service, admin: Client, folder: str, dialect: str
) -> None:
    path = put_file(service, folder, "x.zip", zipped(FILES | {"alone/": b""}, comment=b"for you"))
    meta = admin.ok(f"{dialect}/api/fs/archive/meta", path=path)
    assert set(meta) == {"comment", "encrypted", "content", "sort", "raw_url", "sign"}
    assert (meta["comment"], meta["encrypted"]) == ("for you", False)
    assert meta["sort"] == {"order_by": "", "order_direction": "", "extract_folder": ""}
    assert shape(meta["content"]) == {
        "a": {"b.txt": 6000}, "alone": None, "d": {"e": {"ü.txt": 2}}, "big.bin": len(FILES["big.bin"]), "empty": 0,
    }  # fmt: skip
    node = meta["content"][0]["children"][0]
    assert (node["modified"], node["type"], node["sign"], node["thumb"]) == ("2020-05-17T10:20:30Z", 4, "", "")
    assert meta["raw_url"] == f"{service.address}{dialect}/ae{path}"
    assert meta["sign"].endswith(":0")
    assert admin.get(f"{dialect}/api/fs/archive/meta", path=path)["data"] == meta


def test_a_folder_is_listed_in_pages_also_when_it_has_no_entry_of_its_own(
    service: Service, admin: Client, folder: str
) -> None:
    files = {f"in/{number:03}.txt": b"x" * number for number in range(25)} | {"in/deep/f": b"", "other/f": b""}
    path = put_file(service, folder, "x.tar.gz", tarred(files, "w:gz"))
    whole = admin.ok("/api/fs/archive/list", path=path, inner_path="in")
    assert whole["total"] == 26
    assert [row["name"] for row in whole["content"]] == [*(f"{n:03}.txt" for n in range(25)), "deep"]
    assert "children" not in whole["content"][0]
    page = admin.ok("/api/fs/archive/list", path=path, inner_path="/in/", page=3, per_page=10)
    assert (page["total"], [row["name"] for row in page["content"]]) == (
        26,
        [*(f"{n:03}.txt" for n in range(20, 25)), "deep"],
    )
    assert admin.ok("/api/fs/archive/list", path=path, inner_path="/in", page=4, per_page=10)["content"] == []
    assert [row["name"] for row in admin.ok("/api/fs/archive/list", path=path)["content"]] == ["in", "other"]
    query = admin.get("/api/fs/archive/list", path=path, inner_path="/in", page=3, per_page=10)
    assert query["data"] == page


def test_what_is_no_folder_in_an_archive_is_not_found(service: Service, admin: Client, folder: str) -> None:
    path = put_file(service, folder, "x.zip", zipped(FILES))
    root = f"{folder.removeprefix('/files')}/x.zip"
    for inner in ("/none", "/big.bin", "/a/b.txt", "/a/none", "/A"):
        answer = admin.post("/api/fs/archive/list", path=path, inner_path=inner)
        assert read_answer(answer) == (500, fixtures.NOTHING_THERE, None)
        answer = admin.post("/openlist/api/fs/archive/list", path=path, inner_path=inner)
        text = f"failed to list archive [{root}]{inner}: object not found: object not found"
        assert read_answer(answer) == (500, text, None)
    assert admin.post("/api/fs/archive/list", path=path, inner_path="/../x")["code"] == 403


def test_the_order_is_that_of_the_storage(admin: Client, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped({"10": b"x", "9": b"xxx", "b/f": b"", "2": b"xx"}))
    with fixtures.local(admin, tmp_path, order_by="size", order_direction="desc", extract_folder="back") as mount:
        meta = admin.ok("/api/fs/archive/meta", path=f"{mount}/x.zip")
        assert [node["name"] for node in meta["content"]] == ["9", "2", "10", "b"]
        assert meta["sort"] == {"order_by": "size", "order_direction": "desc", "extract_folder": "back"}
        rows = admin.ok("/api/fs/archive/list", path=f"{mount}/x.zip", per_page=2)
        assert [row["name"] for row in rows["content"]] == ["9", "2"]


def test_a_tree_that_is_too_large_is_asked_for_folder_by_folder(service: Service, admin: Client, folder: str) -> None:
    names = {f"f/{number}": b"" for number in range(looked.MAX_TREE_ENTRIES)}
    path = put_file(service, folder, "x.zip", zipped(names, zipfile.ZIP_STORED))
    meta = admin.ok("/api/fs/archive/meta", path=path)
    assert meta["content"] is None
    assert "sort" not in meta
    assert admin.ok("/api/fs/archive/list", path=path, inner_path="/f", per_page=1)["total"] == looked.MAX_TREE_ENTRIES


@pytest.mark.parametrize(("depth", "shown"), [(looked.MAX_TREE_DEPTH, True), (MAX_PATH_DEPTH - 1, False)])
def test_a_tree_that_is_too_deep_is_asked_for_too(
    service: Service, admin: Client, folder: str, depth: int, shown: bool
) -> None:
    inner = "/".join("d" * depth)
    path = put_file(service, folder, "x.zip", zipped({f"{inner}/n": b"1"}))
    assert (admin.ok("/api/fs/archive/meta", path=path)["content"] is not None) is shown
    assert admin.ok("/api/fs/archive/list", path=path, inner_path=inner)["content"][0]["name"] == "n"
    assert fetch(admin, path, f"{inner}/n").content == b"1"


LOCKED = {"x.zip": locked, "x.7z": lambda: seven("sesame"), "y.7z": lambda: seven("sesame", headers=True)}


@pytest.mark.parametrize("name", LOCKED)
def test_each_look_into_an_encrypted_archive_needs_the_password(
    service: Service, admin: Client, folder: str, name: str
) -> None:
    path = put_file(service, folder, name, LOCKED[name]())
    for _ in range(2):
        for wrong in ("", "wrong"):
            assert read_answer(admin.post("/api/fs/archive/meta", path=path, archive_pass=wrong)) == WRONG
            assert read_answer(admin.post("/api/fs/archive/list", path=path, archive_pass=wrong)) == WRONG
        meta = admin.ok("/api/fs/archive/meta", path=path, archive_pass="sesame")
        assert meta["encrypted"]
        assert admin.ok("/api/fs/archive/list", path=path, archive_pass="sesame")["total"] == 4
    sign = {"inner": "a/b.txt", "sign": meta["sign"]}
    assert admin.http.get(meta["raw_url"], params=sign | {"pass": "sesame"}).content == FILES["a/b.txt"]
    for wrong in ({}, {"pass": "wrong"}):
        answer = admin.http.get(meta["raw_url"], params=sign | wrong)
        assert (answer.status_code, "wrong archive password" in answer.text) == (403, True)


@pytest.mark.parametrize("name", ["x.zip", "x.7z", "x.tar", "x.tgz"])
def test_a_member_comes_as_an_attachment_that_nothing_keeps(
    service: Service, admin: Client, folder: str, name: str
) -> None:
    content = {"x.zip": lambda: zipped(FILES), "x.7z": seven, "x.tar": lambda: tarred(FILES),
               "x.tgz": lambda: tarred(FILES, "w:gz")}[name]()  # fmt: skip
    path = put_file(service, folder, name, content)
    for inner, data in FILES.items():
        for form in (inner, f"/{inner}"):
            answer = fetch(admin, path, form)
            assert (answer.status_code, answer.content) == (200, data)
        head = fetch(admin, path, inner, method="HEAD")
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(data)))
    answer = fetch(admin, path, "d/e/ü.txt")
    assert answer.headers["content-disposition"].startswith('attachment; filename="%C3%BC.txt"')
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "max-age=0, no-cache, no-store, must-revalidate"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert "accept-ranges" not in answer.headers


def test_a_packed_file_is_sent_though_nobody_knows_its_size(service: Service, admin: Client, folder: str) -> None:
    import gzip

    path = put_file(service, folder, "notes.txt.gz", gzip.compress(FILES["big.bin"]))
    assert shape(admin.ok("/api/fs/archive/meta", path=path)["content"]) == {"notes.txt": 0}
    answer = fetch(admin, path, "notes.txt")
    assert answer.content == FILES["big.bin"]
    assert "content-length" not in answer.headers


@pytest.mark.parametrize("inner", ["", "/", "none", "a", "a/", "a/../big.bin/x", "\N{REPLACEMENT CHARACTER}"])
def test_a_member_that_is_not_there_is_a_page_with_404(
    service: Service, admin: Client, folder: str, inner: str
) -> None:
    path = put_file(service, folder, "x.zip", zipped(FILES))
    answer = fetch(admin, path, inner)
    assert answer.status_code == (403 if ".." in inner else 404)
    assert answer.headers["content-type"].startswith("text/html")
    assert str(service.data) not in answer.text


def test_refused_entries_are_neither_shown_nor_sent(service: Service, admin: Client, folder: str) -> None:
    content = zipped({"fine": b"1", "up_/evil": b"2", "C:x": b"3"}).replace(b"up_/evil", b"a/../../")
    path = put_file(service, folder, "x.zip", content)
    assert shape(admin.ok("/api/fs/archive/meta", path=path)["content"]) == {"fine": 1}
    assert admin.ok("/api/fs/archive/list", path=path)["total"] == 1
    assert fetch(admin, path, "C:x").status_code == 404


def test_what_is_no_archive_is_said_in_words_that_clients_know(service: Service, admin: Client, folder: str) -> None:
    disk, root = fixtures.disk(service, folder), folder.removeprefix("/files")
    (disk / "plain.txt").write_text("x")
    (disk / "bare").write_text("x")
    (disk / "broken.zip").write_bytes(b"no zip at all")
    (disk / "folder.zip").mkdir()
    for name, text in (
        ("plain.txt", "failed get archive tool: the obj does not have an extension."),
        ("bare", "failed get archive tool: the obj does not have an extension."),
        ("broken.zip", "it is not a zip archive, or its end is missing"),
        ("folder.zip", "not a file"),
        ("none.zip", "object not found"),
    ):
        answer = admin.post("/openlist/api/fs/archive/meta", path=f"{folder}/{name}")
        assert read_answer(answer) == (500, f"failed to get {root}/{name} archive met: {text}", None)
        assert admin.post("/api/fs/archive/list", path=f"{folder}/{name}")["code"] == 500
        sign = make_signature(read_key(admin, "links into archives"), f"{folder}/{name}")
        status = admin.http.get(f"/ae{folder}/{name}", params={"inner": "x", "sign": sign}).status_code
        assert status == (404 if name == "none.zip" else 500)
    assert admin.post("/api/fs/archive/meta", path="/nowhere/x.zip")["message"] == fixtures.NOT_MOUNTED


def test_file_that_is_no_archive_has_a_plain_message(service: Service, admin: Client, folder: str) -> None:
    disk = fixtures.disk(service, folder)
    extensions = ".zip, .7z, .tar, .tar.gz, .tgz, .tar.bz2, .tbz2, .tar.xz, .txz, .tar.zst, .tzst, .gz, .bz2, .xz, .zst"
    no_archive = f"the name does not have the extension of an archive that can be read: {extensions}"
    for name, text in (
        ("book.rar", no_archive),
        ("bare", no_archive),
        ("broken.zip", "it is not a zip archive, or its end is missing"),
        ("broken.7z", "it is not a 7z archive"),
    ):
        (disk / name).write_bytes(b"no archive at all")
        for route in ("meta", "list"):
            answer = admin.post(f"/api/fs/archive/{route}", path=f"{folder}/{name}")
            assert read_answer(answer) == (500, text, None)
        sign = make_signature(read_key(admin, "links into archives"), f"{folder}/{name}")
        page = admin.http.get(f"/ae{folder}/{name}", params={"inner": "x", "sign": sign}).text
        assert f"<p>{text}</p>" in page
    id = admin.ok("/api/share/create", files=[folder])["id"]
    with fixtures.settings(admin, share_archive_preview="true"):
        for name, text in (("book.rar", no_archive), ("broken.7z", "it is not a 7z archive")):
            answer = service.anonymous().post("/api/fs/archive/meta", path=f"/@s/{id}/{name}")
            assert read_answer(answer) == (500, text, None)
        answer = service.anonymous().post("/openlist/api/fs/archive/meta", path=f"/@s/{id}/broken.7z")
        assert read_answer(answer) == (500, "failed get archive of sharing: the archive is broken", None)


def test_the_settings_bound_what_an_archive_may_hold(service: Service, admin: Client, folder: str) -> None:
    path = put_file(service, folder, "x.zip", zipped({str(number): bytes(10_000_000) for number in range(4)}))
    assert len(admin.ok("/api/fs/archive/meta", path=path)["content"] or []) in (0, 4)
    with fixtures.settings(admin, archive_max_members="3"):
        assert admin.post("/api/fs/archive/meta", path=path)["message"].endswith("more than 3 entries")
    with fixtures.settings(admin, archive_max_ratio="100"):
        assert admin.ok("/api/fs/archive/meta", path=path)["content"] == []
        assert fetch(admin, path, "1").status_code == 404
    with fixtures.settings(admin, archive_max_size="5"):
        assert admin.ok("/api/fs/archive/list", path=path)["total"] == 0
    with fixtures.settings(admin, archive_max_size="0", archive_max_ratio="0", archive_max_members="0"):
        assert fetch(admin, path, "1").content == bytes(10_000_000)


def test_names_are_read_in_the_encoding_of_the_setting(service: Service, admin: Client, folder: str) -> None:
    raw = "中文.txt".encode("gb18030")
    path = put_file(service, folder, "x.zip", zipped({"n" * len(raw): b"x"}).replace(b"n" * len(raw), raw))
    with fixtures.settings(admin, non_efs_zip_encoding="GB18030"):
        assert shape(admin.ok("/api/fs/archive/meta", path=path)["content"]) == {"中文.txt": 1}
        assert fetch(admin, path, "中文.txt").content == b"x"
    assert shape(admin.ok("/api/fs/archive/meta", path=path)["content"]) == {raw.decode("cp437"): 1}


def test_damage_in_a_member_ends_its_answer_and_nothing_else(service: Service, admin: Client, folder: str) -> None:
    content = bytearray(zipped({"n": os.urandom(5_000_000), "fine": b"x"}, zipfile.ZIP_STORED))
    content[4_000_000] ^= 1
    path = put_file(service, folder, "x.zip", bytes(content))
    with pytest.raises(httpx.RemoteProtocolError):
        fetch(admin, path, "n")
    assert fetch(admin, path, "fine").content == b"x"


SIZE = 10 << 30


@contextmanager
def serve_far_archive(tmp_path: Path) -> Iterator[tuple[str, str, Relay]]:
    """A bucket on a real server with a zip of 10 GiB in it, which takes no room; endpoint and bucket behind a relay."""
    root = tmp_path / "s3"
    root.mkdir()
    with servers.rclone_s3(root, "--etag-hash", "") as endpoint:  # which would read all of it
        bucket = servers.make_bucket(endpoint)
        with zipfile.ZipFile(root / bucket / "x.zip", "w") as archive:
            huge = zipfile.ZipInfo("huge.bin")
            huge.file_size = huge.compress_size = SIZE
            huge.header_offset = huge.CRC = 0
            assert archive.fp is not None
            archive.fp.write(huge.FileHeader(zip64=True))
            archive.start_dir = archive.fp.seek(SIZE, 1)
            archive.filelist.append(huge)
            archive.writestr("letters/small.txt", b"small")
        with relay(int(endpoint.rpartition(":")[2])) as way:
            yield f"http://127.0.0.1:{way.port}", bucket, way


def test_a_zip_of_10_gib_in_a_bucket_is_looked_into_without_being_fetched(admin: Client, tmp_path: Path) -> None:
    with serve_far_archive(tmp_path) as (endpoint, bucket, way):
        with fixtures.mount(admin, "S3", addition=servers.s3_options(endpoint, bucket)) as mount:
            path = f"{mount}/x.zip"
            before = way.received_bytes
            meta = admin.ok("/api/fs/archive/meta", path=path)
            assert shape(meta["content"]) == {"letters": {"small.txt": 5}, "huge.bin": SIZE}
            rows = admin.ok("/api/fs/archive/list", path=path, inner_path="/letters")["content"]
            assert [row["name"] for row in rows] == ["small.txt"]
            assert fetch(admin, path, "letters/small.txt").content == b"small"
            assert 0 < way.received_bytes - before < 500_000
