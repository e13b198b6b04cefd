"""Bodies and answers of the file routes, as they are validated and documented. An absent path is the root."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field

from mangrove.web.fields import (
    MAX_NAMES_PER_REQUEST,
    Count,
    CreatedTask,
    Names,
    Overwrite,
    PageNumber,
    PageSize,
    Password,
    Path,
    SourceFolder,
    Text,
)
from mangrove.web.framework import Body, Model
from mangrove.web.storage_details import Ignored, MountDetails

TargetFolder = Annotated[str, Field(max_length=4096, description="The folder that receives the entries.")]
InnerPath = Annotated[str, Field(max_length=4096, description="A folder or file inside the archive.")]
ArchivePassword = Annotated[str, Field(max_length=1000, description="The archive's password, if it has one.")]
OrderBy = Annotated[
    Literal["", "name", "size", "modified"],
    Field(description="Sort key. Folders come first unless the storage puts them last. Default: the storage's order."),
]
OrderDirection = Annotated[
    Literal["", "asc", "desc"], Field(description="Sort direction; used together with `order_by`.")
]
Refresh = Annotated[
    bool, Field(description="Read the folder from the storage again. Only for callers with write permission there.")
]


class MkdirReq(Body):
    path: Path = ""


class Change(Body):
    """A change of entries. Replacing entries needs the folder's password, too."""

    password: Password = ""


class RenameReq(Change):
    path: Path = ""
    name: Text = Field("", description="The new name.")
    overwrite: Overwrite = False


class GetReq(Body):
    path: Path = ""
    password: Password = ""
    page: Count = Field(1, description=Ignored)
    per_page: Count = Field(0, description=Ignored)
    refresh: bool = Field(False, description=Ignored)


class ListReq(GetReq):
    page: PageNumber = 1
    per_page: PageSize = 0
    refresh: Refresh = False
    order_by: OrderBy = ""
    order_direction: OrderDirection = ""


class DirsReq(Body):
    path: Path = ""
    password: Password = ""
    force_root: bool = Field(
        False, description="Resolve the path from the root of the whole tree. Only for administrators."
    )


class RenameObject(BaseModel):
    """A rename in a long list. `null` counts as absent without a custom validator."""

    model_config = ConfigDict(extra="ignore", strict=True)

    src_name: Text | None = Field("", description="Current name.")
    new_name: Text | None = Field("", description="New name.")


class BatchRenameReq(Change):
    src_dir: SourceFolder = ""
    rename_objects: Annotated[list[RenameObject], FailFast()] = Field(
        default_factory=list, max_length=MAX_NAMES_PER_REQUEST, description="Pairs of current and new names."
    )


class RegexRenameReq(Change):
    src_dir: SourceFolder = ""
    src_name_regex: Text = Field("", description="Pattern (RE2) of names; the matched part of a name is replaced.")
    new_name_regex: Text = Field("", description="Replacement; `$1` inserts the match of the first group.")


class MoveCopyReq(Change):
    src_dir: SourceFolder = ""
    dst_dir: TargetFolder = ""
    names: Names = Field(default_factory=list, description="Names of entries of the folder.")
    overwrite: Overwrite = False
    skip_existing: bool = Field(False, description="Leave out names that exist in the target folder.")
    merge: bool = Field(False, description="Add to existing folders and leave their existing files as they are.")
    keep_both: bool = Field(False, description="Give entries whose names exist in the target folder a number.")


class RecursiveMoveReq(Change):
    src_dir: SourceFolder = ""
    dst_dir: TargetFolder = ""
    conflict_policy: Text = Field(
        "cancel", description="If a name exists: `cancel` everything, `overwrite` the file, or `skip` it."
    )


class ArchiveReq(Body):
    path: Path = ""
    password: Password = ""
    refresh: bool = Field(False, description=Ignored)
    archive_pass: ArchivePassword = ""


class ArchiveListReq(ArchiveReq):
    page: PageNumber = 1
    per_page: PageSize = 0
    inner_path: InnerPath = "/"
    order_by: OrderBy = ""
    order_direction: OrderDirection = ""


class OfflineDownloadReq(Body):
    urls: Annotated[list[Annotated[str, Field(max_length=16_384)]], FailFast()] = Field(
        default_factory=list, max_length=100_000, description="Addresses to download; blank ones are ignored."
    )
    path: Path = Field("", description="The folder that receives the downloads.")
    tool: str = Field("", max_length=100, description="A name of `offline_download_tools`.")
    delete_policy: str = Field(
        "",
        max_length=100,
        description="When the downloaded copy is deleted: `delete_on_upload_succeed`, `delete_on_upload_failed`, "
        "`delete_always`, `upload_download_stream` (no copy is made), otherwise never.",
    )


class DecompressReq(Change):
    src_dir: SourceFolder = ""
    dst_dir: TargetFolder = ""
    name: Names = Field(default_factory=list, description="Names of the archives.")
    archive_pass: ArchivePassword = ""
    inner_path: InnerPath = "/"
    cache_full: bool = Field(False, description="Accepted and ignored: the archive is read from its storage.")
    put_into_new_dir: bool = Field(False, description="Unpack into a new folder named after the archive.")
    overwrite: Overwrite = False


