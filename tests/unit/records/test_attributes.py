"""Attributes of a record are those of the dataclass of its values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from mangrove.records.store.attributes import add_attributes


@dataclass
class Value:
    id: str
    made: datetime
    count: int = 3
    is_open: bool = False
    until: int | None = None
    names: list[str] = field(default_factory=list)
    secret: str = ""


class Model: ...


def test_each_field_has_an_attribute_of_its_type_and_default() -> None:
    add_attributes(Model, Value, ("secret",))
    attributes: dict[str, Any] = {name: getattr(Model, name) for name in Value.__dataclass_fields__}
    assert [
        (type(each).__name__, each.attr_name, each.is_hash_key, each.null, each.default) for each in attributes.values()
    ] == [
        ("UnicodeAttribute", "id", True, False, None),
        ("UTCDateTimeAttribute", "made", False, False, None),
        ("NumberAttribute", "count", False, False, 3),
        ("BooleanAttribute", "is_open", False, False, False),
        ("NumberAttribute", "until", False, True, None),
        ("JSONAttribute", "names", False, False, list),
        ("EncryptedAttribute", "secret", False, False, ""),
    ]
