"""The search of visitors of share links: the share only, with the visibility of its listings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.api import fixtures
from tests.contract.api.search_client import build_index
from tests.contract.attacks.scene import add_rule
from tests.support.service import Client, Service

pytestmark = pytest.mark.xdist_group("search")  # one service

FILES = ("docs/plan.txt", "docs/deep/plan b.txt", "docs/hidden/plan c.txt", "docs/locked/plan d.txt", "plan e.txt")


class SearchedShares:
    """The share links of a user with an indexed folder."""

    def __init__(self, service: Service, admin: Client, owner: Client, folder: str) -> None:
        self.owner, self.folder, self.visitor = owner, folder, service.anonymous()
        for path in FILES:
            file = fixtures.disk(service, f"{folder}/{path}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(path)
        build_index(admin)

    def create(self, *names: str, **fields: Any) -> str:
        files = [f"{self.folder}/{name}" for name in names]
        id: str = self.owner.ok("/api/share/create", files=files, **fields)["id"]
        return id

    def search(self, path: str, keywords: str = "plan", **body: Any) -> dict[str, Any]:
        body = {"page": 1, "per_page": 100} | body
        return self.visitor.post("/api/fs/search", parent=f"/@s/{path}", keywords=keywords, **body)

    def find(self, path: str, keywords: str = "plan", **body: Any) -> list[str]:
        """Return the paths of the hits below `/@s/<id>`, in order of the path."""
        answer = self.search(path, keywords, **body)
        assert answer["code"] == 200, answer
        assert self.folder not in json.dumps(answer)
        root = f"/@s/{path.partition('/')[0]}"
        rows = answer["data"]["content"]
        assert all(row["parent"].startswith(root) for row in rows)
        return sorted(f"{row['parent'].removeprefix(root)}/{row['name']}" for row in rows)


@pytest.fixture
def shares(service: Service, admin: Client, folder: str) -> Iterator[SearchedShares]:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as owner:
        shares = SearchedShares(service, admin, owner, folder)
        yield shares
        shares.visitor.http.close()


def test_search_in_a_shared_folder_finds_nothing_beside_it(shares: SearchedShares) -> None:
    id = shares.create("docs")
    assert shares.find(id) == ["/deep/plan b.txt", "/hidden/plan c.txt", "/locked/plan d.txt", "/plan.txt"]
    assert shares.find(f"{id}/deep") == ["/deep/plan b.txt"]
    assert shares.find(id, "*", scope=1) == ["/deep", "/hidden", "/locked"]
    assert shares.search(f"{id}/..")["code"] != 200
    assert shares.search(f"{id}/missing")["code"] == 500


def test_search_in_several_shared_entries_names_each_path(shares: SearchedShares) -> None:
    id = shares.create("docs/deep", "plan e.txt", "docs/locked")
    assert shares.find(id) == ["/deep/plan b.txt", "/locked/plan d.txt", "/plan e.txt"]
    assert shares.find(id, "deep") == ["/deep"]
    first = shares.search(id, per_page=2)["data"]
    second = shares.search(id, per_page=2, page=2)["data"]
    names = [row["name"] for row in (*first["content"], *second["content"])]
    assert first["total"] == second["total"] == 3
    assert names == ["plan b.txt", "plan d.txt", "plan e.txt"]


def test_search_in_nested_shared_folders_tells_each_hit_once(shares: SearchedShares) -> None:
    id = shares.create("docs", "docs/deep")
    expected = ["/deep/plan b.txt", "/docs/hidden/plan c.txt", "/docs/locked/plan d.txt", "/docs/plan.txt"]
    assert shares.find(id) == expected


def test_search_in_a_share_of_files_finds_their_names(shares: SearchedShares) -> None:
    id = shares.create("docs/plan.txt", "plan e.txt")
    assert shares.find(id) == ["/plan e.txt", "/plan.txt"]
    assert shares.find(id, "absent") == []


def test_search_in_a_share_leaves_out_what_rules_hide(shares: SearchedShares, admin: Client) -> None:
    id, several = shares.create("docs"), shares.create("docs", "plan e.txt")
    with (
        add_rule(admin, f"{shares.folder}/docs", hide="hidden", h_sub=True),
        add_rule(admin, f"{shares.folder}/docs/locked", password="secret", p_sub=True),
    ):
        assert shares.find(id) == ["/deep/plan b.txt", "/plan.txt"]
        assert shares.find(several) == ["/docs/deep/plan b.txt", "/docs/plan.txt", "/plan e.txt"]


def test_search_needs_what_a_listing_of_the_share_needs(shares: SearchedShares) -> None:
    locked, drop = shares.create("docs", pwd="secret"), shares.create("docs", mode="drop")
    assert shares.search(locked)["code"] == 403
    assert shares.search(locked, password="wrong")["code"] == 403
    assert shares.find(locked, password="secret")[0] == "/deep/plan b.txt"
    assert shares.search(drop)["code"] == 403
    shares.owner.ok(f"/api/share/disable?id={locked}")
    assert shares.search(locked, password="secret")["code"] == 500
    assert shares.search("unknown")["message"] == "the share does not exist"
