"""Per-path rules: their administration."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import get_data, get_refusal
from tests.contract.api.meta_client import (
    Callers,
    find_meta,
    list_metas,
)
from tests.support.service import Client

UNKNOWN = (500, "failed get old meta: record not found")
PATH_TAKEN = (500, "the path has a rule already")
EMPTY: dict[str, Any] = {
    "read_users": None, "read_users_sub": False, "write_users": None, "write_users_sub": False, "password": "",
    "p_sub": False, "write": False, "w_sub": False, "hide": "", "h_sub": False, "readme": "", "r_sub": False,
    "header": "", "header_sub": False, "read_groups": None, "write_groups": None,
}  # fmt: skip


# Records
def test_a_rule_is_created_shown_listed_updated_and_deleted(admin: Client, folder: str) -> None:
    wish = EMPTY | {
        "path": folder, "password": "p", "p_sub": True, "write": True, "w_sub": True, "hide": "a\nb", "h_sub": True,
        "readme": "# hi", "r_sub": True, "header": "head", "header_sub": True, "read_users": [1, 2],
        "read_users_sub": True, "write_users": [1], "write_users_sub": True,
    }  # fmt: skip
    assert get_data(admin.post("/api/admin/meta/create", **wish)) is None
    meta = find_meta(admin, folder)
    id = meta["id"]
    assert meta == wish | {"id": id}
    assert get_data(admin.get("/api/admin/meta/get", id=id)) == meta
    assert get_data(admin.post("/api/admin/meta/update", id=id, path=f"{folder}/other")) is None
    assert get_data(admin.get("/api/admin/meta/get", id=id)) == EMPTY | {"id": id, "path": f"{folder}/other"}
    assert get_data(admin.post("/api/admin/meta/delete", params={"id": id})) is None
    assert get_refusal(admin.get("/api/admin/meta/get", id=id)) == UNKNOWN


def test_only_the_path_of_a_rule_is_required_and_it_is_cleaned(admin: Client, folder: str) -> None:
    required = (400, "path is required")
    assert get_refusal(admin.post("/api/admin/meta/create")) == required
    assert get_refusal(admin.post("/api/admin/meta/create", path="", password="x")) == required
    assert get_refusal(admin.post("/api/admin/meta/update", id=1)) == required
    get_data(admin.post("/api/admin/meta/create", path=f"{folder.replace('/', chr(92))}//x/./"))
    meta = find_meta(admin, f"{folder}/x")
    assert meta == EMPTY | {"id": meta["id"], "path": f"{folder}/x"}
    get_data(admin.post("/api/admin/meta/delete", params={"id": meta["id"]}))


def test_a_path_has_one_rule(admin: Client, folder: str) -> None:
    with fixtures.meta(admin, folder), fixtures.meta(admin, f"{folder}/x"):
        for spelling in (folder, f"{folder}/", f"/{folder}", folder.replace("/", "\\")):
            assert get_refusal(admin.post("/api/admin/meta/create", path=spelling)) == PATH_TAKEN
        other = find_meta(admin, f"{folder}/x")
        assert (
            get_refusal(admin.post("/api/admin/meta/update", **(other | {"path": folder, "readme": "x"}))) == PATH_TAKEN
        )
        assert find_meta(admin, f"{folder}/x") == other
        get_data(admin.post("/api/admin/meta/update", **other))


def test_of_two_rules_for_one_path_created_at_the_same_time_one_is_made(admin: Client, folder: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: admin.post("/api/admin/meta/create", path=folder), range(4)))
    assert sorted(answer["code"] for answer in answers) == [200, 500, 500, 500]
    [meta] = [item for item in list_metas(admin) if item["path"] == folder]
    get_data(admin.post("/api/admin/meta/delete", params={"id": meta["id"]}))


def test_the_list_is_ordered_by_id_and_cut_into_pages(admin: Client, folder: str) -> None:
    with ExitStack() as stack:
        for name in ("b", "a", "c"):
            stack.enter_context(fixtures.meta(admin, f"{folder}/{name}"))
        ids = [meta["id"] for meta in list_metas(admin)]
        assert ids == sorted(ids)
        assert [meta["path"] for meta in list_metas(admin)][-3:] == [f"{folder}/{name}" for name in ("b", "a", "c")]
        page = get_data(admin.get("/api/admin/meta/list", page=2, per_page=2))
        assert [meta["id"] for meta in page["content"]] == ids[2:4]
        assert page["total"] == len(ids)
        assert list_metas(admin, page=999, per_page=2) == []


def test_what_names_no_rule_is_not_found(admin: Client) -> None:
    assert get_refusal(admin.get("/api/admin/meta/get", id=10**9)) == UNKNOWN
    assert get_refusal(admin.post("/api/admin/meta/update", id=10**9, path="/x")) == UNKNOWN
    assert get_refusal(admin.post("/api/admin/meta/delete", params={"id": 10**9})) == UNKNOWN
    for id in ("", "x"):
        expected = (400, f'"{id}" is no integer')
        assert get_refusal(admin.get("/api/admin/meta/get", id=id)) == expected
        assert get_refusal(admin.post("/api/admin/meta/delete", params={"id": id})) == expected


@pytest.mark.parametrize("line", ["(", "[", "a{2,1}", "(?<x", "*", "(?=a)"])
def test_a_hide_line_that_does_not_compile_is_named(admin: Client, folder: str, line: str) -> None:
    code, message = get_refusal(admin.post("/api/admin/meta/create", path=folder, hide=f"fine\n{line}\nfine"))
    assert code == 400 and message.startswith(f"{line} is illegal: ")
    assert folder not in {meta["path"] for meta in list_metas(admin)}
    with fixtures.meta(admin, folder, hide="before"):
        before = find_meta(admin, folder)
        assert get_refusal(admin.post("/api/admin/meta/update", **(before | {"hide": line})))[0] == 400
        assert find_meta(admin, folder) == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": "/../x"},
        {"path": "/a/../b"},
        {"path": "/a\0b"},
        {"p_sub": "true"},
        {"read_users": ["1"]},
        {"read_users": 1},
        {"hide": 5},
        {"readme": "x" * 200_000},
    ],
)
def test_fields_that_do_not_fit_are_refused(admin: Client, folder: str, wrong: dict[str, Any]) -> None:
    before = list_metas(admin)
    assert get_refusal(admin.post("/api/admin/meta/create", **({"path": folder} | wrong)))[0] in (400, 403)
    assert list_metas(admin) == before


def test_the_password_of_a_rule_is_in_no_listing(admin: Client, folder: str, two: Callers) -> None:
    with fixtures.meta(admin, folder, password="secret"):
        for client in two:
            assert "secret" not in client.http.post("/api/fs/list", json={"path": folder}).text
