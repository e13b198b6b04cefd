"""The attributes of records, derived from the dataclasses of their values, and indexes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import MISSING, fields
from typing import Any

from pynamodb.attributes import (
    Attribute,
    BooleanAttribute,
    JSONAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UTCDateTimeAttribute,
)
from pynamodb.indexes import GlobalSecondaryIndex, Projection

from mangrove.records.store.encryption import EncryptedAttribute

NULLABLE = " | None"
KINDS: dict[str, type[Attribute[Any]]] = {
    "int": NumberAttribute, "str": UnicodeAttribute, "bool": BooleanAttribute, "datetime": UTCDateTimeAttribute,
}  # fmt: skip


def add_attributes(model: type, value: type, encrypted: Collection[str]) -> None:
    """Give a model an attribute for each field of a dataclass, with its default. The field `id` is the key; a field
    of any type but those in KINDS is stored as JSON."""
    for field in fields(value):
        kind = str(field.type).removesuffix(NULLABLE)
        make = EncryptedAttribute if field.name in encrypted else KINDS.get(kind, JSONAttribute)
        default = field.default if field.default_factory is MISSING else field.default_factory
        attribute = make(
            hash_key=field.name == "id", null=kind != field.type, default=None if default is MISSING else default
        )
        attribute.__set_name__(model, field.name)
        setattr(model, field.name, attribute)


def make_index(name: str, projection: Projection, **keys: type[Attribute[Any]]) -> GlobalSecondaryIndex[Any]:
    """Return an index for a model. The first of the attributes in `keys` is its hash key, the second its range key."""
    (hash_key, hash_kind), (range_key, range_kind) = keys.items()
    members = {
        "Meta": type("Meta", (), {"index_name": name, "projection": projection}),
        hash_key: hash_kind(hash_key=True), range_key: range_kind(range_key=True),
    }  # fmt: skip
    index: GlobalSecondaryIndex[Any] = type(name, (GlobalSecondaryIndex,), members)()
    return index
