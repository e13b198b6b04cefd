"""Sign-in by WebDAV: Basic, over connections that cannot be intercepted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import People, enrol, guest
from tests.contract.api.dav_client import EVERYTHING, Dav, make_basic
from tests.support.service import ADMIN_PASSWORD, Client, Service

READ, MANAGE = 1 << 8, 1 << 9
PASSWORD = "only for this test"
PROPFIND = {"depth": "0"}


def test_who_is_nobody_is_asked_who_they_are(service: Service, people: People) -> None:
    nobody = Dav(service)
    answer = nobody.send("PROPFIND", "/", depth="0")
    assert answer.status_code == 401 and answer.headers["www-authenticate"].startswith("Basic ")
    assert nobody.send("OPTIONS", "/").headers["dav"] == "1, 2"
    person = people.new(EVERYTHING)
    for wrong in (make_basic(person.name, "wrong"), "Basic !!!", "Basic bm9jb2xvbg==", "Digest x", "Bearer nothing"):
        assert nobody.status("PROPFIND", "/", authorization=wrong, **PROPFIND) == 401
    assert Dav(service, person).status("PROPFIND", "/", **PROPFIND) == 207
    assert Dav(service, person, "/openlist/dav").status("PROPFIND", "/", **PROPFIND) == 207


def test_the_permanent_token_is_the_administrators(service: Service, admin: Client) -> None:
    token = admin.get("/api/admin/setting/get", key="token")["data"]["value"]
    assert Dav(service).status("PROPFIND", "/", authorization=f"Bearer {token}", **PROPFIND) == 207


def test_the_doors_own_rights_are_needed_beside_the_others(service: Service, people: People, folder: str) -> None:
    for permission, statuses in (
        (EVERYTHING, [207, 201]), (EVERYTHING & ~MANAGE, [207, 403]), (EVERYTHING & ~READ, [403, 403]),
        (READ | MANAGE, [207, 403]),
    ):  # fmt: skip
        dav = Dav(service, people.new(permission))
        assert [dav.status("PROPFIND", folder, depth="0"), dav.status("PUT", f"{folder}/f", b"x")] == statuses
        dav.send("DELETE", f"{folder}/f")


def test_first_administrator_writes_by_webdav_and_keeps_the_stored_number(
    service: Service, admin: Client, folder: str
) -> None:
    permission = admin.get("/api/me")["data"]["permission"]
    assert not permission & MANAGE
    dav = Dav(service)
    dav.http.headers["authorization"] = make_basic("admin", ADMIN_PASSWORD)
    assert dav.status("PUT", f"{folder}/f", b"x") == 201
    assert dav.status("DELETE", f"{folder}/f") == 204
    assert admin.get("/api/me")["data"]["permission"] == permission


def test_disabled_account_or_changed_password_ends_dav_session(service: Service, admin: Client, people: People) -> None:
    person = people.new(EVERYTHING)
    dav, row = Dav(service, person), person.row(admin)
    assert dav.status("PROPFIND", "/", **PROPFIND) == 207
    admin.ok("/api/admin/user/update", **(row | {"disabled": True}))
    assert dav.status("PROPFIND", "/", **PROPFIND) == 401
    admin.ok("/api/admin/user/update", **(row | {"password": "another password"}))
    assert dav.status("PROPFIND", "/", **PROPFIND) == 401
    assert dav.status("PROPFIND", "/", authorization=make_basic(person.name, "another password"), depth="0") == 207


def test_wrong_passwords_lock_the_account_for_all_doors(service: Service, people: People) -> None:
    person = people.new(EVERYTHING)
    guesser = Dav(service)
    wrong = make_basic(person.name, "wrong")
    statuses = [guesser.status("PROPFIND", "/", authorization=wrong, **PROPFIND) for _ in range(6)]
    assert statuses == [401] * 5 + [429]
    locked = guesser.send("PROPFIND", "/", authorization=wrong, **PROPFIND)
    assert (locked.status_code, locked.headers["retry-after"]) == (429, "300")
    right = make_basic(person.name, person.password)
    assert guesser.status("PROPFIND", "/", authorization=right, **PROPFIND) == 429
    login = guesser.http.post("/api/auth/login", json={"username": person.name, "password": person.password})
    assert login.json()["code"] == 429


def test_cached_sign_in_is_locked_out_with_its_source(service: Service, people: People) -> None:
    """A cached session does not let others at its source go on guessing."""
    person = people.new(EVERYTHING)
    dav, wrong = Dav(service, person), make_basic(person.name, "wrong")
    assert dav.status("PROPFIND", "/", **PROPFIND) == 207
    assert [dav.status("PROPFIND", "/", authorization=wrong, **PROPFIND) for _ in range(6)][-1] == 429
    assert dav.status("PROPFIND", "/", **PROPFIND) == 429


def test_second_factor_needs_application_password_for_basic(service: Service, people: People) -> None:
    person = people.new(EVERYTHING)
    made = person.client.ok("/api/me/app_password/add", title="phone")
    enrol(person)
    answer = Dav(service, person).send("PROPFIND", "/", depth="0")
    assert answer.status_code == 401 and "application password" in answer.text
    dav = Dav(service)
    dav.http.headers["authorization"] = make_basic(person.name, made["password"])
    assert dav.status("PROPFIND", "/", **PROPFIND) == 207
    assert person.client.get("/api/me/app_password/list")["data"]["content"][0]["last_used_time"] > "2"
    person.client.ok("/api/me/app_password/delete", params={"id": made["id"]})
    assert dav.status("PROPFIND", "/", **PROPFIND) == 401


def test_guest_signs_in_and_sends_folder_password(service: Service, admin: Client, folder: str) -> None:
    dav = Dav(service)
    sesame, nothing = make_basic("guest", "sesame"), make_basic("guest", "")
    assert dav.status("PROPFIND", "/", authorization=nothing, depth="0") == 401
    with guest(admin, permission=READ), fixtures.meta(admin, folder, password="sesame", p_sub=True):
        assert dav.status("PROPFIND", folder, authorization=nothing, depth="1") == 403
        assert dav.status("PROPFIND", folder, authorization=sesame, depth="1") == 207
        assert dav.status("PUT", f"{folder}/f", b"x", authorization=sesame) == 403


def test_nobody_finds_a_door_that_is_closed(admin: Client, dav: Dav) -> None:
    with fixtures.settings(admin, webdav_enabled="false"):
        assert [dav.status(method, "/") for method in ("OPTIONS", "PROPFIND", "GET")] == [404] * 3
    assert admin.get("/api/public/settings")["data"]["webdav_enabled"] == "true"


def run_from(folder: Path, address: str, work: Callable[[httpx.AsyncClient], Awaitable[None]]) -> None:
    """Run `work` with a client of the gateway at another address, after a first start."""
    from mangrove.configuration import first_start
    from mangrove.identity import passwords
    from mangrove.identity.rights import ADMIN_PERMISSION
    from mangrove.standalone.gateway import Gateway
    from mangrove.tree import mounts

    first_start.run(folder, lambda: PASSWORD, passwords.hash_password, ADMIN_PERMISSION)

    async def go() -> None:
        transport = httpx.ASGITransport(Gateway(), client=(address, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://mangrove") as client:
            client.headers["authorization"] = make_basic("admin", PASSWORD)
            try:
                await work(client)
            finally:
                await mounts.close()

    asyncio.run(go())


def test_plain_http_sign_in_is_refused_before_password_check(records: None, tmp_path: Path) -> None:
    from mangrove.configuration import settings

    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.request("PROPFIND", "/dav/", headers=PROPFIND)
        assert answer.status_code == 403 and "www-authenticate" not in answer.headers
        lying = PROPFIND | {"x-forwarded-proto": "https", "x-forwarded-for": "127.0.0.1"}
        assert (await client.request("PROPFIND", "/dav/", headers=lying)).status_code == 403
        assert (await client.request("PROPFIND", "https://mangrove/dav/", headers=PROPFIND)).status_code == 207
        await asyncio.to_thread(settings.save, {"webdav_allow_http": "true"})
        assert (await client.request("PROPFIND", "/dav/", headers=PROPFIND)).status_code == 207

    run_from(tmp_path, "203.0.113.7", work)


def test_cached_sign_in_needs_no_hash_and_no_record(
    records: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mangrove.identity import passwords
    from mangrove.records.store.base import count_calls

    hashed = []
    verify = passwords.verify

    def count(stored: str | None, static_hash: str) -> bool:
        hashed.append(static_hash)
        return verify(stored, static_hash)

    monkeypatch.setattr(passwords, "verify", count)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "f").write_bytes(b"bytes")

    async def work(client: httpx.AsyncClient) -> None:
        for number in range(3):
            if number == 2:
                before = count_calls()
            answer = await client.get("/dav/files/f")
            assert answer.content == b"bytes", answer.text
        assert len(hashed) == 1 and count_calls() == before
        wrong = {"authorization": make_basic("admin", "wrong")}
        assert (await client.get("/dav/files/f", headers=wrong)).status_code == 401
        assert len(hashed) == 2

    run_from(tmp_path, "127.0.0.1", work)
