"""Archives unpacked over HTTP: what arrives of every format, what is refused, and what is left when it fails."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from backports import zstd

from mangrove import archives
from tests import origin, servers
from tests.contract.api import accounts, fixtures
from tests.contract.api.accounts import get_refusal
from tests.contract.api.task_client import DECOMPRESS, Row, TaskClient, read_files, task_client, wait_until
from tests.origin import Origin, Request
from tests.service import Client, Service, running
from tests.unit.archives.packing import FILES, tarred, zipped
from tests.unit.archives.test_formats import locked, seven

KIND, UPLOAD = "decompress", "decompress_upload"
ROUTE = "/api/fs/archive/decompress"
DENIED = (403, "permission denied")
WRONG = "wrong archive password"
MIB = 1 << 20
NOON = 1_589_710_830.0  # the time of all members in `zipped`
CREATED = {"id", "name", "state", "status", "progress", "error"}
FIELDS = CREATED | {"creator", "creator_role", "start_time", "end_time", "total_bytes"}
TAR = tarred(FILES)
MADE = {
    ".zip": zipped(FILES),
    ".7z": seven(),
    ".tar": TAR,
    ".tar.gz": gzip.compress(TAR),
    ".tgz": gzip.compress(TAR),
    ".tar.bz2": bz2.compress(TAR),
    ".tbz2": bz2.compress(TAR),
    ".tar.xz": lzma.compress(TAR, preset=0),
    ".txz": lzma.compress(TAR, preset=0),
    ".tar.zst": zstd.compress(TAR),
    ".tzst": zstd.compress(TAR),
    ".gz": gzip.compress(b"single"),
    ".bz2": bz2.compress(b"single"),
    ".xz": lzma.compress(b"single"),
    ".zst": zstd.compress(b"single"),
}
SINGLES = (".gz", ".bz2", ".xz", ".zst")


@pytest.fixture
def owner(service: Service, admin: Client, tmp_path: Path) -> Iterator[TaskClient]:
    with task_client(service, admin, tmp_path / "other") as made:
        yield made


@pytest.fixture(scope="module")
def web() -> Iterator[Origin]:
    with origin.origin() as made:
        yield made


class Slow:
    """A page that gives ranges of `content`, those from `at` on only when it is told to `go`."""

    def __init__(self, content: bytes, at: int) -> None:
        self.content = content
        self.at = at
        self.asked = threading.Event()
        self.go = threading.Event()

    def __call__(self, request: Request) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
        assert found
        start, stop = int(found[1]), int(found[2]) + 1
        if self.at <= start < len(self.content) - MIB:  # the directory is at the end
            self.asked.set()
            assert self.go.wait(10)
        told = f"bytes {start}-{stop - 1}/{len(self.content)}"
        request.head(206, {"content-range": told, "content-length": stop - start})
        request.wfile.write(self.content[start:stop])


HEAVY = {name: os.urandom(6 * MIB) for name in ("first", "second", "third", "last")}


def serve_slowly(web: Origin) -> tuple[Slow, str]:
    """An archive of HEAVY that is given as far as its third file; a UrlTree with it as x.zip."""
    page = Slow(zipped(HEAVY, zipfile.ZIP_STORED), 13 * MIB)
    url = web.at(f"/{uuid4().hex}/x.zip", page)
    return page, f"x.zip:{len(page.content)}:1600000000:{url}"


def ask(client: Client, owner: TaskClient, *names: str, **more: Any) -> dict[str, Any]:
    return client.post(ROUTE, **({"src_dir": owner.folder, "dst_dir": owner.mount, "name": list(names)} | more))


def write_file(owner: TaskClient, name: str, content: bytes) -> None:
    (owner.disk / name).write_bytes(content)


def unpack_whole(owner: TaskClient, name: str, **more: Any) -> Row:
    """The record of the upload that followed when an archive was unpacked without a refusal."""
    (id,) = owner.unpack(name, **more)
    row = owner.wait_for(KIND, id)
    assert (row["state"], row["error"]) == (2, "")
    return owner.wait_for_all(UPLOAD)[-1]


def unpack_in_vain(owner: TaskClient, name: str, **more: Any) -> str:
    """The error of a task that has failed, brought nothing and left nothing."""
    (id,) = owner.unpack(name, **more)
    row = owner.wait_for(KIND, id)
    assert row["state"] == 7, row
    assert owner.wait_for_all(UPLOAD) == []
    assert not [path for path in owner.list_staged() if path.startswith(id)]
    return str(row["error"])


def test_every_format_that_is_offered_is_unpacked_whole(owner: TaskClient, service: Service) -> None:
    assert set(MADE) == set(archives.EXTENSIONS) == set(service.nobody().get("/api/public/archive_extensions")["data"])
    names = {extension: f"n{number}{extension}" for number, extension in enumerate(MADE)}
    for extension, name in names.items():
        write_file(owner, name, MADE[extension])
    made = owner.unpack(*names.values(), put_into_new_dir=True)
    assert [(row["state"], row["error"]) for row in owner.wait_for_all(KIND)] == [(2, "")] * len(MADE)
    assert [(row["state"], row["error"]) for row in owner.wait_for_all(UPLOAD)] == [(2, "")] * len(MADE)
    for extension, name in names.items():
        base = name.removesuffix(extension)
        wanted = {base: b"single"} if extension in SINGLES else FILES
        assert read_files(owner.root / base) == wanted, extension
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
        assert owner.client.ok(f"/api/task/{KIND}/info", params={"tid": made["id"]}) == [shown | {"state": "succeeded"}]
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
                assert httpx.get(link, follow_redirects=True).content == content
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
    kept = {"old": b"was there", "sub/old": b"was there"}
    assert read_files(owner.root) == kept | {"new": b"new", "sub/new": b"s"}
    (owner.root / "old").unlink()
    owner.ask("retry", UPLOAD, row["id"])
    assert owner.wait_for(UPLOAD, row["id"])["error"] == "1 of 2 items failed: sub/old: file exists"
    assert (owner.root / "old").read_bytes() == b"from the archive"
    row = unpack_whole(owner, "x.zip", overwrite=True)
    assert (row["state"], (owner.root / "sub/old").read_bytes()) == (2, b"s")


def test_a_folder_where_a_file_is_to_go_fails_by_name_and_keeps_what_it_holds(owner: TaskClient) -> None:
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
    found = {str(path.relative_to(owner.root)) for path in owner.root.rglob("*")}
    assert found == {"e", "deep", "deep/er", "f"}
    for name in ("none.zip", "none.tar"):
        row = unpack_whole(owner, name, put_into_new_dir=True, into=f"{owner.mount}/deep")
        assert (row["state"], row["error"]) == (2, "")
    assert list((owner.root / "deep/none").iterdir()) == []


def read_all_texts(owner: TaskClient) -> str:
    """All that the service shows of its tasks, and all that it has written, the files of the tree left out."""
    get_data = [
        str(client.get(f"{prefix}/api{area}/task/{kind}/{shelf}"))
        for client, area in ((owner.client, ""), (owner.admin, "/admin"))
        for prefix in ("", "/openlist")
        for kind in (KIND, UPLOAD)
        for shelf in ("done", "undone")
    ]
    data = owner.service.data
    kept = [path for path in data.rglob("*") if path.is_file() and data / "files" not in path.parents]
    kept.append(data.parent / f"{data.name}.log")
    return "\n".join(get_data + [path.read_bytes().decode("latin-1") for path in kept])


@pytest.mark.parametrize(("name", "content"), [("x.zip", locked()), ("x.7z", seven("sesame", headers=True))])
def test_a_locked_archive_needs_its_password_which_is_shown_nowhere(
    owner: TaskClient, name: str, content: bytes
) -> None:
    write_file(owner, name, content)
    wrong = f"wrong{uuid4().hex}"
    assert unpack_in_vain(owner, name) == WRONG
    assert unpack_in_vain(owner, name, archive_pass=wrong) == WRONG
    shown = [row["name"].rpartition(" with password ")[2] for row in owner.wait_for_all(KIND)]
    assert shown == ["<>", "<***>"]
    assert wrong not in read_all_texts(owner)
    assert unpack_whole(owner, name, archive_pass="sesame")["state"] == 2
    assert read_files(owner.root) == FILES
    assert owner.wait_for_all(KIND)[-1]["name"].endswith(" with password <***>")


def make_odd(kind: bytes, name: str = "odd") -> bytes:
    """A tar of an entry of that kind, then a file."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        one = tarfile.TarInfo(name)
        one.type, one.linkname = kind, "/etc/passwd"
        archive.addfile(one)
        fine = tarfile.TarInfo("fine")
        fine.size = 4
        archive.addfile(fine, io.BytesIO(b"fine"))
    return content.getvalue()


