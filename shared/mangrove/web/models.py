"""Bodies and answers of the administration and account routes, as validated and as shown in the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Row = TypeVar("Row")
Text = Annotated[str, Field(max_length=4096)]
LongText = Annotated[str, Field(max_length=100_000)]
Number = Annotated[int, Field(ge=-(2**53), le=2**53)]


def _flag(value: Any) -> Any:
    """The document writes enable_sign as a string in bodies."""
    return {"true": True, "false": False, "": False}.get(value, value) if isinstance(value, str) else value


Flag = Annotated[bool, BeforeValidator(_flag, json_schema_input_type=bool | str)]


class Body(BaseModel):
    """Unknown keys are ignored, so that what a list gave can be sent back."""

    model_config = ConfigDict(extra="ignore", strict=True)


class Rows(BaseModel, Generic[Row]):
    content: list[Row]
    total: int


class Id(BaseModel):
    id: int


class LoginReq(Body):
    username: Text = ""
    password: Text = ""
    otp_code: Annotated[str, Field(max_length=32)] = ""


class Token(BaseModel):
    token: str


class Verify2FAReq(Body):
    code: Annotated[str, Field(max_length=32)] = ""
    secret: Annotated[str, Field(max_length=128)] = ""


class Enrolment(BaseModel):
    qr: str
    secret: str


class UpdateMeReq(Body):
    username: Text = ""
    password: Text = ""
    sso_id: Text = ""


class AddKeyReq(Body):
    title: Annotated[str, Field(max_length=255)] = ""
    key: Annotated[str, Field(max_length=16_384)] = ""


class SshKeyRow(BaseModel):
    id: int
    title: str
    fingerprint: str
    added_time: datetime
    last_used_time: datetime


class UserReq(Body):
    id: Number = 0
    username: Text = ""
    password: Text = ""
    base_path: Text = ""
    role: Number = 0
    permission: Number = 0
    disabled: bool = False
    sso_id: Text = ""
    allow_ldap: bool = True


class UserRow(BaseModel):
    id: int
    username: str
    password: str
    base_path: str
    role: int
    disabled: bool
    permission: int
    sso_id: str
    allow_ldap: bool


class Me(UserRow):
    otp: bool


class MetaReq(Body):
    id: Number = 0
    path: Text = ""
    read_users: Annotated[list[Number], Field(max_length=10_000)] | None = None
    read_users_sub: bool = False
    write_users: Annotated[list[Number], Field(max_length=10_000)] | None = None
    write_users_sub: bool = False
    password: Text = ""
    p_sub: bool = False
    write: bool = False
    w_sub: bool = False
    hide: LongText = ""
    h_sub: bool = False
    readme: LongText = ""
    r_sub: bool = False
    header: LongText = ""
    header_sub: bool = False


class SettingReq(Body):
    key: Annotated[str, Field(max_length=255)] = ""
    value: LongText = ""


class SettingRow(BaseModel):
    key: str
    value: str
    help: str
    type: str
    options: str
    group: int
    flag: int
    index: int


class Aria2Req(Body):
    uri: Text = ""
    secret: Text = ""


class QbitReq(Body):
    url: Text = ""
    seedtime: Text = ""


class StorageReq(Body):
    id: Number = 0
    mount_path: Text = ""
    order: Number = 0
    driver: Text = ""
    cache_expiration: Annotated[int, Field(ge=0, le=10**9)] = 0
    custom_cache_policies: LongText = ""
    addition: Annotated[str, Field(max_length=300_000)] = ""
    remark: LongText = ""
    disabled: bool = False
    disable_index: Flag = False
    enable_sign: Flag = False
    order_by: Text = ""
    order_direction: Text = ""
    extract_folder: Text = ""
    web_proxy: Flag = False
    webdav_policy: Text = ""
    proxy_range: Flag = False
    down_proxy_url: Text = ""
    disable_proxy_sign: Flag = False


class StorageRow(StorageReq):
    status: str
    modified: datetime


class Option(BaseModel):
    name: str
    type: str
    default: str
    options: str
    required: bool
    help: str


class Template(BaseModel):
    common: list[Option]
    additional: list[Option]
    config: dict[str, Any]
