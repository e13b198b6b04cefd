"""Moving and copying: the right on both ends, names that are taken, and all of it or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from mangrove.core.problems import (
    AccessDenied,
    BadRequest,
    EntryNotFound,
    NameConflict,
    NotAFolder,
    NotSupported,
    Problem,
    RelativePath,
    StorageForbidden,
    StorageProblem,
)
from mangrove.identity.rights import Right
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import plans, transfers
from mangrove.tree.operations.kept_rules import RuleLeftBehind
from mangrove.tree.operations.plans import OnConflict, TransferItem, TransferRequest
from tests.unit.tree.environment import ALL_RIGHTS, TreeEnv, find_files

FILES = {"from/a", "from/b", "from/d/x", "from/d/e/y", "to/other"}


def move(tree: TreeEnv, source: str, target: str, *names: str, **conflict: bool) -> Sequence[TransferItem]:
    ends = tree.access(source, Right.MOVE), tree.access(target, Right.MOVE)
    return tree.run(transfers.transfer(TransferRequest(Right.MOVE, *ends, names, OnConflict(**conflict))))


def copy(tree: TreeEnv, source: str, target: str, *names: str, **conflict: bool) -> Sequence[TransferItem]:
    ends = tree.access(source, Right.COPY), tree.access(target, Right.COPY)
    return tree.run(transfers.transfer(TransferRequest(Right.COPY, *ends, names, OnConflict(**conflict))))


def move_files(tree: TreeEnv, source: str, target: str, policy: str = "cancel") -> int:
    ends = tree.access(source, Right.MOVE), tree.access(target, Right.MOVE)
    return tree.run(transfers.move_files(*ends, policy)).done


def list_names(tree: TreeEnv, path: str) -> list[str]:
    return sorted(entry.name for entry in tree.run(tree.access(path).list_folder()).entries)


def test_entries_are_moved_and_listings_show_it(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", *FILES)
    assert (list_names(tree, "/disk/from"), list_names(tree, "/disk/to")) == (["a", "b", "d"], ["other"])
    assert move(tree, "/disk/from", "/disk/to", "a", "d") == []
    assert find_files(disk) == {"from/b", "to/a", "to/d/x", "to/d/e/y", "to/other"}
    assert (list_names(tree, "/disk/from"), list_names(tree, "/disk/to")) == (["b"], ["a", "d", "other"])


def test_a_file_is_copied(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", *FILES)
    assert copy(tree, "/disk/from", "/disk/to", "a", "a") == []
    assert find_files(disk) == FILES | {"to/a"}
    assert list_names(tree, "/disk/to") == ["a", "other"]


def test_between_two_storages_all_is_left_for_tasks(tree: TreeEnv) -> None:
    disk, other = tree.mount_disk("/disk", *FILES), tree.mount_disk("/other", "to/")
    for verb in (move, copy):
        items = verb(tree, "/disk/from", "/other/to", "a", "d")
        assert [(item.name, item.path, item.target, item.is_dir) for item in items] == [
            ("a", "/from/a", "/to/a", False), ("d", "/from/d", "/to/d", True),
        ]  # fmt: skip
    assert find_files(disk) == FILES
    assert find_files(other) == {"to/"}


def test_balanced_storages_are_one_and_a_move_between_them_is_done_at_once(tree: TreeEnv) -> None:
    root = tree.mount_disk("/disk", *FILES)
    tree.mount("/disk.balance", options={"root_folder_path": str(root)})
    for name in ("a", "b"):
        assert move(tree, "/disk/from", "/disk/to", name) == []
    assert {"to/a", "to/b"} <= find_files(root)


def test_the_right_is_required_at_both_ends(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", *FILES)
    with pytest.raises(AccessDenied):
        tree.run(
            transfers.transfer(
                TransferRequest(
                    Right.MOVE, tree.access("/disk/from", Right.COPY), tree.access("/disk/to", Right.MOVE), ["a"]
                )
            )
        )
    with pytest.raises(AccessDenied):
        tree.run(
            transfers.transfer(
                TransferRequest(
                    Right.COPY, tree.access("/disk/from", Right.COPY), tree.access("/disk/to", Right.MOVE), ["a"]
                )
            )
        )
    tree.change_user(ALL_RIGHTS & ~Right.MOVE & ~Right.COPY)
    for verb in (move, copy):
        with pytest.raises(AccessDenied):
            verb(tree, "/disk/from", "/disk/to", "a")
    assert find_files(disk) == FILES


def test_rights_are_required_before_a_name_is_read(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", *FILES)
    tree.change_user(ALL_RIGHTS & ~Right.MOVE & ~Right.COPY)
    for verb in (move, copy):
        with pytest.raises(AccessDenied):
            verb(tree, "/disk/from", "/disk/to", "..")


@pytest.mark.parametrize(("path", "moves", "copies"), [("/disk/to", False, False), ("/disk/from", False, True)])
def test_a_rule_that_denies_writing_counts_where_something_changes(
    tree: TreeEnv, path: str, moves: bool, copies: bool
) -> None:
    tree.mount_disk("/disk", *FILES)
    tree.add_rule(path, write_users=[0])
    for verb, allowed in ((move, moves), (copy, copies)):
        if allowed:
            verb(tree, "/disk/from", "/disk/to", "a")
        else:
            with pytest.raises(AccessDenied):
                verb(tree, "/disk/from", "/disk/to", "a")


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ((), BadRequest), (("a", ""), BadRequest), (("a", ".."), RelativePath), (("a", "d/x"), RelativePath),
        (("a", "none"), EntryNotFound), (("a", "hidden"), AccessDenied), (("a", "locked"), AccessDenied), (("a",
        "other"), NameConflict),
        (("a", "mounted"), StorageForbidden), (("a", "keeps"), AccessDenied), (("a", "taken"), NameConflict),
    ],
)  # fmt: skip
def test_when_one_of_many_is_refused_nothing_is_done(
    tree: TreeEnv, names: tuple[str, ...], problem: type[Problem]
) -> None:
    files = FILES | {"from/hidden", "from/locked/x", "from/keeps/in/x", "from/other", "from/taken"}
    disk = tree.mount_disk("/disk", *files)
    tree.mount_disk("/disk/from/mounted/deep")
    tree.mount_disk("/disk/to/taken/deep")
    tree.add_rule("/disk/from", hide="^hidden$")
    tree.add_rule("/disk/from/locked", password="secret")
    tree.add_rule("/disk/from/keeps/in", read_users=[0])
    for verb in (move, copy):
        with pytest.raises(problem):
            verb(tree, "/disk/from", "/disk/to", *names)
        assert find_files(disk) == files


def test_a_folder_password_opens_the_source(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", *FILES)
    tree.add_rule("/disk/from", password="secret", p_sub=True)
    ends = tree.access("/disk/from", Right.COPY, "secret"), tree.access("/disk/to", Right.COPY)
    assert tree.run(transfers.transfer(TransferRequest(Right.COPY, *ends, ["a"]))) == []
    assert "to/a" in find_files(disk)


def test_the_target_is_an_existing_folder_outside_of_the_source(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", *FILES)
    for verb in (move, copy):
        with pytest.raises(EntryNotFound, match="failed to get dst dir"):
            verb(tree, "/disk/from", "/disk/none", "a")
        with pytest.raises(NotAFolder):
            verb(tree, "/disk/from", "/disk/to/other", "a")
        with pytest.raises(StorageProblem, match="subfolder of the source folder"):
            verb(tree, "/disk/from", "/disk/from/d/e", "d")
        with pytest.raises(StorageProblem, match="in place"):
            verb(tree, "/disk/from", "/disk/from", "a", overwrite=True)
    assert find_files(disk) == FILES


def test_a_name_that_is_taken_is_refused_skipped_or_replaced(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", *FILES, "to/a", "to/hidden", "from/hidden")
    with pytest.raises(NameConflict, match=r"file \[a\] exists"):
        move(tree, "/disk/from", "/disk/to", "b", "a")
    assert move(tree, "/disk/from", "/disk/to", "a", skip=True) == []
    assert (disk / "to/a").read_text() == "to/a"
    move(tree, "/disk/from", "/disk/to", "a", overwrite=True)
    assert (disk / "to/a").read_text() == "from/a"
    tree.add_rule("/disk/to", hide="^hidden$")
    with pytest.raises(NameConflict):
        move(tree, "/disk/from", "/disk/to", "hidden", overwrite=True)
    assert (disk / "to/hidden").read_text() == "to/hidden"


def test_a_folder_does_not_leave_the_rule_that_hides_names_in_it(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", *FILES, "from/d/secret")
    tree.add_rule("/disk/from", hide="^secret$", h_sub=True)
    for verb in (move, copy):
        with pytest.raises(AccessDenied):
            verb(tree, "/disk/from", "/disk/to", "d")
    assert "from/d/secret" in find_files(disk)
    assert not any(name.startswith("to/d") for name in find_files(disk))


def test_folder_is_not_created_where_rule_denies_content(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", *FILES)
    tree.add_rule("/disk/to/d/e", write_users=[0])
    for verb in (move, copy):
        with pytest.raises(AccessDenied):
            verb(tree, "/disk/from", "/disk/to", "d")
        assert find_files(disk) == FILES


def test_a_merge_adds_what_is_missing_that_the_caller_may_read(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "from/d/new", "from/d/both", "from/d/e/deep", "from/d/hidden", "from/d/locked/x",
                           "to/d/both", "to/d/e/old")  # fmt: skip
    tree.add_rule("/disk/from/d", hide="^hidden$")
    tree.add_rule("/disk/from/d/locked", password="secret")
    copy(tree, "/disk/from", "/disk/to", "d", merge=True)
    assert {name for name in find_files(disk) if name.startswith("to/")} == {
        "to/d/both", "to/d/e/old", "to/d/new", "to/d/e/deep",
    }  # fmt: skip
    assert (disk / "to/d/both").read_text() == "to/d/both"


def test_a_merge_adds_nothing_to_a_folder_that_is_closed_for_writing(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "from/d/new", "to/d/old")
    tree.add_rule("/disk/to/d", write_users=[0])
    with pytest.raises(AccessDenied):
        copy(tree, "/disk/from", "/disk/to", "d", merge=True)
    assert find_files(disk) == {"from/d/new", "to/d/old"}


def test_all_files_of_a_tree_are_moved_into_one_folder(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", *FILES)
    assert list_names(tree, "/disk/to") == ["other"]
    assert move_files(tree, "/disk/from", "/disk/to") == 4
    assert find_files(disk) == {"from/d/e/", "to/a", "to/b", "to/x", "to/y", "to/other"}
    assert list_names(tree, "/disk/to") == ["a", "b", "other", "x", "y"]


@pytest.mark.parametrize(("policy", "moved", "content"), [("skip", 1, "to/a"), ("overwrite", 3, "from/deep/a")])
def test_files_of_one_name_follow_the_policy(tree: TreeEnv, policy: str, moved: int, content: str) -> None:
    disk = tree.mount_disk("/disk", "from/a", "from/deep/a", "from/b", "to/a")
    with pytest.raises(NameConflict):
        move_files(tree, "/disk/from", "/disk/to", "cancel")
    assert find_files(disk) == {"from/a", "from/deep/a", "from/b", "to/a"}
    assert move_files(tree, "/disk/from", "/disk/to", policy) == moved
    assert (disk / "to/a").read_text() == content


def test_files_that_may_not_be_seen_or_taken_stay_where_they_are(tree: TreeEnv) -> None:
    files = {"from/a", "from/hidden", "from/locked/b", "from/closed/c"}
    disk = tree.mount_disk("/disk", *files, "to/")
    tree.mount_disk("/disk/from/mounted", "d")
    tree.add_rule("/disk/from", hide="^hidden$")
    tree.add_rule("/disk/from/locked", password="secret")
    tree.add_rule("/disk/from/closed", write_users=[0])
    assert move_files(tree, "/disk/from", "/disk/to") == 1
    assert find_files(disk) == files - {"from/a"} | {"to/a"}


def test_file_with_a_rule_is_moved_up_only_to_a_path_with_one(tree: TreeEnv) -> None:
    """A user who may skip passwords would open the file to everybody."""
    tree.change_user(ALL_RIGHTS | Right.SKIP_PASSWORD)
    files = {"from/a", "from/d/locked"}
    disk = tree.mount_disk("/disk", *files, "to/")
    tree.add_rule("/disk/from/d", password="of the folder")
    tree.add_rule("/disk/from/d/locked", password="secret")
    with pytest.raises(RuleLeftBehind):
        move_files(tree, "/disk/from", "/disk/to")
    assert find_files(disk) == {*files, "to/"}
    tree.add_rule("/disk/to/locked", password="secret")
    assert move_files(tree, "/disk/from", "/disk/to") == 2
    assert find_files(disk) == {"from/d/", "to/a", "to/locked"}


def test_file_with_a_rule_at_an_alias_is_not_moved_up(tree: TreeEnv) -> None:
    disk = tree.mount_disk("/disk", "from/d/locked", "to/")
    tree.mount("/alias", "Alias", options={"paths": "/disk/from"})
    tree.add_rule("/alias/d/locked", write_users=[0])
    with pytest.raises(RuleLeftBehind):
        move_files(tree, "/disk/from", "/disk/to")
    assert find_files(disk) == {"from/d/locked", "to/"}


@pytest.mark.parametrize("rule", [{"password": "secret"}, {"read_users": [0]}, {"write_users": [0]}])
def test_file_that_its_own_rule_closes_stays_where_it_is(tree: TreeEnv, rule: dict[str, Any]) -> None:
    disk = tree.mount_disk("/disk", "from/d/a", "from/d/closed", "to/")
    tree.add_rule("/disk/from/d/closed", **rule)
    tree.add_rule("/disk/to/closed", readme="a rule that closes nothing")
    assert move_files(tree, "/disk/from", "/disk/to") == 1
    assert find_files(disk) == {"from/d/closed", "to/a"}


def test_files_do_not_replace_what_is_hidden_or_mounted(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "from/hidden", "from/d/mounted", "to/hidden")
    tree.add_rule("/disk/to", hide="^hidden$")
    with pytest.raises(NameConflict):
        move_files(tree, "/disk/from", "/disk/to", "overwrite")
    tree.mount_disk("/disk/to/mounted")
    with pytest.raises(NameConflict):
        move_files(tree, "/disk/from/d", "/disk/to", "overwrite")


def test_files_are_moved_within_storage_by_right_and_policy(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", *FILES)
    tree.mount_disk("/other")
    with pytest.raises(NotSupported):
        move_files(tree, "/disk/from", "/other")
    with pytest.raises(BadRequest, match="conflict_policy"):
        move_files(tree, "/disk/from", "/disk/to", "ask")
    with pytest.raises(AccessDenied):
        tree.run(
            transfers.move_files(tree.access("/disk/from", Right.COPY), tree.access("/disk/to", Right.COPY), "skip")
        )


@pytest.mark.parametrize(
    ("verb", "conflict", "outcome"),
    [
        (move, {}, NameConflict), (copy, {}, NameConflict), (move, {"skip": True}, None), (copy, {"skip": True}, None),
        (copy, {"merge": True}, None),
    ],
)  # fmt: skip
def test_name_taken_after_check_follows_conflict_policy(
    tree: TreeEnv, monkeypatch: pytest.MonkeyPatch, verb: Any, conflict: dict[str, bool], outcome: type[Problem] | None
) -> None:
    disk = tree.mount_disk("/disk", *FILES, "from/c")
    look = plans.check_target_folder

    async def look_and_lose(storage_path: StoragePath) -> None:
        """Another request takes the second name when all looks are done."""
        await look(storage_path)
        (disk / "to/b").write_text("another")

    monkeypatch.setattr(plans, "check_target_folder", look_and_lose)
    if outcome is None:
        assert verb(tree, "/disk/from", "/disk/to", "a", "b", "c", **conflict) == []
    else:
        with pytest.raises(outcome, match=r"file \[b\] exists"):
            verb(tree, "/disk/from", "/disk/to", "a", "b", "c")
    assert (disk / "to/b").read_text() == "another"
    assert (disk / "from/b").read_text() == "from/b"
    assert (disk / "to/a").exists() and (disk / "to/c").exists() is (outcome is None)
    assert "b" in list_names(tree, "/disk/to")
