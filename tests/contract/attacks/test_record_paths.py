"""Paths in records of an administrator, and names that look like others, lead nowhere else."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.contract.attacks.scene import (
    EVERYTHING,
    PARENT_PATHS,
    Scene,
    add_rule,
    check_answer,
    mount,
    replace_text,
    scan,
    send,
)
from tests.contract.request_fields import (
    INDEX,
    LINK,
    RECORDS,
)
from tests.support.service import Client

NFC, NFD = (unicodedata.normalize(form, "näme") for form in ("NFC", "NFD"))


def _records(admin: Client, kind: str) -> dict[int, str]:
    key = {"meta": "path", "storage": "mount_path", "user": "base_path"}[kind]
    return {row["id"]: row[key] for row in admin.get(f"/api/admin/{kind}/list")["data"]["content"]}


def _record(kind: str, scene: Scene, folder: Path) -> dict[str, Any]:
    """A good record below the scene's own folder."""
    if kind == "meta":
        return {"path": f"{scene.root}/{uuid4().hex}", "readme": "x"}
    if kind == "user":
        return {"username": f"{scene.id}-{uuid4().hex}", "password": "", "base_path": "/", "permission": 0}
    addition = json.dumps({"root_folder_path": str(folder)})
    return {"mount_path": f"{scene.root}/{uuid4().hex}", "driver": "Local", "addition": addition}


@pytest.mark.parametrize("name", RECORDS)
def test_a_path_in_a_record_is_kept_clean_or_refused(scene: Scene, admin: Client, tmp_path: Path, name: str) -> None:
    kind, verb = name.split("/")[-2:]
    (value,) = RECORDS[name]
    files, known = scan(scene.files), _records(admin, kind)
    if verb == "update":
        admin.ok(f"/api/admin/{kind}/create", **_record(kind, scene, tmp_path))
    (own,) = set(_records(admin, kind)) - set(known) or {0}
    paths = set()
    try:
        for text in [f"{up}ab" for up in PARENT_PATHS] + [
            "\0",
            "a/b",
            "a\\b",
            "/..",
            "x/..",
            "..",
            f"{scene.root}/../../ab",
        ]:
            request = replace_text(_record(kind, scene, tmp_path) | {"id": own}, value, text)
            done = check_answer(send(admin, name, request))["code"] == 200
            if own and done:
                paths.add(_records(admin, kind)[own])
        rows = _records(admin, kind)
        paths |= {path for id, path in rows.items() if id not in known and id != own}
        assert {id: rows[id] for id in known} == known
    finally:
        for id in set(_records(admin, kind)) - set(known):
            admin.ok(f"/api/admin/{kind}/delete", params={"id": id})
    assert "/ab" in paths
    for path in paths:
        assert path.startswith("/")
        assert not {"..", ".", ""} & set(path[1:].split("/")), path
        assert not {"\\", "\0"} & set(path), path
    assert scan(scene.files) == files


@pytest.mark.parametrize("name", [*RECORDS, *LINK, *INDEX])
def test_only_an_administrator_names_paths_of_the_whole_tree(scene: Scene, tmp_path: Path, name: str) -> None:
    kind = name.split("/")[-2]
    request = {"path": "/f.txt"} if kind == "fs" else _record(kind, scene, tmp_path)
    assert check_answer(send(scene.user, name, request))["code"] == 403


@pytest.mark.parametrize("path", ["..", "/../etc", "/a/../../b", "\\..\\etc", "a\0b"])
def test_an_update_of_the_index_names_folders_of_the_tree(admin: Client, path: str) -> None:
    assert admin.post("/api/admin/index/update", paths=["/files", path])["code"] in (400, 403)


@pytest.mark.parametrize(
    ("driver", "option"),
    [("Alias", "paths"), ("UrlTree", "url_structure")],
)
def test_paths_in_the_options_of_a_storage_do_not_climb(scene: Scene, admin: Client, driver: str, option: str) -> None:
    for text in (f"../{scene.id}", f"x:{scene.root}/team/a/../ab", "a:\n  ../b:https://example.invalid/x"):
        path = f"{scene.root}/{uuid4().hex}"
        body = {"mount_path": path, "driver": driver, "addition": json.dumps({option: text})}
        check_answer(send(admin, "POST /api/admin/storage/create", body))
        answer = check_answer(send(admin, "POST /api/fs/list", {"path": path}))
        assert scene.secret not in json.dumps(answer)
        if answer["code"] == 200:
            assert all("/" not in entry["name"] and entry["name"] != ".." for entry in answer["data"]["content"]), (
                answer
            )
        (id,) = (id for id, where in _records(admin, "storage").items() if where == path)
        admin.ok("/api/admin/storage/delete", params={"id": id})