REFUSED = {
    "climbs.zip": (zipped({"../../evil": b"x", "fine": b"fine"}), "../../evil: its path leads out of"),
    "climbs.tar": (tarred({"a/../../evil": b"x", "fine": b"fine"}), "a/../../evil: its path leads out of"),
    "absolute.tar": (tarred({"/etc/evil": b"x", "fine": b"fine"}), "/etc/evil: its path is absolute"),
    "link.tar": (make_odd(tarfile.SYMTYPE), "odd: it is a symbolic link"),
    "hard.tar": (make_odd(tarfile.LNKTYPE), "odd: it is a hard link"),
    "device.tar": (make_odd(tarfile.CHRTYPE), "odd: it is a device"),
    "fifo.tar": (make_odd(tarfile.FIFOTYPE), "odd: it is a fifo"),
    "backslash.tar": (tarred({"..\\evil": b"x", "fine": b"fine"}), "..\\evil: its name has a backslash"),
    "ours.zip": (zipped({".mangrove-x": b"x", "fine": b"fine"}), ".mangrove-x: names that begin with"),
    "ours.tar": (make_odd(tarfile.DIRTYPE, ".mangrove-x"), ".mangrove-x: names that begin with"),
}


def test_entries_that_must_not_be_unpacked_are_named_and_the_others_brought(owner: TaskClient) -> None:
    for name, (content, _) in REFUSED.items():
        write_file(owner, name, content)
    made = {name: owner.unpack(name, put_into_new_dir=True) for name in REFUSED}
    for name, (_, why) in REFUSED.items():
        row = owner.wait_for(KIND, made[name][0])
        assert row["state"] == 7
        assert row["error"].startswith(f"1 entry is not unpacked: {why}"), row
    assert {row["state"] for row in owner.wait_for_all(UPLOAD)} == {2}
    assert {path.name for path in owner.root.rglob("*") if not path.is_dir()} == {"fine"}
    assert not any(path.is_symlink() for path in owner.root.rglob("*"))


