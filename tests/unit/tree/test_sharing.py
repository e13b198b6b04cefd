"""Share links as their visitors open them, over real records and storages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied, BadRequest, EntryNotFound, TooMany
from mangrove.drivers.base import Upload
from mangrove.identity.rights import ADMIN, Caller, Right
from mangrove.records import share_links
from mangrove.records.share_links import ShareFields, ShareLink
from mangrove.tree import operations
from mangrove.tree.access import PathAccess
from mangrove.tree.sharing import administration, uploads, visits
from mangrove.tree.sharing.administration import (
    MAX_EXTENSIONS,
    MAX_ID_LENGTH,
    MAX_SHARED_PATHS,
    MAX_SHARED_PATHS_BYTES,
)
from mangrove.tree.sharing.problems import ShareEnded, ShareNotFound
from mangrove.tree.sharing.shared_path import name_roots
from tests.unit.tree.environment import ALL_RIGHTS, TreeEnv, find_files

ID = "s"
SECOND = 1000  # milliseconds


def share(tree: TreeEnv, *files: str, **fields: Any) -> ShareLink:
    return share_links.create(ID, owner=tree.user.id, files=list(files), **fields)


def visit(tree: TreeEnv, path: str = "", password: str = "", source: str = "192.0.2.1") -> PathAccess:
    return tree.run(visits.open_shared(TreePath(f"/@s/{ID}/{path}"), password, Right.READ, source))


def test_share_link_ends_at_the_second_of_its_end(tree: TreeEnv) -> None:
    link = share(tree, "/disk", expires=1_700_000_000 * SECOND)
    assert visits.is_open(link, tree.user, 1_699_999_999.999)
    assert not visits.is_open(link, tree.user, 1_700_000_000.0)


def test_visitor_has_no_right_of_the_owner_but_reading(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "a.txt")
    share(tree, "/disk")
    access = visit(tree, "a.txt")
    assert access.path == "/disk/a.txt" and access.may_read() and not access.can_write()
    rights = [right for right in Right if right and access.caller.has(right)]
    assert rights == [Right.READ_ARCHIVES]
    tree.change_user(ALL_RIGHTS & ~Right.READ_ARCHIVES)
    assert not visit(tree).caller.has(Right.READ_ARCHIVES)


def test_administrator_without_the_right_shares_and_gives_no_other_right(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "a.txt")
    tree.change_user(0, role=ADMIN)
    tree.run(administration.create(Caller(tree.user), ID, "", ShareFields(["/disk"]), 0))
    caller = visit(tree, "a.txt").caller
    assert [right for right in Right if right and caller.has(right)] == [Right.READ_ARCHIVES]


def test_access_does_not_leave_the_shared_folder(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "in/a.txt", "out.txt")
    share(tree, "/disk/in")
    access = visit(tree, "a.txt")
    assert access.parent.path == "/disk/in"
    for other in (TreePath("/disk/out.txt"), TreePath("/disk"), TreePath("/"), TreePath("/disk/in2")):
        with pytest.raises(EntryNotFound):
            access.with_path(other)
    with pytest.raises(EntryNotFound):
        _ = visit(tree).parent


def test_owner_who_loses_a_right_in_the_middle_ends_the_share(tree: TreeEnv) -> None:
    tree.mount_disk("/disk", "a.txt")
    share(tree, "/disk")
    visit(tree)
    tree.add_rule("/disk", password="secret", p_sub=True)
    with pytest.raises(ShareEnded):
        visit(tree)
    tree.change_user(ALL_RIGHTS | Right.SKIP_PASSWORD)
    assert visit(tree, "a.txt").may_read()
    tree.change_user(ALL_RIGHTS & ~Right.SHARE)
    with pytest.raises(ShareEnded):
        visit(tree)


END_SHARE: dict[str, Callable[[TreeEnv], object]] = {
    "disabled": lambda tree: share_links.change(ID, disabled=True),
    "expired": lambda tree: share_links.change(ID, expires=1),
    "removed": lambda tree: share_links.delete(ID),
    "no right": lambda tree: tree.change_user(ALL_RIGHTS & ~Right.WRITE),
    "rule": lambda tree: tree.add_rule("/disk", write_users=[0], write_users_sub=True),
}


@pytest.mark.parametrize("end", END_SHARE)
def test_share_that_ends_while_a_body_arrives_stores_nothing(
    tree: TreeEnv, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations.uploads, "RIGHTS_FRESH_SECONDS", -1.0)  # as after a slow body
    root = tree.mount_disk("/disk")
    share(tree, "/disk", mode="drop")

    async def read_body(change: Callable[[TreeEnv], object]) -> AsyncIterator[bytes]:
        yield b"half"
        await asyncio.to_thread(change, tree)
        yield b"rest"

    async def send(name: str, change: Callable[[TreeEnv], object]) -> None:
        target = await uploads.find_target(f"{ID}/{name}", "", "192.0.2.1")
        await uploads.store(target, read_body(change), Upload(8, 1.0), {}, "")

    tree.run(send("open", lambda _: None))
    with pytest.raises((ShareEnded, ShareNotFound, AccessDenied)):
        tree.run(send("ended", END_SHARE[end]))
    assert find_files(root) == {"open"}


def test_visits_are_counted_per_address_and_end_the_share(tree: TreeEnv) -> None:
    tree.mount_disk("/disk")
    link = share(tree, "/disk", max_accessed=2, password="p")
    with pytest.raises(Exception, match="password"):
        visit(tree, source="192.0.2.9")
    for source in ("192.0.2.1", "192.0.2.2", "192.0.2.1"):
        visit(tree, "", "p", source)
    with pytest.raises(ShareEnded):
        visit(tree, "", "p", "192.0.2.3")
    assert share_links.count_visits([link]) == {link.number: 2}


def test_unknown_ids_lock_an_address_out_of_all_share_links(tree: TreeEnv) -> None:
    tree.mount_disk("/disk")
    share(tree, "/disk")

    async def guess() -> None:
        for number in range(visits.MAX_UNKNOWN_IDS_PER_SOURCE):
            with pytest.raises(ShareNotFound):
                await visits.open_shared(TreePath(f"/@s/guess{number}"), "", Right.READ, "192.0.2.5")

    tree.run(guess())
    with pytest.raises(TooMany):
        visit(tree, source="192.0.2.5")
    assert visit(tree).may_read()


def test_names_of_shared_files_are_distinct() -> None:
    paths = [TreePath(path) for path in ("/a/x.txt", "/b/x.txt", "/c/x (2).txt", "/d/x", "/e/x", "/")]
    assert list(name_roots(paths)) == ["x.txt", "x (2).txt", "x (2) (2).txt", "x", "x (2)", "root"]


def test_largest_share_link_is_stored(tree: TreeEnv) -> None:
    size = MAX_SHARED_PATHS_BYTES // MAX_SHARED_PATHS
    files = ["/" + f"{number:04}" + "é" * ((size - 5) // 2) for number in range(MAX_SHARED_PATHS)]
    extensions = [f"{number:03}" + "é" * 13 for number in range(MAX_EXTENSIONS)]
    fields = ShareFields(files, readme="語" * 20_000, header="語" * 20_000, remark="語" * 4096, extensions=extensions)
    entry = tree.run(administration.create(Caller(tree.user), "x" * MAX_ID_LENGTH, "", fields, 0))
    assert share_links.get("x" * MAX_ID_LENGTH) == entry.link and len(entry.link.files) == MAX_SHARED_PATHS
    for changes in (
        {"files": [*files, "/more"]},
        {"files": ["/" + "x" * 4000] * 1 + files},
        {"extensions": [*extensions, "a"]},
    ):
        with pytest.raises(BadRequest):
            administration.to_record(ShareFields(**{"files": files, "extensions": extensions} | changes))


def test_share_links_of_a_user_are_bounded(tree: TreeEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(administration, "MAX_SHARE_LINKS_PER_USER", 1)

    async def create() -> None:
        await administration.create(Caller(tree.user), "", "", ShareFields(["/disk"]), 0)

    tree.run(create())
    with pytest.raises(BadRequest, match="at most 1 share links"):
        tree.run(create())
