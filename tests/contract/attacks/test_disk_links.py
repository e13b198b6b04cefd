"""Attack 5: links on the disk, and links that appear between check and use."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from ctypes import CDLL
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from tests.contract.attacks.scene import (
    CONFINEMENTS,
    Scan,
    check_answer,
    mount,
    scan,
    send,
)
from tests.support.service import Client

pytestmark = CONFINEMENTS

RACE_SECONDS = 1.0
MAX_EXTRA_SECONDS = 120.0  # for the race to run at least once


@dataclass
class Linked:
    """A Local storage at `path` with links in `inside` that lead to `outside`."""

    path: str
    inside: Path
    outside: Path
    secret: str

    def scan_outside(self) -> Scan:
        return scan(self.outside)


@pytest.fixture
def linked(admin: Client, tmp_path: Path) -> Iterator[Linked]:
    inside, outside, secret = tmp_path / "inside", tmp_path / "outside", f"canary-{uuid4().hex}"
    inside.mkdir()
    (outside / "folder").mkdir(parents=True)
    (outside / "file.txt").write_text(secret)
    (outside / "folder" / f"{secret}.txt").write_text(secret)
    (outside / "folder" / "deep.txt").write_text(secret)
    (inside / "real").mkdir()
    (inside / "own.txt").write_text("own")
    (inside / "file").symlink_to(outside / "file.txt")
    (inside / "folder").symlink_to(outside / "folder")
    (inside / "relative").symlink_to("../outside/folder")
    (inside / "dangling").symlink_to(outside / "new.txt")
    (inside / "dangling-folder").symlink_to(outside / "newfolder" / "x")
    (inside / "circle").symlink_to("circle")
    (inside / "chain").symlink_to("folder")
    (inside / "up").symlink_to("..")
    os.link(outside / "file.txt", outside / "again.txt")
    with mount(admin, f"/{secret[:20]}", root_folder_path=str(inside)):
        yield Linked(f"/{secret[:20]}", inside, outside, secret)


LINKS = ("file", "folder", "relative", "dangling", "dangling-folder", "circle", "chain", "up")
PATHS_THROUGH_LINKS = (
    "folder/deep.txt",
    "relative/deep.txt",
    "chain/deep.txt",
    "up/outside/file.txt",
    "up/outside/folder/deep.txt",
)


def test_links_that_lead_out_are_not_listed(linked: Linked, admin: Client) -> None:
    assert admin.names(linked.path) == ["own.txt", "real"]
    assert [entry["name"] for entry in admin.ok("/api/fs/dirs", path=linked.path)] == ["real"]


@pytest.mark.parametrize("name", [*LINKS, *PATHS_THROUGH_LINKS])
def test_what_is_behind_a_link_that_leads_out_is_not_there(linked: Linked, admin: Client, name: str) -> None:
    before = linked.scan_outside()
    for route in ("list", "get", "dirs", "link"):
        answer = send(admin, f"POST /api/fs/{route}", {"path": f"{linked.path}/{name}"})
        envelope = check_answer(answer)
        assert linked.secret not in answer.text.replace(linked.path, "")
        if route == "link":
            got = admin.http.get(envelope["data"]["url"])
            assert got.status_code == 404
            assert linked.secret not in got.text.replace(linked.path, "")
        else:
            assert envelope["code"] == 500, (route, envelope)
    assert linked.scan_outside() == before


@pytest.mark.parametrize(
    "name", [*LINKS, *PATHS_THROUGH_LINKS, "folder/new.txt", "dangling-folder/new.txt", "up/outside/new.txt"]
)
def test_a_write_through_a_link_changes_nothing_outside(linked: Linked, admin: Client, name: str) -> None:
    before = linked.scan_outside()
    for route in ("put", "form"):
        send(admin, f"PUT /api/fs/{route}", f"{linked.path}/{name}", b"attack")
        assert linked.scan_outside() == before
    admin.post("/api/fs/mkdir", path=f"{linked.path}/{name}/made")
    assert linked.scan_outside() == before
    assert not (linked.outside.parent / "made").exists()


@pytest.mark.parametrize("name", LINKS)
def test_a_copy_or_move_onto_or_into_a_link_changes_nothing_outside(linked: Linked, admin: Client, name: str) -> None:
    before = linked.scan_outside()
    (linked.inside / "real" / name).write_text("attack")
    for verb in ("copy", "move"):
        for source, target, names in (
            ("/real", "", [name]),
            ("", f"/{name}", ["own.txt"]),
            ("", f"/{name}", ["real"]),
        ):
            places = {"src_dir": linked.path + source, "dst_dir": linked.path + target, "names": names}
            admin.post(f"/api/fs/{verb}", **places, overwrite=True, merge=verb == "copy")
            assert linked.scan_outside() == before, (verb, source, target)
    places = {"src_dir": f"{linked.path}/real", "dst_dir": f"{linked.path}/{name}"}
    admin.post("/api/fs/recursive_move", **places, conflict_policy="overwrite")
    assert linked.scan_outside() == before


@pytest.mark.parametrize("name", LINKS)
def test_a_copy_or_move_of_a_link_brings_nothing_in(linked: Linked, admin: Client, name: str) -> None:
    before = linked.scan_outside()
    for verb in ("copy", "move"):
        admin.post(f"/api/fs/{verb}", src_dir=linked.path, dst_dir=f"{linked.path}/real", names=[name])
        answer = admin.http.post("/api/fs/list", json={"path": f"{linked.path}/real"})
        assert check_answer(answer)["data"]["total"] == 0
    for source in ("folder", "up/outside"):
        places = {"src_dir": f"{linked.path}/{source}", "dst_dir": f"{linked.path}/real"}
        assert admin.post("/api/fs/recursive_move", **places)["code"] == 500
    assert list((linked.inside / "real").iterdir()) == []
    assert linked.scan_outside() == before


@pytest.mark.parametrize("name", LINKS)
def test_removing_a_link_or_its_folder_leaves_what_it_leads_to(linked: Linked, admin: Client, name: str) -> None:
    before = linked.scan_outside()
    admin.post("/api/fs/remove", dir=f"{linked.path}/{name}", names=["deep.txt", "file.txt", "folder", "outside"])
    admin.post("/api/fs/remove_empty_directory", src_dir=f"{linked.path}/{name}")
    assert linked.scan_outside() == before
    (linked.inside / name).rename(linked.inside / "real" / name)
    admin.ok("/api/fs/remove_empty_directory", src_dir=linked.path)
    admin.ok("/api/fs/remove", dir=linked.path, names=["real"])
    assert not (linked.inside / "real").exists()
    assert linked.scan_outside() == before


def test_an_interrupted_upload_cleans_up_nothing_behind_a_link(linked: Linked, admin: Client) -> None:
    before = linked.scan_outside()
    for name in ("folder/deep.txt", "file", "dangling"):
        answer = admin.put(f"{linked.path}/{name}", b"attack", x_file_md5="00" * 16)
        assert answer["code"] != 200
    assert linked.scan_outside() == before


def test_a_thumbnail_of_a_link_that_leads_out_is_not_made(admin: Client, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 100)
    (tmp_path / "inside" / "picture.png").symlink_to(tmp_path / "picture.png")
    path = f"/{uuid4().hex}"
    with mount(admin, path, root_folder_path=str(tmp_path / "inside"), thumbnail=True):
        url = admin.ok("/api/fs/link", path=f"{path}/picture.png")["url"]
        assert admin.http.get(f"{url}&type=thumb").status_code in (403, 404)


RENAME_EXCHANGE, AT_FDCWD = 2, -100  # arguments of renameat2


def _swap(place: Path, target: Path, ended: threading.Event) -> None:
    """In turn, and never absent: a folder, and a link to `target`."""
    link = place.with_name("link")
    link.symlink_to(target)
    names = os.fsencode(place), os.fsencode(link)
    while not ended.is_set():
        if CDLL(None).renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE):
            raise OSError("this file system cannot exchange two names")


def test_a_folder_swapped_for_a_link_at_any_moment_leads_nowhere(linked: Linked, admin: Client) -> None:
    before = linked.scan_outside()
    place, ended, stored, read = linked.inside / "swapped", threading.Event(), 0, 0
    place.mkdir()
    (place / "deep.txt").write_text("own")
    swapper = threading.Thread(target=_swap, args=(place, linked.outside / "folder", ended))
    swapper.start()
    folder = f"{linked.path}/swapped"
    url = admin.ok("/api/fs/link", path=f"{folder}/deep.txt")["url"]
    try:
        end = time.monotonic() + RACE_SECONDS
        while time.monotonic() < end or (not (stored and read) and time.monotonic() < end + MAX_EXTRA_SECONDS):
            stored += admin.put(f"{folder}/deep.txt", b"own")["code"] == 200
            stored += admin.put(f"{folder}/new.txt", b"attack")["code"] == 200
            admin.post("/api/fs/mkdir", path=f"{folder}/made")
            admin.post("/api/fs/copy", src_dir=linked.path, dst_dir=folder, names=["own.txt"], overwrite=True)
            admin.post("/api/fs/rename", path=f"{folder}/new.txt", name="newer.txt", overwrite=True)
            admin.post("/api/fs/remove", dir=folder, names=["newer.txt", "made", "own.txt"])
            answer = admin.http.post("/api/fs/list", json={"path": folder, "refresh": True})
            assert linked.secret not in answer.text.replace(linked.path, "")
            got = admin.http.get(url)
            assert linked.secret not in got.text.replace(linked.path, "")
            read += got.status_code == 200
    finally:
        ended.set()
        swapper.join()
    assert linked.scan_outside() == before
    assert stored, "the race was never run: nothing was stored"
    assert read, "the race was never run: nothing was read"
