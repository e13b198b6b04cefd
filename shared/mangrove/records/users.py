"""User records."""

from __future__ import annotations

import hashlib
import heapq
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pynamodb.attributes import NumberAttribute
from pynamodb.indexes import KeysOnlyProjection

from mangrove.core.problems import BadRequest, Problem, RecordNotFound
from mangrove.records.lookalikes import make_skeletons
from mangrove.records.store import repository
from mangrove.records.store.attributes import make_index
from mangrove.records.store.base import (
    TableMeta,
    Versioned,
    get_connection,
    query_index,
    retry_on_conflict,
    table_name,
    translate_errors,
)
from mangrove.records.store.repository import ConfigurationRepository

SHORT_PASSWORD = 8
NORMAL, *OTHER_ROLES = ROLES = (0, 1, 2)  # there is one guest, and one administrator
INDEX = "role"


@dataclass(frozen=True, slots=True)
class User:
    """A user."""

    id: int
    username: str
    password_hash: str
    base_path: str = "/"
    role: int = 0
    """0 normal, 1 guest, 2 administrator."""
    permission: int = 0
    """Bits, see `identity.rights`."""
    disabled: bool = False
    sso_id: str = ""
    allow_ldap: bool = True
    otp_secret: str = ""
    pwd_ts: int = 0
    """The time of the last new password, in microseconds since the epoch."""
    has_short_password: bool = False
    """The last new password of an administrator had fewer than SHORT_PASSWORD characters."""
    has_sso_link: bool = False
    """The identity `sso_id` is proven: who signs in with it has this account."""
    admin_claim: str = ""
    """The claim that made the user an administrator at the last single sign-on, see `identity.claims`."""


class UserRecord(Versioned):
    class Meta(TableMeta):
        table_name = table_name("users")
        value = User
        encrypted = (
            "password_hash",
            "otp_secret",
        )

    by_role = make_index(INDEX, KeysOnlyProjection(), role=NumberAttribute, id=NumberAttribute)
    """The index of the ids of the users of a role, in their order."""


TAKEN = "the username is taken"
LOOKALIKE_TAKEN = "username looks like that of another user"
KIND = "users"
MAX_IDS_PER_QUERY = 1000
SKELETON_CLAIM = "looks"  # the kind of the claims to skeletons
SSO_CLAIM = "sso"  # of the claims to identities of single sign-on


class UserRepository(ConfigurationRepository[User]):
    """Users, whose names must not look alike."""

    def make_names(self, record: Any) -> list[str]:
        """Return the username, its skeletons, and the linked identity."""
        identity = [_make_sso_name(record.sso_id)] if record.has_sso_link else []
        return [*super().make_names(record), *make_looks(record.username), *identity]

    def _explain(self, failed: Sequence[bool]) -> Problem:
        is_other_name = bool(failed) and not failed[0]
        return BadRequest(LOOKALIKE_TAKEN) if is_other_name else super()._explain(failed)


def make_looks(username: str) -> list[str]:
    """Return the names of the claims to the skeletons of a username."""
    skeletons = enumerate(make_skeletons(username))
    return [f"{SKELETON_CLAIM}#{number}#{hashlib.sha256(text.encode()).hexdigest()}" for number, text in skeletons]


_repository = UserRepository(KIND, UserRecord, User, "username", TAKEN)
all, get, get_many = _repository.all, _repository.get, _repository.get_many
create, change, delete = _repository.create, _repository.change, _repository.delete


@retry_on_conflict
def replace_hash(id: int, old: str, new: str) -> None:
    """Store another hash of the same password, unless the password was changed. Raise RecordNotFound."""
    record = _repository.get_record(id)
    if record.password_hash == old:
        record.password_hash = new
        _repository.save(record)


def find(username: str) -> User | None:
    """Return the user of a name, None if there is none."""
    try:
        id = repository.find_owner(repository.make_name(KIND, username))
    except BadRequest:
        return None
    user = None if id is None else find_by_id(id)
    return user if user is not None and user.username == username else None


def _make_sso_name(sso_id: str) -> str:
    return f"{SSO_CLAIM}#{hashlib.sha256(sso_id.encode()).hexdigest()}"


def find_by_sso_id(sso_id: str) -> User | None:
    """Return the user who is linked to an identity, None if there is none."""
    id = repository.find_owner(_make_sso_name(sso_id))
    user = None if id is None else find_by_id(id)
    return user if user is not None and user.has_sso_link and user.sso_id == sso_id else None


def find_by_id(id: int) -> User | None:
    """Return a user, None if there is none."""
    try:
        return get(id)
    except RecordNotFound:
        return None


def find_by_role(role: int) -> User | None:
    """Return the first user of a role, None if there is none."""
    candidates = (find_by_id(id) for id in iter_ids(role))
    return next((user for user in candidates if user is not None and user.role == role), None)


def iter_ids(role: int, after: int = 0, page_size: int | None = None) -> Iterator[int]:
    """Return the ids of a role above `after`, `page_size` per query. A user who was just created may be missing."""
    rows = query_index(UserRecord, INDEX, str(role), ["id"], _make_start(role, after), page_size)
    return (int(row["id"]["N"]) for row in rows)


def count(role: int, after: int = 0, limit: int | None = None) -> tuple[int, int]:
    """Count at most `limit` users of a role with ids above `after`. Return their number and the last id."""
    total, last, start = 0, after, _make_start(role, after)
    while limit is None or total < limit:
        with translate_errors():
            page = get_connection(UserRecord).query(
                UserRecord.Meta.table_name, str(role), index_name=INDEX, select="COUNT", exclusive_start_key=start,
                limit=None if limit is None else limit - total,
            )  # fmt: skip
        total += int(page["Count"])
        start = page.get("LastEvaluatedKey")
        if not start:
            break
        last = int(start["id"]["N"])
    return total, last


def list_page(start: int, size: int | None) -> tuple[list[User], int]:
    """Return `size` users (None: all) from the position `start`, by id, and the number of all users."""
    if size is None:
        users = all()
        return users[start:], len(users)
    others = sorted(id for role in OTHER_ROLES for id in iter_ids(role))
    total = count(NORMAL)[0] + len(others)
    if start >= total:
        return [], total
    skipped, last = count(NORMAL, limit=max(min(start, total) - len(others), 0))
    skipped += bisect_right(others, last)
    normal = iter_ids(NORMAL, last, min(size + len(others), MAX_IDS_PER_QUERY))
    following = heapq.merge(others[bisect_right(others, last) :], normal)
    page = get_many(list(islice(following, start - skipped, start - skipped + size)))
    return [page[id] for id in sorted(page)], total


def _make_start(role: int, after: int) -> Any:
    """Return a last key as DynamoDB would return it; the user need not exist."""
    return {"id": {"N": str(after)}, "role": {"N": str(role)}} if after else None
