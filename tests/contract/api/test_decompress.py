"""Archives unpacked over HTTP: what arrives of every format, and what is there already."""

from __future__ import annotations

import bz2
import gzip
import lzma

import httpx
from backports import zstd

from mangrove import archives
from tests import servers
from tests.contract.api import fixtures
from tests.contract.api.accounts import get_refusal
from tests.contract.api.decompress_client import KIND, ROUTE, UPLOAD, ask, unpack_in_vain, unpack_whole, write_file
from tests.contract.api.task_client import TaskClient, read_files
from tests.support.service import Client, Service
from tests.unit.archives.packing import FILES, tarred, zipped
from tests.unit.archives.test_formats import seven

NOON = 1_589_710_830.0  # the time of all members in `zipped`
CREATED = {"id", "name", "state", "status", "progress", "error"}
FIELDS = CREATED | {"creator", "creator_role", "start_time", "end_time", "total_bytes"}
SINGLES = (".gz", ".bz2", ".xz", ".zst")


def make_archives() -> dict[str, bytes]:
    """Return an archive of each format by its extension."""
    tar, single = tarred(FILES), b"single"
    gz, bz, xz, zst = gzip.compress(tar), bz2.compress(tar), lzma.compress(tar, preset=0), zstd.compress(tar)
    return {
        ".zip": zipped(FILES), ".7z": seven(), ".tar": tar, ".tar.gz": gz, ".tgz": gz, ".tar.bz2": bz, ".tbz2": bz,
        ".tar.xz": xz, ".txz": xz, ".tar.zst": zst, ".tzst": zst, ".gz": gzip.compress(single),
        ".bz2": bz2.compress(single), ".xz": lzma.compress(single), ".zst": zstd.compress(single),
    }  # fmt: skip


def test_every_format_that_is_offered_is_unpacked_whole(owner: TaskClient, service: Service) -> None:
    packed = make_archives()
    offered = service.anonymous().get("/api/public/archive_extensions")["data"]
    assert set(packed) == set(archives.EXTENSIONS) == set(offered)
    names = {extension: f"n{number}{extension}" for number, extension in enumerate(packed)}
    for extension, name in names.items():
        write_file(owner, name, packed[extension])
    made = owner.unpack(*names.values(), put_into_new_dir=True)
    for kind in (KIND, UPLOAD):
        assert [(row["state"], row["error"]) for row in owner.wait_for_all(kind)] == [(2, "")] * len(packed)
    for extension, name in names.items():
        base = name.removesuffix(extension)
        expected = {base: b"single"} if extension in SINGLES else FILES
        assert read_files(owner.root / base) == expected, extension
        if ".t" in extension:
            assert (owner.root / base / "a/b.txt").stat().st_mtime == 1_600_000_000
    assert (owner.root / "n0/a/b.txt").stat().st_mtime == NOON
    assert not [path for path in owner.list_staged() if path.startswith(tuple(made))]


def test_the_tasks_are_shown_in_both_dialects(owner: TaskClient) -> None:
    write_file(owner, "x.tar.gz", gzip.compress(tarred({"f": b"x" * 1000})))
    inner = owner.folder.removeprefix("/files")
    username = owner.client.get("/api/me")["data"]["username"]
    owner.client.ok("/api/fs/mkdir", path=f"{owner.mount}/in")
    for prefix, fields in (("", CREATED), ("/openlist", FIELDS)):
        body = {"src_dir": owner.folder, "dst_dir": f"{owner.mount}/in", "name": ["x.tar.gz"], "overwrite": True}
        (made,) = owner.client.ok(f"{prefix}{ROUTE}", **body)["task"]
        assert set(made) == fields
        name = f"decompress [/files]({inner}/x.tar.gz)[/] to [{owner.mount}](/in) with password <>"
        assert made | {"name": name, "state": 0, "status": "", "progress": 0, "error": ""} == made
        shown = owner.wait_for(KIND, made["id"])
        last = {"name": name, "state": 2, "status": "walking and decompressing", "progress": 100, "error": ""}
        assert shown | last | {"creator": username, "creator_role": 0} == shown
        assert set(shown) == FIELDS
        (native,) = owner.client.ok(f"/api/task/{KIND}/info", params={"tid": made["id"]})
        assert native == native | shown | {"state": "succeeded"}
        upload = owner.wait_for_all(UPLOAD)[-1]
        last = {"name": f"upload x to [{owner.mount}](/in)", "state": 2, "status": "uploading", "total_bytes": 1000}
        assert upload | last | {"error": "", "progress": 100, "creator": username} == upload
    row = unpack_whole(owner, "x.tar.gz", put_into_new_dir=True)
    assert row["name"] == f"upload x to [{owner.mount}](/)"
    assert set(read_files(owner.root)) == {"in/f", "x/f"}


