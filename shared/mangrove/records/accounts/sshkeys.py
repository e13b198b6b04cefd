"""SSH public key records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pynamodb.attributes import NumberAttribute, UnicodeAttribute, UTCDateTimeAttribute

from mangrove.records.accounts.credentials import CredentialRepository, UserIndex
from mangrove.records.store.base import TableMeta, Versioned, table_name


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

    by_user = UserIndex()


KIND = "sshkeys"
TAKEN = "key with the same title already exists"
_repository = CredentialRepository(KIND, SshKeyRecord, SshKey, "name", TAKEN)
all, get, create = _repository.all, _repository.get, _repository.create
change, delete, find_by_user = _repository.change, _repository.delete, _repository.find_by_user
