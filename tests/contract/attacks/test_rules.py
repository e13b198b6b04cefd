"""Ways around a rule by changing what may not be read, and what the answers to a change tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from mangrove.identity.rights import Right
from tests.contract.attacks.scene import EVERYTHING, Scene, add_rule, check_answer
from tests.support.service import Client

NOBODY = [10**9]  # a list of users that names none of ours
RULES: list[dict[str, Any]] = [
    {"password": "sesame", "p_sub": True},
    {"read_users": NOBODY, "read_users_sub": True},
    {"hide": ".", "h_sub": True},
]


@pytest.fixture(params=RULES, ids=["password", "readers", "hidden"])
def drop(fresh: Scene, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """`/sub` is a drop folder: it holds `taken.txt` and `box/`, and the user may write there but not look."""
    (fresh.disk / "sub" / "taken.txt").write_text("theirs")
    (fresh.disk / "sub" / "box").mkdir()
    with add_rule(fresh.admin, f"{fresh.base}/sub", **request.param):
        yield fresh


def read_texts(scene: Scene) -> dict[str, str]:
    """Path → text, of every file in the drop folder."""
    root = scene.disk / "sub"
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_a_drop_folder_takes_every_name_and_tells_none(drop: Scene) -> None:
    before = read_texts(drop)
    for name in ("taken.txt", "new.txt", "box", "taken.txt/below.txt", "fresh/below.txt"):
        for headers in ({}, {"overwrite": "false"}):
            answer = drop.user.put(f"/sub/{name}", f"mine: {name}".encode(), **headers)
            assert (answer["code"], answer["data"]) == (200, None), (name, answer)
    for name in ("taken.txt", "box", "made"):
        assert drop.user.post("/api/fs/mkdir", path=f"/sub/{name}") == {"code": 200, "message": "success", "data": None}
    after = read_texts(drop)
    assert {path: after[path] for path in before} == before
    dropped = sorted(text for path, text in after.items() if path not in before)
    assert dropped == sorted(2 * [f"mine: {name}" for name in ("taken.txt", "new.txt", "box", "taken.txt/below.txt")]
                             + 2 * ["mine: fresh/below.txt"])  # fmt: skip
    assert (drop.disk / "sub" / "box").is_dir()


def test_a_drop_as_a_task_or_from_a_folder_of_ones_own_replaces_nothing(drop: Scene) -> None:
    (drop.disk / "taken.txt").write_text("mine")
    (drop.disk / "box").mkdir()
    (drop.disk / "box" / "in.txt").write_text("mine")
    before = read_texts(drop)
    assert drop.user.put("/sub/taken.txt", b"mine", as_task="true")["code"] == 200
    flags: list[dict[str, bool]] = [{}, {"overwrite": True}, {"merge": True}, {"skip_existing": True}]
    for flag in flags:
        for name in ("taken.txt", "f.txt"):
            answer = drop.user.post("/api/fs/copy", src_dir="/", dst_dir="/sub", names=[name], **flag)
            assert answer["code"] == 200, (flag, name, answer)
    assert drop.user.post("/api/fs/move", src_dir="/", dst_dir="/sub", names=["taken.txt"])["code"] == 200
    drop.settle()
    after = read_texts(drop)
    assert {path: after[path] for path in before} == before
    assert sorted(text for path, text in after.items() if path not in before) == ["mine"] * 6 + ["mine: f.txt"] * 4
    drop.admin.post("/api/task/upload/clear_done")


@pytest.mark.parametrize("name", ["taken.txt", "no-such"])
def test_nothing_is_removed_or_renamed_where_one_may_not_look(drop: Scene, name: str) -> None:
    before = read_texts(drop)
    answers = [
        drop.user.post("/api/fs/remove", dir="/sub", names=[name]),
        drop.user.post("/api/fs/rename", path=f"/sub/{name}", name="other", overwrite=True),
        drop.user.post("/api/fs/batch_rename", src_dir="/sub", rename_objects=[{"src_name": name, "new_name": "x"}]),
        drop.user.post("/api/fs/regex_rename", src_dir="/sub", src_name_regex=f"^{name}$", new_name_regex="x"),
        drop.user.post("/api/fs/move", src_dir="/sub", dst_dir="/", names=[name]),
        drop.user.post("/api/fs/copy", src_dir="/sub", dst_dir="/", names=[name]),
    ]
    told = {answer["message"].replace(name, "?") for answer in answers}
    other = drop.user.post("/api/fs/remove", dir="/sub", names=["absent"])
    assert answers[0]["message"].replace(name, "?") == other["message"].replace("absent", "?"), told
    assert read_texts(drop) == before


def test_hidden_entries_answer_like_missing_ones(drop: Scene) -> None:
    verbs: dict[str, dict[str, Any]] = {
        "/api/fs/rename": {"path": "/sub/?", "name": "x"},
        "/api/fs/remove": {"dir": "/sub", "names": ["?"]},
        "/api/fs/batch_rename": {"src_dir": "/sub", "rename_objects": [{"src_name": "?", "new_name": "x"}]},
        "/api/fs/regex_rename": {"src_dir": "/sub", "src_name_regex": "^(?:?)$", "new_name_regex": ".."},
        "/api/fs/recursive_move": {"src_dir": "/", "dst_dir": "/sub", "conflict_policy": "cancel"},
        "/api/fs/remove_empty_directory": {"src_dir": "/sub/?"},
        "/api/fs/archive/decompress": {"src_dir": "/", "dst_dir": "/sub/?", "name": ["x.zip"]},
        "/api/fs/get": {"path": "/sub/?"},
        "/api/fs/list": {"path": "/sub/?"},
    }
    for verb, body in verbs.items():
        told = set()
        for name in ("taken.txt", "box", "no-such"):
            filled = {key: _fill(value, name) for key, value in body.items()}
            answer = drop.user.post(verb, **filled)
            told.add((answer["code"], answer["message"].replace(name, "?")))
        assert len(told) == 1, (verb, told)


def _fill(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_fill(item, name) for item in value]
    if isinstance(value, dict):
        return {key: _fill(item, name) for key, item in value.items()}
    return value.replace("^(?:?)$", f"^{name}$").replace("?", name)


def test_the_password_lets_replace_and_remove(fresh: Scene) -> None:
    (fresh.disk / "sub" / "taken.txt").write_text("theirs")
    with add_rule(fresh.admin, f"{fresh.base}/sub", password="sesame", p_sub=True):
        assert (
            fresh.user.put("/sub/taken.txt", b"mine", password="sesame", overwrite="false")["message"] == "file exists"
        )
        assert fresh.user.put("/sub/taken.txt", b"mine", password="sesame")["code"] == 200
        assert (fresh.disk / "sub" / "taken.txt").read_text() == "mine"
        pattern = {"src_dir": "/sub", "src_name_regex": "^taken", "new_name_regex": "moved", "password": "sesame"}
        assert fresh.user.post("/api/fs/regex_rename", **pattern)["code"] == 200
        assert fresh.user.post("/api/fs/remove", dir="/sub", names=["moved.txt"], password="no")["code"] != 200
        assert fresh.user.post("/api/fs/remove", dir="/sub", names=["moved.txt"], password="sesame")["code"] == 200
    assert sorted(path.name for path in (fresh.disk / "sub").iterdir()) == ["h.txt"]


def test_a_hidden_name_is_not_told_by_what_is_put_there(fresh: Scene) -> None:
    before = fresh.scan_own()
    rules = [add_rule(fresh.admin, fresh.base, hide="^(f|no)[.]txt$")]
    with ExitStack() as stack:
        for rule in rules:
            stack.enter_context(rule)
        told = set()
        for name in ("f.txt", "no.txt"):
            answers = [
                fresh.user.put(f"/{name}", b"new"),
                fresh.user.post("/api/fs/mkdir", path=f"/{name}"),
                fresh.user.post("/api/fs/rename", path="/g.txt", name=name, overwrite=True),
                fresh.user.post("/api/fs/copy", src_dir="/sub", dst_dir="/", names=[name], overwrite=True),
                fresh.user.post("/api/fs/regex_rename", src_dir="/", src_name_regex="^g.txt$", new_name_regex=name),
                fresh.user.post("/api/fs/remove", dir="/", names=[name]),
            ]
            told.add(tuple((answer["code"], answer["message"].replace(name, "?")) for answer in answers))
        assert len(told) == 1, told
    assert fresh.scan_own() == before


def test_related_files_are_those_of_a_folder_that_may_be_listed(fresh: Scene) -> None:
    for name in ("f.srt", "f.nfo"):
        (fresh.disk / name).write_text("kept")
    assert len(fresh.user.ok("/api/fs/get", path="/f.txt")["related"]) == 2
    for rule in ({"password": "sesame"}, {"read_users": NOBODY}):
        with add_rule(fresh.admin, fresh.base, **rule):  # of the folder alone: its files are read by who knows them
            assert fresh.user.ok("/api/fs/get", path="/f.txt")["related"] is None
    with add_rule(fresh.admin, fresh.base, password="sesame"):
        assert len(fresh.user.ok("/api/fs/get", path="/f.txt", password="sesame")["related"]) == 2


@pytest.fixture(scope="module")
def copier(scene: Scene) -> Client:
    """A user who may copy, move and rename there, but not write."""
    return scene.make_user("copier", scene.base, EVERYTHING & ~Right.WRITE)


def test_copy_without_write_never_replaces_a_file(fresh: Scene, copier: Client) -> None:
    (fresh.disk / "sub" / "f.txt").write_text("theirs")
    (fresh.disk / "sub" / "dir").mkdir()
    (fresh.disk / "sub" / "dir" / "f.txt").write_text("theirs")
    (fresh.disk / "dir").mkdir()
    (fresh.disk / "dir" / "f.txt").write_text("mine")
    flags: list[dict[str, bool]] = [{}, {"overwrite": True}, {"merge": True}, {"overwrite": True, "merge": True}]
    for verb in ("copy", "move"):
        for flag in flags:
            for name in ("f.txt", "dir"):
                copier.post(f"/api/fs/{verb}", src_dir="/", dst_dir="/sub", names=[name], **flag)
                fresh.settle()
    copier.post("/api/fs/recursive_move", src_dir="/dir", dst_dir="/sub", conflict_policy="overwrite")
    copier.post("/api/fs/rename", path="/g.txt", name="f.txt", overwrite=True)
    copier.post("/api/fs/rename", path="/sub/h.txt", name="f.txt", overwrite=True)
    for path in ("f.txt", "dir/f.txt"):
        assert (fresh.disk / "sub" / path).read_text() == "theirs"
    assert (fresh.disk / "f.txt").read_text() == "mine: f.txt"
    assert check_answer(copier.http.post("/api/fs/copy", json={"src_dir": "/", "dst_dir": "/sub", "names": ["g.txt"]}))
    fresh.settle()
    assert (fresh.disk / "sub" / "g.txt").read_text() == "mine: g.txt"
