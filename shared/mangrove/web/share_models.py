"""Bodies and answers of the routes for share links."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from mangrove.core.problems import BadRequest
from mangrove.records.share_links import ShareFields
from mangrove.tree.sharing.administration import MAX_EXTENSIONS, MAX_SHARED_PATHS, ShareEntry
from mangrove.web.framework import Body, Model

MAX_ID_TEXT_LENGTH = 1024  # characters; a longer id than is allowed gets its own message
MAX_PASSWORD_LENGTH = 255  # characters
MAX_REMARK_LENGTH = 4096  # characters
MAX_TEXT_LENGTH = 20_000  # characters of the readme or the header
MAX_NUMBER = 2**53

IdText = Annotated[str, Field(max_length=MAX_ID_TEXT_LENGTH)]
LongText = Annotated[str, Field(max_length=MAX_TEXT_LENGTH)]
Bytes = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
Visits = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
Mode = Literal["read", "drop", "both"]
FILES = "Shared files and folders, as absolute paths in the tree."
EXPIRES = "Time from which on the share link is over, as RFC 3339; empty or `null` for never."
MAX_ACCESSED = "Visits that it takes; 0 for any number. Requests from one address within 30 minutes are one visit."
MODE = "`read`: visitors read; `drop`: visitors upload and do not see what is there; `both`: visitors do both."
MAX_FILE_SIZE = "Bytes of the largest file that visitors may upload; 0 for any size."
MAX_TOTAL_SIZE = "Bytes of all files that visitors may upload; 0 for any size."
MAX_FILES = "Files that visitors may upload; 0 for any number."
EXTENSIONS = "Extensions of files that visitors may upload, without a dot; empty for all."
ORDER_BY = "Sort key of its folders; empty for the order of the storage."
EXTRACT_FOLDER = "Position of folders: `front` or `back`; empty for the order of the storage."
PASSWORD = "Password that visitors need; empty for none."


class ShareReq(Body):
    model_config = ConfigDict(json_schema_extra={"required": ["files"]})

    files: list[Annotated[str, Field(max_length=4096)]] = Field(
        default_factory=list, max_length=MAX_SHARED_PATHS, description=FILES
    )
    id: IdText = Field("", description="The chosen id, which needs a right of its own; empty for a random id.")
    creator: IdText = Field("", description="Name of its owner; an administrator may name another user.")
    expires: str = Field("", max_length=64, description=EXPIRES)
    pwd: str = Field("", max_length=MAX_PASSWORD_LENGTH, description=PASSWORD)
    max_accessed: Visits = Field(0, description=MAX_ACCESSED)
    accessed: Visits = Field(0, description="Number of visits so far.")
    disabled: bool = Field(False, description="Nobody can open it.")
    remark: str = Field("", max_length=MAX_REMARK_LENGTH, description="A note for its owner.")
    readme: LongText = Field("", description="Markdown text below its files.")
    header: LongText = Field("", description="Markdown text above its files.")
    order_by: str = Field("", max_length=16, description=ORDER_BY)
    order_direction: str = Field("", max_length=16, description="Sort direction: `asc` or `desc`.")
    extract_folder: str = Field("", max_length=16, description=EXTRACT_FOLDER)
    mode: Mode = Field("read", description=MODE)
    max_file_size: Bytes = Field(0, description=MAX_FILE_SIZE)
    max_total_size: Bytes = Field(0, description=MAX_TOTAL_SIZE)
    max_files: Bytes = Field(0, description=MAX_FILES)
    extensions: list[Annotated[str, Field(max_length=32)]] = Field(
        default_factory=list, max_length=MAX_EXTENSIONS, description=EXTENSIONS
    )

    def to_fields(self) -> ShareFields:
        """Return the fields without the id, owner and visits. Raise BadRequest for a wrong time."""
        values = self.model_dump(exclude={"id", "new_id", "creator", "accessed", "pwd", "expires"})
        return ShareFields(**values, password=self.pwd, expires=parse_expiry(self.expires))


class ShareUpdateReq(ShareReq):
    model_config = ConfigDict(json_schema_extra={"required": ["id", "files"]})

    id: IdText = Field("", description="Id of the share link.")
    new_id: IdText = Field("", description="Its new id, which needs a right of its own; empty to keep the id.")
    accessed: Visits | None = Field(None, description="Number of visits so far; absent to keep it.")  # type: ignore[assignment]


class SharePageReq(Body):
    page: int = Field(1, ge=-MAX_NUMBER, le=MAX_NUMBER, description="Page number, from 1.")
    per_page: int = Field(0, ge=-MAX_NUMBER, le=MAX_NUMBER, description="Entries per page; 0 for all on one page.")


class ShareRow(Model):
    id: str = Field(description="Id, the last part of its address.")
    files: list[str] = Field(description=FILES)
    creator: str = Field(description="Name of its owner; empty if the user was deleted.")
    creator_role: int = Field(description="Role of its owner.")
    expires: datetime | None = Field(description="Time from which on it is over; `null` for never.")
    pwd: str = Field(description=PASSWORD)
    accessed: int = Field(description="Number of visits so far.")
    max_accessed: int = Field(description=MAX_ACCESSED)
    disabled: bool = Field(description="Nobody can open it.")
    remark: str = Field(description="A note for its owner.")
    readme: str = Field(description="Markdown text below its files.")
    header: str = Field(description="Markdown text above its files.")
    order_by: str = Field(description=ORDER_BY)
    order_direction: str = Field(description="Sort direction: `asc` or `desc`.")
    extract_folder: str = Field(description=EXTRACT_FOLDER)
    mode: Mode = Field(description=MODE)
    max_file_size: int = Field(description=MAX_FILE_SIZE)
    max_total_size: int = Field(description=MAX_TOTAL_SIZE)
    max_files: int = Field(description=MAX_FILES)
    extensions: list[str] = Field(description=EXTENSIONS)


_STORED = (
    "id", "files", "max_accessed", "disabled", "remark", "readme", "header", "order_by", "order_direction",
    "extract_folder", "mode", "max_file_size", "max_total_size", "max_files", "extensions",
)  # fmt: skip


def format_share(entry: ShareEntry) -> dict[str, Any]:
    """Return a share link in an answer."""
    link, creator = entry.link, entry.creator
    return {name: getattr(link, name) for name in _STORED} | {
        "creator": creator.username if creator else "",
        "creator_role": creator.role if creator else 0,
        "expires": format_expiry(link.expires),
        "pwd": link.password,
        "accessed": entry.visits,
    }


def format_expiry(milliseconds: int | None) -> datetime | None:
    """Return the end of a share link as a time."""
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, UTC)


def parse_expiry(text: str) -> int | None:
    """Return the milliseconds of a time as RFC 3339; None for no time, and for the zero time that clients send."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadRequest("expires is not a time as RFC 3339") from None
    if moment.tzinfo is None:
        raise BadRequest("expires has no offset from UTC")
    if moment.year == 1:
        return None
    return int(moment.timestamp() * 1000)
