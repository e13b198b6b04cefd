"""Records of application passwords: what a program signs in with instead of its user's own password."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pynamodb.attributes import NumberAttribute, UnicodeAttribute, UTCDateTimeAttribute

from mangrove.records.accounts.credentials import CredentialRepository, UserIndex
from mangrove.records.store.base import TableMeta, Versioned, table_name


@dataclass(frozen=True, slots=True)
class AppPassword:
    """`digest`: hex SHA-256 of the password; `name` is `<user id>#<title>`, unique."""

    id: int
    user_id: int
    title: str
    name: str
    digest: str
    added: datetime
    last_used: datetime


class AppPasswordRecord(Versioned):
    class Meta(TableMeta):
        table_name = table_name("app_passwords")

    id = NumberAttribute(hash_key=True)
    user_id = NumberAttribute()
    title = UnicodeAttribute()
    name = UnicodeAttribute()
    digest = UnicodeAttribute()
    added = UTCDateTimeAttribute()
    last_used = UTCDateTimeAttribute()

    by_user = UserIndex()


KIND = "app_passwords"
TAKEN = "application password with the same title already exists"
_repository = CredentialRepository(KIND, AppPasswordRecord, AppPassword, "name", TAKEN)
all, get, create = _repository.all, _repository.get, _repository.create
change, delete, find_by_user = _repository.change, _repository.delete, _repository.find_by_user
