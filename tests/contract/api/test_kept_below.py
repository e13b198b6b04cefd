"""Entries that a rule or a storage protects stay protected when the folder above them is renamed, moved or emptied."""

from __future__ import annotations

import pytest

from tests.contract.api import fixtures
from tests.support.service import Client, Service

ALL = 0xF8  # write, rename, move, copy, remove


@pytest.mark.parametrize("aspect", [{"password": "sesame", "p_sub": True}, {"hide": "^secret", "h_sub": True}])
def test_a_folder_above_a_rule_cannot_be_carried_away(
    service: Service, admin: Client, folder: str, aspect: dict[str, object]
) -> None:
    admin.ok("/api/fs/mkdir", path=f"{folder}/a/sec")
    admin.ok("/api/fs/mkdir", path=f"{folder}/to")
    assert admin.put(f"{folder}/a/sec/secret.txt", b"kept")["code"] == 200
    with fixtures.meta(admin, f"{folder}/a/sec", **aspect), fixtures.user(service, admin, permission=ALL) as user:
        assert user.post("/api/fs/rename", path=f"{folder}/a", name="b")["code"] == 403
        for verb in ("move", "copy"):
            answer = user.post(f"/api/fs/{verb}", src_dir=folder, dst_dir=f"{folder}/to", names=["a"])
            assert answer["code"] == 403, answer
        assert user.post("/api/fs/remove", dir=folder, names=["a"])["message"] == "remove [a]: permission denied"
        assert admin.names(f"{folder}/a/sec") == ["secret.txt"]
        assert admin.names(f"{folder}/to") == []
        assert admin.post("/api/fs/rename", path=f"{folder}/a", name="b")["code"] == 403
        with fixtures.meta(admin, f"{folder}/b/sec", **aspect):
            assert admin.post("/api/fs/rename", path=f"{folder}/a", name="b")["code"] == 200


def test_a_folder_that_only_looks_empty_stays(service: Service, admin: Client) -> None:
    root = service.data / "files" / "looks-empty"
    (root / "sub" / ".git").mkdir(parents=True)
    (root / "sub" / ".git" / "config").write_text("kept")
    (root / "outward").mkdir()
    (root / "outward" / "link").symlink_to("/etc")
    (root / "empty" / "deep").mkdir(parents=True)
    options = {"root_folder_path": str(root), "show_hidden": False}
    with fixtures.mount(admin, "Local", addition=options) as path:
        admin.ok("/api/fs/remove_empty_directory", src_dir=path)
        assert admin.names(path) == ["outward", "sub"]
    assert (root / "sub" / ".git" / "config").read_text() == "kept"
    assert (root / "outward" / "link").is_symlink()


@pytest.mark.parametrize("name", [".mangrove-x", "line\nbreak"])
def test_names_that_would_not_be_seen_are_refused(admin: Client, folder: str, name: str) -> None:
    assert admin.post("/api/fs/mkdir", path=f"{folder}/{name}/sub")["code"] != 200
    assert admin.put(f"{folder}/{name}/file.txt", b"x")["code"] != 200
    assert admin.names(folder) == []


def test_a_hidden_file_is_not_overwritten_by_one_who_does_not_see_it(
    service: Service, admin: Client, folder: str
) -> None:
    admin.ok("/api/fs/mkdir", path=f"{folder}/from")
    for path, content in (("secret.txt", b"old"), ("from/secret.txt", b"new"), ("seen.txt", b"new")):
        assert admin.put(f"{folder}/{path}", content)["code"] == 200
    with fixtures.meta(admin, folder, hide="^secret"), fixtures.user(service, admin, permission=ALL) as user:
        carry = {"src_dir": f"{folder}/from", "dst_dir": folder, "names": ["secret.txt"], "overwrite": True}
        for answer in (
            user.put(f"{folder}/secret.txt", b"new"),
            user.post("/api/fs/copy", **carry),
            user.post("/api/fs/move", **carry),
        ):
            assert answer["code"] == 200, answer  # as for a name that is not there: it is put beside
        answer = user.post("/api/fs/rename", path=f"{folder}/seen.txt", name="secret.txt", overwrite=True)
        assert answer["message"] == "file [secret.txt] exists"
    assert admin.bytes(f"{folder}/secret.txt").content == b"old"


def test_a_folder_with_hidden_names_stays_within_the_rule(service: Service, admin: Client, folder: str) -> None:
    for path in ("ruled/box", "ruled/inside", "outside"):
        admin.ok("/api/fs/mkdir", path=f"{folder}/{path}")
    assert admin.put(f"{folder}/ruled/box/secret.txt", b"kept")["code"] == 200
    rule = fixtures.meta(admin, f"{folder}/ruled", hide="^secret", h_sub=True)
    with rule, fixtures.user(service, admin, permission=ALL) as user:
        source = f"{folder}/ruled"
        for verb in ("copy", "move"):
            for merge in (False, True):
                answer = user.post(
                    f"/api/fs/{verb}", src_dir=source, dst_dir=f"{folder}/outside", names=["box"], merge=merge
                )
                assert answer["code"] == 403, answer
        assert user.post("/api/fs/move", src_dir=source, dst_dir=f"{source}/inside", names=["box"])["code"] == 200
        assert user.names(f"{source}/inside/box") == []
    assert admin.names(f"{folder}/outside") == []