def test_a_rule_or_a_storage_of_a_folder_is_not_one_of_its_namesakes(
    scene: Scene, admin: Client, tmp_path: Path
) -> None:
    (tmp_path / "inside.txt").write_text("x")
    everyone = f"{scene.root}/team"
    with add_rule(admin, scene.base, hide="notes", h_sub=True, write_users=[10**9], write_users_sub=True):
        assert "notes.txt" in admin.names(f"{everyone}/ab")
        admin.ok("/api/fs/mkdir", path=f"{everyone}/ab/new")
        assert admin.post("/api/fs/mkdir", path=f"{everyone}/a/new")["code"] == 403
    admin.ok("/api/fs/remove", dir=f"{everyone}/ab", names=["new"])
    with mount(admin, f"{everyone}/m", root_folder_path=str(tmp_path)):
        (scene.disk.parent / "mb").mkdir(exist_ok=True)
        assert admin.names(f"{everyone}/m") == ["inside.txt"]
        assert admin.names(f"{everyone}/mb") == []


def test_a_password_of_a_folder_does_not_open_its_namesake(scene: Scene, admin: Client) -> None:
    ids = [10**9]
    reader = scene.make_user(uuid4().hex, f"{scene.root}/team", 0)
    with add_rule(admin, f"{scene.root}/team/a", password="one", p_sub=True, read_users=[]):
        with add_rule(admin, f"{scene.root}/team/ab", password="two", p_sub=True, read_users=ids):
            assert reader.post("/api/fs/list", path="/a", password="one")["code"] == 200
            for password in ("one", "two"):
                assert reader.post("/api/fs/list", path="/ab", password=password)["code"] == 403
        assert reader.post("/api/fs/list", path="/a")["code"] == 403
        assert reader.post("/api/fs/list", path="/b")["code"] == 200


def test_two_normal_forms_of_a_name_are_two_files(fresh: Scene) -> None:
    for name in (NFC, NFD):
        assert fresh.user.put(f"/{name}", name.encode())["code"] == 200
    assert {NFC, NFD} <= set(fresh.user.names("/"))
    for name in (NFC, NFD):
        assert fresh.user.bytes(f"/{name}").content == name.encode()
    fresh.user.ok("/api/fs/remove", dir="/", names=[NFC])
    assert fresh.user.bytes(f"/{NFD}").content == NFD.encode()
    assert fresh.user.post("/api/fs/get", path=f"/{NFC}")["code"] != 200


def test_a_rule_holds_for_the_form_it_names_and_the_bytes_that_are_used(fresh: Scene, admin: Client) -> None:
    for name in (NFC, NFD):
        (fresh.disk / name).mkdir()
        (fresh.disk / name / "x.txt").write_text(name)
    with add_rule(admin, f"{fresh.base}/{NFC}", password="word", p_sub=True):
        assert fresh.user.post("/api/fs/list", path=f"/{NFC}")["code"] == 403
        assert fresh.user.post("/api/fs/get", path=f"/{NFC}/x.txt")["code"] == 403
        assert fresh.user.bytes(f"/{NFD}/x.txt").text == NFD


def test_users_of_two_forms_of_one_home_do_not_meet(fresh: Scene) -> None:
    clients = [fresh.make_user(f"{uuid4().hex}", f"{fresh.base}/{name}") for name in (NFC, NFD)]
    for client, name in zip(clients, (NFC, NFD), strict=True):
        assert client.put("/own.txt", name.encode())["code"] == 200
    for client, name in zip(clients, (NFC, NFD), strict=True):
        assert client.names("/") == ["own.txt"]
        assert client.bytes("/own.txt").content == name.encode()


@pytest.mark.parametrize("text", ["／", "．．／ab", "∕", "..⁄ab", "＼", "..\u2215ab", "‥/ab", "․․/ab"])
def test_letters_that_look_like_slashes_and_dots_are_letters(fresh: Scene, text: str) -> None:
    before = fresh.scan_outside()
    assert fresh.user.post("/api/fs/mkdir", path=f"/{text}/deep")["code"] == 200
    assert (fresh.disk / text / "deep").is_dir()
    assert fresh.user.names(f"/{text}") == ["deep"]
    assert fresh.scan_outside() == before


def test_another_case_is_another_name(fresh: Scene, admin: Client) -> None:
    assert fresh.user.put("/F.TXT", b"loud")["code"] == 200
    assert (fresh.disk / "f.txt").read_text() == "mine: f.txt"
    assert fresh.user.post("/api/fs/rename", path="/g.txt", name="G.txt")["code"] == 200
    assert {"F.TXT", "f.txt", "G.txt"} <= set(fresh.user.names("/"))
    upper = fresh.make_user(uuid4().hex, f"{fresh.root}/team/A", EVERYTHING)
    assert upper.put("/f.txt", b"upper")["code"] == 200
    assert (fresh.disk / "f.txt").read_text() == "mine: f.txt"
    upper.ok("/api/fs/remove", dir="/", names=["f.txt"])
