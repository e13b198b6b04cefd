"""Bodies and answers of the routes of tokens and groups, as they are validated and documented."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field

from mangrove.core.problems import BadRequest
from mangrove.identity.app_passwords import NewToken
from mangrove.identity.groups import (
    MAX_FOLDERS_PER_GROUP,
    MAX_MEMBERS_PER_GROUP,
    MAX_NAME_LENGTH,
    GroupFields,
)
from mangrove.identity.scopes import TokenMode
from mangrove.records.credentials import AppPassword
from mangrove.records.groups import Group
from mangrove.web.framework import Body, Model, require_in_schema
from mangrove.web.models import AddedTime, LastUsedTime, NewTitle, Number, RecordId, Title

Folder = Annotated[str, Field(description="The root of the token, a folder below the user's base path.")]
Mode = Annotated[str, Field(description="`read`, `write` or `both`.")]
ProtocolName = Annotated[str, Field(max_length=16)]
Protocols = Annotated[list[str], Field(description="Some of `api`, `webdav`, `sftp` and `mcp`.")]
Administrative = Annotated[bool, Field(description="True if the token may use the routes of administrators.")]


class TokenReq(Body):
    model_config = require_in_schema("title", "protocols")

    title: NewTitle = ""
    folder: Annotated[Folder, Field(max_length=4096)] = "/"
    mode: Annotated[Mode, Field(max_length=16)] = TokenMode.BOTH.value
    protocols: list[ProtocolName] = Field([], max_length=8, description="Some of `api`, `webdav`, `sftp` and `mcp`.")
    expires: str = Field(
        "", max_length=64, description="Time when the token ends, in ISO 8601 with an offset; empty for no end."
    )
    administration: Administrative = False

    def make_token(self) -> NewToken:
        """Return the title and the scope. Raise BadRequest for a text that is not a time."""
        return NewToken(
            self.title,
            self.folder,
            self.mode,
            self.protocols,
            self.administration,
            _parse_time(self.expires) if self.expires else 0,
        )


def _parse_time(text: str) -> int:
    try:
        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            raise ValueError
        return int(time.timestamp())
    except (ValueError, OverflowError):
        raise BadRequest("expires must be a time in ISO 8601 with an offset, such as 2030-01-31T12:00Z") from None


class TokenRow(Model):
    id: RecordId
    title: Title
    folder: Folder
    mode: Mode
    protocols: Protocols
    expires: datetime | None = Field(description="Time when the token ends; `null` for no end.")
    administration: Administrative
    added_time: AddedTime
    last_used_time: LastUsedTime


class NewTokenRow(TokenRow):
    token: str = Field(description="The text of the token. No other answer has it.")


def format_token(token: AppPassword) -> dict[str, Any]:
    """Return a token's record, without its text."""
    return {
        "id": token.id,
        "title": token.title,
        "folder": token.folder,
        "mode": token.mode,
        "protocols": token.protocols.split(","),
        "expires": datetime.fromtimestamp(token.expires, UTC) if token.expires else None,
        "administration": token.is_administrative,
        "added_time": token.added,
        "last_used_time": token.last_used,
    }


GroupName = Annotated[str, Field(description="Name of the group.")]
Members = Annotated[list[int], Field(description="Ids of the users in the group.")]
GroupPermission = Annotated[int, Field(description="Rights in the whole tree, one bit each, as those of a user.")]
FolderPath = Annotated[str, Field(description="A folder of the tree, as administrators see it.")]
FolderPermission = Annotated[int, Field(description="Rights at and below the folder, one bit each.")]


class GroupFolderReq(Body):
    path: Annotated[FolderPath, Field(max_length=4096)] = ""
    permission: Annotated[FolderPermission, Field(ge=-(2**53), le=2**53)] = 0


class GroupReq(Body):
    model_config = require_in_schema("name")

    id: Number = Field(0, description="Id of the record.")
    name: Annotated[GroupName, Field(max_length=MAX_NAME_LENGTH)] = ""
    members: list[Number] = Field(
        [], max_length=MAX_MEMBERS_PER_GROUP, description="Ids of the users in the group."
    )  # fmt: skip
    permission: Annotated[GroupPermission, Field(ge=-(2**53), le=2**53)] = 0
    folders: list[GroupFolderReq] = Field(
        [], max_length=MAX_FOLDERS_PER_GROUP, description="Folders with more rights at and below them."
    )

    def to_fields(self) -> GroupFields:
        """Return the fields of the record."""
        folders = [(folder.path, folder.permission) for folder in self.folders]
        return GroupFields(self.name, self.members, self.permission, folders)


class GroupFolder(Model):
    path: FolderPath
    permission: FolderPermission


class GroupRow(Model):
    id: RecordId
    name: GroupName
    members: Members
    permission: GroupPermission
    folders: list[GroupFolder] = Field(description="Folders with more rights at and below them.")


def format_group(group: Group) -> dict[str, Any]:
    """Return a group's record."""
    return {
        "id": group.id,
        "name": group.name,
        "members": group.members,
        "permission": group.permission,
        "folders": [{"path": path, "permission": permission} for path, permission in group.folders],
    }
