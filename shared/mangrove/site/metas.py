"""Changing per-path rules."""

from __future__ import annotations

from typing import Any

import re2

from mangrove.paths import TreePath
from mangrove.problems import BadRequest, Problem
from mangrove.records import metas as records
from mangrove.records.base import RecordMissing
from mangrove.records.metas import Meta
from mangrove.site import snapshot


def get(id: int) -> Meta:
    """One rule; Problem in the words clients know."""
    try:
        return records.get(id)
    except RecordMissing:
        raise Problem("failed get old meta: record not found") from None


def create(fields: dict[str, Any]) -> Meta:
    """A new rule; `path` is cleaned, every hide line must compile."""
    meta = records.create(**_checked(fields))
    snapshot.changed()
    return meta


def update(id: int, fields: dict[str, Any]) -> Meta:
    """Replace all of a rule."""
    get(id)
    meta = records.change(id, **_checked(fields))
    snapshot.changed()
    return meta


def delete(id: int) -> None:
    """Remove a rule."""
    get(id)
    records.delete(id)
    snapshot.changed()


def _checked(fields: dict[str, Any]) -> dict[str, Any]:
    for line in filter(str.strip, fields["hide"].splitlines()):
        try:
            re2.compile(line)
        except re2.error as error:
            raise BadRequest(f"{line} is illegal: {_text(error)}") from None
    return fields | {"path": str(TreePath(fields["path"]))}


def _text(error: Exception) -> str:
    first = error.args[0] if error.args else error
    return f"error parsing regexp: {first.decode(errors='replace') if isinstance(first, bytes) else first}"
