"""Attacks 7 and 8: verbs turned on their own folders and roots, and ways around the rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import pytest

from mangrove.identity.rights import Right
from tests.contract.attacks.scene import EVERYTHING, Scene, add_rule, check_answer, scan, send
from tests.support.service import Client

NOBODY = [10**9]  # a list of users that names none of ours


@pytest.mark.parametrize("verb", ["move", "copy"])
@pytest.mark.parametrize("target", ["/sub", "/sub/deep", "/sub/", "//sub/./deep", "\\sub\\deep"])
def test_a_folder_does_not_go_into_itself(fresh: Scene, verb: str, target: str) -> None:
    (fresh.disk / "sub" / "deep").mkdir()
    before = fresh.scan_own()
    for flag in ("", "overwrite", "merge", "skip_existing"):
        body = {"src_dir": "/", "dst_dir": target, "names": ["sub"], flag: True}
        assert fresh.user.post(f"/api/fs/{verb}", **body)["code"] != 200
    assert fresh.scan_own() == before


@pytest.mark.parametrize("verb", ["move", "copy"])
@pytest.mark.parametrize("flags", [{}, {"overwrite": True}, {"merge": True}])
@pytest.mark.parametrize("target", ["/", "//", "/.", "."])
def test_nothing_is_lost_when_it_is_put_onto_itself(
    fresh: Scene, verb: str, flags: dict[str, bool], target: str
) -> None:
    before = fresh.scan_own()
    for name in ("f.txt", "sub", "empty"):
        answer = fresh.user.post(f"/api/fs/{verb}", src_dir="/", dst_dir=target, names=[name], **flags)
        assert answer["code"] != 200
    assert fresh.scan_own() == before


def test_a_folder_goes_into_one_whose_name_only_begins_alike(fresh: Scene) -> None:
    (fresh.disk / "subway").mkdir()
    assert fresh.user.post("/api/fs/move", src_dir="/", dst_dir="/subway", names=["sub"])["code"] == 200
    assert (fresh.disk / "subway" / "sub" / "h.txt").read_text() == "mine: sub/h.txt"


@pytest.mark.parametrize("flags", [{}, {"overwrite": True}, {"merge": True}])
def test_a_file_and_a_folder_do_not_replace_each_other(fresh: Scene, flags: dict[str, bool]) -> None:
    (fresh.disk / "sub" / "f.txt").mkdir()
    (fresh.disk / "sub" / "f.txt" / "kept.txt").write_text("kept")
    (fresh.disk / "sub" / "empty").write_text("kept")
    before = fresh.scan_own()
    for verb in ("move", "copy"):
        for name in ("f.txt", "empty"):
            fresh.user.post(f"/api/fs/{verb}", src_dir="/", dst_dir="/sub", names=[name], **flags)
            assert (fresh.disk / "sub" / "f.txt" / "kept.txt").read_text() == "kept"
            assert (fresh.disk / "sub" / "empty").read_text() == "kept"
    assert fresh.scan_own().keys() == before.keys()


def test_renaming_onto_another_name_needs_overwrite_and_keeps_folders(fresh: Scene) -> None:
    before = fresh.scan_own()
    assert fresh.user.post("/api/fs/rename", path="/f.txt", name="g.txt")["code"] == 403
    assert fresh.user.post("/api/fs/rename", path="/f.txt", name="sub", overwrite=True)["code"] != 200
    assert fresh.user.post("/api/fs/rename", path="/empty", name="sub", overwrite=True)["code"] != 200
    assert fresh.user.post("/api/fs/rename", path="/f.txt", name="f.txt", overwrite=True)["code"] in (200, 403)
    assert fresh.scan_own() == before


ROOTS = ("", "/", ".", "./", "//", "/.", "\\", "sub/..", "/sub/../", "..")


@pytest.mark.parametrize("root", ROOTS)
def test_a_user_does_not_rename_or_replace_his_own_root(fresh: Scene, root: str) -> None:
    before, own_files = fresh.scan_outside(), fresh.scan_own()
    for name in ("ab", "c", fresh.secret, "f.txt"):
        answer = fresh.user.post("/api/fs/rename", path=root, name=name, overwrite=True)
        assert answer["code"] != 200
    for route in ("put", "form"):
        assert check_answer(send(fresh.user, f"PUT /api/fs/{route}", root))["code"] != 200
    assert (fresh.scan_outside(), fresh.scan_own()) == (before, own_files)


def test_an_upload_does_not_become_the_missing_root_of_a_user(fresh: Scene) -> None:
    homeless = fresh.make_user(uuid4().hex, f"{fresh.root}/team/new")
    before = fresh.scan_outside()
    for route in ("put", "form"):
        assert check_answer(send(homeless, f"PUT /api/fs/{route}", "/"))["code"] != 200
    assert homeless.post("/api/fs/rename", path="/", name="ab", overwrite=True)["code"] != 200
    assert fresh.scan_outside() == before


@pytest.mark.parametrize("folder", ["", "/", "/sub"])
@pytest.mark.parametrize("name", ["", ".", "..", "/", "./", "../", "\\", "sub/..", "../a", "../ab", "/.."])
def test_a_name_never_means_the_folder_itself_or_the_one_above(fresh: Scene, folder: str, name: str) -> None:
    before, own_files = fresh.scan_outside(), fresh.scan_own()
    assert fresh.user.post("/api/fs/remove", dir=folder, names=[name])["code"] in (400, 403)
    assert fresh.user.post("/api/fs/remove", dir=folder, names=["f.txt", name])["code"] in (400, 403)
    for verb in ("move", "copy"):
        for names in ([name], ["f.txt", name]):
            answer = fresh.user.post(f"/api/fs/{verb}", src_dir=folder, dst_dir="/empty", names=names, overwrite=True)
            assert answer["code"] in (400, 403)
    renaming = [{"src_name": "f.txt", "new_name": "x.txt"}, {"src_name": name or "/", "new_name": "y"}]
    assert fresh.user.post("/api/fs/batch_rename", src_dir=folder, rename_objects=renaming)["code"] in (400, 403)
    assert (fresh.scan_outside(), fresh.scan_own()) == (before, own_files)


def test_no_mount_and_no_way_to_one_is_removed_renamed_or_moved(fresh: Scene, admin: Client) -> None:
    files = scan(fresh.files)
    for verb, body in (
        ("remove", {"dir": "/", "names": ["files"]}),
        ("rename", {"path": "/files", "name": "x"}),
        ("rename", {"path": "/", "name": "x"}),
        ("move", {"src_dir": "/", "dst_dir": fresh.root, "names": ["files"]}),
        ("batch_rename", {"src_dir": "/", "rename_objects": [{"src_name": "files", "new_name": "x"}]}),
        ("regex_rename", {"src_dir": "/", "src_name_regex": "files", "new_name_regex": "x"}),
        ("recursive_move", {"src_dir": "/", "dst_dir": fresh.root}),
        ("remove_empty_directory", {"src_dir": "/"}),
    ):
        assert admin.post(f"/api/fs/{verb}", **body)["code"] != 200, verb
    assert scan(fresh.files) == files


def test_flattening_a_user_s_root_stays_below_it_and_loses_nothing(fresh: Scene) -> None:
    before = fresh.scan_outside()
    fresh.user.ok("/api/fs/recursive_move", src_dir="/", dst_dir="/", conflict_policy="cancel")
    assert fresh.user.names("/") == ["empty", "f.txt", "g.txt", "h.txt", "sub"]
    fresh.user.ok("/api/fs/recursive_move", src_dir="/", dst_dir="/empty", conflict_policy="overwrite")
    assert fresh.user.names("/empty") == ["f.txt", "g.txt", "h.txt"]
    assert fresh.scan_outside() == before


@pytest.mark.parametrize("policy", ["cancel", "skip", "overwrite"])
def test_flattening_into_an_own_descendant_loses_nothing(fresh: Scene, policy: str) -> None:
    (fresh.disk / "sub" / "deep").mkdir()
    (fresh.disk / "sub" / "deep" / "x.txt").write_text("x")
    fresh.user.ok("/api/fs/recursive_move", src_dir="/sub", dst_dir="/sub/deep", conflict_policy=policy)
    assert fresh.user.names("/sub/deep") == ["h.txt", "x.txt"]


def test_clearing_a_user_s_root_keeps_it_and_its_neighbours(fresh: Scene) -> None:
    (fresh.disk.parent / "b" / "hollow").mkdir(exist_ok=True)
    before = fresh.scan_outside()
    fresh.user.ok("/api/fs/remove_empty_directory", src_dir="/")
    assert fresh.user.names("/") == ["f.txt", "g.txt", "sub"]
    fresh.user.ok("/api/fs/remove", dir="/", names=["f.txt", "g.txt", "sub"])
    fresh.user.ok("/api/fs/remove_empty_directory", src_dir="/")
    assert fresh.user.names("/") == []
    assert fresh.disk.is_dir()
    assert fresh.scan_outside() == before


CHANGES: dict[str, dict[str, Any]] = {
    "mkdir": {"path": "/closed/new"},
    "copy": {"src_dir": "/", "dst_dir": "/closed", "names": ["f.txt"], "overwrite": True},
    "move": {"src_dir": "/", "dst_dir": "/closed", "names": ["f.txt"], "overwrite": True},
    "recursive_move": {"src_dir": "/sub", "dst_dir": "/closed", "conflict_policy": "overwrite"},
    "rename": {"path": "/closed/kept.txt", "name": "x.txt"},
    "batch_rename": {"src_dir": "/closed", "rename_objects": [{"src_name": "kept.txt", "new_name": "x.txt"}]},
    "regex_rename": {"src_dir": "/closed", "src_name_regex": "kept", "new_name_regex": "x"},
    "remove": {"dir": "/closed", "names": ["kept.txt"]},
    "remove_empty_directory": {"src_dir": "/closed"},
}
TRANSFERS: dict[str, dict[str, Any]] = {
    "move": {"src_dir": "/closed", "dst_dir": "/empty", "names": ["kept.txt"]},
    "recursive_move": {"src_dir": "/closed", "dst_dir": "/empty"},
}


def _check_closed(scene: Scene) -> None:
    (scene.disk / "closed" / "hollow").mkdir(parents=True)
    (scene.disk / "closed" / "kept.txt").write_text("kept")
    (scene.disk / "closed" / "f.txt").write_text("kept")


@pytest.mark.parametrize("sub", [True, False])
def test_folder_writable_by_others_is_unchanged_by_any_verb(fresh: Scene, admin: Client, sub: bool) -> None:
    _check_closed(fresh)
    before = fresh.scan_own()
    with add_rule(admin, f"{fresh.base}/closed", write_users=NOBODY, write_users_sub=sub):
        for verb, body in [*CHANGES.items(), *TRANSFERS.items()]:
            assert fresh.user.post(f"/api/fs/{verb}", **body)["code"] == 403, verb
            assert admin.post(f"/api/fs/{verb}", **_below(fresh.base, body))["code"] == 403, verb
        for route in ("put", "form"):
            assert check_answer(send(fresh.user, f"PUT /api/fs/{route}", "/closed/new.txt"))["code"] == 403
    assert fresh.scan_own() == before


def _below(base: str, body: dict[str, Any]) -> dict[str, Any]:
    """The same request as seen from the root of the tree."""
    paths = ("path", "dir", "src_dir", "dst_dir")
    return {key: base + value if key in paths else value for key, value in body.items()}


def test_a_merging_copy_does_not_write_into_a_closed_folder_on_its_way(fresh: Scene, admin: Client) -> None:
    (fresh.disk / "empty" / "sub").mkdir()
    before = fresh.scan_own()
    with add_rule(admin, f"{fresh.base}/empty/sub", write_users=NOBODY):
        answer = fresh.user.post("/api/fs/copy", src_dir="/", dst_dir="/empty", names=["sub"], merge=True)
        assert answer["code"] == 403
    assert fresh.scan_own() == before


def test_a_rule_that_opens_writing_opens_nothing_else(fresh: Scene, admin: Client) -> None:
    _check_closed(fresh)
    before = fresh.scan_own()
    reader = fresh.make_user(uuid4().hex, fresh.base, 0)
    with add_rule(admin, f"{fresh.base}/closed", write=True, w_sub=True):
        for verb, body in [*CHANGES.items(), *TRANSFERS.items()]:
            assert verb == "mkdir" or reader.post(f"/api/fs/{verb}", **body)["code"] == 403, verb
        assert reader.put("/new.txt", b"x")["code"] == 403
        assert reader.post("/api/fs/mkdir", path="/new")["code"] == 403
        assert reader.post("/api/fs/mkdir", path="/closed/../new")["code"] == 403
        assert fresh.scan_own() == before
        assert reader.put("/closed/new.txt", b"x")["code"] == 200


HIDDEN = ("/secret.txt", "/secrets", "/secrets/inside.txt", "/secrets/deep/x.txt")


@pytest.fixture
def hiding(fresh: Scene, admin: Client) -> Iterator[Scene]:
    """In the user's folder everything called `secret…` is hidden."""
    (fresh.disk / "secrets" / "deep").mkdir(parents=True)
    for name in ("secret.txt", "secrets/inside.txt", "secrets/deep/x.txt", "secret.mp4"):
        (fresh.disk / name).write_text(fresh.secret)
    with add_rule(admin, fresh.base, hide="^secret", h_sub=True):
        yield fresh


