"""Locks: only the holder of a lock can change the locked entry."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.contract.api.dav_client import LOCK, Dav
from tests.support.service import Client


def test_a_lock_keeps_everybody_else_from_every_change(dav: Dav, other: Dav, admin: Client, folder: str) -> None:
    admin.put(f"{folder}/f", b"old")
    token = dav.lock(f"{folder}/f")
    for client, headers in ((other, {}), (other, {"if": f"(<{token}>)"}), (dav, {})):
        statuses = [
            client.status("PUT", f"{folder}/f", b"new", **headers), client.status("DELETE", f"{folder}/f", **headers),
            client.carry("MOVE", f"{folder}/f", f"{folder}/g", **headers), client.status("DELETE", folder, **headers),
            client.carry("COPY", f"{folder}/f", f"{folder}/f", **headers),
        ]  # fmt: skip
        assert set(statuses) <= {423, 412, 403} and statuses[0] in (423, 412)
        assert client.status("LOCK", f"{folder}/f", LOCK.format(scope="exclusive")) == 423
    shown = other.find(f"{folder}/f", "lockdiscovery")[f"/dav{folder}/f"]["lockdiscovery"]
    assert shown == "activelock"
    assert other.send("GET", f"{folder}/f").content == b"old"
    assert dav.status("PUT", f"{folder}/f", b"mine", **{"if": f"(<{token}>)"}) == 204
    assert other.status("UNLOCK", f"{folder}/f", lock_token=f"<{token}>") == 403
    assert dav.status("UNLOCK", f"{folder}/f", lock_token=f"<{token}>") == 204
    assert dav.status("UNLOCK", f"{folder}/f", lock_token=f"<{token}>") == 409
    assert other.status("PUT", f"{folder}/f", b"free") == 204


def test_a_deep_lock_covers_what_is_below_and_excludes_others_there(dav: Dav, other: Dav, folder: str) -> None:
    token = dav.lock(folder)
    own = {"if": f"<{dav.address}/dav{folder}> (<{token}>)"}
    assert other.status("PUT", f"{folder}/f", b"x") == 423
    assert other.status("LOCK", f"{folder}/f", LOCK.format(scope="shared"), depth="0") == 423
    assert dav.status("PUT", f"{folder}/f", b"x", **own) == 201
    assert dav.status("UNLOCK", f"{folder}/f", lock_token=f"<{token}>") == 204
    below = other.lock(f"{folder}/f")
    answer = dav.send("LOCK", folder, LOCK.format(scope="exclusive"))
    assert answer.status_code == 423 and "no-conflicting-lock" in answer.text and f"/dav{folder}/f" in answer.text
    assert dav.status("DELETE", folder) == 423
    assert other.status("UNLOCK", f"{folder}/f", lock_token=f"<{below}>") == 204


def test_a_shallow_lock_on_a_folder_keeps_its_names(dav: Dav, other: Dav, admin: Client, folder: str) -> None:
    admin.put(f"{folder}/f", b"x")
    dav.lock(folder, depth="0")
    assert [other.status("PUT", f"{folder}/new", b"x"), other.status("DELETE", f"{folder}/f")] == [423, 423]
    assert other.status("PUT", f"{folder}/f", b"y") == 204


def test_shared_locks_are_beside_each_other(dav: Dav, other: Dav, admin: Client, folder: str) -> None:
    admin.put(f"{folder}/f", b"x")
    tokens = [dav.lock(f"{folder}/f", "shared"), other.lock(f"{folder}/f", "shared")]
    assert dav.status("LOCK", f"{folder}/f", LOCK.format(scope="exclusive")) == 423
    assert dav.status("PUT", f"{folder}/f", b"y", **{"if": f"(<{tokens[0]}>)"}) == 204
    assert dav.status("PUT", f"{folder}/f", b"y") == 423


def test_a_lock_ends_unless_it_is_refreshed(dav: Dav, other: Dav, admin: Client, folder: str) -> None:
    admin.put(f"{folder}/f", b"x")
    answer = dav.send("LOCK", f"{folder}/f", LOCK.format(scope="exclusive"), timeout="Infinite, Second-9999999")
    token = answer.headers["lock-token"]
    assert "<D:timeout>Second-3600</D:timeout>" in answer.text
    refreshed = dav.send("LOCK", f"{folder}/f", timeout="Second-1", **{"if": f"({token})"})
    assert refreshed.status_code == 200 and "<D:timeout>Second-1</D:timeout>" in refreshed.text
    assert other.status("LOCK", f"{folder}/f", **{"if": f"({token})"}) == 412
    while other.status("PUT", f"{folder}/f", b"y") == 423:
        pass
    assert dav.status("LOCK", f"{folder}/f", **{"if": f"({token})"}) == 412


def test_what_is_not_there_becomes_an_empty_file_that_is_locked(dav: Dav, other: Dav, folder: str) -> None:
    token = dav.lock(f"{folder}/new")
    assert other.find(f"{folder}/new", "getcontentlength") == {f"/dav{folder}/new": {"getcontentlength": "0"}}
    assert other.status("PUT", f"{folder}/new", b"x") == 423
    assert dav.status("DELETE", f"{folder}/new", **{"if": f"(<{token}>)"}) == 204
    assert other.status("PUT", f"{folder}/new", b"x") == 201, "what is gone is locked no more"
    assert dav.status("LOCK", f"{folder}/none/new", LOCK.format(scope="exclusive")) == 409


def test_of_many_who_lock_at_once_one_gets_it(dav: Dav, admin: Client, folder: str) -> None:
    admin.put(f"{folder}/f", b"x")

    async def race() -> list[int]:
        async with httpx.AsyncClient(base_url=dav.address, headers=dav.http.headers, timeout=60) as client:
            body = LOCK.format(scope="exclusive")
            requests = (client.request("LOCK", f"/dav{folder}/f", content=body) for _ in range(8))
            return [answer.status_code for answer in await asyncio.gather(*requests)]

    statuses = asyncio.run(race())
    assert sorted(statuses) == [200] + [423] * 7


@pytest.mark.parametrize(
    "body", ["<x/>", '<D:lockinfo xmlns:D="DAV:"/>', LOCK.replace("<D:{scope}/>", ""), LOCK.replace("me", "m" * 2000)]
)
def test_a_wish_that_cannot_be_read_locks_nothing(dav: Dav, admin: Client, folder: str, body: str) -> None:
    admin.put(f"{folder}/f", b"x")
    assert dav.status("LOCK", f"{folder}/f", body.replace("{scope}", "exclusive")) == 400
    assert dav.status("UNLOCK", f"{folder}/f") == 400
    assert dav.status("LOCK", f"{folder}/f", LOCK.format(scope="shared"), depth="1") == 400
    assert dav.status("PUT", f"{folder}/f", b"y") == 204


def test_lock_that_is_taken_during_slow_put_keeps_the_old_file(
    dav: Dav, other: Dav, admin: Client, folder: str
) -> None:
    admin.put(f"{folder}/f", b"old")

    def send_slowly() -> Iterator[bytes]:
        yield b"n"
        other.lock(f"{folder}/f")
        time.sleep(1.1)
        yield b"ew"

    assert dav.status("PUT", f"{folder}/f", send_slowly()) == 423
    assert dav.send("GET", f"{folder}/f").content == b"old"
