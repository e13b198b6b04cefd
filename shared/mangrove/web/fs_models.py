"""Bodies and answers of the file routes, as validated and as shown in the OpenAPI document.

An absent path is the root.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, model_validator

from mangrove.web.binding import Body, Model

PathText = Annotated[str, Field(max_length=4096)]
Text = Annotated[str, Field(max_length=4096)]
Count = Annotated[int, Field(ge=-(2**53), le=2**53)]
ArchivePassword = Annotated[str, Field(max_length=1000)]
Names = Annotated[list[Text], Field(default_factory=list, max_length=100_000), FailFast()]


class MkdirReq(Body):
    path: PathText = ""


class Change(Body):
    """A change of entries; `password` is the folder's, where a rule has one: who may not read does not replace."""

    password: Text = ""


class RenameReq(Change):
    path: PathText = ""
    name: Text = ""
    overwrite: bool = False


OrderBy = Literal["", "name", "size", "modified"]
OrderDirection = Literal["", "asc", "desc"]


class GetReq(Body):
    path: PathText = ""
    password: Text = ""
    page: Count = 1
    per_page: Count = 0
    refresh: bool = False


class ListReq(GetReq):
    order_by: OrderBy = ""
    order_direction: OrderDirection = ""


class QueryModel(BaseModel):
    """Query text; an empty value counts as absent."""

    @model_validator(mode="before")
    @classmethod
    def _drop_blanks(cls, values: Any) -> Any:
        return {key: value for key, value in values.items() if value != ""} if isinstance(values, dict) else values


class GetQuery(QueryModel):
    """The same as query text, for GET; `refresh` is JSON only."""

    path: PathText = ""
    password: Text = ""
    page: Count = 1
    per_page: Count = 0

    def to_body(self) -> GetReq:
        return GetReq(**self.model_dump())


class ListQuery(GetQuery):
    order_by: OrderBy = ""
    order_direction: OrderDirection = ""

    def to_body(self) -> ListReq:
        return ListReq(**self.model_dump())


class DirsReq(Body):
    path: PathText = ""
    password: Text = ""
    force_root: bool = False


class DirsQuery(QueryModel):
    """The same as query text, for GET."""

    path: PathText = ""
    password: Text = ""
    force_root: bool = False

    def to_body(self) -> DirsReq:
        return DirsReq(**self.model_dump())


class RenameObject(BaseModel):
    """There may be very many: `null` counts as absent without a validator of ours."""

    model_config = ConfigDict(extra="ignore", strict=True)

    src_name: Text | None = ""
    new_name: Text | None = ""


class BatchRenameReq(Change):
    src_dir: PathText = ""
    rename_objects: Annotated[list[RenameObject], Field(default_factory=list, max_length=100_000), FailFast()]


class RegexRenameReq(Change):
    src_dir: PathText = ""
    src_name_regex: Text = ""
    new_name_regex: Text = ""


class MoveCopyReq(Change):
    src_dir: PathText = ""
    dst_dir: PathText = ""
    names: Names
    overwrite: bool = False
    skip_existing: bool = False
    merge: bool = False


class RecursiveMoveReq(Change):
    src_dir: PathText = ""
    dst_dir: PathText = ""
    conflict_policy: Text = "cancel"


class ArchiveReq(Body):
    path: PathText = ""
    password: Text = ""
    refresh: bool = False
    archive_pass: ArchivePassword = ""


class ArchiveQuery(QueryModel):
    """The same as query text, for GET."""

    path: PathText = ""
    password: Text = ""
    archive_pass: ArchivePassword = ""

    def to_body(self) -> ArchiveReq:
        return ArchiveReq(**self.model_dump())


class ArchiveListReq(ArchiveReq):
    page: Count = 1
    per_page: Count = 0
    inner_path: PathText = "/"
    order_by: OrderBy = ""
    order_direction: OrderDirection = ""


class ArchiveListQuery(ArchiveQuery):
    """The same as query text, for GET."""

    page: Count = 1
    per_page: Count = 0
    inner_path: PathText = "/"
    order_by: OrderBy = ""
    order_direction: OrderDirection = ""

    def to_body(self) -> ArchiveListReq:
        return ArchiveListReq(**self.model_dump())


class OfflineDownloadReq(Body):
    urls: Annotated[
        list[Annotated[str, Field(max_length=16_384)]], Field(default_factory=list, max_length=100_000), FailFast()
    ]
    path: PathText = ""
    tool: Annotated[str, Field(max_length=100)] = ""
    delete_policy: Annotated[str, Field(max_length=100)] = ""


class DecompressReq(Change):
    """The names of the archives are under the key `name`."""

    src_dir: PathText = ""
    dst_dir: PathText = ""
    name: Names
    archive_pass: ArchivePassword = ""
    inner_path: PathText = "/"
    cache_full: bool = False
    put_into_new_dir: bool = False
    overwrite: bool = False


class RemoveReq(Change):
    dir: PathText = ""
    names: Names


class RemoveEmptyReq(Change):
    src_dir: PathText = ""


class LinkReq(Body):
    path: PathText = ""


class OtherReq(Body):
    path: PathText = ""
    password: Text = ""
    method: Text = ""


class MountDetails(Model):
    total_space: int
    used_space: int
    free_space: int


class FileObject(Model):
    name: str
    size: int
    is_dir: bool
    modified: datetime
    created: datetime
    sign: str
    thumb: str
    type: int
    hashinfo: str
    hash_info: dict[str, str] | None
    mount_details: MountDetails | None = None


class Listing(Model):
    content: list[FileObject]
    total: int
    readme: str
    header: str
    write: bool
    write_content_bypass: bool
    provider: str


class SingleObject(FileObject):
    raw_url: str
    readme: str
    header: str
    provider: str
    related: list[FileObject] | None


class ArchiveNode(FileObject):
    children: list[ArchiveNode] | None


class Order(Model):
    order_by: str
    order_direction: str
    extract_folder: str


class ArchiveMeta(Model):
    """`content` null: ask for one folder at a time."""

    comment: str
    encrypted: bool
    content: list[ArchiveNode] | None
    sort: Order | None = None
    raw_url: str
    sign: str


class ArchiveListing(Model):
    content: list[FileObject]
    total: int


class FolderName(Model):
    name: str
    modified: datetime


class CreatedTask(Model):
    id: str
    name: str
    state: int
    status: str
    progress: int
    error: str


class Stored(Model):
    task: CreatedTask


class Opened(Model):
    tasks: list[CreatedTask]


class Unpacking(Model):
    task: list[CreatedTask]


class Done(Model):
    message: str
    tasks: list[CreatedTask] | None = None


class DirectLink(Model):
    url: str
    header: dict[str, list[str]] | None
    Expiration: int | None
    concurrency: int
    part_size: int
    content_length: int
