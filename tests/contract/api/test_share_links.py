"""Share links over HTTP: `/api/share/*`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import guest
from tests.support.service import Client, Service

SHARE, CUSTOM_ID = 1 << 14, 1 << 15
FIELDS = {
    "id", "files", "creator", "creator_role", "expires", "pwd", "accessed", "max_accessed", "disabled", "remark",
    "readme", "header", "order_by", "order_direction", "extract_folder", "mode", "max_file_size", "max_total_size",
    "max_files", "extensions",
}  # fmt: skip
ID_TEXT = "share id can only contain letters, numbers, underscores, hyphens, and CJK characters"
ENDED_TEXT = "expires is in the past: a share link that has ended opens nothing"
ROUTES = ("create", "update", "delete", "enable", "disable", "list")
NOT_FOUND = (404, "sharing not found")


@pytest.fixture
def sharer(service: Service, admin: Client) -> Iterator[Client]:
    """A user who may share, with an id of choice."""
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as client:
        yield client


def refuse(client: Client, path: str, **body: Any) -> tuple[int, str]:
    answer = client.post(path, **body)
    return answer["code"], answer["message"]


def test_share_link_has_the_fields_that_clients_know(sharer: Client) -> None:
    name = sharer.get("/api/me")["data"]["username"]
    body = {
        "files": ["/files/a", "files\\b/"], "expires": "2030-01-02T03:04:05.000Z", "pwd": "secret", "max_accessed": 5,
        "remark": "r", "readme": "# x", "header": "h", "order_by": "name", "order_direction": "desc",
        "extract_folder": "front", "disabled": False, "id": "", "creator": name, "accessed": 0, "creator_role": 0,
    }  # fmt: skip
    share = sharer.ok("/api/share/create", **body)
    assert set(share) == FIELDS
    assert share["files"] == ["/files/a", "/files/b"] and share["expires"] == "2030-01-02T03:04:05Z"
    assert {name: share[name] for name in ("pwd", "max_accessed", "creator", "mode")} == {
        "pwd": "secret", "max_accessed": 5, "creator": name, "mode": "read",
    }  # fmt: skip
    assert len(share["id"]) >= 11 and share["id"].isalnum()
    assert sharer.get("/api/share/get", id=share["id"])["data"] == share
    assert sharer.get("/api/share/list", page=1, per_page=10)["data"] == {"content": [share], "total": 1}
    assert sharer.ok("/openlist/api/share/list", page=1, per_page=10)["content"] == [share]


def test_share_links_are_listed_in_pages_of_ones_own(service: Service, admin: Client, sharer: Client) -> None:
    ids = sorted(sharer.ok("/api/share/create", files=["/files"])["id"] for _ in range(3))
    page = sharer.ok("/api/share/list", page=2, per_page=2)
    assert ([share["id"] for share in page["content"]], page["total"]) == (ids[2:], 3)
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as other:
        assert other.ok("/api/share/list", page=1, per_page=10) == {"content": [], "total": 0}
        assert refuse(other, "/api/share/update", id=ids[0], files=["/files"]) == NOT_FOUND
        for verb in ("delete", "enable", "disable"):
            answer = other.post(f"/api/share/{verb}", params={"id": ids[0]})
            assert (answer["code"], answer["message"]) == NOT_FOUND
        assert other.get("/api/share/get", id=ids[0])["code"] == 404
    assert set(ids) <= {share["id"] for share in admin.ok("/api/share/list", page=1, per_page=0)["content"]}
    assert admin.get("/api/share/get", id=ids[0])["data"]["id"] == ids[0]


def test_update_replaces_the_fields_of_a_share_link(sharer: Client) -> None:
    share = sharer.ok("/api/share/create", files=["/files"], pwd="a", remark="b", max_accessed=3)
    updated = sharer.ok("/api/share/update", id=share["id"], files=["/files/x"], accessed=2, readme="c")
    assert updated == share | {
        "files": ["/files/x"],
        "pwd": "",
        "remark": "",
        "max_accessed": 0,
        "readme": "c",
        "accessed": 2,
    }
    moved = sharer.ok("/api/share/update", **updated | {"new_id": f"分享_{uuid4().hex}"})
    assert moved["accessed"] == 2 and moved["id"].startswith("分享_")
    assert sharer.get("/api/share/get", id=share["id"])["code"] == 404
    assert refuse(sharer, "/api/share/create", files=["/files"], id=moved["id"]) == (500, "sharing already exist")
    other = sharer.ok("/api/share/create", files=["/files"])
    body = other | {"new_id": moved["id"]}
    assert refuse(sharer, "/api/share/update", **body) == (500, "sharing id already exists")


def test_update_accepts_an_end_in_the_past(sharer: Client) -> None:
    share = sharer.ok("/api/share/create", files=["/files/not-there-yet"], expires="2040-01-01T00:00:00Z")
    ended = sharer.ok("/api/share/update", **share | {"expires": "2020-01-01T00:00:00Z"})
    assert ended["expires"] == "2020-01-01T00:00:00Z"
    assert sharer.ok("/api/share/update", **ended | {"remark": "over"})["remark"] == "over"


def test_share_link_is_disabled_enabled_and_deleted(sharer: Client) -> None:
    id = sharer.ok("/api/share/create", files=["/files"])["id"]
    for verb, disabled in (("disable", True), ("disable", True), ("enable", False)):
        assert sharer.ok(f"/api/share/{verb}", params={"id": id}) is None
        assert sharer.get("/api/share/get", id=id)["data"]["disabled"] is disabled
    assert sharer.ok("/api/share/delete", params={"id": id}) is None
    assert sharer.ok("/api/share/list", page=1, per_page=10) == {"content": [], "total": 0}
    answer = sharer.post("/api/share/delete", params={"id": id})
    assert (answer["code"], answer["message"]) == NOT_FOUND


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"files": []}, (400, "must add at least 1 object")),
        ({"files": [""]}, (400, "must add at least 1 object")),
        ({"files": ["/x/../y"]}, (403, "using relative path is not allowed")),
        ({"files": ["/x"], "id": "a b"}, (400, ID_TEXT)),
        ({"files": ["/x"], "id": "a" * 65}, (400, "share id must be at most 64 characters")),
        ({"files": ["/x"], "expires": "tomorrow"}, (400, "expires is not a time as RFC 3339")),
        ({"files": ["/x"], "expires": "2020-01-01T00:00:00Z"}, (400, ENDED_TEXT)),
        ({"files": ["/x"], "creator": "nobody"}, (400, "no such a user")),
        ({"files": ["/x"], "order_by": "color"}, (400, "order_by must be one of name, size, modified")),
    ],
)  # fmt: skip
def test_share_link_with_a_wrong_field_is_refused(
    sharer: Client, body: dict[str, Any], refusal: tuple[int, str]
) -> None:
    assert refuse(sharer, "/api/share/create", **body) == refusal
    assert sharer.ok("/api/share/list", page=1, per_page=0)["total"] == 0


def test_sharing_needs_its_right_and_a_chosen_id_another(service: Service, admin: Client) -> None:
    denied = (403, "permission denied")
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~SHARE) as client:
        assert refuse(client, "/api/share/create", files=["/files"]) == denied
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS & ~CUSTOM_ID) as client:
        assert refuse(client, "/api/share/create", files=["/files"], id=uuid4().hex) == denied
        share = client.ok("/api/share/create", files=["/files"])
        assert refuse(client, "/api/share/update", **share | {"new_id": uuid4().hex}) == denied
        assert client.ok("/api/share/update", **share | {"new_id": share["id"]}) == share
    with fixtures.user(service, admin, SHARE) as client:
        assert refuse(client, "/api/share/create", files=["/files"], mode="drop") == denied


def test_path_outside_the_base_path_is_not_shared(service: Service, admin: Client, folder: str) -> None:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS, base_path=folder) as client:
        for path in ("/", "/files", f"{folder}x"):
            refusal = (500, f"permission denied to share path [{path}]")
            assert refuse(client, "/api/share/create", files=[f"{folder}/a", path]) == refusal
        share = client.ok("/api/share/create", files=[folder])
        name = share["creator"]
        assert refuse(admin, "/api/share/create", files=["/files"], creator=name)[0] == 500
        other = admin.ok("/api/share/create", files=[folder], creator=name)
        assert (other["creator"], other["creator_role"]) == (name, 0)
        assert client.ok("/api/share/list", page=1, per_page=0)["total"] == 2
        assert admin.ok("/api/share/update", **share | {"creator": ""})["creator"] == name


def test_share_links_of_a_deleted_user_are_deleted(service: Service, admin: Client) -> None:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as client:
        id = client.ok("/api/share/create", files=["/files"])["id"]
    assert admin.get("/api/share/get", id=id)["code"] == 404


def test_guest_has_no_share_links(admin: Client) -> None:
    with guest(admin, permission=0xFFFF) as visitor:
        for route in ROUTES:
            assert refuse(visitor, f"/api/share/{route}", files=["/files"]) == (403, "You are a guest")