def test_of_many_refused_entries_a_few_are_named_and_all_counted(owner: TaskClient) -> None:
    write_file(owner, "x.zip", zipped({f"../{number}": b"" for number in range(500)} | {"fine": b"fine"}))
    (id,) = owner.unpack("x.zip")
    error = owner.wait_for(KIND, id)["error"]
    assert error.startswith("500 entries are not unpacked: ../0: ")
    assert len(error) < 500
    assert [row["state"] for row in owner.wait_for_all(UPLOAD)] == [2]
    assert read_files(owner.root) == {"fine": b"fine"}


def test_bombs_are_stopped_by_the_settings(owner: TaskClient, admin: Client) -> None:
    zeros = bytes(9 * MIB)
    for name, content in {
        "tight.zip": zipped({"bomb": zeros, "fine": b"fine"}),
        "tight.tar.gz": gzip.compress(tarred({"bomb": zeros})),
        "tight.gz": gzip.compress(zeros),
        "many.zip": zipped({str(number): b"" for number in range(11)}),
        "large.zip": zipped({str(number): os.urandom(MIB) for number in range(3)}, zipfile.ZIP_STORED),
    }.items():
        write_file(owner, name, content)
    with fixtures.settings(admin, archive_max_ratio="100", archive_max_members="10", archive_max_size="2"):
        assert unpack_in_vain(owner, "many.zip") == "the archive has more than 10 entries"
        for name in ("large.zip", "tight.gz", "tight.tar.gz"):
            assert unpack_in_vain(owner, name) == "the archive unpacks to more than is allowed"
    with fixtures.settings(admin, archive_max_ratio="100"):
        for name in ("tight.gz", "tight.tar.gz"):
            assert unpack_in_vain(owner, name) == "the archive is packed too tightly to be honest"
        (id,) = owner.unpack("tight.zip")
        wanted = "1 entry is not unpacked: bomb: it is packed too tightly to be honest"
        assert owner.wait_for(KIND, id)["error"] == wanted
        assert [row["state"] for row in owner.wait_for_all(UPLOAD)] == [2]
    assert read_files(owner.root) == {"fine": b"fine"}
    with fixtures.settings(admin, archive_max_ratio="0", archive_max_members="0", archive_max_size="0"):
        assert unpack_whole(owner, "tight.zip")["state"] == 2
    assert (owner.root / "bomb").read_bytes() == zeros


