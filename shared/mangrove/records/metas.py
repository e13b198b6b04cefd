"""Records of rules for paths, which the API calls metas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mangrove.core.problems import Problem
from mangrove.records.store.base import TableMeta, Versioned, table_name
from mangrove.records.store.encryption import EncryptedAttribute
from mangrove.records.store.repository import ConfigurationRepository


@dataclass(frozen=True, slots=True)
class PathRule:
    """A rule for `path`. Each part has a flag that extends it to the folders below."""

    id: int
    path: str
    read_users: list[int] | None = None
    read_users_sub: bool = False
    write_users: list[int] | None = None
    write_users_sub: bool = False
    password: str = ""
    p_sub: bool = False
    write: bool = False
    w_sub: bool = False
    hide: str = ""
    h_sub: bool = False
    readme: str = ""
    r_sub: bool = False
    header: str = ""
    header_sub: bool = False
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
        value = PathRule
        encrypted = ("password",)

    encrypted_path = EncryptedAttribute(attr_name="sealed_path", default="")

    def _get_save_args(self, *args: Any, **options: Any) -> Any:
        self.encrypted_path = self.attribute_values["path"]
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
        record = cls(
            int(data["id"]["N"]), path=decrypted.text, read_users=NO_USERS, read_users_sub=True, write_users=NO_USERS,
            write_users_sub=True,
        )  # fmt: skip
        record.version = version
        return record


TAKEN = "the path has a rule already"
KIND = "metas"
_repository = ConfigurationRepository(KIND, PathRuleRecord, PathRule, "path", TAKEN)
all, get, get_many = _repository.all, _repository.get, _repository.get_many
create, change, delete = _repository.create, _repository.change, _repository.delete
