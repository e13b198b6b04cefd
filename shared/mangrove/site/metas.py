"""Changing per-path rules."""

from __future__ import annotations

from typing import Any

from mangrove.paths import TreePath
from mangrove.patterns import InvalidPattern, compile_pattern
from mangrove.problems import BadRequest, Problem
from mangrove.records import metas as records
from mangrove.records.base import RecordMissing
from mangrove.records.metas import Meta


def get(id: int) -> Meta:
    """One rule; Problem in the words clients know."""
    try:
        return records.get(id)
    except RecordMissing:
        raise Problem("failed get old meta: record not found") from None


def create(fields: dict[str, Any]) -> Meta:
    """A new rule; `path` is cleaned, every hide line must compile."""
    return records.create(**_clean_fields(fields))


def update(id: int, fields: dict[str, Any]) -> Meta:
    """Replace all of a rule."""
    get(id)
    return records.change(id, **_clean_fields(fields))


def delete(id: int) -> None:
    """Remove a rule."""
    get(id)
    records.delete(id)


def _clean_fields(fields: dict[str, Any]) -> dict[str, Any]:
    for line in filter(str.strip, fields["hide"].splitlines()):
        try:
            compile_pattern(line)
        except InvalidPattern as error:
            raise BadRequest(f"{line} is illegal: error parsing regexp: {error}") from None
    return fields | {"path": str(TreePath(fields["path"]))}
