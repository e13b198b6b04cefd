"""The answers of the routes of the trash."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.drivers.base import StoredVersion
from mangrove.identity.rights import Caller
from mangrove.records.trash import TrashKind
from mangrove.tree.access import PathAccess
from mangrove.tree.operations import links
from mangrove.tree.trash.entries import TrashItem, TrashResult


def format_page(caller: Caller, items: Iterable[TrashItem], next_start: str, days: int | None) -> dict[str, Any]:
    """Return a page of the trash. `days`: those for which removed entries are kept, None if not known."""
    return {"content": [_format_item(caller, item) for item in items], "next": next_start, "days": days}


def _format_item(caller: Caller, item: TrashItem) -> dict[str, Any]:
    entry, path = item.entry, item.access.path
    return {
        "id": item.id,
        "path": _below_base(caller, path),
        "name": path.name,
        "size": entry.size,
        "is_dir": entry.is_dir,
        "modified": datetime.fromtimestamp(entry.modified, UTC),
        "removed": datetime.fromtimestamp(entry.removed, UTC),
        "remover": entry.remover,
        "expires": None if item.expires is None else datetime.fromtimestamp(item.expires, UTC),
        "replaced": entry.kind is not TrashKind.REMOVED,
    }


def _below_base(caller: Caller, path: TreePath) -> str:
    return path.below(caller.base)


def format_versions(access: PathAccess, versions: Iterable[StoredVersion]) -> dict[str, Any]:
    """Return the versions of a file, and the signature of links to them."""
    rows = [
        {
            "id": version.id,
            "size": -1 if version.size is None else version.size,
            "modified": datetime.fromtimestamp(version.modified, UTC),
            "is_latest": version.is_latest,
            "deleted": version.is_removed,
        }
        for version in versions
    ]
    is_signed = access.requires_signature()
    sign = links.make_signer(access.settings, access.caller.user.id).sign(access.path) if is_signed else ""
    return {"content": rows, "sign": sign}


def format_outcome(caller: Caller, outcome: TrashResult) -> dict[str, Any]:
    """Return the result for each entry."""
    return {
        "done": [{"id": id, "path": _below_base(caller, path)} for id, path in outcome.done],
        "failed": [{"id": id, "message": problem.message} for id, problem in outcome.failed],
    }
