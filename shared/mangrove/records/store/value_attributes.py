"""The attributes of a record, derived from the dataclass of its values."""

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

from mangrove.records.store.encryption import EncryptedAttribute

NULLABLE = " | None"
KINDS: dict[str, type[Attribute[Any]]] = {
    "int": NumberAttribute, "str": UnicodeAttribute, "bool": BooleanAttribute, "datetime": UTCDateTimeAttribute,
}  # fmt: skip


def add_attributes(model: type, value: type, encrypted: Collection[str]) -> None:
    """Give a model an attribute for each field of a dataclass, with its default. The first field is the key; a field
    of any type but those in KINDS is stored as JSON."""
    for number, field in enumerate(fields(value)):
        kind = str(field.type).removesuffix(NULLABLE)
        make = EncryptedAttribute if field.name in encrypted else KINDS.get(kind, JSONAttribute)
        default = field.default if field.default_factory is MISSING else field.default_factory
        attribute = make(hash_key=number == 0, null=kind != field.type, default=None if default is MISSING else default)
        attribute.__set_name__(model, field.name)
        setattr(model, field.name, attribute)
