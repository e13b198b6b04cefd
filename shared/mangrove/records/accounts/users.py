"""User records."""

from __future__ import annotations

import hashlib
import heapq
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection

from mangrove.core.problems import BadRequest, Problem, RecordNotFound
from mangrove.records.accounts.lookalikes import make_skeletons
from mangrove.records.store import unique
from mangrove.records.store.base import (
    TableMeta,
    Versioned,
    get_connection,
    retry_on_conflict,
    table_name,
    translate_errors,
)
from mangrove.records.store.integrity import Sealed
from mangrove.records.store.repository import ConfigurationRepository

SHORT_PASSWORD = 8
NORMAL, *OTHER_ROLES = ROLES = (0, 1, 2)  # there is one guest and one administrator
INDEX = "role"


@dataclass(frozen=True, slots=True)
class User:
    """`role` 0 normal, 1 guest, 2 administrator; `permission` bits; `pwd_ts` microseconds of the last new password.

    `has_short_password`: of an administrator, that the last new password had fewer than SHORT_PASSWORD characters.
    """

    id: int
    username: str
    password_hash: str
    base_path: str
    role: int
    permission: int
    disabled: bool
    sso_id: str
    allow_ldap: bool
    otp_secret: str
    pwd_ts: int
    has_short_password: bool = False


class RoleIndex(GlobalSecondaryIndex["UserRecord"]):  # type: ignore[no-untyped-call]
    """The ids of a role, in their order."""

    class Meta:
        index_name = INDEX
        projection = KeysOnlyProjection()

    role = NumberAttribute(hash_key=True)
    id = NumberAttribute(range_key=True)


class UserRecord(Versioned):
    class Meta(TableMeta):
        table_name = table_name("users")

    id = NumberAttribute(hash_key=True)
    username = UnicodeAttribute()
    password_hash = Sealed()
    base_path = UnicodeAttribute(default="/")
    role = NumberAttribute(default=0)
    permission = NumberAttribute(default=0)
    disabled = BooleanAttribute(default=False)
    sso_id = UnicodeAttribute(default="")
    allow_ldap = BooleanAttribute(default=True)
    otp_secret = Sealed(default="")
    pwd_ts = NumberAttribute(default=0)
    has_short_password = BooleanAttribute(default=False)

    by_role = RoleIndex()


TAKEN = "the username is taken"
LOOKS_TAKEN = "username looks like that of another user"
KIND = "users"
MOST_AT_ONCE = 1000  # ids of one answer
LOOKS = "looks"  # the kind of the names of skeletons


class UserRepository(ConfigurationRepository[User]):
    """Users; no two of them have names that look alike."""

    def make_names(self, record: Any) -> list[str]:
        """The username, and what looks like it."""
        return [*super().make_names(record), *make_looks(record.username)]

    def _explain(self, failed: Sequence[bool]) -> Problem:
        is_other_name = bool(failed) and not failed[0]
        return BadRequest(LOOKS_TAKEN) if is_other_name else super()._explain(failed)


def make_looks(username: str) -> list[str]:
    """The names of the claims that keep users apart who look alike."""
    skeletons = enumerate(make_skeletons(username))
    return [f"{LOOKS}#{number}#{hashlib.sha256(text.encode()).hexdigest()}" for number, text in skeletons]


_repository = UserRepository(KIND, UserRecord, User, "username", TAKEN)
all, get, get_many = _repository.all, _repository.get, _repository.get_many
create, change, delete = _repository.create, _repository.change, _repository.delete


@retry_on_conflict
def replace_hash(id: int, old: str, new: str) -> None:
    """Store another hash of the same password; nothing where the password is another one by now. RecordNotFound."""
    record = _repository.get_record(id)
    if record.password_hash == old:
        record.password_hash = new
        _repository.save(record)


def find(username: str) -> User | None:
    """The user of a name; None when there is none."""
    try:
        id = unique.find_owner(unique.make_name(KIND, username))
    except BadRequest:
        return None
    user = None if id is None else find_by_id(id)
    return user if user is not None and user.username == username else None


def find_by_id(id: int) -> User | None:
    """One user; None when there is none."""
    try:
        return get(id)
    except RecordNotFound:
        return None


def find_by_role(role: int) -> User | None:
    """The first user of a role; None when there is none."""
    found = (find_by_id(id) for id in iter_ids(role))
    return next((user for user in found if user is not None and user.role == role), None)


def iter_ids(role: int, after: int = 0, page_size: int | None = None) -> Iterator[int]:
    """The ids of a role above one of them, read lazily, `page_size` at a time. Users who were made at this moment may
    not be among them yet."""
    start = _make_start(role, after)
    while True:
        with translate_errors():
            page = get_connection(UserRecord).query(
                UserRecord.Meta.table_name, str(role), index_name=INDEX, attributes_to_get=["id"],
                exclusive_start_key=start, limit=page_size,
            )  # fmt: skip
        yield from (int(item["id"]["N"]) for item in page["Items"])
        start = page.get("LastEvaluatedKey")
        if not start:
            return


def count(role: int, after: int = 0, most: int | None = None) -> tuple[int, int]:
    """How many users of a role there are with an id above `after`, and the id of the last that was counted; at most
    `most` of them."""
    total, last, start = 0, after, _make_start(role, after)
    while most is None or total < most:
        with translate_errors():
            page = get_connection(UserRecord).query(
                UserRecord.Meta.table_name, str(role), index_name=INDEX, select="COUNT", exclusive_start_key=start,
                limit=None if most is None else most - total,
            )  # fmt: skip
        total += int(page["Count"])
        start = page.get("LastEvaluatedKey")
        if not start:
            break
        last = int(start["id"]["N"])
    return total, last


def list_page(start: int, size: int | None) -> tuple[list[User], int]:
    """`size` users (None: all) from the `start`-th one, in the order of their ids, and how many users there are."""
    if size is None:
        found = all()
        return found[start:], len(found)
    others = sorted(id for role in OTHER_ROLES for id in iter_ids(role))
    total = count(NORMAL)[0] + len(others)
    if start >= total:
        return [], total
    passed, last = count(NORMAL, most=max(min(start, total) - len(others), 0))
    passed += bisect_right(others, last)
    normal = iter_ids(NORMAL, last, min(size + len(others), MOST_AT_ONCE))
    following = heapq.merge(others[bisect_right(others, last) :], normal)
    users = get_many(list(islice(following, start - passed, start - passed + size)))
    return [users[id] for id in sorted(users)], total


def _make_start(role: int, after: int) -> Any:
    """What DynamoDB would answer as the last key; whether that user is still there does not matter."""
    return {"id": {"N": str(after)}, "role": {"N": str(role)}} if after else None
