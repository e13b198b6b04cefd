"""Bodies and answers of the file routes, as validated and as shown in the OpenAPI document.

An absent path is the root.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field, model_validator

from mangrove.web.binding import Body

PathText = Annotated[str, Field(max_length=4096)]
Text = Annotated[str, Field(max_length=4096)]
Count = Annotated[int, Field(ge=-(2**53), le=2**53)]
Names = Annotated[list[Text], Field(default_factory=list, max_length=100_000)]


class MkdirReq(Body):
    path: PathText = ""


class RenameReq(Body):
    path: PathText = ""
    name: Text = ""
    overwrite: bool = False


class ListReq(Body):
    path: PathText = ""
    password: Text = ""
    page: Count = 1
    per_page: Count = 0
    refresh: bool = False


class Asked(BaseModel):
    """Query text; an empty value counts as absent."""

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, values: Any) -> Any:
        return {key: value for key, value in values.items() if value != ""} if isinstance(values, dict) else values


class ListQuery(Asked):
    """The same as query text, for GET; `refresh` is JSON only."""

    path: PathText = ""
    password: Text = ""
    page: Count = 1
    per_page: Count = 0

    def body(self) -> ListReq:
        return ListReq(**self.model_dump())


class DirsReq(Body):
    path: PathText = ""
    password: Text = ""
    force_root: bool = False


class DirsQuery(Asked):
    """The same as query text, for GET."""

    path: PathText = ""
    password: Text = ""
    force_root: bool = False

    def body(self) -> DirsReq:
        return DirsReq(**self.model_dump())


class RenameObject(Body):
    src_name: Text = ""
    new_name: Text = ""


class BatchRenameReq(Body):
    src_dir: PathText = ""
    rename_objects: Annotated[list[RenameObject], Field(default_factory=list, max_length=100_000)]


class RegexRenameReq(Body):
    src_dir: PathText = ""
    src_name_regex: Text = ""
    new_name_regex: Text = ""


class MoveCopyReq(Body):
    src_dir: PathText = ""
    dst_dir: PathText = ""
    names: Names
    overwrite: bool = False
    skip_existing: bool = False
    merge: bool = False


class RecursiveMoveReq(Body):
    src_dir: PathText = ""
    dst_dir: PathText = ""
    conflict_policy: Text = "cancel"


class RemoveReq(Body):
    dir: PathText = ""
    names: Names


class RemoveEmptyReq(Body):
    src_dir: PathText = ""


class LinkReq(Body):
    path: PathText = ""


class OtherReq(Body):
    path: PathText = ""
    password: Text = ""
    method: Text = ""


class MountDetails(BaseModel):
    total_space: int
    used_space: int
    free_space: int


class FileObject(BaseModel):
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


class Listing(BaseModel):
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


class FolderName(BaseModel):
    name: str
    modified: datetime


class CreatedTask(BaseModel):
    id: str
    name: str
    state: int
    status: str
    progress: float
    error: str


class Stored(BaseModel):
    task: CreatedTask


class Done(BaseModel):
    message: str
    tasks: list[CreatedTask] | None = None


class DirectLink(BaseModel):
    url: str
    header: dict[str, list[str]] | None
    Expiration: int | None
    concurrency: int
    part_size: int
    content_length: int
