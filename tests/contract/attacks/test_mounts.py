"""Attacks 5 and 6: links on the disk, links that appear between check and use, mounts in mounts, alias circles."""

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

from tests.contract.attacks.scene import EVERYTHING, Scan, Scene, add_rule, check_answer, mount, scan, send
from tests.service import Client, Service

RACE_SECONDS = 1.0
MOST_SECONDS = 20.0  # more, until the race was run at all


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
BELOW = ("folder/deep.txt", "relative/deep.txt", "chain/deep.txt", "up/outside/file.txt", "up/outside/folder/deep.txt")


def test_links_that_lead_out_are_not_listed(linked: Linked, admin: Client) -> None:
    assert admin.names(linked.path) == ["own.txt", "real"]
    assert [one["name"] for one in admin.ok("/api/fs/dirs", path=linked.path)] == ["real"]


@pytest.mark.parametrize("name", [*LINKS, *BELOW])
def test_what_is_behind_a_link_that_leads_out_is_not_there(linked: Linked, admin: Client, name: str) -> None:
    before = linked.scan_outside()
    for route in ("list", "get", "dirs", "link"):
        answer = send(admin, f"POST /api/fs/{route}", {"path": f"{linked.path}/{name}"})
        found = check_answer(answer)
        assert linked.secret not in answer.text.replace(linked.path, "")
        if route == "link":
            got = admin.http.get(found["data"]["url"])
            assert got.status_code == 404
            assert linked.secret not in got.text.replace(linked.path, "")
        else:
            assert found["code"] == 500, (route, found)
    assert linked.scan_outside() == before


@pytest.mark.parametrize("name", [*LINKS, *BELOW, "folder/new.txt", "dangling-folder/new.txt", "up/outside/new.txt"])
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


EXCHANGE, HERE = 2, -100  # renameat2's flag and AT_FDCWD


def _swap(place: Path, target: Path, ended: threading.Event) -> None:
    """In turn, and never absent: a folder, and a link to `target`."""
    link = place.with_name("link")
    link.symlink_to(target)
    names = os.fsencode(place), os.fsencode(link)
    while not ended.is_set():
        if CDLL(None).renameat2(HERE, names[0], HERE, names[1], EXCHANGE):
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
        while time.monotonic() < end or (not (stored and read) and time.monotonic() < end + MOST_SECONDS):
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


@pytest.fixture(scope="module")
def whole(service: Service, admin: Client) -> Iterator[Scene]:
    scene = Scene(service, admin)
    yield scene
    scene.close()


@pytest.fixture
def scene(whole: Scene) -> Scene:
    whole.reset()
    return whole


def test_a_mount_at_the_root_does_not_reach_into_the_others(scene: Scene, admin: Client, tmp_path: Path) -> None:
    shadow = tmp_path / "files" / scene.id / "team" / "a"
    shadow.mkdir(parents=True)
    (shadow / "shadow.txt").write_text("shadow")
    (tmp_path / "top.txt").write_text("top")
    before, under = scene.scan_outside(), scan(tmp_path)
    with mount(admin, "/", root_folder_path=str(tmp_path)):
        assert "top.txt" in admin.names("/")
        assert scene.user.names("/") == ["empty", "f.txt", "g.txt", "sub"]
        for verb, body in (
            ("remove", {"dir": "/", "names": ["files"]}),
            ("rename", {"path": "/files", "name": "gone"}),
            ("move", {"src_dir": "/", "dst_dir": scene.root, "names": ["files"]}),
            ("remove", {"dir": "/files/..", "names": ["top.txt"]}),
        ):
            assert admin.post(f"/api/fs/{verb}", **body)["code"] != 200, verb
        admin.post("/api/fs/remove_empty_directory", src_dir="/")
        answer = admin.post("/api/fs/recursive_move", src_dir="/", dst_dir="/", conflict_policy="skip")
        assert answer["code"] == 200
    assert scan(tmp_path / "files") == {
        key: one for key, one in under.items() if "/files" in key.removeprefix(str(tmp_path))
    }
    assert scene.scan_outside() == before