def test_what_is_missing_or_no_folder_is_refused_at_once(owner: TaskClient) -> None:
    write_file(owner, "x.zip", zipped({"f": b"x"}))
    code, message = get_refusal(ask(owner.client, owner, "none.zip"))
    assert (code, message.startswith("failed to get src object: ")) == (500, True)
    assert message.endswith("object not found")
    code, message = get_refusal(ask(owner.client, owner, "x.zip", dst_dir=f"{owner.folder}/none"))
    assert (code, message.startswith("failed to get dst dir: ")) == (500, True)
    assert get_refusal(ask(owner.client, owner, "x.zip", dst_dir=f"{owner.folder}/x.zip")) == (500, "not a folder")
    assert get_refusal(ask(owner.client, owner, "x.zip", dst_dir="/no/such"))[0] == 500
    assert get_refusal(ask(owner.client, owner, "x.zip", src_dir="/no/such"))[0] == 500
    for name in ("../x.zip", "a/x.zip", "..", "", "."):
        assert get_refusal(ask(owner.client, owner, name))[0] in (400, 403)
    assert owner.wait_for_all(KIND) == []


def test_names_are_a_list_and_each_is_one_task(owner: TaskClient) -> None:
    for name in ("a.zip", "b.zip"):
        write_file(owner, name, zipped({f"in {name}": b"x"}))
    for wrong in ("a.zip", {"a": 1}, 1, [1], [["a.zip"]]):
        assert get_refusal(ask(owner.client, owner, name=wrong))[0] == 400
    assert owner.client.ok(ROUTE, src_dir=owner.folder, dst_dir=owner.mount, name=[]) == {"task": []}
    assert len(owner.unpack("a.zip", "b.zip", "a.zip")) == 2
    assert {row["state"] for row in owner.wait_for_all(KIND) + owner.wait_for_all(UPLOAD)} == {2}
    assert set(read_files(owner.root)) == {"in a.zip", "in b.zip"}


