"""The cache of users and their credentials."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from mangrove.core.runtime import BoundedCache
from mangrove.records.credentials import app_passwords, ssh_keys
from mangrove.records.users import User

MAX_CACHED_USERS = 4096  # entries, and names of users
Credentials = Mapping[int, Any]
"""The fingerprint of each key of a user, or the record of each token, by its id."""
CREDENTIALS: Mapping[str, Callable[[int], Credentials]] = {
    ssh_keys.name: lambda user_id: {key.id: key.fingerprint for key in ssh_keys.find_by_user(user_id)},
    app_passwords.name: lambda user_id: {token.id: token for token in app_passwords.find_by_user(user_id)},
}
"""The functions that read the credentials, by kind."""


class KnownUsers:
    """The users of the last requests of this process."""

    def __init__(self) -> None:
        self.generation = 0  # raised by each drop; a user who was read before is not added
        self._lock = threading.Lock()
        self._users: BoundedCache[int, User] = BoundedCache(MAX_CACHED_USERS)
        self._ids: BoundedCache[str | int, int] = BoundedCache(
            MAX_CACHED_USERS
        )  # by name and role, perhaps former values
        self._credentials: Mapping[str, BoundedCache[int, Credentials]] = {
            kind: BoundedCache(MAX_CACHED_USERS) for kind in CREDENTIALS
        }

    def get(self, id: int) -> User | None:
        """Return a cached user, None if they are not cached."""
        with self._lock:
            return self._users.get(id)

    def find(self, key: str | int) -> User | None:
        """Return the cached user of a name or role, None if they are not cached."""
        with self._lock:
            id = self._ids.get(key)
            user = None if id is None else self._users.get(id)
        return user if user is not None and has_key(user, key) else None

    def find_id(self, key: str | int) -> int | None:
        """Return the id of the user who last had a name or role."""
        with self._lock:
            return self._ids.get(key)

    def add(self, user: User, generation: int, key: str | int | None = None) -> None:
        """Add a user who was read after `generation`."""
        with self._lock:
            if key is not None:
                self._ids.put(key, user.id)
            if generation == self.generation:
                self._users.put(user.id, user)

    def get_credentials(self, kind: str, user_id: int) -> Credentials | None:
        """Return the cached credentials of a user."""
        with self._lock:
            return self._credentials[kind].get(user_id)

    def add_credentials(self, kind: str, user_id: int, credentials: Credentials, generation: int) -> None:
        """Add credentials that were read after `generation`."""
        with self._lock:
            if generation == self.generation:
                self._credentials[kind].put(user_id, credentials)

    def drop(self, ids: Collection[int]) -> None:
        """Remove users who changed, or whose credentials changed."""
        with self._lock:
            self.generation += 1
            for id in ids:
                self._users.remove(id)
                for credentials in self._credentials.values():
                    credentials.remove(id)

    def clear(self) -> None:
        """Remove all users."""
        with self._lock:
            self.generation += 1
            self._users.clear()
            for credentials in self._credentials.values():
                credentials.clear()


def has_key(user: User, key: str | int) -> bool:
    """True if it is the name or the role of the user."""
    return key == (user.username if isinstance(key, str) else user.role)
