"""Sign-in by SFTP: the ways in, and the end of sessions."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import asyncssh
import pyotp
import pytest

from tests.protocol.protocols.people import ALL, READ_ONLY, Place
from tests.servers import ssh
from tests.support.service import ADMIN_PASSWORD
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("doors")


async def list_root(place: Place, name: str, **more: Any) -> set[str]:
    async with await place.connect(name, **more) as connection, connection.start_sftp_client() as client:
        return {str(entry) for entry in await client.listdir("/")}


def enter(place: Place, name: str, **more: Any) -> set[str]:
    return asyncio.run(list_root(place, name, **more))


async def make_folder(place: Place, name: str, path: str, password: str) -> None:
    async with (
        await place.connect(name, password=password, client_keys=None) as connection,
        connection.start_sftp_client() as client,
    ):
        await client.mkdir(path)
        await client.rmdir(path)


def test_first_administrator_changes_files_by_sftp(place: Place) -> None:
    assert not place.admin.get("/api/me")["data"]["permission"] & 0xC00
    asyncio.run(make_folder(place, "admin", "/disk/made by admin", ADMIN_PASSWORD))


async def find_cipher(place: Place, *ciphers: str) -> object:
    async with await place.connect("admin", encryption_algs=ciphers, **by_password(ADMIN_PASSWORD)) as connection:
        return connection.get_extra_info("recv_cipher")


def test_clients_that_prefer_chacha_use_aes(place: Place) -> None:
    chacha, gcm = "chacha20-poly1305@openssh.com", "aes256-gcm@openssh.com"
    assert asyncio.run(find_cipher(place, chacha, gcm)) == gcm
    assert asyncio.run(find_cipher(place, chacha, "aes128-ctr")) == "aes128-ctr"


def by_password(password: str) -> dict[str, Any]:
    return {"client_keys": None, "password": password, "kbdint_auth": False}


class Answers(asyncssh.SSHClient):
    """Answers the questions of keyboard-interactive in turn."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)

    def kbdint_auth_requested(self) -> str | None:
        return "" if self._answers else None

    def kbdint_challenge_received(self, name: str, instructions: str, lang: str, prompts: Any) -> list[str]:
        return [self._answers.pop(0) for _ in prompts]


def by_answers(*answers: str) -> dict[str, Any]:
    return {"client_keys": None, "password_auth": False, "client_factory": lambda: Answers(*answers)}


def test_a_key_a_password_and_answers_let_in_and_a_used_key_says_when(place: Place) -> None:
    bob = place.create_user("bob")
    before = bob.get("/api/me/sshkey/list")["data"]["content"][0]["last_used_time"]
    time.sleep(1.1)
    assert enter(place, "bob") == {"disk", "files"}
    wait_until(lambda: bob.get("/api/me/sshkey/list")["data"]["content"][0]["last_used_time"] != before)
    assert enter(place, "bob", **by_password("bob password")) == {"disk", "files"}
    assert enter(place, "bob", **by_answers("bob password")) == {"disk", "files"}
    for refused in (by_password("bob passwort"), by_answers("bob passwort"), {"client_keys": [ssh.make_key("other")]}):
        with pytest.raises(asyncssh.PermissionDenied):
            enter(place, "bob", **refused)


def test_a_second_factor_is_asked_for_and_its_code_is_good_once(place: Place) -> None:
    eve = place.create_user("eve")
    secret = eve.ok("/api/auth/2fa/generate")["secret"]
    code = pyotp.TOTP(secret).now()
    assert eve.post("/api/auth/2fa/verify", code=code, secret=secret)["code"] == 200
    with pytest.raises(asyncssh.PermissionDenied):
        enter(place, "eve", **by_password("eve password"))
    with pytest.raises(asyncssh.PermissionDenied):
        enter(place, "eve", **by_answers("eve password", code))  # it was used to switch the factor on
    later = pyotp.TOTP(secret).at(time.time() + 30)
    assert enter(place, "eve", **by_answers("eve password", later)) == {"disk", "files"}
    with pytest.raises(asyncssh.PermissionDenied):
        enter(place, "eve", **by_answers("eve password", later))
    assert enter(place, "eve") == {"disk", "files"}  # a key needs no code


def test_application_password_replaces_second_factor_until_removed(place: Place) -> None:
    abe = place.create_user("abe")
    secret = abe.ok("/api/auth/2fa/generate")["secret"]
    assert abe.post("/api/auth/2fa/verify", code=pyotp.TOTP(secret).now(), secret=secret)["code"] == 200
    made = abe.ok("/api/me/app_password/add", title="camera")
    assert enter(place, "abe", **by_answers(made["password"])) == {"disk", "files"}

    async def work() -> None:
        async with await place.connect("abe", **by_password(made["password"])) as connection:
            sftp = await connection.start_sftp_client()
            await sftp.listdir("/")
            await asyncio.to_thread(abe.ok, "/api/me/app_password/delete", params={"id": made["id"]})
            await asyncio.wait_for(connection.wait_closed(), 120)

    asyncio.run(work())
    with pytest.raises(asyncssh.PermissionDenied):
        enter(place, "abe", **by_password(made["password"]))


