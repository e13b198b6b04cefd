"""Changes of groups."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, RecordNotFound, ResourceNotFound
from mangrove.identity.rights import Right
from mangrove.records import groups as records
from mangrove.records import users
from mangrove.records.groups import Group

MAX_GROUPS = 500
MAX_MEMBERS_PER_GROUP = 5000
MAX_FOLDERS_PER_GROUP = 100
MAX_FOLDER_BYTES_PER_GROUP = 64 << 10  # of all paths together, so that a record stays below 400 KB
MAX_NAME_LENGTH = 255  # characters
MAX_PERMISSION = 0xFFFF
PROTOCOL_RIGHTS = (
    Right.WEBDAV_READ | Right.WEBDAV_MANAGE | Right.FTP_READ | Right.FTP_MANAGE | Right.CUSTOM_SHARE_ID
)  # fmt: skip
"""The rights that do not refer to a path and therefore cannot be given for a folder."""


@dataclass(frozen=True, slots=True)
class GroupFields:
    """The fields of a group that an administrator sets. `folders`: pairs of a path and the permission there."""

    name: str
    members: Sequence[int]
    permission: int
    folders: Sequence[tuple[str, int]]


def get(id: int) -> Group:
    """Return a group. Raise ResourceNotFound."""
    try:
        return records.get(id)
    except RecordNotFound:
        raise ResourceNotFound("group not found") from None


def create(fields: GroupFields) -> Group:
    """Create a group. Raise BadRequest or NameTaken."""
    record = _clean(fields, known_members=())
    if len(records.all()) >= MAX_GROUPS:
        raise BadRequest(f"at most {MAX_GROUPS} groups are allowed")
    return records.create(**record)


def update(id: int, fields: GroupFields) -> Group:
    """Replace all fields of a group. Raise BadRequest, NameTaken or ResourceNotFound."""
    return records.change(id, **_clean(fields, known_members=get(id).members))


def delete(id: int) -> None:
    """Delete a group. Rules keep its id, but it has no members any more."""
    get(id)
    records.delete(id)


def _clean(fields: GroupFields, known_members: Collection[int]) -> dict[str, Any]:
    if not fields.name.strip() or len(fields.name) > MAX_NAME_LENGTH:
        raise BadRequest(f"the name of a group has 1 to {MAX_NAME_LENGTH} characters")
    if not 0 <= fields.permission <= MAX_PERMISSION:
        raise BadRequest("permission is out of range")
    members = list(dict.fromkeys(fields.members))
    _check_members(members, known_members)
    return asdict(fields) | {"members": members, "folders": _clean_folders(fields.folders)}


def _check_members(members: Sequence[int], known_members: Collection[int]) -> None:
    """Raise BadRequest for too many members, or for a new one that is not a user."""
    if len(members) > MAX_MEMBERS_PER_GROUP:
        raise BadRequest(f"a group may have at most {MAX_MEMBERS_PER_GROUP} members")
    new = set(members).difference(known_members)
    missing = new.difference(users.get_many(sorted(new))) if new else ()
    if missing:
        raise BadRequest(f"there is no user with the id {min(missing)}")


def _clean_folders(folders: Sequence[tuple[str, int]]) -> list[list[str | int]]:
    if len(folders) > MAX_FOLDERS_PER_GROUP:
        raise BadRequest(f"a group may have at most {MAX_FOLDERS_PER_GROUP} folders")
    cleaned = {str(TreePath(path)): permission for path, permission in folders}
    if len(cleaned) < len(folders):
        raise BadRequest("a folder is named twice")
    if sum(len(path.encode()) for path in cleaned) > MAX_FOLDER_BYTES_PER_GROUP:
        raise BadRequest(f"the paths of a group may have at most {MAX_FOLDER_BYTES_PER_GROUP} bytes")
    for path, permission in cleaned.items():
        if not 0 <= permission <= MAX_PERMISSION or permission & PROTOCOL_RIGHTS:
            raise BadRequest(f"the permission of the folder {path} is out of range, or is not for folders")
    return [[path, permission] for path, permission in cleaned.items()]