class CompressReq(Change):
    src_dir: SourceFolder = ""
    names: Names = Field(
        default_factory=list, description="Names of entries of the folder; none for the folder itself."
    )
    dst_dir: TargetFolder = ""
    name: Text = Field("", description="Name of the archive, which ends in `.zip` or `.tar.gz`.")


class ZipReq(Body):
    dir: SourceFolder = ""
    password: Password = ""
    names: Names = Field(
        default_factory=list, description="Names of entries of the folder; none for the folder itself."
    )


class RemoveReq(Change):
    dir: SourceFolder = ""
    names: Names = Field(default_factory=list, description="Names of entries of the folder.")


class RemoveEmptyReq(Change):
    src_dir: Path = Field("", description="The folder below which empty folders are removed.")


class LinkReq(Body):
    path: Path = Field("", description="Path in the whole tree.")


class OtherReq(Body):
    path: Path = ""
    password: Password = ""
    method: Text = Field("", description="The request to the driver.")


class FileObject(Model):
    name: str = Field(description="Name.")
    size: int = Field(description="Size in bytes; 0 for a folder.")
    is_dir: bool = Field(description="True for a folder.")
    modified: datetime = Field(description="Time of the last change.")
    created: datetime = Field(description="Time of creation; the time of the last change if unknown.")
    sign: str = Field(description="Signature for links, in their parameter `sign`; empty if none is needed.")
    thumb: str = Field(description="Address of a thumbnail; empty if there is none.")
    type: int = Field(description="1 folder, 2 video, 3 audio, 4 text, 5 image, 0 anything else.")
    hashinfo: str = Field(description="The checksums as JSON text.")
    hash_info: dict[str, str] | None = Field(description="Checksums that the storage knows, by algorithm.")
    mount_details: MountDetails | None = Field(
        None, description="Usage of the storage, if it is known and the caller may see it."
    )


class Listing(Model):
    content: list[FileObject] = Field(description="Entries of this page, in order.")
    total: int = Field(description="Number of entries on all pages.")
    readme: str = Field(description="Text below the listing, as Markdown.")
    header: str = Field(description="Text above the listing, as Markdown.")
    write: bool = Field(description="True if the caller may add entries here and the storage accepts them.")
    write_content_bypass: bool = Field(description="True if a rule lets everyone write here.")
    provider: str = Field(description="Name of the driver; `unknown` if there is no storage.")


class SingleObject(FileObject):
    raw_url: str = Field(description="Address of the bytes.")
    readme: str = Field(description="Text below the listing, as Markdown.")
    header: str = Field(description="Text above the listing, as Markdown.")
    provider: str = Field(description="Name of the driver; `unknown` if there is no storage.")
    related: list[FileObject] | None = Field(
        description="Files beside it whose names begin with the same text, for example subtitles."
    )


class ArchiveNode(FileObject):
    children: list[ArchiveNode] | None = Field(description="Entries of the folder; null for a file or empty folder.")


class Order(Model):
    order_by: str = Field(description="`name`, `size` or `modified`.")
    order_direction: str = Field(description="`asc` or `desc`.")
    extract_folder: str = Field(description="Position of folders: `front`, `back`, or empty for among the files.")


class ArchiveMeta(Model):
    comment: str = Field(description="The archive's comment.")
    encrypted: bool = Field(description="True if it needs a password.")
    content: list[ArchiveNode] | None = Field(
        description="All entries as a tree; null if there are too many: list single folders instead."
    )
    sort: Order | None = Field(None, description="Sort order of the storage; absent if `content` is null.")
    raw_url: str = Field(description="Address of the bytes.")
    sign: str = Field(description="Signature for links, in their parameter `sign`; empty if none is needed.")


class ArchiveListing(Model):
    content: list[FileObject] = Field(description="Entries of this page, in order.")
    total: int = Field(description="Number of entries on all pages.")


class FolderName(Model):
    name: str = Field(description="Name.")
    modified: datetime = Field(description="Time of the last change.")


class Opened(Model):
    tasks: list[CreatedTask] = Field(description="The created tasks.")


class Unpacking(Model):
    task: list[CreatedTask] = Field(description="The created tasks.")


class ZipLink(Model):
    url: str = Field(description="Address of the ZIP file.")
    task: CreatedTask | None = Field(
        description="The task that makes the file before it can be fetched; null if it is made while it is sent."
    )


class Done(Model):
    message: str = Field(description="Result in words.")
    tasks: list[CreatedTask] | None = Field(None, description="The created tasks.")


class DirectLink(Model):
    url: str = Field(description="Address of the file at the storage itself.")
    header: dict[str, list[str]] | None = Field(description="Headers that the address needs, each with its values.")
    Expiration: int | None = Field(description="Lifetime of the link in nanoseconds; null if unknown.")
    concurrency: int = Field(description="Number of ranges to fetch at the same time; 0 for no limit.")
    part_size: int = Field(description="Bytes of a range; 0 for no preference.")
    content_length: int = Field(description="Bytes of the file; 0 if unknown.")
