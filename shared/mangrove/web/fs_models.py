"""Bodies and answers of the file routes, as validated and as shown in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

PathText = Annotated[str, Field(max_length=4096)]
Text = Annotated[str, Field(max_length=4096)]
Count = Annotated[int, Field(ge=-(2**53), le=2**53)]
Names = Annotated[list[Text], Field(max_length=100_000)]


class Body(BaseModel):
    """Unknown keys are ignored; an absent path is the root."""

    model_config = ConfigDict(extra="ignore", strict=True)


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


class ListQuery(BaseModel):
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


class DirsQuery(BaseModel):
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
    rename_objects: Annotated[list[RenameObject], Field(max_length=100_000)] = []


class RegexRenameReq(Body):
    src_dir: PathText = ""
    src_name_regex: Text = ""
    new_name_regex: Text = ""


class MoveCopyReq(Body):
    src_dir: PathText = ""
    dst_dir: PathText = ""
    names: Names = []
    overwrite: bool = False
    skip_existing: bool = False
    merge: bool = False


class RecursiveMoveReq(Body):
    src_dir: PathText = ""
    dst_dir: PathText = ""
    conflict_policy: Text = "cancel"


class RemoveReq(Body):
    dir: PathText = ""
    names: Names = []


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
    modified: str
    created: str
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
    modified: str


class Done(BaseModel):
    message: str


class DirectLink(BaseModel):
    url: str
    header: dict[str, list[str]] | None
    Expiration: int | None
    concurrency: int
    part_size: int
    content_length: int
