"""Callers: the users of requests and tasks, with their groups and the scope of the token that they use.

The user who changes a storage is a context variable, as a request id is: the trash and the index record it. An argument
would belong to each operation of a driver that may replace a file, in all drivers and their callers, although only
these records need it.
"""

from __future__ import annotations

import asyncio
import time
from contextvars import ContextVar
from typing import NamedTuple

from mangrove import configuration
from mangrove.configuration import users
from mangrove.core.problems import AccessDenied, Unauthorized
from mangrove.core.runtime import CacheKind
from mangrove.identity import app_passwords, claims
from mangrove.identity.rights import Caller, Right
from mangrove.identity.scopes import TokenProtocol, TokenScope, make_scope
from mangrove.records.credentials import AppPassword
from mangrove.records.credentials import app_passwords as records
from mangrove.records.users import User

LAST_USES: CacheKind[int, float] = CacheKind("last uses of tokens", 4096)  # by the monotonic clock


class Actor(NamedTuple):
    """A user who changes entries."""

    id: int = 0
    name: str = ""


NOBODY = Actor()
_actor: ContextVar[Actor] = ContextVar("actor", default=NOBODY)


def note_caller(caller: Caller) -> None:
    """Note the caller for the rest of the request or task step."""
    _actor.set(Actor(caller.user.id, caller.user.username))


def note_visitor() -> None:
    """Note that the visitor of a share link, who has no account, makes the next changes."""
    _actor.set(NOBODY)


def find_actor() -> Actor:
    """Return the current caller. It has no id for work of the service itself."""
    return _actor.get()


def make_caller(user: User, right: Right = Right.READ, source: str = "", scope: TokenScope | None = None) -> Caller:
    """Return the caller of a user with the permissions of the user's groups, as of the configuration in memory.

    The caller is an administrator, too, if a claim of the identity provider gives the user this role.
    """
    now = configuration.cached()
    user = claims.with_role(user, now.settings)
    return Caller(user, right, source, scope, now.group_permissions.get(user.id))


async def find_present(user_id: int, token_id: int, right: Right, source: str = "") -> Caller:
    """Return the caller of an account as of this moment, within the scope of a token unless `token_id` is 0.

    Raise AccessDenied if the account was deleted or disabled, or if the token has expired or was removed.
    """
    await configuration.get()
    user = await users.find_by_id(user_id)
    if user is None or user.disabled:
        raise AccessDenied("the account that requested this does not exist any more")
    scope = await find_scope(user.id, token_id) if token_id else None
    if token_id and scope is None:
        raise AccessDenied("the token that requested this has expired or was removed")
    return make_caller(user, right, source, scope)


async def find_token(text: str, protocol: TokenProtocol) -> tuple[User, TokenScope]:
    """Return the owner of a token, and its scope, as of the configuration in memory.

    Raise Unauthorized unless the token is valid and its owner enabled, AccessDenied if it is not for the protocol.
    """
    user_id = app_passwords.read_user_id(text)
    user = None if user_id is None else await users.find_by_id(user_id)
    token = None if user is None else await _find_record(text, user.id)
    if user is None or token is None:
        raise Unauthorized("token is invalidated")
    if user.disabled:
        raise Unauthorized("Current user is disabled, replace please")
    scope = make_scope(token)
    scope.require(protocol)
    await note_use(token.id)
    return user, scope


async def _find_record(text: str, user_id: int) -> AppPassword | None:
    """Return the record of a token. One that is not in memory may have been created a moment ago."""
    tokens = await users.find_credentials(records.name, user_id)
    id = app_passwords.find_id(text, tokens)
    if id is None:
        tokens = await asyncio.to_thread(users.read_credentials, records.name, user_id)
        id = app_passwords.find_id(text, tokens)
    return None if id is None else tokens[id]


async def find_scope(user_id: int, token_id: int) -> TokenScope | None:
    """Return the present scope of a token; None if it was removed or has expired."""
    token = (await users.find_credentials(records.name, user_id)).get(token_id)
    scope = None if token is None else make_scope(token)
    return None if scope is None or scope.is_expired else scope


async def note_use(token_id: int) -> None:
    """Record the time of the last use of a token, at most once in `app_passwords.USE_INTERVAL_SECONDS`."""
    uses, now = LAST_USES.open(), time.monotonic()
    last = uses.get(token_id)
    if last is None or now - last >= app_passwords.USE_INTERVAL_SECONDS:
        uses.put(token_id, now)
        await asyncio.to_thread(app_passwords.note_use, token_id)