def test_buckets_are_unpacked_from_and_into(owner: TaskClient, admin: Client) -> None:
    write_file(owner, "x.zip", zipped(FILES | {"alone/": b""}))
    write_file(owner, "y.7z", seven())
    with servers.moto_s3() as endpoint:
        options = servers.s3_options(endpoint, servers.make_bucket(endpoint), list_object_version="v2")
        with fixtures.mount(admin, "S3", addition=options) as bucket:
            admin.ok("/api/fs/mkdir", path=f"{bucket}/in")
            assert unpack_whole(owner, "x.zip", into=f"{bucket}/in", put_into_new_dir=True)["error"] == ""
            assert admin.names(f"{bucket}/in/x") == ["a", "alone", "big.bin", "d", "empty"]
            for name, content in FILES.items():
                link = admin.ok("/api/fs/get", path=f"{bucket}/in/x/{name}")["raw_url"]
                assert httpx.get(link, follow_redirects=True, timeout=60).content == content
            for name in ("x.zip", "y.7z"):
                assert admin.put(f"{bucket}/{name}", (owner.disk / name).read_bytes())["code"] == 200
                assert unpack_whole(owner, name, src_dir=bucket, put_into_new_dir=True)["state"] == 2
                assert read_files(owner.root / name[0]) == FILES
            assert unpack_whole(owner, "x.zip", src_dir=bucket, cache_full=True)["state"] == 2
            assert read_files(owner.root / "a") == {"b.txt": FILES["a/b.txt"]}
    assert (owner.root / "x/alone").is_dir()


def test_only_what_is_below_the_inner_path_is_unpacked(owner: TaskClient) -> None:
    content = {"in/a.txt": b"a", "in/sub/b.txt": b"b", "in/empty/": b"", "inside.txt": b"no", "../evil": b"no"}
    write_file(owner, "x.zip", zipped(content))
    assert unpack_whole(owner, "x.zip", inner_path="/in")["state"] == 2
    assert read_files(owner.root) == {"in/a.txt": b"a", "in/sub/b.txt": b"b"}
    assert (owner.root / "in/empty").is_dir()
    assert unpack_whole(owner, "x.zip", inner_path="in/sub/", put_into_new_dir=True)["state"] == 2
    assert read_files(owner.root / "x") == {"sub/b.txt": b"b"}
    (owner.root / "in/a.txt").unlink()
    assert unpack_whole(owner, "x.zip", inner_path="/in/sub/b.txt")["state"] == 2
    assert (owner.root / "b.txt").read_bytes() == b"b"
    assert not (owner.root / "in/a.txt").exists()
    owner.client.ok(f"/api/task/{UPLOAD}/clear_done")
    for extension, packed in ((".zip", zipped(content)), (".tar.gz", gzip.compress(tarred(content)))):
        write_file(owner, f"y{extension}", packed)
        assert unpack_in_vain(owner, f"y{extension}", inner_path="/in/none") == "object not found"
    assert get_refusal(ask(owner.client, owner, "x.zip", inner_path="/in/../..")) == (
        403,
        "using relative path is not allowed",
    )


def test_what_is_there_already_fails_by_name_or_is_overwritten(owner: TaskClient) -> None:
    write_file(owner, "x.zip", zipped({"new": b"new", "old": b"from the archive", "sub/old": b"s", "sub/new": b"s"}))
    (owner.root / "sub").mkdir()
    for name in ("old", "sub/old"):
        (owner.root / name).write_bytes(b"was there")
    row = unpack_whole(owner, "x.zip")
    assert row["state"] == 7
    assert row["error"].startswith("2 of ")
    assert "old: file exists" in row["error"] and "sub/old: file exists" in row["error"]
    old_files = {"old": b"was there", "sub/old": b"was there"}
    assert read_files(owner.root) == old_files | {"new": b"new", "sub/new": b"s"}
    (owner.root / "old").unlink()
    owner.ask("retry", UPLOAD, row["id"])
    assert owner.wait_for(UPLOAD, row["id"])["error"] == "1 of 2 items failed: sub/old: file exists"
    assert (owner.root / "old").read_bytes() == b"from the archive"
    row = unpack_whole(owner, "x.zip", overwrite=True)
    assert (row["state"], (owner.root / "sub/old").read_bytes()) == (2, b"s")


def test_folder_at_target_of_file_fails_by_name_and_stays(owner: TaskClient) -> None:
    write_file(owner, "x.zip", zipped({"f": b"file", "g": b"g"}))
    (owner.root / "f").mkdir()
    (owner.root / "f/in the way").write_bytes(b"kept")
    row = unpack_whole(owner, "x.zip", overwrite=True, cache_full=True)
    assert (row["state"], "f: file exists" in row["error"]) == (7, True)
    assert read_files(owner.root) == {"f/in the way": b"kept", "g": b"g"}
    stage = {path.partition("/")[2] for path in owner.list_staged() if "/body/" in path or path.endswith("/archive")}
    assert "body/f" in stage and "archive" not in stage


def test_empty_folders_are_kept_and_those_of_an_empty_archive_too(owner: TaskClient) -> None:
    write_file(owner, "x.zip", zipped({"e/": b"", "deep/er/": b"", "f": b""}))
    write_file(owner, "none.zip", zipped({}))
    write_file(owner, "none.tar", tarred({}))
    assert unpack_whole(owner, "x.zip")["state"] == 2
    paths = {str(path.relative_to(owner.root)) for path in owner.root.rglob("*")}
    assert paths == {"e", "deep", "deep/er", "f"}
    for name in ("none.zip", "none.tar"):
        row = unpack_whole(owner, name, put_into_new_dir=True, into=f"{owner.mount}/deep")
        assert (row["state"], row["error"]) == (2, "")
    assert list((owner.root / "deep/none").iterdir()) == []