def test_a_folder_below_an_alias_that_only_looks_empty_stays(service: Service, admin: Client) -> None:
    root = service.data / "files" / "looks-empty-from-afar"
    (root / "box" / "sub").mkdir(parents=True)
    (root / "box" / "sub" / ".git").write_text("kept")
    (root / "box" / "empty" / "deep").mkdir(parents=True)
    options = {"root_folder_path": str(root), "show_hidden": False}
    with fixtures.mount(admin, "Local", addition=options) as path:
        alias = {"paths": path, "write_conflict_policy": "first", "put_conflict_policy": "first"}
        with fixtures.mount(admin, "Alias", addition=alias) as other:
            admin.ok("/api/fs/remove_empty_directory", src_dir=f"{other}/box")
            assert admin.names(f"{path}/box") == ["sub"]
    assert (root / "box" / "sub" / ".git").read_text() == "kept"


def test_a_folder_is_not_put_over_a_place_that_a_rule_closes(service: Service, admin: Client) -> None:
    with fixtures.virtual(admin) as path, fixtures.user(service, admin, permission=ALL) as user:
        for folder in ("src/x/closed", "dst/x/closed", "dst/y/closed"):
            admin.ok("/api/fs/mkdir", path=f"{path}/{folder}")
        with fixtures.meta(admin, f"{path}/dst/x/closed", write_users=[1], write_users_sub=True):
            for verb in ("copy", "move"):
                answer = user.post(
                    f"/api/fs/{verb}", src_dir=f"{path}/src", dst_dir=f"{path}/dst", names=["x"], overwrite=True
                )
                assert answer["code"] == 403, answer
            assert user.post("/api/fs/rename", path=f"{path}/dst/y", name="x", overwrite=True)["code"] == 403
        answer = user.post("/api/fs/rename", path=f"{path}/dst/y", name="x", overwrite=True)
        fixtures.check_failure(answer, 500, "rename [y]: file exists")  # a folder never replaces another


def test_flattening_overwrites_no_hidden_file(service: Service, admin: Client, folder: str) -> None:
    for path, content in (("from/sub/secret.txt", b"new"), ("to/secret.txt", b"old")):
        assert admin.put(f"{folder}/{path}", content)["code"] == 200
    with fixtures.meta(admin, f"{folder}/to", hide="^secret"), fixtures.user(service, admin, permission=ALL) as user:
        for policy in ("overwrite", "cancel"):
            places = {"src_dir": f"{folder}/from", "dst_dir": f"{folder}/to", "conflict_policy": policy}
            answer = user.post("/api/fs/recursive_move", **places)
            assert (answer["code"], answer["message"]) == (403, "file [secret.txt] exists")
    assert admin.bytes(f"{folder}/to/secret.txt").content == b"old"


def test_flattening_puts_no_file_where_a_mount_is_seen(service: Service, admin: Client, folder: str) -> None:
    assert admin.put(f"{folder}/from/sub/disk", b"kept")["code"] == 200
    with fixtures.virtual(admin, f"{folder}/disk"):
        places = {"src_dir": f"{folder}/from", "dst_dir": folder, "conflict_policy": "overwrite"}
        assert admin.post("/api/fs/recursive_move", **places)["message"] == "file [disk] exists"
    assert admin.bytes(f"{folder}/from/sub/disk").content == b"kept"


def test_missing_folders_are_made_only_where_the_caller_may_write(service: Service, admin: Client, folder: str) -> None:
    admin.ok("/api/fs/mkdir", path=f"{folder}/there")
    rule = fixtures.meta(admin, folder, write_users=[1], write_users_sub=False)
    with rule, fixtures.user(service, admin, permission=ALL) as user:
        assert user.post("/api/fs/mkdir", path=f"{folder}/new/deep")["code"] == 403
        assert user.put(f"{folder}/new/file.txt", b"x")["code"] == 403
        assert user.post("/api/fs/mkdir", path=f"{folder}/there/new/deep")["code"] == 200
        assert user.put(f"{folder}/there/other/file.txt", b"x")["code"] == 200
    assert admin.names(folder) == ["there"]
    opened = fixtures.meta(admin, f"{folder}/open/inside", write=True, w_sub=True)
    with opened, fixtures.user(service, admin, permission=0) as user:
        assert user.put(f"{folder}/open/inside/deep/file.txt", b"x")["code"] == 403
        admin.ok("/api/fs/mkdir", path=f"{folder}/open/inside")
        assert user.put(f"{folder}/open/inside/deep/file.txt", b"x")["code"] == 200
