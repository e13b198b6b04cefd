"""Attack 6: mounts in mounts, alias circles, and links on the disk that meet them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.attacks.scene import CONFINEMENTS, EVERYTHING, Scene, add_rule, check_answer, mount, scan, send
from tests.support.service import Client, Service

pytestmark = CONFINEMENTS


@pytest.fixture(scope="module")
def whole(service: Service, admin: Client) -> Iterator[Scene]:
    scene = Scene(service, admin)
    yield scene
    scene.close()


@pytest.fixture
def scene(whole: Scene) -> Scene:
    whole.reset()
    return whole


def test_a_link_in_a_circle_does_not_catch_what_walks_a_tree(fresh: Scene) -> None:
    for name in ("round", "again"):
        (fresh.disk / "sub" / name).symlink_to(fresh.disk)
        (fresh.disk / "empty" / name).symlink_to("..")
    before = fresh.scan_outside()
    (fresh.disk / "neighbour").symlink_to(fresh.disk.parent / "ab")
    fresh.user.ok("/api/fs/remove_empty_directory", src_dir="/")
    fresh.user.ok("/api/fs/recursive_move", src_dir="/", dst_dir="/empty", conflict_policy="cancel")
    assert fresh.user.names("/empty") == ["again", "f.txt", "g.txt", "h.txt", "round"]
    fresh.user.post("/api/fs/copy", src_dir="/", dst_dir="/empty", names=["sub", "neighbour"], merge=True)
    fresh.settle()
    fresh.user.ok("/api/fs/remove", dir="/", names=["sub", "empty", "neighbour"])
    assert fresh.scan_outside() == before


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
        key: facts for key, facts in under.items() if "/files" in key.removeprefix(str(tmp_path))
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
    first, two = f"/{scene.id}-one", f"/{scene.id}-two"
    with mount(admin, two, "Alias", paths=f"{first}"):
        with mount(admin, first, "Alias", paths=f"{two}"):
            for path in (first, two, f"{first}/deep", f"{two}/deep/er"):
                for route in ("list", "get", "dirs"):
                    answer = check_answer(send(admin, f"POST /api/fs/{route}", {"path": path}))
                    assert answer["code"] == (200 if route == "get" and path in (first, two) else 500), (route, path)
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
        assert time.monotonic() - began < 60


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
