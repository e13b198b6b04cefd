"""Sessions at the doors: they cost no call while nothing changes, and end with what they were opened with."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.problems import AccessDenied, Unauthorized
from mangrove.core.shared_memory import Topic, change_counters
from mangrove.identity import accounts, app_passwords, keys
from mangrove.identity.accounts import UserFields
from mangrove.identity.app_passwords import NewToken
from mangrove.identity.rights import Right
from mangrove.identity.scopes import TokenProtocol
from mangrove.protocols import sessions
from mangrove.protocols.sessions import ProtocolAccess, ProtocolSession, find_ended, sign_in_with_password
from mangrove.records import credentials, users
from mangrove.records.credentials import ssh_keys
from mangrove.records.store.base import Connections, count_calls
from mangrove.records.store.keys import Keyring
from mangrove.records.users import User
from tests.unit.identity.test_keys import ED25519

pytestmark = pytest.mark.usefixtures("records")
DOOR = ProtocolAccess("test", Right.WEBDAV_READ, Right.WEBDAV_MANAGE, TokenProtocol.WEBDAV)
PASSWORD = "her own password"
SOURCE = "1.2.3.4"


@pytest.fixture
def ann() -> User:
    runtime.put(Config, replace(Config(), snapshot_seconds=None))
    return accounts.create(UserFields("ann", "/", 0, int(Right.WEBDAV_READ), False, "", True), PASSWORD)


async def open_all(ann: User) -> list[ProtocolSession]:
    """One session by the account's password, one by an application password, one by a key."""
    _, text = await asyncio.to_thread(app_passwords.add, ann.id, NewToken("phone"))
    key = await asyncio.to_thread(keys.add, ann.id, "laptop", ED25519)
    login = await DOOR.find_key("ann", key.fingerprint)
    assert login is not None
    by_key = DOOR.open_session(login[0], SOURCE, login[1])
    return [await sign_in_with_password("ann", each, DOOR, SOURCE) for each in (PASSWORD, text)] + [by_key]


def test_a_look_at_sessions_that_go_on_makes_no_call(ann: User) -> None:
    async def work() -> None:
        opened = await open_all(ann)
        assert await find_ended(opened) == []
        before = count_calls()
        assert await find_ended(opened) == []
        assert count_calls() == before

    asyncio.run(work())


@pytest.mark.parametrize("ending", [1, 2])
def test_session_ends_with_its_application_password_or_key(ann: User, ending: int) -> None:
    async def work() -> None:
        opened = await open_all(ann)
        used = opened[ending].credential
        assert used is not None
        delete = ssh_keys.delete if used.kind == ssh_keys.name else credentials.app_passwords.delete
        await asyncio.to_thread(delete, used.id)
        assert await find_ended(opened) == [opened[ending]]
        with pytest.raises(Unauthorized, match=sessions.ENDED):
            await opened[ending].find_caller()

    asyncio.run(work())


def test_what_another_process_removes_ends_a_session_here(ann: User) -> None:
    async def work() -> None:
        opened = await open_all(ann)
        assert await find_ended(opened) == []
        used = opened[1].credential
        assert used is not None
        with runtime.use(runtime.current().keep(Connections, Keyring)):
            await asyncio.to_thread(credentials.app_passwords.delete, used.id)
        change_counters().bump(Topic.CONFIGURATION)  # as the other process does, where they share memory
        await configuration.get()
        assert await find_ended(opened) == [opened[1]]

    asyncio.run(work())


def test_another_key_and_noting_a_use_end_nothing(ann: User) -> None:
    async def work() -> None:
        opened = await open_all(ann)
        await asyncio.to_thread(keys.add, ann.id, "the same key again", ED25519)
        assert await find_ended(opened) == []
        version = (await configuration.get()).version
        for session in opened[1:]:
            assert session.credential is not None
            await asyncio.to_thread(session.credential.note_use)
        assert (await configuration.get()).version == version
        (key, _) = await asyncio.to_thread(ssh_keys.find_by_user, ann.id)
        assert key.last_used > key.added
        assert await find_ended(opened) == []

    asyncio.run(work())


def test_application_password_needs_right_of_protocol(ann: User) -> None:
    _, text = app_passwords.add(ann.id, NewToken("phone"))
    users.change(ann.id, permission=0)
    with pytest.raises(AccessDenied, match="permission to use test"):
        asyncio.run(sign_in_with_password("ann", text, DOOR, SOURCE))
    users.change(ann.id, permission=int(Right.WEBDAV_READ), disabled=True)
    with pytest.raises(Unauthorized, match="disabled"):
        asyncio.run(sign_in_with_password("ann", text, DOOR, SOURCE))