def test_sftp_needs_its_right_and_shares_the_lockout(place: Place) -> None:
    place.create_user("frieda", ALL & ~0x400)
    for how in ({}, by_password("frieda password")):
        with pytest.raises(asyncssh.PermissionDenied):
            enter(place, "frieda", **how)
    place.create_user("gus")
    for _ in range(5):
        with pytest.raises(asyncssh.PermissionDenied):
            enter(place, "gus", **by_password("wrong"))
    with pytest.raises(asyncssh.PermissionDenied):
        enter(place, "gus", **by_password("gus password"))
    assert place.service.anonymous().post("/api/auth/login", username="gus", password="gus password")["code"] == 429
    assert enter(place, "gus") == {"disk", "files"}


def test_a_guest_needs_no_password_where_the_guest_may_use_the_door(place: Place) -> None:
    guest = place.find_user("guest")
    place.admin.ok("/api/admin/user/update", **guest | {"permission": READ_ONLY, "disabled": False})
    how: dict[str, Any] = {"client_keys": None}
    assert enter(place, "guest", **how) == {"disk", "files"}
    place.admin.ok("/api/admin/user/update", **guest | {"permission": 0, "disabled": False})
    with pytest.raises(asyncssh.PermissionDenied):
        enter(place, "guest", **how)


@pytest.mark.parametrize("change", ["disable", "password", "right", "key", "delete"])
def test_a_session_ends_with_its_account_password_right_or_key(place: Place, change: str) -> None:
    name = f"end-{change}"
    client = place.create_user(name)
    user = place.find_user(name)

    async def work() -> None:
        async with await place.connect(name) as connection:
            sftp = await connection.start_sftp_client()
            await sftp.listdir("/")
            await asyncio.to_thread(make_change)
            await asyncio.wait_for(connection.wait_closed(), 120)

    def make_change() -> None:
        update = "/api/admin/user/update"
        match change:
            case "disable":
                place.admin.ok(update, **user | {"disabled": True})
            case "password":
                place.admin.ok(update, **user | {"password": "another password"})
            case "right":
                place.admin.ok(update, **user | {"permission": ALL & ~0x400})
            case "key":
                key = client.get("/api/me/sshkey/list")["data"]["content"][0]["id"]
                client.ok("/api/me/sshkey/delete", params={"id": key})
            case "delete":
                place.admin.ok("/api/admin/user/delete", params={"id": user["id"]})

    asyncio.run(work())


def test_there_is_no_shell_no_command_and_no_forwarding(place: Place) -> None:
    place.create_user("hal")

    async def work() -> None:
        async with await place.connect("hal") as connection:
            for ask in (
                connection.run("id"),
                connection.create_process(),
                connection.create_session(asyncssh.SSHClientSession, subsystem="netconf"),
                connection.open_connection("127.0.0.1", place.port),
            ):
                with pytest.raises((asyncssh.ChannelOpenError, asyncssh.ProcessError)):
                    await ask
            with pytest.raises(asyncssh.ChannelListenError):
                await connection.forward_remote_port("127.0.0.1", 0, "127.0.0.1", place.port)

    asyncio.run(work())


def test_keys_alone_let_in_where_the_setting_says_so(place: Place) -> None:
    place.create_user("ida")
    place.save_settings(sftp_disable_password_login="true")
    try:
        with pytest.raises(asyncssh.PermissionDenied):
            enter(place, "ida", **by_password("ida password"))
        assert enter(place, "ida") == {"disk", "files"}
    finally:
        place.save_settings(sftp_disable_password_login="false")


def test_connections_that_nobody_signs_in_on_give_way_the_oldest_first(place: Place) -> None:
    place.create_user("jon")

    async def work() -> None:
        idle = [await asyncio.open_connection("127.0.0.1", place.port) for _ in range(200)]
        assert await asyncio.wait_for(list_root(place, "jon"), 120) == {"disk", "files"}
        oldest, newest = idle[0][0], idle[-1][0]
        await asyncio.wait_for(oldest.read(), 120)  # until its end
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(newest.read(), 0.5)
        for _, writer in idle:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in idle), return_exceptions=True)

    asyncio.run(work())


def test_what_is_said_in_public_and_what_is_no_address(place: Place) -> None:
    shown = place.service.anonymous().get("/api/public/settings")["data"]
    assert shown["sftp_listen"] == f"127.0.0.1:{place.port}"
    for wrong in ("5222", "127.0.0.1:", "127.0.0.1:70000", ":5222", "a b"):
        rows = [{"key": "sftp_listen", "value": wrong}]
        answer = place.admin.envelope(place.admin.http.post("/api/admin/setting/save", content=json.dumps(rows)))
        assert answer["code"] == 500 and "sftp_listen" in answer["message"], answer