def test_what_is_hidden_shows_in_no_answer(hiding: Scene) -> None:
    for name in HIDDEN:
        for route in ("list", "get", "dirs"):
            answer = send(hiding.user, f"POST /api/fs/{route}", {"path": name})
            assert check_answer(answer)["code"] in (403, 500), (route, name)
            assert hiding.secret not in answer.text
    assert hiding.user.names("/") == ["empty", "f.txt", "g.txt", "sub"]
    assert {entry["name"] for entry in hiding.user.ok("/api/fs/dirs", path="/")} == {"empty", "sub"}
    for name in ("/f.secret", "/secretive.txt"):
        assert hiding.admin.put(hiding.base + name, b"x")["code"] == 200
    related = hiding.user.ok("/api/fs/get", path="/f.txt")["related"] or []
    assert [entry["name"] for entry in related] == ["f.secret"]
    assert hiding.user.post("/api/fs/get", path="/secretive.txt")["code"] == 403


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_hidden_is_not_carried_away_renamed_or_removed(hiding: Scene, name: str) -> None:
    before = hiding.scan_own()
    folder, _, last = name.rpartition("/")
    for verb in ("copy", "move"):
        answer = hiding.user.post(f"/api/fs/{verb}", src_dir=folder, dst_dir="/empty", names=[last])
        assert answer["code"] != 200, verb
    for verb in ("copy", "move"):
        answer = hiding.user.post(f"/api/fs/{verb}", src_dir="/", dst_dir="/empty", names=["f.txt", name[1:]])
        assert answer["code"] != 200, verb
    assert hiding.user.post("/api/fs/rename", path=name, name="seen.txt")["code"] != 200
    renaming = [{"src_name": last, "new_name": "seen.txt"}]
    assert hiding.user.post("/api/fs/batch_rename", src_dir=folder, rename_objects=renaming)["code"] != 200
    hiding.user.post("/api/fs/regex_rename", src_dir=folder, src_name_regex="^secret(.*)$", new_name_regex="seen$1")
    hiding.user.post("/api/fs/remove", dir=folder, names=[last])
    hiding.user.post("/api/fs/remove_empty_directory", src_dir=folder or "/secrets")
    hiding.user.post("/api/fs/recursive_move", src_dir=folder or "/secrets", dst_dir="/empty")
    assert hiding.scan_own() == before


