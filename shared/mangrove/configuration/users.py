"""Users by name, by role and by id, cached until they change. A new snapshot drops the users that changed."""

from __future__ import annotations

import asyncio

from mangrove.configuration.known_users import CREDENTIALS, Credentials, has_key
from mangrove.configuration.snapshot import known_users
from mangrove.records import users
from mangrove.records.users import User


def find(key: str | int) -> User | None:
    """Return the user of a name, or the first user of a role; None if there is none."""
    known = known_users()
    user = known.find(key)
    if user is None:
        generation = known.generation
        id = known.find_id(key)
        user = None if id is None else users.find_by_id(id)
        if user is None or not has_key(user, key):
            user = users.find(key) if isinstance(key, str) else users.find_by_role(key)
        if user is not None:
            known.add(user, generation, key)
    return user


def get(id: int) -> User | None:
    """Return the user of an id, None if there is none."""
    known = known_users()
    user = known.get(id)
    if user is None:
        generation = known.generation
        user = users.find_by_id(id)
        if user is not None:
            known.add(user, generation)
    return user


def read_credentials(kind: str, user_id: int) -> Credentials:
    """Read the credentials of a user from the records and cache them."""
    known = known_users()
    generation = known.generation
    credentials = CREDENTIALS[kind](user_id)
    known.add_credentials(kind, user_id, credentials, generation)
    return credentials


async def find_credentials(kind: str, user_id: int) -> Credentials:
    """Return the credentials of a user. A thread is used only if they are not cached."""
    credentials = known_users().get_credentials(kind, user_id)
    return await asyncio.to_thread(read_credentials, kind, user_id) if credentials is None else credentials


async def find_by_name(username: str) -> User | None:
    """Return what `find` returns, without a thread for a cached user."""
    return await _find(username)


async def find_by_role(role: int) -> User | None:
    """Return the first user of a role, None if there is none."""
    return await _find(role)


async def find_by_id(id: int) -> User | None:
    """Return what `get` returns, without a thread for a cached user."""
    return known_users().get(id) or await asyncio.to_thread(get, id)


async def _find(key: str | int) -> User | None:
    return known_users().find(key) or await asyncio.to_thread(find, key)
