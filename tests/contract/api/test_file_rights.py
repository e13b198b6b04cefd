"""The right that each change of files needs, and the base path that confines a user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.contract.api import fixtures
from tests.contract.api.fixtures import (
    check_failure,
    fill,
    list_names,
    read_tree,
)
from tests.support.service import Client, Service

CHANGES: list[tuple[int, str, dict[str, Any]]] = [
    (fixtures.WRITE, "mkdir", {"path": "{0}/new"}),
    (fixtures.RENAME, "rename", {"path": "{0}/a", "name": "n"}),
    (fixtures.RENAME, "batch_rename", {"src_dir": "{0}", "rename_objects": [{"src_name": "a", "new_name": "n"}]}),
    (fixtures.RENAME, "regex_rename", {"src_dir": "{0}", "src_name_regex": "^a$", "new_name_regex": "n"}),
    (fixtures.MOVE, "move", {"src_dir": "{0}", "dst_dir": "{0}/d", "names": ["a"]}),
    (fixtures.MOVE, "recursive_move", {"src_dir": "{0}/d", "dst_dir": "{0}"}),
    (fixtures.COPY, "copy", {"src_dir": "{0}", "dst_dir": "{0}/d", "names": ["a"]}),
    (fixtures.DELETE, "remove", {"dir": "{0}", "names": ["a"]}),
    (fixtures.DELETE, "remove_empty_directory", {"src_dir": "{0}"}),
]


@pytest.fixture(scope="module")
def poor(service: Service, admin: Client) -> Iterator[Client]:
    """A user with none of the rights that change files, and all others."""
    kinds = fixtures.WRITE | fixtures.RENAME | fixtures.MOVE | fixtures.COPY | fixtures.DELETE
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~kinds) as user:
        yield user


@pytest.fixture(scope="module")
def users_by_right(service: Service, admin: Client) -> Iterator[dict[int, tuple[Client, Client]]]:
    """For each right: a user with it alone, and one with all but it."""
    with ExitStack() as stack:
        yield {
            right: (
                stack.enter_context(fixtures.user(service, admin, right)),
                stack.enter_context(fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~right)),
            )
            for right in (fixtures.WRITE, fixtures.RENAME, fixtures.MOVE, fixtures.COPY, fixtures.DELETE)
        }


@pytest.mark.parametrize(("right", "verb", "body"), CHANGES, ids=[verb for _, verb, _ in CHANGES])
def test_each_change_needs_its_own_right_and_no_other(
    service: Service,
    admin: Client,
    folder: str,
    users_by_right: dict[int, tuple[Client, Client]],
    right: int,
    verb: str,
    body: dict[str, Any],
) -> None:
    fill(admin, folder, "a", "d/")
    body = {key: value.format(folder) if isinstance(value, str) else value for key, value in body.items()}
    may, may_not = users_by_right[right]
    check_failure(may_not.post(f"/api/fs/{verb}", **body), 403, "permission denied")
    assert read_tree(service, folder) == {"a": "a"}
    assert admin.names(folder) == ["a", "d"]
    assert may.post(f"/api/fs/{verb}", **body)["code"] == 200


@pytest.mark.parametrize(("right", "verb", "body"), CHANGES, ids=[verb for _, verb, _ in CHANGES])
def test_a_list_of_writers_stops_everybody_else(
    service: Service, admin: Client, folder: str, right: int, verb: str, body: dict[str, Any]
) -> None:
    fill(admin, folder, "a", "d/")
    body = {key: value.format(folder) if isinstance(value, str) else value for key, value in body.items()}
    with fixtures.meta(admin, folder, write_users=[2**40], write_users_sub=True, write=True, w_sub=True):
        check_failure(admin.post(f"/api/fs/{verb}", **body), 403, "permission denied")
    assert read_tree(service, folder) == {"a": "a"}


@pytest.mark.parametrize(("right", "verb", "body"), CHANGES, ids=[verb for _, verb, _ in CHANGES])
def test_a_rule_that_opens_writing_replaces_no_other_right(
    admin: Client, poor: Client, folder: str, right: int, verb: str, body: dict[str, Any]
) -> None:
    fill(admin, folder, "a", "d/")
    body = {key: value.format(folder) if isinstance(value, str) else value for key, value in body.items()}
    with fixtures.meta(admin, folder, write=True, w_sub=True):
        assert poor.post(f"/api/fs/{verb}", **body)["code"] == (200 if right == fixtures.WRITE else 403)


def test_a_user_sees_and_changes_only_what_is_below_his_base_path(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "home/", "home/own", "home2/", "home2/foreign", "foreign")
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS, f"{folder}/home") as user:
        assert list_names(user, "/") == ["own"]
        assert user.ok("/api/fs/get", path="/")["name"] == "home"
        entry = user.ok("/api/fs/get", path="/own")
        assert urlsplit(entry["raw_url"]).path == f"/p{folder}/home/own"
        assert user.http.get(entry["raw_url"]).text == "home/own"
        for path in (f"{folder}/foreign", "/../foreign", "/..", "../home2", f"{folder}/home/own"):
            assert user.post("/api/fs/get", path=path)["code"] in (403, 500)
        user.ok("/api/fs/mkdir", path="/made")
        user.ok("/api/fs/rename", path="/own", name="mine")
        user.ok("/api/fs/move", src_dir="/", dst_dir="/made", names=["mine"])
        relative = "using relative path is not allowed"
        for names in (["../foreign"], [".."]):
            check_failure(user.post("/api/fs/remove", dir="/", names=names), 403, relative)
        check_failure(user.post("/api/fs/move", src_dir="/", dst_dir="/../home2", names=["made"]), 403, relative)
        check_failure(user.post("/api/fs/copy", src_dir="/../home2", dst_dir="/", names=["foreign"]), 403, relative)
        user.ok("/api/fs/remove", dir=folder, names=["foreign"])
    assert read_tree(service, folder) == {
        "home/made/mine": "home/own",
        "home2/foreign": "home2/foreign",
        "foreign": "foreign",
    }


def test_mounts_outside_the_base_path_do_not_show(service: Service, admin: Client, folder: str) -> None:
    fill(admin, folder, "home/")
    with (
        fixtures.virtual(admin, f"{folder}/home/inside"),
        fixtures.virtual(admin, f"{folder}/outside"),
        fixtures.virtual(admin, f"{folder}/homeless"),
        fixtures.user(service, admin, 0, f"{folder}/home") as user,
    ):
        assert list_names(user, "/") == ["inside"]
        assert [row["name"] for row in user.ok("/api/fs/dirs", path="/")] == ["inside"]


def test_a_user_whose_base_path_is_a_mount_gets_that_mount(service: Service, admin: Client) -> None:
    with fixtures.virtual(admin) as mounted, fixtures.user(service, admin, 0, mounted) as user:
        entry = user.ok("/api/fs/get", path="/")
        assert (entry["name"], entry["provider"], entry["is_dir"]) == (mounted[1:], "Virtual", True)
