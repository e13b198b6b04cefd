"""Leaked links: their content, their lifetime, their owner, and the places where one is required."""

from __future__ import annotations

import time

import httpx
import pytest

from tests.contract.api import fixtures
from tests.contract.api.download_client import (
    check_page,
    make_old_signature,
    make_signature,
    make_url,
    read_key,
)
from tests.contract.attacks.scene import PASSWORD, Scene, add_rule
from tests.support.service import Client

SHORT = "a-token-of-31-characters-------"


def get(scene: Scene, path: str, sign: str | None = None) -> httpx.Response:
    """Return the bytes of a file for a client without an account."""
    return scene.service.anonymous().http.get(make_url("d", path, sign))


def read_token(admin: Client) -> str:
    return str(admin.get("/api/admin/setting/get", key="token")["data"]["value"])


def test_no_signed_link_allows_guessing_the_permanent_token(scene: Scene, admin: Client) -> None:
    path = f"{scene.base}/f.txt"
    token, sign = read_token(admin), admin.ok("/api/fs/get", path=path)["sign"]
    for key in (token, f"{token}-archive"):
        assert sign.partition(":")[0] != make_old_signature(key, path).partition(":")[0]
        check_page(get(scene, path, make_old_signature(key, path)), 401, "sign invalid")
    with fixtures.settings(admin, token="x" * 40):
        pass  # a token that is saved again is a new token
    check_page(get(scene, path, sign), 401, "sign invalid")


def test_a_new_token_ends_the_links_of_the_old_one(scene: Scene, admin: Client) -> None:
    path = f"{scene.base}/f.txt"
    sign = admin.ok("/api/fs/get", path=path)["sign"]
    assert get(scene, path, sign).status_code == 200
    assert len(admin.ok("/api/admin/setting/reset_token")) >= 32
    check_page(get(scene, path, sign), 401, "sign invalid")
    assert get(scene, path, admin.ok("/api/fs/get", path=path)["sign"]).status_code == 200


def test_a_token_that_can_be_guessed_is_refused_with_the_reason(admin: Client) -> None:
    assert len(SHORT) == 31
    answer = admin.envelope(admin.http.post("/api/admin/setting/save", json=[{"key": "token", "value": SHORT}]))
    assert answer["code"] == 500 and "a token needs at least 32 characters" in answer["message"]
    assert read_token(admin) != SHORT
    for row in admin.post("/api/admin/setting/default")["data"]:
        assert row["key"] != "token" or len(row["value"]) >= 32


def test_the_expiry_of_links_applies_to_those_that_were_given_out_before(scene: Scene, admin: Client) -> None:
    path = f"{scene.base}/f.txt"
    old, new = (make_signature(read_key(admin), path, issued=int(time.time()) - hours * 3600) for hours in (2, 0))
    assert get(scene, path, old).status_code == get(scene, path, new).status_code == 200
    with fixtures.settings(admin, link_expiration="1"):
        check_page(get(scene, path, old), 401, "sign expired")
        assert get(scene, path, new).status_code == 200


def test_a_link_ends_when_its_user_is_disabled_or_may_no_longer_read(scene: Scene, admin: Client) -> None:
    user, path = scene.make_user("leaver", scene.base), f"{scene.base}/f.txt"
    row = admin.get("/api/admin/user/get", id=scene.find_id("leaver"))["data"]
    sign = user.ok("/api/fs/get", path="/f.txt")["sign"]
    assert get(scene, path, sign).status_code == 200
    for change in ({"disabled": True}, {"base_path": f"{scene.root}/team/ab"}):
        admin.ok("/api/admin/user/update", **(row | change))
        check_page(get(scene, path, sign), 401, "sign revoked")
        with fixtures.settings(admin, link_follows_user="false"):
            assert get(scene, path, sign).status_code == 200
    admin.ok("/api/admin/user/update", **row)
    for rule in ({"read_users": [1]}, {"hide": "^f.txt$"}):
        assert get(scene, path, sign).status_code == 200
        with add_rule(admin, scene.base, **rule, read_users_sub=True):
            check_page(get(scene, path, sign), 401, "sign revoked")
    admin.ok("/api/admin/user/delete", params={"id": row["id"]})
    check_page(get(scene, path, sign), 401, "sign revoked")


@pytest.mark.parametrize(
    ("rule", "guarded"),
    [
        ({"hide": "^f.txt$"}, ["f.txt"]),
        ({"hide": "^sub$"}, ["sub/h.txt"]),
        ({"hide": "^h.txt$", "h_sub": True}, ["sub/h.txt"]),
        ({"password": PASSWORD, "p_sub": True}, ["f.txt", "g.txt", "sub/h.txt"]),
        ({"read_users": [1], "read_users_sub": True}, ["f.txt", "g.txt", "sub/h.txt"]),
    ],
)
def test_what_a_rule_guards_is_signed_also_where_links_are_not(
    scene: Scene, admin: Client, rule: dict[str, object], guarded: list[str]
) -> None:
    with fixtures.settings(admin, sign_all="false"), add_rule(admin, scene.base, **rule):
        for name in ("f.txt", "g.txt", "sub/h.txt"):
            path = f"{scene.base}/{name}"
            assert get(scene, path).status_code == (401 if name in guarded else 200), name
            entry = admin.ok("/api/fs/get", path=path)
            assert bool(entry["sign"]) == (name in guarded)
            assert get(scene, path, entry["sign"]).status_code == 200
            folder, _, last = path.rpartition("/")
            signs = {listed["name"]: listed["sign"] for listed in admin.ok("/api/fs/list", path=folder)["content"]}
            assert get(scene, path, signs[last]).status_code == 200