def test_what_is_no_archive_fails_the_task_alone(owner: TaskClient) -> None:
    write_file(owner, "broken.zip", b"PK\3\4" + os.urandom(1000))
    write_file(owner, "cut.tar.gz", gzip.compress(tarred({"f": os.urandom(MIB)}))[: MIB // 2])
    write_file(owner, "text.txt", b"just text")
    write_file(owner, "wrong.7z", zipped({"f": b"x"}))
    (owner.disk / "folder.zip").mkdir()
    errors = {
        name: unpack_in_vain(owner, name) for name in ("broken.zip", "cut.tar.gz", "text.txt", "wrong.7z", "folder.zip")
    }
    assert errors["folder.zip"] == "not a file"
    assert "extension" in errors["text.txt"]
    for error in errors.values():
        assert error and str(owner.service.data) not in error and "Traceback" not in error
    assert read_files(owner.root) == {}


def test_a_damaged_member_is_named_and_the_others_are_brought(owner: TaskClient) -> None:
    content = bytearray(zipped({"good": b"good" * 100, "bad": b"bad" * 100}, zipfile.ZIP_STORED))
    at = content.index(b"badbad")
    content[at + 4] ^= 1
    write_file(owner, "x.zip", bytes(content))
    (id,) = owner.unpack("x.zip")
    row = owner.wait_for(KIND, id)
    assert row["error"] == "1 entry is not unpacked: bad: the checksum of a file in the archive is wrong"
    assert [one["state"] for one in owner.wait_for_all(UPLOAD)] == [2]
    assert read_files(owner.root) == {"good": b"good" * 100}


def test_the_right_to_decompress_and_the_rules_of_both_folders_decide(owner: TaskClient, admin: Client) -> None:
    write_file(owner, "x.zip", zipped({"f": b"x"}))
    with fixtures.user(owner.service, admin, fixtures.ALL_RIGHTS & ~DECOMPRESS) as without:
        assert get_refusal(ask(without, owner, "x.zip")) == DENIED
    with fixtures.user(owner.service, admin, DECOMPRESS) as plain:
        with fixtures.meta(admin, owner.folder, password="hush", p_sub=True):
            assert plain.post(ROUTE, src_dir=owner.folder, dst_dir=owner.mount, name=["x.zip"])["code"] == 403
        with fixtures.meta(admin, owner.folder, read_users=[1], read_users_sub=True):
            assert get_refusal(ask(plain, owner, "x.zip"))[0] == 403
        with fixtures.meta(admin, owner.folder, hide="x.zip"):
            assert get_refusal(ask(plain, owner, "x.zip"))[0] in (403, 500)
        with fixtures.meta(admin, owner.mount, write_users=[1], write_users_sub=True):
            assert get_refusal(ask(plain, owner, "x.zip")) == DENIED
        assert plain.get(f"/openlist/api/task/{KIND}/undone")["data"] == []
        assert plain.get(f"/openlist/api/task/{KIND}/done")["data"] == []
        assert len(plain.ok(ROUTE, src_dir=owner.folder, dst_dir=owner.mount, name=["x.zip"])["task"]) == 1
        wait_until(lambda: (owner.root / "f").exists())
        wait_until(lambda: not plain.get(f"/openlist/api/task/{UPLOAD}/undone")["data"])
        for kind in (KIND, UPLOAD):
            plain.ok(f"/api/task/{kind}/clear_done")
    assert get_refusal(ask(owner.service.nobody(), owner, "x.zip")) == accounts.GUEST_DISABLED
    with accounts.guest(admin, permission=0) as guest:
        assert get_refusal(ask(guest, owner, "x.zip")) == DENIED


def test_a_task_fails_and_is_retried_when_the_archive_is_right(owner: TaskClient) -> None:
    write_file(owner, "x.zip", b"not yet")
    (id,) = owner.unpack("x.zip")
    assert owner.wait_for(KIND, id)["state"] == 7
    write_file(owner, "x.zip", zipped({"f": b"at last"}))
    owner.ask("retry", KIND, id)
    row = owner.wait_for(KIND, id)
    assert (row["state"], row["error"]) == (2, "")
    assert [one["state"] for one in owner.wait_for_all(UPLOAD)] == [2]
    assert read_files(owner.root) == {"f": b"at last"}


def test_an_archive_that_goes_before_the_task_begins_fails_it(owner: TaskClient, admin: Client) -> None:
    write_file(owner, "x.zip", zipped({"f": b"x"}))
    with fixtures.settings(admin, decompress_download_task_threads_num="0"):
        (id,) = owner.unpack("x.zip")
        (owner.disk / "x.zip").unlink()
    row = owner.wait_for(KIND, id)
    assert (row["state"], row["error"]) == (7, "object not found")


def test_a_cancelled_task_leaves_nothing_and_can_be_retried(owner: TaskClient, admin: Client, web: Origin) -> None:
    page, structure = serve_slowly(web)
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": structure}) as tree:
        (id,) = owner.unpack("x.zip", src_dir=tree)
        assert page.asked.wait(20)
        assert f"{id}.0/body/first" in owner.list_staged()
        owner.ask("cancel", KIND, id)
        row = owner.wait_for(KIND, id)
        assert (row["state"], row["error"]) == (4, "context canceled")
        assert not [path for path in owner.list_staged() if path.startswith(id)]
        assert owner.wait_for_all(UPLOAD) == [] and read_files(owner.root) == {}
        page.go.set()
        owner.ask("retry", KIND, id)
        assert owner.wait_for(KIND, id)["state"] == 2
        assert [row["state"] for row in owner.wait_for_all(UPLOAD)] == [2]
    assert read_files(owner.root) == HEAVY


def test_a_task_that_is_deleted_under_way_leaves_nothing(owner: TaskClient, admin: Client, web: Origin) -> None:
    page, structure = serve_slowly(web)
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": structure}) as tree:
        (id,) = owner.unpack("x.zip", src_dir=tree)
        assert page.asked.wait(20)
        owner.ask("delete", KIND, id)
        staging = owner.service.data / "staging"
        wait_until(lambda: not list(staging.glob(f"{id}*")))
        page.go.set()
    assert owner.wait_for_all(KIND) == owner.wait_for_all(UPLOAD) == []
    assert read_files(owner.root) == {}


def test_who_loses_the_right_midway_gets_nothing(owner: TaskClient, admin: Client, web: Origin) -> None:
    page, structure = serve_slowly(web)
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": structure}) as tree:
        (id,) = owner.unpack("x.zip", src_dir=tree)
        assert page.asked.wait(20)
        owner.grant(fixtures.ALL_RIGHTS & ~DECOMPRESS)
        page.go.set()
        row = owner.wait_for(KIND, id)
    assert (row["state"], row["error"]) == (7, "permission denied")
    assert not [path for path in owner.list_staged() if path.startswith(id)]
    assert owner.wait_for_all(UPLOAD) == [] and read_files(owner.root) == {}


def test_an_archive_that_changes_midway_goes_nowhere(owner: TaskClient, admin: Client, web: Origin) -> None:
    page, structure = serve_slowly(web)
    with fixtures.mount(admin, "UrlTree", addition={"url_structure": structure, "writable": True}) as tree:
        (id,) = owner.unpack("x.zip", src_dir=tree)
        assert page.asked.wait(20)
        admin.ok("/api/fs/remove", dir=tree, names=["x.zip"])
        url = structure.partition(":1600000000:")[2]
        admin.ok("/api/fs/add_offline_download", urls=[url], path=tree, tool="SimpleHttp")  # without size and date
        page.go.set()
        row = owner.wait_for(KIND, id)
    assert (row["state"], row["error"]) == (7, "the source changed since the task began")
    assert not [path for path in owner.list_staged() if path.startswith(id)]
    assert owner.wait_for_all(UPLOAD) == [] and read_files(owner.root) == {}


def list_done(client: Client, kind: str) -> list[Row]:
    rows: list[Row] = client.get(f"/openlist/api/task/{kind}/done")["data"]
    return rows


def test_a_killed_service_goes_on_and_brings_every_file_once(tmp_path: Path, web: Origin) -> None:
    page, structure = serve_slowly(web)
    root = tmp_path / "root"
    root.mkdir()
    with running(tmp_path / "data") as service:
        admin = service.client()
        for path, driver, options in (
            ("/tree", "UrlTree", {"url_structure": structure}),
            ("/other", "Local", {"root_folder_path": str(root)}),
        ):
            body = {"mount_path": path, "driver": driver, "addition": json.dumps(options)}
            admin.ok("/api/admin/storage/create", **body)
        admin.ok(ROUTE, src_dir="/tree", dst_dir="/other", name=["x.zip"], put_into_new_dir=True)
        assert page.asked.wait(20)
        service.kill()
    page.go.set()
    with running(tmp_path / "data") as service:
        again = Client(service.address, admin.token)
        for kind in (KIND, UPLOAD):
            (row,) = wait_until(partial(list_done, again, kind))
            assert (row["state"], row["error"]) == (2, "")
        assert read_files(root) == {f"x/{name}": content for name, content in HEAVY.items()}
        assert [path for path in (service.data / "staging").rglob("*") if path.is_file()] == []
        assert service.unfinished(service.data / "staging") == []
