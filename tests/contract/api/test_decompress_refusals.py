"""Archives unpacked over HTTP: passwords, refused entries, bombs, damage, rights."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from uuid import uuid4

import pytest

from tests.contract.api import accounts, fixtures
from tests.contract.api.accounts import get_refusal
from tests.contract.api.decompress_client import KIND, MIB, ROUTE, UPLOAD, ask, unpack_in_vain, unpack_whole, write_file
from tests.contract.api.task_client import DECOMPRESS, TaskClient, read_files, wait_until
from tests.support.service import Client
from tests.unit.archives.packing import FILES, tarred, zipped
from tests.unit.archives.test_formats import locked, seven

DENIED = (403, "permission denied")
WRONG = "wrong archive password"


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
    files = [path for path in data.rglob("*") if path.is_file() and data / "files" not in path.parents]
    files.append(data.parent / f"{data.name}.log")
    return "\n".join(get_data + [path.read_bytes().decode("latin-1") for path in files])


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
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
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


def test_refused_members_are_named_and_others_unpacked(owner: TaskClient) -> None:
    for name, (content, _) in REFUSED.items():
        write_file(owner, name, content)
    made = {name: owner.unpack(name, put_into_new_dir=True) for name in REFUSED}
    for name, (_, why) in REFUSED.items():
        row = owner.wait_for(KIND, made[name][0])
        assert row["state"] == 7
        assert row["error"].startswith(f"1 entry is not unpacked: {why}"), row
    uploads = owner.wait_for_all(UPLOAD)
    assert {row["state"] for row in uploads} == {2}, uploads
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
            assert unpack_in_vain(owner, name) == "the archive unpacks to more than 100 times its size"
        (id,) = owner.unpack("tight.zip")
        expected_error = "1 entry is not unpacked: bomb: it unpacks to more than 100 times its size"
        assert owner.wait_for(KIND, id)["error"] == expected_error
        assert [row["state"] for row in owner.wait_for_all(UPLOAD)] == [2]
    assert read_files(owner.root) == {"fine": b"fine"}
    with fixtures.settings(admin, archive_max_ratio="0", archive_max_members="0", archive_max_size="0"):
        assert unpack_whole(owner, "tight.zip")["state"] == 2
    assert (owner.root / "bomb").read_bytes() == zeros


def test_what_is_missing_or_no_folder_is_refused_at_once(owner: TaskClient) -> None:
    write_file(owner, "x.zip", zipped({"f": b"x"}))
    code, message = get_refusal(ask(owner.client, owner, "none.zip"))
    assert code == 500
    assert message == fixtures.NOTHING_THERE
    code, message = get_refusal(ask(owner.client, owner, "x.zip", dst_dir=f"{owner.folder}/none"))
    assert (code, message) == (500, fixtures.NOTHING_THERE)
    assert get_refusal(ask(owner.client, owner, "x.zip", dst_dir=f"{owner.folder}/x.zip")) == (
        500,
        "this is not a folder",
    )
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
    assert [task["state"] for task in owner.wait_for_all(UPLOAD)] == [2]
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
    assert get_refusal(ask(owner.service.anonymous(), owner, "x.zip")) == accounts.GUEST_DISABLED
    with accounts.guest(admin, permission=0) as guest:
        assert get_refusal(ask(guest, owner, "x.zip")) == DENIED
