"""Per-path rule records."""

from __future__ import annotations

from dataclasses import dataclass

from pynamodb.attributes import BooleanAttribute, JSONAttribute, NumberAttribute, UnicodeAttribute

from mangrove.records.base import Sealed, TableMeta, Versioned, table_name
from mangrove.records.repository import ConfigurationRepository


@dataclass(frozen=True, slots=True)
class Meta:
    """A rule at `path`; each aspect has a flag that stretches it over sub-folders."""

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


class MetaRecord(Versioned):
    class Meta(TableMeta):
        table_name = table_name("metas")

    id = NumberAttribute(hash_key=True)
    path = UnicodeAttribute()
    read_users = JSONAttribute(null=True)
    read_users_sub = BooleanAttribute(default=False)
    write_users = JSONAttribute(null=True)
    write_users_sub = BooleanAttribute(default=False)
    password = Sealed(default="")
    p_sub = BooleanAttribute(default=False)
    write = BooleanAttribute(default=False)
    w_sub = BooleanAttribute(default=False)
    hide = UnicodeAttribute(default="")
    h_sub = BooleanAttribute(default=False)
    readme = UnicodeAttribute(default="")
    r_sub = BooleanAttribute(default=False)
    header = UnicodeAttribute(default="")
    header_sub = BooleanAttribute(default=False)


TAKEN = "constraint failed: UNIQUE constraint failed: x_meta.path (2067)"
_repository = ConfigurationRepository("metas", MetaRecord, Meta, "path", TAKEN)
all, get, create = _repository.all, _repository.get, _repository.create
change, delete = _repository.change, _repository.delete
