"""Users as requests find them: by name, by role and by id, remembered until they change.

They are as the snapshot is that was last asked for: whoever follows the configuration drops those that changed.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Generic, TypeVar

from mangrove.core import runtime
from mangrove.records import users
from mangrove.records.credentials import app_passwords, ssh_keys
from mangrove.records.users import User

MOST = 4096  # users in memory, and names of users
Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Credentials = Mapping[int, str]
"""The id of each credential of a user → what proves it."""
CREDENTIALS: Mapping[str, Callable[[int], Credentials]] = {
    ssh_keys.name: lambda user_id: {key.id: key.fingerprint for key in ssh_keys.find_by_user(user_id)},
    app_passwords.name: lambda user_id: {one.id: one.digest for one in app_passwords.find_by_user(user_id)},
}
"""How the credentials of each kind are read."""


class _Latest(Generic[Key, Value]):
    """The MOST values that were asked for last."""

    def __init__(self) -> None:
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found

    def add(self, key: Key, value: Value) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > MOST:
            self._values.popitem(last=False)

    def drop(self, key: Key) -> None:
        self._values.pop(key, None)

    def clear(self) -> None:
        self._values.clear()


class KnownUsers:
    """The users of this process's last requests. `generation`: how often some were dropped; what was read before that
    is not remembered."""

    def __init__(self) -> None:
        self.generation = 0
        self._lock = threading.Lock()
        self._users: _Latest[int, User] = _Latest()
        self._ids: _Latest[str | int, int] = _Latest()  # by name and by role, of users who may be called otherwise now
        self._credentials: Mapping[str, _Latest[int, Credentials]] = {kind: _Latest() for kind in CREDENTIALS}

    def get(self, id: int) -> User | None:
        """A user who is remembered."""
        with self._lock:
            return self._users.get(id)

    def find(self, key: str | int) -> User | None:
        """The user of a name or role who is remembered."""
        with self._lock:
            id = self._ids.get(key)
            user = None if id is None else self._users.get(id)
        return user if user is not None and _fits(user, key) else None

    def find_id(self, key: str | int) -> int | None:
        """The id of whoever had a name or role before."""
        with self._lock:
            return self._ids.get(key)

    def add(self, user: User, generation: int, key: str | int | None = None) -> None:
        """Remember a user who was read after `generation` was."""
        with self._lock:
            if key is not None:
                self._ids.add(key, user.id)
            if generation == self.generation:
                self._users.add(user.id, user)

    def get_credentials(self, kind: str, user_id: int) -> Credentials | None:
        """What is remembered of a user's credentials."""
        with self._lock:
            return self._credentials[kind].get(user_id)

    def add_credentials(self, kind: str, user_id: int, found: Credentials, generation: int) -> None:
        """Remember credentials that were read after `generation` was."""
        with self._lock:
            if generation == self.generation:
                self._credentials[kind].add(user_id, found)

    def drop(self, ids: Collection[int]) -> None:
        """Forget users who changed, or whose credentials did."""
        with self._lock:
            self.generation += 1
            for id in ids:
                self._users.drop(id)
                for known in self._credentials.values():
                    known.drop(id)

    def clear(self) -> None:
        """Forget everybody."""
        with self._lock:
            self.generation += 1
            self._users.clear()
            for known in self._credentials.values():
                known.clear()


def _fits(user: User, key: str | int) -> bool:
    return key == (user.username if isinstance(key, str) else user.role)


def find(key: str | int) -> User | None:
    """The user of a name, or the first one of a role; None when there is none."""
    known = runtime.get(KnownUsers)
    user = known.find(key)
    if user is None:
        generation = known.generation
        id = known.find_id(key)
        user = None if id is None else users.find_by_id(id)
        if user is None or not _fits(user, key):
            user = users.find(key) if isinstance(key, str) else users.find_by_role(key)
        if user is not None:
            known.add(user, generation, key)
    return user


def get(id: int) -> User | None:
    """The user of an id; None when there is none."""
    known = runtime.get(KnownUsers)
    user = known.get(id)
    if user is None:
        generation = known.generation
        user = users.find_by_id(id)
        if user is not None:
            known.add(user, generation)
    return user


def read_credentials(kind: str, user_id: int) -> Credentials:
    """A user's credentials of a kind as they are in the records."""
    known = runtime.get(KnownUsers)
    generation = known.generation
    found = CREDENTIALS[kind](user_id)
    known.add_credentials(kind, user_id, found, generation)
    return found


async def has_credential(kind: str, user_id: int, id: int) -> bool:
    """Whether a user still has a credential, without a thread where that is remembered."""
    known = runtime.get(KnownUsers).get_credentials(kind, user_id)
    found = await asyncio.to_thread(read_credentials, kind, user_id) if known is None else known
    return id in found


async def find_by_name(username: str) -> User | None:
    """What `find` returns, without a thread for a user who is remembered."""
    return await _find(username)


async def find_by_role(role: int) -> User | None:
    """The first user of a role; None when there is none."""
    return await _find(role)


async def find_by_id(id: int) -> User | None:
    """What `get` returns, without a thread for a user who is remembered."""
    return runtime.get(KnownUsers).get(id) or await asyncio.to_thread(get, id)


async def _find(key: str | int) -> User | None:
    return runtime.get(KnownUsers).find(key) or await asyncio.to_thread(find, key)