def test_a_mount_inside_a_base_path_ends_where_the_storage_ends(scene: Scene, admin: Client, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file.txt").write_text("in")
    (tmp_path / "secret.txt").write_text(scene.secret)
    before = scene.scan_outside() | scan(tmp_path / "secret.txt")
    with mount(admin, f"{scene.base}/m", root_folder_path=str(tmp_path / "in")):
        assert scene.user.names("/m") == ["file.txt"]
        for text in scene.list_texts():
            for name, body in (
                ("list", {"path": f"/m/{text}"}),
                ("get", {"path": f"/m{text}"}),
                ("copy", {"src_dir": "/m", "dst_dir": f"/m/{text}", "names": ["file.txt"]}),
                ("remove", {"dir": f"/m/{text}", "names": ["secret.txt", "notes.txt"]}),
            ):
                answer = send(scene.user, f"POST /api/fs/{name}", body)
                check_answer(answer)
                scene.check_unseen(text, answer)
        for verb, body in (
            ("remove", {"dir": "/", "names": ["m"]}),
            ("rename", {"path": "/m", "name": "n"}),
            ("move", {"src_dir": "/", "dst_dir": "/sub", "names": ["m"]}),
        ):
            assert scene.user.post(f"/api/fs/{verb}", **body)["code"] != 200, verb
        assert (tmp_path / "in" / "file.txt").read_text() == "in"
    assert scene.scan_outside() | scan(tmp_path / "secret.txt") == before


def test_a_folder_that_holds_a_mount_is_not_carried_away_with_it(scene: Scene, admin: Client, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("in")
    with mount(admin, f"{scene.base}/sub/m", root_folder_path=str(tmp_path)):
        for verb, body in (
            ("remove", {"dir": "/", "names": ["sub"]}),
            ("rename", {"path": "/sub", "name": "n"}),
            ("batch_rename", {"src_dir": "/", "rename_objects": [{"src_name": "sub", "new_name": "n"}]}),
            ("move", {"src_dir": "/", "dst_dir": "/empty", "names": ["sub"]}),
        ):
            assert scene.user.post(f"/api/fs/{verb}", **body)["code"] != 200, verb
        assert scene.user.names("/sub") == ["h.txt", "m"]
        assert (tmp_path / "file.txt").read_text() == "in"


def test_two_storages_of_one_folder_do_not_lend_a_user_the_other_ones_path(
    scene: Scene, admin: Client, tmp_path: Path
) -> None:
    before = scene.scan_outside()
    with mount(admin, f"{scene.root}-again", root_folder_path=str(scene.disk.parent)):
        other = scene.make_user("again", f"{scene.root}-again/a")
        assert other.names("/") == ["empty", "f.txt", "g.txt", "sub"]
        for path in ("/../ab", "../ab", f"{scene.root}/team/ab", "b"):
            assert other.post("/api/fs/list", path=path)["code"] != 200
    assert scene.scan_outside() == before


def test_a_circle_of_aliases_ends_with_a_refusal(scene: Scene, admin: Client) -> None:
    one, two = f"/{scene.id}-one", f"/{scene.id}-two"
    with mount(admin, two, "Alias", paths=f"{one}"):
        with mount(admin, one, "Alias", paths=f"{two}"):
            for path in (one, two, f"{one}/deep", f"{two}/deep/er"):
                for route in ("list", "get", "dirs"):
                    answer = check_answer(send(admin, f"POST /api/fs/{route}", {"path": path}))
                    assert answer["code"] == (200 if route == "get" and path in (one, two) else 500), (route, path)
                assert admin.put(f"{path}/new.txt", b"x")["code"] != 200
                assert admin.post("/api/fs/mkdir", path=f"{path}/new")["code"] != 200
                assert admin.post("/api/fs/remove", dir=path, names=["x"])["code"] in (200, 500)
    assert scene.user.names("/") == ["empty", "f.txt", "g.txt", "sub"]


def test_an_alias_of_itself_or_of_the_root_around_it_is_bounded(scene: Scene, admin: Client) -> None:
    path = f"/{scene.id}-self"
    answer = admin.post("/api/admin/storage/create", mount_path=path, driver="Alias", addition=f'{{"paths": "{path}"}}')
    assert answer["code"] == 500
    admin.ok("/api/admin/storage/delete", params={"id": answer["data"]["id"]})
    with mount(admin, path, "Alias", paths="/"):
        deep = path + "/" + "/".join([path[1:]] * 12)
        began = time.monotonic()
        check_answer(send(admin, "POST /api/fs/list", {"path": deep}))
        check_answer(send(admin, "POST /api/fs/get", {"path": f"{deep}/x"}))
        assert time.monotonic() - began < 30


def test_an_alias_in_a_base_path_shows_its_target_and_no_neighbour(scene: Scene, admin: Client) -> None:
    before = scene.scan_outside()
    options = {"paths": f"{scene.root}/team/b", "write_conflict_policy": "first", "put_conflict_policy": "first"}
    with mount(admin, f"{scene.base}/alias", "Alias", **options):
        assert "notes.txt" in scene.user.names("/alias")
        for text in ("..", "../ab", "../ab/notes.txt", "/../ab", "..\\ab", "%2e%2e/ab"):
            for route in ("list", "get"):
                answer = send(scene.user, f"POST /api/fs/{route}", {"path": f"/alias/{text}"})
                assert check_answer(answer)["code"] != 200
                assert scene.secret not in answer.text
            assert scene.user.put(f"/alias/{text}/x.txt", b"x")["code"] != 200 or text.startswith("%")
        scene.user.post("/api/fs/remove", dir="/alias", names=["%2e%2e"])
        for names in (["."], [""], ["../ab"], [".."]):
            assert scene.user.post("/api/fs/remove", dir="/alias", names=names)["code"] != 200
        assert scene.user.post("/api/fs/remove", dir="/", names=["alias"])["code"] != 200
    assert {key for key in scene.scan_outside()} == set(before)


def test_balanced_mounts_confine_each_of_them(scene: Scene, admin: Client, tmp_path: Path) -> None:
    path = f"/{scene.id}-both"
    (tmp_path / "outside.txt").write_text(scene.secret)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "link").symlink_to(tmp_path)
    with mount(admin, path, root_folder_path=str(tmp_path / "one")):
        with mount(admin, f"{path}.balance", root_folder_path=str(tmp_path / "two")):
            reader = scene.make_user("both", path, EVERYTHING)
            for _ in range(4):
                answer = reader.http.post("/api/fs/get", json={"path": "/link/outside.txt"})
                assert check_answer(answer)["code"] == 500
                assert reader.put("/link/outside.txt", b"x")["code"] != 200
    assert (tmp_path / "outside.txt").read_text() == scene.secret


def test_the_recycle_bin_is_no_way_out(scene: Scene, admin: Client, tmp_path: Path) -> None:
    for name in ("root", "bin", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "other" / "kept.txt").write_text("kept")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "other")
    (tmp_path / "root" / "own.txt").write_text("own")
    options = {"root_folder_path": str(tmp_path / "root"), "recycle_bin_path": str(tmp_path / "bin")}
    path = f"/{scene.id}-bin"
    with mount(admin, path, **options):
        for folder, name in ((f"{path}/link", "kept.txt"), (path, "link"), (path, "own.txt")):
            admin.post("/api/fs/remove", dir=folder, names=[name])
    assert (tmp_path / "other" / "kept.txt").read_text() == "kept"
    assert (tmp_path / "bin" / "own.txt").read_text() == "own"


def test_rules_reach_what_is_mounted_below_them(scene: Scene, admin: Client, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("in")
    with mount(admin, f"{scene.base}/sub/m", root_folder_path=str(tmp_path)):
        with add_rule(
            admin, f"{scene.base}/sub", password="word", p_sub=True, write_users=[10**9], write_users_sub=True
        ):
            assert scene.user.post("/api/fs/list", path="/sub/m")["code"] == 403
            assert scene.user.post("/api/fs/get", path="/sub/m/file.txt")["code"] == 403
            assert scene.user.put("/sub/m/new.txt", b"x")["code"] == 403
            assert scene.user.post("/api/fs/remove", dir="/sub/m", names=["file.txt"])["code"] == 403
    assert (tmp_path / "file.txt").read_text() == "in"
