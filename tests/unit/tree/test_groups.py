"""The permissions of groups at a path of the tree, and rules that name groups."""

from __future__ import annotations

from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, BadRequest, RelativePath, ResourceNotFound
from mangrove.identity import groups
from mangrove.identity.groups import GroupFields
from mangrove.identity.rights import Right
from mangrove.records import groups as records
from mangrove.records.groups import combine
from mangrove.records.store.base import NameTaken, count_calls
from mangrove.tree import access, callers
from mangrove.tree.access import PathAccess
from tests.unit.tree.environment import TreeEnv


def reach(tree: TreeEnv, path: str, right: Right = Right.WRITE) -> PathAccess:
    """Return the access of the user of the tree with the user's groups."""

    async def find() -> PathAccess:
        from mangrove import configuration

        await configuration.get()
        return await access.at(callers.make_caller(tree.user, right), path)

    return tree.run(find())


def make_group(tree: TreeEnv, permission: int = 0, **folders: int) -> int:
    """Create a group of the user, with permissions at `/disk/<name>`; return its id."""
    pairs = [(f"/disk/{name}", bits) for name, bits in folders.items()]
    return groups.create(GroupFields("editors", [tree.user.id], permission, pairs)).id


@pytest.fixture
def reader(tree: TreeEnv) -> TreeEnv:
    """A tree whose user has no permission."""
    tree.change_user(0)
    return tree


def test_group_gives_its_permission_in_the_whole_tree(reader: TreeEnv) -> None:
    with pytest.raises(AccessDenied):
        reach(reader, "/disk/a").require(Right.WRITE)
    id = make_group(reader, int(Right.WRITE | Right.WEBDAV_READ))
    folder = reach(reader, "/disk/a")
    folder.require(Right.WRITE)
    assert folder.caller.has(Right.WEBDAV_READ) and folder.caller.permission == Right.WRITE | Right.WEBDAV_READ
    with pytest.raises(AccessDenied):
        reach(reader, "/disk/a", Right.DELETE).require(Right.DELETE)
    groups.delete(id)
    with pytest.raises(AccessDenied):
        reach(reader, "/disk/a").require(Right.WRITE)


def test_group_gives_a_permission_at_and_below_its_folders(reader: TreeEnv) -> None:
    make_group(reader, a=int(Right.WRITE), ab=int(Right.DELETE))
    for path in ("/disk/a", "/disk/a/deep/er"):
        reach(reader, path).require(Right.WRITE)
        with pytest.raises(AccessDenied):
            reach(reader, path, Right.DELETE).require(Right.DELETE)
    for path in ("/disk", "/disk/ab", "/disk/b"):
        with pytest.raises(AccessDenied):
            reach(reader, path).require(Right.WRITE)
    reach(reader, "/disk/ab/c", Right.DELETE).require(Right.DELETE)


def test_group_of_others_gives_nothing(reader: TreeEnv) -> None:
    groups.create(GroupFields("others", [], 0xFFFF, [("/disk", 0x10FF)]))
    assert reach(reader, "/disk/a").caller.groups is None


def test_rule_restricts_what_a_group_gives(reader: TreeEnv) -> None:
    make_group(reader, int(Right.WRITE))
    reader.add_rule("/disk/a", write_users=[9999], write_users_sub=True)
    with pytest.raises(AccessDenied):
        reach(reader, "/disk/a/b").require(Right.WRITE)


def test_rule_names_groups_as_readers_and_writers(reader: TreeEnv) -> None:
    id = make_group(reader, int(Right.WRITE))
    reader.add_rule("/disk/a", read_groups=[id], read_users_sub=True, write_groups=[id], write_users_sub=True)
    reader.add_rule("/disk/b", read_groups=[id + 1], read_users_sub=True, write_groups=[id + 1], write_users_sub=True)
    assert reach(reader, "/disk/a/c").may_read() and reach(reader, "/disk/a/c").may_write()
    assert not reach(reader, "/disk/b/c").may_read() and not reach(reader, "/disk/b/c").may_write()
    before = reach(reader, "/disk").make_visibility_filter().key
    groups.update(id, GroupFields("editors", [], 0, []))
    assert not reach(reader, "/disk/a/c").may_read()
    assert reach(reader, "/disk").make_visibility_filter().key != before


