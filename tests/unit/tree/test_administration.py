"""Storages as an administrator changes them."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.problems import BadRequest, NotSupported, Problem, RelativePath
from mangrove.drivers import registry
from mangrove.drivers.local.driver import Local
from mangrove.identity.rights import Caller
from mangrove.records import storages
from mangrove.tree import administration, mounts
from mangrove.tree.operations.kept_rules import RuleLeftBehind
from tests.support.platforms import use_cloud
from tests.unit.tree.environment import TreeEnv


def fields(root: Path | str, path: str = "/disk", **others: Any) -> dict[str, Any]:
    """Return the fields that the form of a Local storage sends."""
    return {
        "mount_path": path, "order": 0, "driver": "Local", "cache_expiration": 30, "custom_cache_policies": "",
        "addition": json.dumps({"root_folder_path": str(root)}), "remark": "", "disabled": False,
        "disable_index": False, "enable_sign": False, "order_by": "", "order_direction": "", "extract_folder": "",
        "web_proxy": False, "webdav_policy": "", "proxy_range": False, "down_proxy_url": "",
        "disable_proxy_sign": False,
    } | others  # fmt: skip


def create(tree: TreeEnv, path: str = "/disk", **others: Any) -> int:
    return tree.run(administration.create(Caller(tree.user), fields(tree.folder, path, **others)))


def list_names(tree: TreeEnv, path: str) -> list[str]:
    return [entry.name for entry in tree.run(tree.access(path).list_folder()).entries]


def test_a_new_storage_is_mounted_with_all_options_of_its_driver(tree: TreeEnv) -> None:
    (tree.folder / "file").write_text("x")
    id = create(tree, "disk/")
    assert list_names(tree, "/disk") == ["file"]
    stored = administration.get(id)
    assert (stored.mount_path, stored.status) == ("/disk", mounts.WORKING)
    assert set(json.loads(stored.addition)) == {item.name for item in Local.Options.list_form_items()}


def test_local_storage_in_cloud_is_refused_with_reason(tree: TreeEnv) -> None:
    id = create(tree)
    use_cloud(is_function=True)
    with pytest.raises(NotSupported, match="mount a bucket with S3 instead"):
        create(tree, "/other")
    with pytest.raises(NotSupported, match="mount a bucket with S3 instead"):
        tree.run(administration.update(Caller(tree.user), id, fields(tree.folder)))
    assert [storage.mount_path for storage in storages.all()] == ["/disk"]
    tree.run(administration.load_all())  # as after a backup of one machine was restored there
    assert registry.NO_DISK in administration.get(id).status
    with pytest.raises(Problem, match="mount a bucket with S3 instead"):
        list_names(tree, "/disk")
    tree.run(administration.disable(Caller(tree.user), id))
    tree.run(administration.delete(Caller(tree.user), id))
    assert storages.all() == []


def test_a_storage_that_does_not_start_keeps_its_record(tree: TreeEnv) -> None:
    with pytest.raises(Problem, match="storage is already created") as failure:
        tree.run(administration.create(Caller(tree.user), fields(tree.folder / "none")))
    stored = administration.get(failure.value.data["id"])
    assert stored.status not in ("", mounts.WORKING)
    create(tree, "/other")
    tree.run(administration.update(Caller(tree.user), stored.id, fields(tree.folder)))
    assert administration.get(stored.id).status == mounts.WORKING


@pytest.mark.parametrize("rule", ["/disk", "/disk/secret/deep"])
@pytest.mark.parametrize("old", ["/disk", "/disk.balance1"])
def test_mount_path_is_changed_only_with_the_rules_at_it(tree: TreeEnv, rule: str, old: str) -> None:
    id = create(tree, old)
    tree.add_rule(rule, password="sesame", p_sub=True)

    def update(path: str) -> int:
        return tree.run(administration.update(Caller(tree.user), id, fields(tree.folder, path)))

    new_rule = rule.replace("/disk", "/new")
    with pytest.raises(RuleLeftBehind) as refusal:
        update("/new")
    assert refusal.value.message == (
        f"the rule for [{rule}] would stay behind and protect nothing: make a rule for [{new_rule}] first"
    )
    assert administration.get(id).mount_path == old
    assert update(f"{old}.balance2" if old == "/disk" else "/disk") == id, "the path in the tree stays the same"
    tree.add_rule(new_rule, password="sesame", p_sub=True)
    assert update("/new") == id
    assert administration.get(id).mount_path == "/new"


@pytest.mark.parametrize(
    ("rule", "is_kept"),
    [
        ({"path": "/disk", "readme": "# x"}, True),
        ({"path": "/disk/inner/secret", "password": "x"}, True),  # of another storage
        ({"path": "/disk2", "password": "x"}, True),
        ({"path": "/disk/secret", "write_users": [1]}, False),
    ],
)
def test_rule_that_protects_nothing_of_a_storage_lets_it_move(
    tree: TreeEnv, rule: dict[str, Any], is_kept: bool
) -> None:
    id = create(tree)
    create(tree, "/disk/inner")
    tree.add_rule(**rule)
    with nullcontext() if is_kept else pytest.raises(RuleLeftBehind):
        tree.run(administration.update(Caller(tree.user), id, fields(tree.folder, "/new")))


@pytest.mark.parametrize(("sub", "is_kept"), [(True, True), (False, False)])
def test_rule_of_the_root_counts_below_it_if_it_extends(tree: TreeEnv, sub: bool, is_kept: bool) -> None:
    id = create(tree, "/")
    tree.add_rule("/", hide="^x$", h_sub=sub)
    with nullcontext() if is_kept else pytest.raises(RuleLeftBehind):
        tree.run(administration.update(Caller(tree.user), id, fields(tree.folder, "/new")))


@pytest.mark.parametrize(
    ("others", "problem", "text"),
    [
        ({"driver": "Nonsense"}, Problem, "no driver named: Nonsense"),
        ({"order_by": "color"}, BadRequest, r"order_by must be one of name, size, modified, not \[color\]"),
        ({"webdav_policy": "x"}, BadRequest, "webdav_policy"),
        ({"mount_path": "/a/../b"}, RelativePath, "relative path"),
    ],
)  # fmt: skip
def test_what_is_no_storage_is_refused_before_it_is_stored(
    tree: TreeEnv, others: dict[str, Any], problem: type[Problem], text: str
) -> None:
    with pytest.raises(problem, match=text):
        tree.run(administration.create(Caller(tree.user), fields(tree.folder) | others))
    assert storages.all() == []


def test_two_storages_cannot_have_one_path(tree: TreeEnv) -> None:
    create(tree)
    with pytest.raises(Problem, match="failed create storage in database"):
        create(tree)
    assert len(storages.all()) == 1


def test_an_update_remounts_and_forgets_the_old_listings(tree: TreeEnv) -> None:
    for name in ("one", "two"):
        (tree.folder / name).mkdir()
        (tree.folder / name / f"file-{name}").write_text("x")
    id = tree.run(administration.create(Caller(tree.user), fields(tree.folder / "one")))
    assert list_names(tree, "/disk") == ["file-one"]
    assert tree.run(administration.update(Caller(tree.user), id, fields(tree.folder / "two"))) == id
    assert list_names(tree, "/disk") == ["file-two"]
    with pytest.raises(Problem, match="driver cannot be changed"):
        tree.run(administration.update(Caller(tree.user), id, fields(tree.folder, driver="Virtual")))
    with pytest.raises(Problem, match="failed get old storage: record not found"):
        tree.run(administration.update(Caller(tree.user), id + 1, fields(tree.folder)))


def test_a_storage_is_disabled_enabled_and_deleted(tree: TreeEnv) -> None:
    (tree.folder / "file").write_text("x")
    id = create(tree)
    with pytest.raises(Problem, match="have enabled"):
        tree.run(administration.enable(Caller(tree.user), id))
    tree.run(administration.disable(Caller(tree.user), id))
    assert (tree.run(mounts.ready()).mounts, administration.get(id).status) == ([], mounts.DISABLED)
    with pytest.raises(Problem, match="have disabled"):
        tree.run(administration.disable(Caller(tree.user), id))
    tree.run(administration.enable(Caller(tree.user), id))
    assert (list_names(tree, "/disk"), administration.get(id).status) == (["file"], mounts.WORKING)
    tree.run(administration.delete(Caller(tree.user), id))
    assert (tree.run(mounts.ready()).mounts, (tree.folder / "file").exists()) == ([], True)
    for verb in (administration.delete, administration.enable, administration.disable):
        with pytest.raises(Problem, match="record not found"):
            tree.run(verb(Caller(tree.user), id))
    with pytest.raises(Problem, match="record not found"):
        administration.get(id)


def test_a_disabled_storage_is_created_without_being_started(tree: TreeEnv) -> None:
    id = create(tree, disabled=True)
    assert administration.get(id).status == mounts.DISABLED
    assert tree.run(mounts.ready()).mounts == []


def test_a_page_shows_records_with_their_capacity_where_it_is_wanted(tree: TreeEnv) -> None:
    tree.set(hide_storage_details_in_manage_page="false")
    for number in range(3):
        create(tree, f"/{number}", order=-number)
    rows, total = tree.run(administration.list_page(lambda rows: rows[:2]))
    assert ([row["mount_path"] for row in rows], total) == (["/2", "/1"], 3)
    assert all(row["mount_details"]["total_space"] > 0 for row in rows)
    tree.set(hide_storage_details_in_manage_page="true")
    rows, _ = tree.run(administration.list_page(lambda rows: rows))
    assert not any("mount_details" in row for row in rows)


def test_all_storages_are_started_anew(tree: TreeEnv) -> None:
    folder = tree.folder / "late"
    with pytest.raises(Problem):
        tree.run(administration.create(Caller(tree.user), fields(folder)))
    folder.mkdir()
    (folder / "file").write_text("x")
    tree.run(administration.load_all())
    assert [storage.status for storage in storages.all()] == [mounts.WORKING]
    assert list_names(tree, "/disk") == ["file"]
