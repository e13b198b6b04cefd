"""Helpers of the search tests: a search that must succeed, a complete index, a walk by the same caller."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from tests.contract.api.accounts import get_data
from tests.support.service import Client

WAIT_SECONDS = 120.0  # that a test waits for the index
EVERYTHING = "*"  # matches every name


class Row(NamedTuple):
    """The facts of an entry that a listing and a search share; `modified` to the second."""

    parent: str
    name: str
    is_dir: bool
    size: int
    type: int
    modified: str

    @classmethod
    def make(cls, parent: str, row: dict[str, Any]) -> Row:
        return cls(parent, row["name"], row["is_dir"], row["size"], row["type"], row["modified"][:19])

    @property
    def path(self) -> str:
        return f"{self.parent.rstrip('/')}/{self.name}"


def search(client: Client, keywords: str, parent: str = "/", **body: Any) -> dict[str, Any]:
    """The answer's data."""
    body = {"page": 1, "per_page": 1000} | body
    data: dict[str, Any] = get_data(client.post("/api/fs/search", keywords=keywords, parent=parent, **body))
    return data


def find(client: Client, keywords: str, parent: str = "/", **body: Any) -> list[str]:
    """The paths of all that is found, in order."""
    data = search(client, keywords, parent, **body)
    assert data["total"] == len(data["content"])
    return [Row.make(row["parent"], row).path for row in data["content"]]


def find_all(client: Client, parent: str, **body: Any) -> list[Row]:
    """Every name that the caller may find, page by page."""
    rows: list[Row] = []
    for page in range(1, 100):
        data = search(client, EVERYTHING, parent, page=page, per_page=16, **body)
        rows += [Row.make(row["parent"], row) for row in data["content"]]
        if len(rows) >= data["total"]:
            assert len(rows) == data["total"]
            return rows
    raise AssertionError("the pages have no end")


def walk(client: Client, top: str, base: str = "", password: str = "") -> set[Row]:
    """Return the entries that the caller sees who lists `top` and every folder that a listing shows; `base`: their own
    root."""
    rows_found: set[Row] = set()
    waiting = [top]
    for folder in waiting:  # which grows
        answer = client.post("/api/fs/list", path=folder, password=password)
        for row in answer["data"]["content"] if answer["code"] == 200 else ():
            rows_found.add(Row.make(f"{base}{folder}".rstrip("/") or "/", row))
            if row["is_dir"]:
                waiting.append(f"{folder.rstrip('/')}/{row['name']}")
    return rows_found


def wait_for_index(admin: Client) -> None:
    """Until no run is under way."""
    end = time.monotonic() + WAIT_SECONDS
    while not get_data(admin.get("/api/admin/index/progress"))["is_done"]:
        assert time.monotonic() < end
        time.sleep(0.02)


def build_index(admin: Client) -> None:
    """Read all storages again."""
    wait_for_index(admin)
    assert admin.post("/api/admin/index/build")["code"] in (200, 400)  # one may have begun meanwhile
    wait_for_index(admin)