def test_group_shows_hidden_names_and_skips_passwords_in_its_folder(reader: TreeEnv) -> None:
    make_group(reader, a=int(Right.SEE_HIDDEN | Right.SKIP_PASSWORD))
    for name in ("a", "b"):
        reader.add_rule(f"/disk/{name}", password="x", p_sub=True, hide="secret", h_sub=True)
    assert reach(reader, "/disk/a/secret").may_read()
    assert not reach(reader, "/disk/b/c").may_read() and reach(reader, "/disk/b/secret").is_hidden()


def test_lookup_of_groups_makes_no_call(reader: TreeEnv) -> None:
    make_group(reader, a=int(Right.WRITE))
    reach(reader, "/disk/a")
    before = count_calls()
    reach(reader, "/disk/a").require(Right.WRITE)
    assert count_calls() == before


def test_members_of_the_same_groups_share_their_permissions(records: None) -> None:
    both = [groups.create(GroupFields(name, [], bits, [("/a", bits)])) for name, bits in (("x", 1), ("y", 2))]
    combined = combine([make_member(group, [1, 2]) for group in both])
    assert combined[1] is combined[2] and combined[1].permission == 3
    assert combined[1].folders == {TreePath("/a"): 3}


def make_member(group: records.Group, members: list[int]) -> records.Group:
    return records.Group(group.id, group.name, members, group.permission, group.folders)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": " "}, "name of a group"),
        ({"name": "x" * 256}, "name of a group"),
        ({"permission": 1 << 16}, "out of range"),
        ({"members": [12345]}, "no user with the id 12345"),
        ({"members": list(range(groups.MAX_MEMBERS_PER_GROUP + 1))}, "at most"),
        ({"folders": [("/a", -1)]}, "out of range"),
        ({"folders": [("/a", int(Right.WEBDAV_READ))]}, "not for folders"),
        ({"folders": [("/a", 1), ("/a/", 2)]}, "named twice"),
        ({"folders": [(f"/{number}", 1) for number in range(groups.MAX_FOLDERS_PER_GROUP + 1)]}, "at most"),
        ({"folders": [(f"/{number}" + "/x" * 254 + "y" * 200, 1) for number in range(100)]}, "bytes"),
    ],
)
def test_group_with_an_invalid_field_is_refused(records: None, change: dict[str, Any], message: str) -> None:
    fields = {"name": "editors", "members": [], "permission": 0, "folders": []} | change
    with pytest.raises(BadRequest, match=message):
        groups.create(GroupFields(**fields))


def test_group_outside_its_bounds_changes_nothing(records: None, monkeypatch: pytest.MonkeyPatch) -> None:
    group = groups.create(GroupFields("editors", [], 8, []))
    with pytest.raises(NameTaken):
        groups.create(GroupFields("editors", [], 0, []))
    with pytest.raises(RelativePath):
        groups.update(group.id, GroupFields("editors", [], 0, [("/a/../..", 1)]))
    with pytest.raises(ResourceNotFound, match="group not found"):
        groups.update(group.id + 1, GroupFields("others", [], 0, []))
    monkeypatch.setattr(groups, "MAX_GROUPS", 1)
    with pytest.raises(BadRequest, match="at most 1"):
        groups.create(GroupFields("others", [], 0, []))
    assert groups.get(group.id) == group


def test_largest_group_is_stored(tree: TreeEnv) -> None:
    folders = [(f"/{number:02}" + "/x" * 250 + "y" * 150, 1) for number in range(groups.MAX_FOLDERS_PER_GROUP)]
    group = groups.create(GroupFields("n" * 255, [tree.user.id], 0xFFFF, folders[:99]))
    assert len(groups.get(group.id).folders) == 99
