"""Changes of rules for paths."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.patterns import InvalidPattern, compile_pattern
from mangrove.core.problems import BadRequest, RecordNotFound
from mangrove.records import metas as records
from mangrove.records.metas import PathRule


def get(id: int) -> PathRule:
    """Return a rule. Raise RecordNotFound with the message that clients know."""
    try:
        return records.get(id)
    except RecordNotFound:
        raise RecordNotFound("failed get old meta: record not found") from None


def create(meta: PathRule) -> PathRule:
    """Create a rule with a new id. Its path is normalised; each of its hide patterns must compile."""
    return records.create(**_clean(meta))


def update(meta: PathRule) -> PathRule:
    """Replace all fields of a rule."""
    get(meta.id)
    return records.change(meta.id, **_clean(meta))


def delete(id: int) -> None:
    """Delete a rule."""
    get(id)
    records.delete(id)


def _clean(meta: PathRule) -> dict[str, Any]:
    """Return the fields of the record without its id. Raise BadRequest."""
    for line in filter(str.strip, meta.hide.splitlines()):
        try:
            compile_pattern(line)
        except InvalidPattern as error:
            raise BadRequest(f"{line} is illegal: error parsing regexp: {error}") from None
    fields = asdict(meta) | {"path": str(TreePath(meta.path))}
    del fields["id"]
    return fields
