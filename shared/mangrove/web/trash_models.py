"""Bodies and answers of the routes for the trash and for versions of files."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field

from mangrove.core.paths import TreePath
from mangrove.drivers.base import StoredVersion
from mangrove.identity.rights import Caller
from mangrove.records.trash import TrashKind
from mangrove.tree.access import PathAccess
from mangrove.tree.operations import links
from mangrove.tree.trash.entries import TrashItem, TrashResult
from mangrove.web.fields import (
    MAX_NAMES_PER_REQUEST,
    Count,
    CreatedTask,
    Names,
    Overwrite,
    Password,
    Path,
    SourceFolder,
)
from mangrove.web.framework import Body, Model

TrashIds = Annotated[
    list[Annotated[str, Field(max_length=64)]],
    Field(max_length=MAX_NAMES_PER_REQUEST, description="Ids of entries of the trash."),
]


class TrashListReq(Body):
    path: Path = Field("", description="Only entries from this folder and below, of all users; empty: your own.")
    password: Password = ""
    start: Annotated[str, Field(max_length=64)] = Field("", description="`next` of the page before; empty at first.")
    per_page: Count = Field(0, description="Entries per page, at most 1,000; 0 for 200.")


class TrashEmptyReq(Body):
    path: Path = Field("", description="Only entries from this folder and below; empty: your own.")
    password: Password = ""


class VersionsReq(Body):
    path: Path = ""
    password: Password = ""


class VersionRestoreReq(VersionsReq):
    id: Annotated[str, Field(max_length=1024)] = Field("", description="Id of the version.")


class VersionObject(Model):
    id: str = Field(description="Id of the version; links take it in their parameter `version`.")
    size: int = Field(description="Size in bytes; -1 if unknown.")
    modified: datetime = Field(description="Time of its last change.")
    is_latest: bool = Field(description="True for the present one.")
    deleted: bool = Field(description="True if the file was removed here; there is no content.")


class Versions(Model):
    content: list[VersionObject] = Field(description="Versions, the newest first.")
    sign: str = Field(description="Signature for links, in their parameter `sign`; empty if none is needed.")


class TrashIdsReq(Body):
    ids: TrashIds = Field(default_factory=list)
    password: Password = ""


class TrashRestoreReq(TrashIdsReq):
    dir: SourceFolder = Field("", description="With `names`: the folder that the entries were removed from.")
    names: Names = Field(default_factory=list, description="Names that you removed last from `dir`, instead of ids.")
    overwrite: Overwrite = False


class TrashObject(Model):
    id: str = Field(description="Id of the entry.")
    path: str = Field(description="The path that it came from, below the caller's root.")
    name: str = Field(description="Name.")
    size: int = Field(description="Size in bytes; 0 for a folder, -1 if unknown.")
    is_dir: bool = Field(description="True for a folder.")
    modified: datetime = Field(description="Time of its last change.")
    removed: datetime = Field(description="Time of removal.")
    remover: str = Field(description="Name of the user who removed it; empty if unknown.")
    expires: datetime | None = Field(description="Time of its deletion; null if it stays.")
    replaced: bool = Field(description="True if it was replaced by a file of its name.")


class TrashListing(Model):
    content: list[TrashObject] = Field(description="Entries, the newest first.")
    next: str = Field(description="`start` of the next page; empty at the end.")
    days: int | None = Field(
        description="Days for which entries removed from `path` are kept; 0: removals are final; null: not known."
    )


class TrashDone(Model):
    id: str = Field(description="Id of the entry.")
    path: str = Field(description="Its path, below the caller's root.")


class TrashFailed(Model):
    id: str = Field(description="Id of the entry.")
    message: str = Field(description="The reason.")


class TrashOutcome(Model):
    done: list[TrashDone] = Field(description="Entries that were restored or deleted.")
    failed: list[TrashFailed] = Field(description="Entries that stay in the trash, or are not there.")


class TrashEmptied(Model):
    deleted: int = Field(description="Number of deleted entries.")
    failed: int = Field(description="Number of entries that you may not delete.")
    more: bool = Field(description="True if there are more entries: send the request again.")


class TrashRestored(TrashOutcome):
    task: CreatedTask | None = Field(description="The task that restores the other entries; null if there are none.")


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
    sign = links.make_signer(access.tree.settings, access.caller.user.id).sign(access.path) if is_signed else ""
    return {"content": rows, "sign": sign}


def format_outcome(caller: Caller, outcome: TrashResult) -> dict[str, Any]:
    """Return the result for each entry."""
    return {
        "done": [{"id": id, "path": _below_base(caller, path)} for id, path in outcome.done],
        "failed": [{"id": id, "message": problem.message} for id, problem in outcome.failed],
    }
