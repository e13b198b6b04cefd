"""SSH public key records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pynamodb.attributes import NumberAttribute, UnicodeAttribute, UTCDateTimeAttribute

from mangrove.records.base import TableMeta, Versioned, table_name
from mangrove.records.repository import Repository


@dataclass(frozen=True, slots=True)
class SshKey:
    """`text` is the authorized_keys line; `name` is `<user id>#<title>`, unique."""

    id: int
    user_id: int
    title: str
    name: str
    text: str
    fingerprint: str
    added: datetime
    last_used: datetime


class SshKeyRecord(Versioned):
    class Meta(TableMeta):
        table_name = table_name("sshkeys")

    id = NumberAttribute(hash_key=True)
    user_id = NumberAttribute()
    title = UnicodeAttribute()
    name = UnicodeAttribute()
    text = UnicodeAttribute()
    fingerprint = UnicodeAttribute()
    added = UTCDateTimeAttribute()
    last_used = UTCDateTimeAttribute()


TAKEN = "key with the same title already exists"
_repository = Repository("sshkeys", SshKeyRecord, SshKey, "name", TAKEN)
all, get, create = _repository.all, _repository.get, _repository.create
change, delete = _repository.change, _repository.delete


def find_by_user(user_id: int) -> list[SshKey]:
    """A user's keys, by id."""
    return [key for key in all() if key.user_id == user_id]
