"""User records."""

from __future__ import annotations

from dataclasses import dataclass

from pynamodb.attributes import BooleanAttribute, NumberAttribute, UnicodeAttribute

from mangrove.records.base import TableMeta, Versioned, table_name
from mangrove.records.integrity import Sealed
from mangrove.records.repository import ConfigurationRepository

SHORT_PASSWORD = 8


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


TAKEN = "the username is taken"
KIND = "users"
_repository = ConfigurationRepository(KIND, UserRecord, User, "username", TAKEN)
all, get, get_many = _repository.all, _repository.get, _repository.get_many
create, change, delete = _repository.create, _repository.change, _repository.delete
