"""Storages shown under another name: the rules of what is shown count there, too; and its files are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.contract.attacks.scene import EVERYTHING, Scene, add_rule, mount
from tests.support.service import Client

NOBODY = [10**9]
WRITABLE = {"write_conflict_policy": "first", "put_conflict_policy": "first"}


@pytest.fixture(scope="module")
def alias(scene: Scene) -> Iterator[str]:
    """An alias of an alias of the user's folder and of its neighbour `b`, and a user of it."""
    paths = f"one:{scene.base}\none:{scene.root}/team/b"
    with (
        mount(scene.admin, f"/{scene.id}-inner", "Alias", paths=paths, **WRITABLE),
        mount(scene.admin, f"/{scene.id}-outer", "Alias", paths=f"/{scene.id}-inner", **WRITABLE),
    ):
        yield f"/{scene.id}-outer"


@pytest.fixture(scope="module")
def reader(scene: Scene, alias: str) -> Client:
    return scene.make_user("reader", alias, EVERYTHING)


RULES: list[dict[str, Any]] = [
    {"password": "sesame", "p_sub": True},
    {"read_users": NOBODY, "read_users_sub": True},
    {"hide": "^h[.]txt$", "h_sub": True},
]


@pytest.mark.parametrize("rule", RULES, ids=["password", "readers", "hidden"])
def test_what_the_rule_of_the_target_keeps_is_kept_by_the_alias(
    fresh: Scene, reader: Client, rule: dict[str, Any]
) -> None:
    before = fresh.scan_own()
    with add_rule(fresh.admin, f"{fresh.base}/sub", **rule):
        assert reader.post("/api/fs/get", path="/sub/h.txt")["code"] == 403
        listed = reader.post("/api/fs/list", path="/sub")
        assert listed["code"] == 403 or not listed["data"]["total"]
        carry = {"src_dir": "/sub", "dst_dir": "/empty", "names": ["h.txt"]}
        for answer in (
            reader.post("/api/fs/copy", **carry),
            reader.post("/api/fs/move", **carry),
            reader.post("/api/fs/copy", src_dir="/", dst_dir="/empty", names=["sub"]),
            reader.post("/api/fs/rename", path="/sub/h.txt", name="x.txt"),
            reader.post("/api/fs/rename", path="/sub", name="x"),
            reader.post("/api/fs/remove", dir="/", names=["sub"]),
            reader.post("/api/fs/archive/meta", path="/sub/h.txt"),
            reader.post("/api/fs/archive/decompress", src_dir="/sub", dst_dir="/", name=["h.txt"]),
        ):
            assert answer["code"] != 200, answer
        reader.post("/api/fs/remove", dir="/sub", names=["h.txt"])
        reader.post("/api/fs/regex_rename", src_dir="/sub", src_name_regex="h", new_name_regex="x")
        reader.post("/api/fs/recursive_move", src_dir="/sub", dst_dir="/empty")
        assert reader.put("/sub/h.txt", b"new")["code"] in (200, 403)
        fresh.settle()
        after = fresh.scan_own()
        assert {path: after[path] for path in before if path.endswith(".txt")} == {
            path: before[path] for path in before if path.endswith(".txt")
        }
    fresh.settle()


def test_alias_listing_is_only_for_readers_of_target(fresh: Scene, reader: Client) -> None:
    with add_rule(fresh.admin, f"{fresh.base}/sub", read_users=NOBODY):
        assert "sub" not in reader.names("/")
        assert "sub" not in [entry["name"] for entry in reader.ok("/api/fs/dirs", path="/")]
    assert "sub" in reader.names("/")


def test_a_rule_of_one_of_several_sources_is_enough(fresh: Scene, reader: Client) -> None:
    with add_rule(fresh.admin, f"{fresh.root}/team/b", hide="^notes", h_sub=True):
        assert "notes.txt" not in reader.names("/")
        assert reader.post("/api/fs/get", path="/notes.txt")["code"] == 403
    assert "notes.txt" in reader.names("/")


def test_who_may_not_write_at_the_target_does_not_through_the_alias(fresh: Scene, reader: Client) -> None:
    before = fresh.scan_own()
    with add_rule(fresh.admin, f"{fresh.base}/sub", write_users=NOBODY, write_users_sub=True):
        for answer in (
            reader.put("/sub/new.txt", b"new"),
            reader.post("/api/fs/mkdir", path="/sub/new"),
            reader.post("/api/fs/remove", dir="/sub", names=["h.txt"]),
            reader.post("/api/fs/rename", path="/sub/h.txt", name="x"),
            reader.post("/api/fs/copy", src_dir="/", dst_dir="/sub", names=["f.txt"]),
            reader.post("/api/fs/move", src_dir="/", dst_dir="/sub", names=["f.txt"]),
        ):
            assert answer["code"] == 403, answer
    assert fresh.scan_own() == before


def test_alias_link_is_signed_if_target_has_password(fresh: Scene, reader: Client, alias: str) -> None:
    with add_rule(fresh.admin, f"{fresh.base}/sub", password="sesame", p_sub=True):
        entry = reader.ok("/api/fs/get", path="/sub/h.txt", password="sesame")
        assert entry["sign"]
        assert httpx.get(entry["raw_url"], timeout=60).text == "mine: sub/h.txt"
        assert httpx.get(entry["raw_url"].partition("?")[0], timeout=60).status_code == 401


def test_aliases_in_a_circle_end(fresh: Scene) -> None:
    circle, other = f"/{fresh.id}-circle", f"/{fresh.id}-square"
    with (
        mount(fresh.admin, circle, "Alias", paths=other),
        mount(fresh.admin, other, "Alias", paths=f"{circle}/deeper"),
        add_rule(fresh.admin, fresh.base, hide="^nothing$"),
    ):
        assert "circle" in fresh.admin.post("/api/fs/list", path=circle)["message"]
        assert fresh.admin.post("/api/fs/get", path=f"{circle}/x")["code"] != 200
        assert f"{fresh.id}-circle" in fresh.admin.names("/")


def test_an_alias_over_local_is_read_by_d_and_its_addresses_say_so(fresh: Scene, reader: Client, alias: str) -> None:
    raw_url = reader.ok("/api/fs/get", path="/f.txt")["raw_url"]
    link = fresh.admin.ok("/api/fs/link", path=f"{alias}/f.txt")
    for url in (raw_url, link["url"]):
        assert url.startswith(f"{fresh.service.address}/d{alias}/f.txt?"), url
        for address in (url, url.replace("/d/", "/p/", 1)):
            answer = httpx.get(address, headers={"range": "bytes=0-3"}, timeout=60)
            assert (answer.status_code, answer.text) == (206, "mine")
    assert link["header"] is None