def test_flattening_and_merging_leave_out_what_is_hidden(hiding: Scene) -> None:
    (hiding.disk / "sub" / "secret.txt").write_text(hiding.secret)
    (hiding.disk / "empty" / "sub").mkdir()
    hiding.user.ok("/api/fs/copy", src_dir="/", dst_dir="/empty", names=["sub"], merge=True)
    assert [path.name for path in (hiding.disk / "empty" / "sub").iterdir()] == ["h.txt"]
    hiding.user.ok("/api/fs/recursive_move", src_dir="/sub", dst_dir="/", conflict_policy="cancel")
    assert (hiding.disk / "sub" / "secret.txt").exists()


def test_only_the_right_to_see_hidden_things_shows_them(hiding: Scene) -> None:
    seer = hiding.make_user(uuid4().hex, hiding.base, EVERYTHING | Right.SEE_HIDDEN)
    assert {"secret.txt", "secrets"} <= set(seer.names("/"))
    assert seer.bytes("/secrets/inside.txt").text == hiding.secret


@pytest.mark.parametrize("sub", [True, False])
def test_a_password_guards_its_folder_and_with_p_sub_all_below(fresh: Scene, admin: Client, sub: bool) -> None:
    _check_closed(fresh)
    code = 403 if sub else 200
    with add_rule(admin, f"{fresh.base}/closed", password="word", p_sub=sub):
        for password in ("", "wor", "word ", "WORD"):
            assert fresh.user.post("/api/fs/list", path="/closed", password=password)["code"] == 403
            assert fresh.user.post("/api/fs/get", path="/closed/kept.txt", password=password)["code"] == code
            assert fresh.user.post("/api/fs/list", path="/closed/hollow", password=password)["code"] == code
        assert fresh.user.post("/api/fs/list", path="/closed", password="word")["code"] == 200
        assert fresh.user.http.get(f"/d{fresh.base}/closed/kept.txt").status_code == 401
        for verb in ("copy", "move"):
            body = {"src_dir": "/", "dst_dir": "/empty", "names": ["closed"]}
            assert fresh.user.post(f"/api/fs/{verb}", **body)["code"] == 403
        assert fresh.user.post("/api/fs/recursive_move", src_dir="/closed", dst_dir="/empty")["code"] == 403


