"""Credentials of users beside their password: SSH keys and tokens. Each belongs to one user.

Tokens are stored as application passwords, which they were before they had a scope. A record without the attributes of
a scope is a token for the whole tree by WebDAV and SFTP.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from pynamodb.attributes import NumberAttribute
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection
from pynamodb.transactions import TransactWrite

from mangrove.core.problems import RecordNotFound, ResourceNotFound
from mangrove.records import users
from mangrove.records.store import versions
from mangrove.records.store.attributes import make_index
from mangrove.records.store.base import TableMeta, Versioned, query_index, table_name
from mangrove.records.store.repository import Repository

INDEX = "user"
OLD_PROTOCOLS = "webdav,sftp"  # of application passwords
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class SshKey:
    """A public key."""

    id: int
    user_id: int
    title: str
    name: str
    """`<user id>#<title>`, unique."""
    text: str
    """The line of authorized_keys."""
    fingerprint: str
    added: datetime
    last_used: datetime


@dataclass(frozen=True, slots=True)
class AppPassword:
    """A token: a program signs in with it instead of the password of its user."""

    id: int
    user_id: int
    title: str
    name: str
    """`<user id>#<title>`, unique."""
    digest: str
    """The hexadecimal SHA-256 of the text."""
    added: datetime
    last_used: datetime
    folder: str = "/"
    """The root of the token, below the base path of the user."""
    mode: str = "both"
    """A value of `identity.scopes.TokenMode`."""
    protocols: str = OLD_PROTOCOLS
    """Values of `identity.scopes.TokenProtocol`, separated by commas."""
    is_administrative: bool = False
    """It may use the routes of administrators."""
    expires: int = 0
    """In seconds since the epoch; 0 for no end."""


def make_user_index() -> GlobalSecondaryIndex[Any]:
    """Return the index of the ids of the credentials of a user."""
    return make_index(INDEX, KeysOnlyProjection(), user_id=NumberAttribute, id=NumberAttribute)


class SshKeyRecord(Versioned):
    class Meta(TableMeta):
        table_name = table_name("sshkeys")
        value = SshKey

    by_user = make_user_index()


class AppPasswordRecord(Versioned):
    class Meta(TableMeta):
        table_name = table_name("app_passwords")
        value = AppPassword

    by_user = make_user_index()


class CredentialRepository(Repository[Value]):
    """Credentials of one kind.

    A new or deleted credential counts as a change of its user in the configuration, so that caches of users are
    updated. A change of its last use does not count.
    """

    def __init__(self, name: str, model: type[Versioned], value: type[Value], taken: str, missing: str) -> None:
        super().__init__(name, model, value, "name", taken)
        self.missing = missing  # the message of ResourceNotFound

    def find_by_user(self, user_id: int) -> list[Value]:
        """Return the credentials of a user, by id.

        One that was just created may be missing; a deleted one is never included.
        """
        ids = [int(row["id"]["N"]) for row in query_index(self.model, INDEX, str(user_id), ["id"])]
        present = self.get_many(ids) if ids else {}
        return [present[id] for id in ids if id in present]

    def delete_own(self, user_id: int, id: int) -> None:
        """Delete a credential of the user. Raise ResourceNotFound for any other id."""
        credential: Any = self.get_many([id]).get(id)
        if credential is None or credential.user_id != user_id:
            raise ResourceNotFound(self.missing)
        self.delete_any(id)

    def delete_all(self, user_id: int) -> None:
        """Delete the credentials of a user."""
        for credential in self.find_by_user(user_id):
            self.delete_any(credential.id)  # type: ignore[attr-defined]

    def delete_any(self, id: int) -> None:
        """Delete the credential with this id, if it exists."""
        with suppress(RecordNotFound):
            self.delete(id)

    def _transact(self, record: Any, add: Callable[[TransactWrite], object]) -> None:
        versions.write(self.model, users.KIND, [int(record.user_id)], add)


ssh_keys = CredentialRepository(
    "sshkeys", SshKeyRecord, SshKey, "key with the same title already exists", "failed to get public key"
)
app_passwords = CredentialRepository(
    "app_passwords", AppPasswordRecord, AppPassword, "application password with the same title already exists",
    "failed to get application password",
)  # fmt: skip
