"""Records of rules for paths, which the API calls metas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pynamodb.attributes import BooleanAttribute, JSONAttribute, NumberAttribute, UnicodeAttribute

from mangrove.core.problems import Problem
from mangrove.records.store.base import TableMeta, Versioned, table_name
from mangrove.records.store.encryption import EncryptedAttribute
from mangrove.records.store.repository import ConfigurationRepository


@dataclass(frozen=True, slots=True)
class PathRule:
    """A rule for `path`. Each part has a flag that extends it to the folders below."""

    id: int
    path: str
    read_users: list[int] | None
    read_users_sub: bool
    write_users: list[int] | None
    write_users_sub: bool
    password: str
    p_sub: bool
    write: bool
    w_sub: bool
    hide: str
    h_sub: bool
    readme: str
    r_sub: bool
    header: str
    header_sub: bool
    read_groups: list[int] | None = None
    """Ids of groups beside `read_users`; `read_users_sub` is for both."""
    write_groups: list[int] | None = None


NO_USERS = [0]  # an id that no user has


class PathRuleRecord(Versioned):
    """A rule.

    A refused one still locks its folder, if its path can be decrypted: without a rule, the folder would be open.
    """

    class Meta(TableMeta):
        table_name = table_name("metas")

    id = NumberAttribute(hash_key=True)
    path = UnicodeAttribute()
    read_users = JSONAttribute(null=True)
    read_users_sub = BooleanAttribute(default=False)
    write_users = JSONAttribute(null=True)
    write_users_sub = BooleanAttribute(default=False)
    password = EncryptedAttribute(default="")
    p_sub = BooleanAttribute(default=False)
    write = BooleanAttribute(default=False)
    w_sub = BooleanAttribute(default=False)
    hide = UnicodeAttribute(default="")
    h_sub = BooleanAttribute(default=False)
    readme = UnicodeAttribute(default="")
    r_sub = BooleanAttribute(default=False)
    header = UnicodeAttribute(default="")
    header_sub = BooleanAttribute(default=False)
    read_groups = JSONAttribute(null=True)
    write_groups = JSONAttribute(null=True)
    encrypted_path = EncryptedAttribute(attr_name="sealed_path", default="")

    def _get_save_args(self, *args: Any, **options: Any) -> Any:
        self.encrypted_path = self.path
        return super()._get_save_args(*args, **options)

    @classmethod
    def from_raw_data(cls, data: dict[str, Any]) -> Any:
        return super().from_raw_data(data) or cls._lock(data)

    @classmethod
    def _lock(cls, data: dict[str, Any]) -> PathRuleRecord | None:
        """Return the substitute of a refused rule: nobody can read or write there until an administrator saves or
        deletes it.
        """
        try:
            (decrypted,) = cls._decrypt({name: data[name] for name in ("id", "sealed_path")})["sealed_path"].values()
            version = int(data["version"]["N"])
        except (KeyError, ValueError, Problem):
            return None
        record = cls(int(data["id"]["N"]), path=decrypted.text, read_users=NO_USERS, write_users=NO_USERS)
        record.read_users_sub = record.write_users_sub = True
        record.version = version
        return record


TAKEN = "the path has a rule already"
KIND = "metas"
_repository = ConfigurationRepository(KIND, PathRuleRecord, PathRule, "path", TAKEN)
all, get, get_many = _repository.all, _repository.get, _repository.get_many
create, change, delete = _repository.create, _repository.change, _repository.delete
