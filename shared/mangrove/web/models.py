"""Bodies and answers of the administration and account routes, as validated and as shown in the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator, ConfigDict, FailFast, Field, WithJsonSchema

from mangrove.web.binding import Body, Model
from mangrove.web.fs_models import MountDetails

Row = TypeVar("Row")
Text = Annotated[str, Field(max_length=4096)]
LongText = Annotated[str, Field(max_length=100_000)]
Number = Annotated[int, Field(ge=-(2**53), le=2**53)]


def _parse_flag(value: Any) -> Any:
    """The document writes enable_sign as a string in bodies."""
    return {"true": True, "false": False, "": False}.get(value, value) if isinstance(value, str) else value


def _require_in_schema(*required: str) -> ConfigDict:
    """Mark fields as required in the OpenAPI document whose absence the handler refuses in its own words."""
    return ConfigDict(json_schema_extra={"required": list(required)})


Flag = Annotated[bool, BeforeValidator(_parse_flag, json_schema_input_type=bool | str)]


class Rows(Model, Generic[Row]):
    content: list[Row]
    total: int


class Id(Model):
    id: int


class LoginReq(Body):
    model_config = _require_in_schema("username")

    username: Text = ""
    password: Text = ""
    otp_code: Annotated[str, Field(max_length=32)] = ""


class Token(Model):
    token: str


class Verify2FAReq(Body):
    model_config = _require_in_schema("code", "secret")

    code: Annotated[str, Field(max_length=32)] = ""
    secret: Annotated[str, Field(max_length=128)] = ""


class Enrolment(Model):
    qr: str
    secret: str


class UpdateMeReq(Body):
    model_config = _require_in_schema("username")

    username: Text = ""
    password: Text = ""
    sso_id: Text = ""


class AddKeyReq(Body):
    model_config = _require_in_schema("title", "key")

    title: Annotated[str, Field(max_length=255)] = ""
    key: Annotated[str, Field(max_length=16_384)] = ""


class SshKeyRow(Model):
    id: int
    title: str
    fingerprint: str
    added_time: datetime
    last_used_time: datetime


class AddAppPasswordReq(Body):
    model_config = _require_in_schema("title")

    title: Annotated[str, Field(max_length=255)] = ""


class NewAppPassword(Model):
    id: int
    title: str
    password: str


class AppPasswordRow(Model):
    id: int
    title: str
    added_time: datetime
    last_used_time: datetime


class LockRow(Model):
    token: str
    path: str
    username: str
    owner: str
    exclusive: bool
    deep: bool
    expires: datetime


class UserReq(Body):
    model_config = _require_in_schema("username")

    id: Number = 0
    username: Text = ""
    password: Text = ""
    base_path: Text = ""
    role: Number = 0
    permission: Number = 0
    disabled: bool = False
    sso_id: Text = ""
    allow_ldap: bool = True


class UserRow(Model):
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
    model_config = _require_in_schema("path")

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


IgnoredText = Annotated[Any, WithJsonSchema({"type": "string"})]
IgnoredNumber = Annotated[Any, WithJsonSchema({"type": "integer"})]


class SettingReq(Body):
    """A setting as the list gave it; only `value` is taken, the rest is the service's own."""

    key: Annotated[str, Field(max_length=255)] = ""
    value: LongText = ""
    help: IgnoredText = ""
    type: IgnoredText = ""
    options: IgnoredText = ""
    group: IgnoredNumber = 0
    flag: IgnoredNumber = 0
    index: IgnoredNumber = 0


class SettingRow(Model):
    key: str
    value: str
    help: str
    type: str
    options: str
    group: int
    flag: int
    index: int


class Aria2Req(Body):
    model_config = _require_in_schema("uri", "secret")

    uri: Text = ""
    secret: Text = ""


class IndexUpdateReq(Body):
    paths: Annotated[list[Text], Field(default_factory=list, max_length=1000), FailFast()]
    max_depth: Number = 0


class IndexProgress(Model):
    obj_count: int
    is_done: bool
    last_done_time: str | None
    error: str


class QbitReq(Body):
    model_config = _require_in_schema("url", "seedtime")

    url: Text = ""
    seedtime: Text = ""


class StorageReq(Body):
    model_config = _require_in_schema("mount_path", "driver")

    id: Number = 0
    mount_path: Text = ""
    order: Number = 0
    driver: Text = ""
    cache_expiration: Annotated[int, Field(ge=0, le=10**9)] = 30
    custom_cache_policies: LongText = ""
    status: IgnoredText = ""
    addition: Annotated[str, Field(max_length=300_000)] = ""
    remark: LongText = ""
    disabled: bool = False
    disable_index: Flag = False
    enable_sign: Flag = False
    order_by: Text = ""
    order_direction: Text = ""
    extract_folder: Text = ""
    web_proxy: Flag = False
    webdav_policy: Text = "native_proxy"
    proxy_range: Flag = False
    down_proxy_url: Text = ""
    disable_proxy_sign: Flag = False


class StorageRow(StorageReq):
    model_config = ConfigDict(json_schema_extra={}, json_schema_serialization_defaults_required=True)

    status: str
    modified: datetime


def _make_optional(schema: dict[str, Any]) -> None:
    schema["required"].remove("mount_details")


class ListedStorage(StorageRow):
    model_config = ConfigDict(json_schema_extra=_make_optional)

    mount_details: MountDetails | None = None


class TaskRow(Model):
    id: str
    name: str
    creator: str
    creator_role: int
    state: str | int
    status: str
    progress: float
    start_time: datetime | None
    end_time: datetime | None
    total_bytes: int
    error: str


class Message(Model):
    type: str
    content: str


class Option(Model):
    name: str
    type: str
    default: str
    options: str
    required: bool
    help: str


class DriverConfig(Model):
    name: str
    local_sort: bool
    only_local: bool
    only_proxy: bool
    no_cache: bool
    no_upload: bool
    need_ms: bool
    default_root: str
    alert: str
    only_indices: bool
    prefer_proxy: bool


class Template(Model):
    common: list[Option]
    additional: list[Option]
    config: DriverConfig
