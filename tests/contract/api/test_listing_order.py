"""The order of the rows of a listing, and the one that a client requests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.contract.api import fixtures
from tests.contract.api.fixtures import (
    fill,
    list_names,
)
from tests.support.service import Client


@pytest.mark.parametrize(
    ("fields", "order"),
    [
        ({}, ["B", "a1", "a10", "a2", "z", "x"]),
        ({"extract_folder": "front"}, ["B", "z", "a1", "a10", "a2", "x"]),
        ({"extract_folder": "back"}, ["a1", "a10", "a2", "x", "B", "z"]),
        ({"order_by": "name"}, ["B", "a1", "a2", "a10", "x", "z"]),
        ({"order_by": "name", "order_direction": "desc"}, ["z", "x", "a10", "a2", "a1", "B"]),
        (
            {"order_by": "name", "order_direction": "desc", "extract_folder": "front"},
            ["z", "B", "x", "a10", "a2", "a1"],
        ),
        ({"order_by": "size", "extract_folder": "back"}, ["a2", "a10", "x", "a1", "B", "z"]),
        ({"order_by": "size", "order_direction": "desc", "extract_folder": "back"}, ["a1", "x", "a10", "a2", "B", "z"]),
        ({"order_by": "modified", "extract_folder": "back"}, ["a1", "x", "a2", "a10", "B", "z"]),
    ],
)
def test_the_storage_decides_the_order(admin: Client, tmp_path: Path, fields: dict[str, str], order: list[str]) -> None:
    with fixtures.local(admin, tmp_path, **fields) as mounted:
        for name, size, modified in [("a1", 4, 1000), ("a10", 2, 4000), ("a2", 1, 3000), ("x", 3, 2000)]:
            answer = admin.put(f"{mounted}/{name}", b"#" * size, last_modified=str(modified))
            assert answer["code"] == 200
        fill(admin, mounted, "B/", "z/")
        listed = list_names(admin, mounted)
        if not fields:
            assert listed == sorted(order)
            return
        cut = slice(0, 4) if fields.get("extract_folder") == "back" and "order_by" in fields else slice(None)
        assert listed[cut] == order[cut]
        assert sorted(listed) == sorted(order)


def test_numbers_in_names_are_compared_as_numbers_at_any_length(admin: Client, tmp_path: Path) -> None:
    names = ["v2.1", "v2.1x", "v10", "v" + "9" * 60, "va"]
    for name in names:
        (tmp_path / name).touch()
    with fixtures.local(admin, tmp_path, order_by="name") as mounted:
        assert list_names(admin, mounted) == ["v2.1", "v2.1x", "v10", "v" + "9" * 60, "va"]


def test_mounts_follow_the_real_entries_in_their_own_order(admin: Client, folder: str) -> None:
    fill(admin, folder, "zebra", "m/")
    with (
        fixtures.virtual(admin, f"{folder}/b", order=2),
        fixtures.virtual(admin, f"{folder}/c", order=1),
        fixtures.virtual(admin, f"{folder}/a/deep", order=2),
        fixtures.virtual(admin, f"{folder}/m", order=0),
    ):
        assert list_names(admin, folder) == ["m", "zebra", "c", "a", "b"]
        answer = admin.ok("/api/fs/list", path=folder, page=2, per_page=2)
        assert [row["name"] for row in answer["content"]] == ["c", "a"]
        assert answer["total"] == 5
        row = answer["content"][0]
        assert (row["is_dir"], row["size"], row["type"], row["sign"]) == (True, 0, 1, "")
        assert [row["name"] for row in admin.ok("/api/fs/dirs", path=folder)] == ["m", "c", "a", "b"]
    assert list_names(admin, folder) == ["m", "zebra"]


ORDERS = {
    ("name", "asc"): ["Sub", "a2", "a10", "b"], ("name", "desc"): ["Sub", "b", "a10", "a2"],
    ("size", ""): ["Sub", "b", "a2", "a10"], ("size", "desc"): ["Sub", "a10", "a2", "b"],
    ("modified", "asc"): ["Sub", "a10", "b", "a2"],
}  # fmt: skip


@pytest.mark.parametrize("folders", ["", "front", "back"])
def test_requested_order_lists_folders_as_requested_or_by_storage(admin: Client, tmp_path: Path, folders: str) -> None:
    with fixtures.local(admin, tmp_path, extract_folder=folders, order_by="name", order_direction="desc") as mounted:
        for number, (name, size) in enumerate([("a10", 9), ("b", 1), ("a2", 5)]):
            (tmp_path / name).write_bytes(b"x" * size)
            os.utime(tmp_path / name, (1000 + number, 1000 + number))
        (tmp_path / "Sub").mkdir()
        for (by, direction), (folder, *files) in ORDERS.items():
            expected = [*files, folder] if folders == "back" else [folder, *files]
            body = admin.ok("/api/fs/list", path=mounted, order_by=by, order_direction=direction)
            query = admin.get("/api/fs/list", path=mounted, order_by=by, order_direction=direction)["data"]
            assert [row["name"] for row in body["content"]] == expected, (by, direction)
            assert query == body
            for page in (1, 2):
                part = admin.ok(
                    "/api/fs/list", path=mounted, order_by=by, order_direction=direction, page=page, per_page=2
                )
                assert [row["name"] for row in part["content"]] == expected[2 * page - 2 : 2 * page]
        assert sorted(list_names(admin, mounted)) == ["Sub", "a10", "a2", "b"]


@pytest.mark.parametrize("fields", [{"order_by": "colour"}, {"order_by": "name", "order_direction": "up"}])
def test_an_order_that_is_not_known_is_refused_with_those_that_are(admin: Client, fields: dict[str, str]) -> None:
    for answer in (admin.post("/api/fs/list", path="/", **fields), admin.get("/api/fs/list", path="/", **fields)):
        assert answer["code"] == 400
        assert list(fields)[-1] in answer["message"]
        assert "'name'" in answer["message"] or "'asc'" in answer["message"]


def test_mounts_stand_behind_the_rest_or_in_the_order_that_is_asked_for(admin: Client, tmp_path: Path) -> None:
    with (
        fixtures.local(admin, tmp_path, extract_folder="front") as mounted,
        fixtures.local(admin, tmp_path, f"{mounted}/m"),
        fixtures.local(admin, tmp_path, f"{mounted}/c"),
    ):
        for name in ("a", "d", "z"):
            (tmp_path / name).mkdir()
        (tmp_path / "file").write_bytes(b"x")
        assert list_names(admin, mounted)[-2:] == ["c", "m"]
        in_order = admin.ok("/api/fs/list", path=mounted, order_by="name", order_direction="desc")
        assert [row["name"] for row in in_order["content"]] == ["z", "m", "d", "c", "a", "file"]
        page = admin.ok("/api/fs/list", path=mounted, order_by="name", page=2, per_page=2)
        assert ([row["name"] for row in page["content"]], page["total"]) == (["d", "m"], 6)
