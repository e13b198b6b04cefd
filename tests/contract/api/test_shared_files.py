"""Share links as visitors use them, over HTTP."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import ZipFile

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import guest
from tests.contract.attacks.scene import add_rule
from tests.support.service import Client, Service

SHARE_EXPIRED = (500, "the share has expired or is no longer valid")
UNKNOWN = (500, "the share does not exist")
WRONG_PASSWORD = (403, "password is incorrect or you have no permission")
NOT_SHARED = ("/..", "/../..", "/%2e%2e", "/..\\..", "/sub/../../secret.txt", "/secret.txt", "/sub/x/../../..")


class Shares:
    """The share links of a user, and a folder of theirs: `a.txt`, `sub/b.txt`, `x.zip`, and `secret.txt` beside it."""

    def __init__(self, service: Service, admin: Client, owner: Client, folder: str) -> None:
        self.admin, self.owner, self.folder = admin, owner, f"{folder}/shared"
        self.visitor = service.anonymous()
        self.owner_id = next(
            row["id"]
            for row in admin.get("/api/admin/user/list")["data"]["content"]
            if row["username"] == owner.get("/api/me")["data"]["username"]
        )
        self.disk = fixtures.disk(service, self.folder)
        (self.disk / "sub").mkdir(parents=True)
        (self.disk / "a.txt").write_text("letters")
        (self.disk / "sub/b.txt").write_text("more letters")
        (self.disk.parent / "secret.txt").write_text("a secret")
        with ZipFile(self.disk / "x.zip", "w") as archive:
            archive.writestr("in/side.txt", "packed")

    def create(self, *names: str, **fields: Any) -> str:
        files = [f"{self.folder}/{name}".rstrip("/") for name in names or ("",)]
        id: str = self.owner.ok("/api/share/create", files=files, **fields)["id"]
        return id

    def update(self, id: str, **fields: Any) -> None:
        share = self.owner.get("/api/share/get", id=id)["data"]
        self.owner.ok("/api/share/update", **share | fields)

    def list(self, path: str, password: str = "", **fields: Any) -> dict[str, Any]:
        return self.visitor.post("/api/fs/list", path=f"/@s/{path}", password=password, **fields)

    def names(self, path: str, password: str = "", **fields: Any) -> list[str]:
        answer = self.list(path, password, **fields)
        assert answer["code"] == 200, answer
        return [entry["name"] for entry in answer["data"]["content"]]

    def get(self, path: str, password: str = "") -> dict[str, Any]:
        return self.visitor.post("/api/fs/get", path=f"/@s/{path}", password=password)

    def refuse(self, path: str, password: str = "") -> tuple[int, str]:
        answer = self.list(path, password)
        return answer["code"], answer["message"]

    def change_owner(self, **fields: Any) -> None:
        row = self.admin.get("/api/admin/user/get", id=self.owner_id)["data"]
        self.admin.ok("/api/admin/user/update", **row | fields)


@pytest.fixture
def shares(service: Service, admin: Client, folder: str) -> Iterator[Shares]:
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as owner:
        shares = Shares(service, admin, owner, folder)
        yield shares
        shares.visitor.http.close()


@pytest.mark.parametrize("prefix", ["", "/openlist"])
def test_shared_folder_is_read_without_an_account(shares: Shares, prefix: str) -> None:
    id = shares.create(readme="# r", header="h")
    answer = shares.visitor.post(f"{prefix}/api/fs/list", path=f"/@s/{id}")
    assert answer["code"] == 200, answer
    data = answer["data"]
    assert sorted(entry["name"] for entry in data["content"]) == ["a.txt", "sub", "x.zip"]
    known = {name: data[name] for name in ("total", "readme", "header", "write", "provider")}
    assert known == {"total": 3, "readme": "# r", "header": "h", "write": False, "provider": "unknown"}
    assert {entry["sign"] for entry in data["content"]} == {""}
    assert data["share"]["creator"] == shares.owner.get("/api/me")["data"]["username"]
    file = shares.visitor.post(f"{prefix}/api/fs/get", path=f"/@s/{id}/sub/b.txt")["data"]
    assert file["raw_url"] == f"{shares.visitor.address}{prefix}/sd/{id}/sub/b.txt" and file["related"] is None
    assert shares.visitor.http.get(file["raw_url"]).text == "more letters"
    assert shares.folder not in json.dumps([answer, file]) and "shared" in shares.get(id)["data"]["name"]


def test_bytes_of_a_shared_file_have_ranges_and_validators(shares: Shares) -> None:
    id = shares.create("a.txt", pwd="a b")
    url = shares.get(id, "a b")["data"]["raw_url"]
    assert url.endswith(f"/sd/{id}/?pwd=a%20b")
    whole = shares.visitor.http.get(url)
    assert (whole.status_code, whole.text) == (200, "letters") and "a.txt" in whole.headers["content-disposition"]
    part = shares.visitor.http.get(url, headers={"range": "bytes=1-2"})
    assert (part.status_code, part.text) == (206, "et")
    assert shares.visitor.http.get(url, headers={"if-none-match": whole.headers["etag"]}).status_code == 304
    head = shares.visitor.http.head(url)
    assert (head.status_code, head.headers["content-length"], head.text) == (200, "7", "")
    assert shares.visitor.http.get(url.partition("?")[0]).status_code == 403
    assert shares.visitor.http.post(url).status_code == 405
    answer = shares.visitor.post("/openlist/api/fs/list", path=f"/@s/{id}", password="a b")
    assert (answer["code"], answer["message"]) == (500, "failed list sharing: not a folder")


def test_several_files_are_a_virtual_folder_with_distinct_names(shares: Shares) -> None:
    (shares.disk / "sub/a.txt").write_text("the other")
    id = shares.create("a.txt", "sub/a.txt", "sub", "missing.txt", order_by="name")
    assert shares.names(id) == ["sub", "a (2).txt", "a.txt"]
    assert shares.visitor.http.get(shares.get(f"{id}/a (2).txt")["data"]["raw_url"]).text == "the other"
    assert shares.names(f"{id}/sub") == ["a.txt", "b.txt"]
    assert shares.get(id)["data"]["is_dir"] and shares.get(f"{id}/missing.txt")["code"] == 500
    assert shares.names(id, page=2, per_page=2) == ["a.txt"]
    for path in ("", "/", "/x.zip", "/sub/x"):
        assert shares.visitor.http.get(f"/sd/{id}{path or '/'}").status_code in (404, 500)


def test_order_of_a_share_link_is_used_unless_a_request_has_one(shares: Shares) -> None:
    id = shares.create(order_by="name", order_direction="desc", extract_folder="back")
    assert shares.names(id) == ["x.zip", "a.txt", "sub"]
    assert shares.names(id, order_by="name") == ["sub", "a.txt", "x.zip"]


def test_members_of_a_shared_archive_follow_the_setting(shares: Shares) -> None:
    id = shares.create(pwd="p")
    body = {"path": f"/@s/{id}/x.zip", "password": "p"}
    refused = shares.visitor.post("/api/fs/archive/list", **body, inner_path="/in")
    assert (refused["code"], refused["message"]) == (403, "sharing archives previewing is not allowed")
    with fixtures.settings(shares.admin, share_archive_preview="true"):
        meta = shares.visitor.ok("/api/fs/archive/meta", **body)
        assert (meta["raw_url"], meta["sign"]) == (f"{shares.visitor.address}/sad/{id}/x.zip?pwd=p", "")
        inside = shares.visitor.ok("/api/fs/archive/list", **body, inner_path="/in")["content"]
        assert [entry["name"] for entry in inside] == ["side.txt"]
        assert shares.visitor.http.get(f"{meta['raw_url']}&inner=in/side.txt").text == "packed"
        body |= {"path": f"/@s/{id}/y.zip"}
        missing = shares.visitor.post("/openlist/api/fs/archive/list", **body, inner_path="/")
        assert (missing["code"], missing["message"]) == (500, "failed list archive of sharing: object not found")
        body["path"] = f"/@s/{id}/x.zip"
        shares.change_owner(permission=fixtures.ALL_RIGHTS & ~fixtures.READ_ARCHIVES)
        assert shares.visitor.post("/api/fs/archive/list", **body, inner_path="/in")["code"] == 403
    assert shares.visitor.http.get(f"{meta['raw_url']}&inner=in/side.txt").status_code == 403


def test_share_link_ends_with_its_end_its_switch_and_its_visits(shares: Shares) -> None:
    id = shares.create()
    shares.update(id, expires="2020-01-01T00:00:00Z")
    assert shares.refuse(id) == SHARE_EXPIRED and shares.get(id)["message"] == SHARE_EXPIRED[1]
    assert shares.visitor.http.get(f"/sd/{id}/a.txt").status_code == 404
    shares.update(id, expires="2040-01-01T00:00:00Z")
    assert shares.names(id)
    shares.owner.ok("/api/share/disable", params={"id": id})
    assert shares.refuse(id) == SHARE_EXPIRED
    shares.owner.ok("/api/share/delete", params={"id": id})
    assert shares.refuse(id) == UNKNOWN == shares.refuse("?") == shares.refuse("x" * 500)
    assert shares.visitor.http.get(f"/sd/{id}/a.txt").status_code == 404
    assert shares.refuse("")[0] == 400
    full = shares.create(max_accessed=1, accessed=1)
    assert shares.refuse(full) == SHARE_EXPIRED
    shares.update(full, accessed=0)
    assert shares.names(full) and shares.names(full) and shares.visitor.http.get(f"/sd/{full}/a.txt").text == "letters"
    assert shares.owner.get("/api/share/get", id=full)["data"]["accessed"] == 1


def test_share_link_ends_with_the_rights_of_its_owner(shares: Shares, service: Service, admin: Client) -> None:
    id = shares.create()
    url = f"/sd/{id}/a.txt"
    assert shares.names(id)
    for fields in (
        {"permission": fixtures.ALL_RIGHTS & ~(1 << 14)}, {"disabled": True}, {"base_path": "/files/elsewhere"},
    ):  # fmt: skip
        shares.change_owner(**fields)
        assert shares.refuse(id) == SHARE_EXPIRED and shares.visitor.http.get(url).status_code == 404
        shares.change_owner(permission=fixtures.ALL_RIGHTS, disabled=False, base_path="/")
        assert shares.names(id)
    with fixtures.user(service, admin, fixtures.ALL_RIGHTS) as other:
        deleted = other.ok("/api/share/create", files=[shares.folder])["id"]
        assert shares.names(deleted)
    assert shares.refuse(deleted) == UNKNOWN


def test_rule_that_locks_the_shared_folder_ends_the_share(shares: Shares) -> None:
    shares.change_owner(permission=fixtures.ALL_RIGHTS & ~0b11)
    id = shares.create()
    with add_rule(shares.admin, shares.folder, password="locked", p_sub=True):
        assert shares.refuse(id) == SHARE_EXPIRED and shares.refuse(id, "locked") == SHARE_EXPIRED
    with add_rule(shares.admin, shares.folder, read_users=[10**6], read_users_sub=True):
        assert shares.refuse(id) == SHARE_EXPIRED
    assert shares.names(id)


def test_rules_below_the_shared_folder_hold_for_visitors(shares: Shares) -> None:
    id = shares.create()
    with add_rule(shares.admin, f"{shares.folder}/sub", password="locked", p_sub=True):
        assert shares.refuse(f"{id}/sub") == shares.refuse(f"{id}/sub", "locked") == WRONG_PASSWORD
        assert shares.visitor.http.get(f"/sd/{id}/sub/b.txt").status_code == 403
    with add_rule(shares.admin, shares.folder, hide="^a", h_sub=True):
        assert sorted(shares.names(id)) == ["sub", "x.zip"]
        assert shares.get(f"{id}/a.txt")["code"] == 403
        assert shares.visitor.http.get(f"/sd/{id}/a.txt").status_code == 403


def test_administrator_shares_a_locked_folder_without_what_is_locked_below(shares: Shares) -> None:
    id = shares.admin.ok("/api/share/create", files=[shares.folder])["id"]
    try:
        with (
            add_rule(shares.admin, shares.folder, password="locked", p_sub=True),
            add_rule(shares.admin, f"{shares.folder}/sub", password="other", p_sub=True),
        ):
            assert sorted(shares.names(id)) == ["a.txt", "sub", "x.zip"]
            assert shares.refuse(f"{id}/sub") == WRONG_PASSWORD
        assert shares.list(id, refresh=True)["code"] == 403
    finally:
        shares.admin.ok("/api/share/delete", params={"id": id})


def test_wrong_passwords_lock_the_share_for_the_address(shares: Shares) -> None:
    id = shares.create(pwd="right")
    assert shares.refuse(id) == WRONG_PASSWORD
    assert [shares.refuse(id, f"wrong {number}")[0] for number in range(6)] == [403] * 5 + [429]
    assert shares.refuse(id, "right")[0] == 429
    assert shares.visitor.http.get(f"/sd/{id}/a.txt?pwd=right").status_code == 429
    assert shares.names(shares.create(pwd="right"), "right")


@pytest.mark.parametrize("text", NOT_SHARED)
def test_path_out_of_a_share_leads_nowhere(shares: Shares, text: str) -> None:
    id = shares.create("sub")
    single, several = shares.create("sub"), shares.create("sub", "a.txt")
    for path in (f"{single}{text}", f"{several}{text}", f"{several}/sub{text}"):
        for answer in (shares.list(path), shares.get(path)):
            assert answer["code"] != 200 and "secret" not in json.dumps(answer).replace(text.strip("/"), ""), answer
            assert shares.folder not in json.dumps(answer)
        page = shares.visitor.http.get(f"/sd/{path.replace('..', '%2E%2E')}")
        assert page.status_code != 200 and "a secret" not in page.text and shares.folder not in page.text
    assert id


def test_share_path_leads_nowhere_on_other_routes(shares: Shares) -> None:
    id = shares.create()
    path, client = f"/@s/{id}", shares.owner
    for route, body in (
        ("mkdir", {"path": f"{path}/new"}), ("dirs", {"path": path}),
        ("rename", {"path": f"{path}/a.txt", "name": "b"}),
        ("remove", {"dir": path, "names": ["a.txt"]}), ("other", {"path": f"{path}/a.txt", "method": "x"}),
        ("copy", {"src_dir": path, "dst_dir": shares.folder, "names": ["a.txt"]}),
        ("move", {"src_dir": path, "dst_dir": shares.folder, "names": ["a.txt"]}),
    ):  # fmt: skip
        answer = client.post(f"/api/fs/{route}", **body)
        assert answer["code"] != 200, (route, answer)
    assert client.put(f"{path}/new.txt", b"x")["code"] != 200
    assert client.http.request("PROPFIND", f"/dav{path}").status_code != 207
    assert sorted(entry.name for entry in shares.disk.iterdir()) == ["a.txt", "sub", "x.zip"]


def test_alias_shows_a_share_no_more_than_its_owner_sees(shares: Shares, admin: Client) -> None:
    mount = f"/alias-{uuid4().hex}"
    with fixtures.mount(admin, "Alias", mount, {"paths": f"x:{shares.folder}"}):
        shares.change_owner(permission=fixtures.ALL_RIGHTS & ~0b11)
        id = shares.owner.ok("/api/share/create", files=[mount])["id"]
        first = shares.names(id)
        with add_rule(admin, shares.folder, password="locked", p_sub=True):
            inner = f"{id}/{first[0]}" if "x" in first else id
            assert shares.refuse(inner)[0] != 200


def test_disabled_guest_opens_share_links_only(shares: Shares, admin: Client) -> None:
    id = shares.create()
    refused = (401, "Guest user is disabled, login please")
    assert shares.names(id)
    for route in ("list", "get", "archive/meta", "archive/list"):
        answer = shares.visitor.post(f"/api/fs/{route}", path=shares.folder)
        assert (answer["code"], answer["message"]) == refused
        assert shares.visitor.get(f"/api/fs/{route}", path="/")["code"] == 401
    with guest(admin, permission=0) as visitor:
        assert visitor.ok("/api/fs/list", path=f"/@s/{id}")["total"] == 3


def test_shared_file_without_its_storage_names_no_path(shares: Shares) -> None:
    id = shares.create()
    shutil.rmtree(Path(shares.disk))
    answer = shares.visitor.post("/openlist/api/fs/list", path=f"/@s/{id}")
    assert answer["message"] == "failed list sharing: object not found"
    page = shares.visitor.http.get(f"/sd/{id}/a.txt")
    assert page.status_code == 404 and "shared" not in page.text