def test_renaming_a_folder_does_not_take_its_password_off(fresh: Scene, admin: Client) -> None:
    _check_closed(fresh)
    before = fresh.scan_own()
    with ExitStack() as rules:
        rules.enter_context(add_rule(admin, f"{fresh.base}/closed", password="word", p_sub=True))
        rules.enter_context(add_rule(admin, f"{fresh.base}/empty", read_users=NOBODY, read_users_sub=True))
        for name in ("closed", "empty"):
            assert fresh.user.post("/api/fs/rename", path=f"/{name}", name="open")["code"] == 403
            renaming = [{"src_name": name, "new_name": "open"}]
            assert fresh.user.post("/api/fs/batch_rename", src_dir="/", rename_objects=renaming)["code"] != 200
        answer = fresh.user.post("/api/fs/regex_rename", src_dir="/", src_name_regex="^closed$", new_name_regex="open")
        assert answer["code"] == 403
    assert fresh.scan_own() == before


def test_a_folder_is_not_carried_out_of_the_rules_below_it(fresh: Scene, admin: Client) -> None:
    (fresh.disk / "sub" / "closed").mkdir()
    (fresh.disk / "sub" / "closed" / "kept.txt").write_text("kept")
    before = fresh.scan_own()
    for rule in ({"password": "word", "p_sub": True}, {"read_users": NOBODY, "read_users_sub": True}):
        with add_rule(admin, f"{fresh.base}/sub/closed", **rule):
            body = {"src_dir": "/", "dst_dir": "/empty", "names": ["sub"]}
            assert fresh.user.post("/api/fs/move", **body)["code"] == 403
            assert fresh.user.post("/api/fs/copy", **body)["code"] == 403
            assert fresh.user.post("/api/fs/rename", path="/sub", name="open")["code"] == 403
            renaming = [{"src_name": "sub", "new_name": "open"}]
            assert fresh.user.post("/api/fs/batch_rename", src_dir="/", rename_objects=renaming)["code"] == 403
    assert fresh.scan_own() == before


def test_a_merging_copy_leaves_closed_folders_closed(fresh: Scene, admin: Client) -> None:
    (fresh.disk / "sub" / "closed").mkdir()
    (fresh.disk / "sub" / "closed" / "kept.txt").write_text("kept")
    (fresh.disk / "empty" / "sub" / "closed").mkdir(parents=True)
    with add_rule(admin, f"{fresh.base}/sub/closed", password="word", p_sub=True):
        fresh.user.ok("/api/fs/copy", src_dir="/", dst_dir="/empty", names=["sub"], merge=True)
        fresh.user.ok("/api/fs/recursive_move", src_dir="/sub", dst_dir="/", conflict_policy="cancel")
    assert (fresh.disk / "empty" / "sub" / "h.txt").exists()
    assert list((fresh.disk / "empty" / "sub" / "closed").iterdir()) == []
    assert (fresh.disk / "sub" / "closed" / "kept.txt").exists()
