"""Bodies and answers of the administration and account routes, as they are validated and documented."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BeforeValidator, ConfigDict, FailFast, Field, WithJsonSchema

from mangrove.web.framework import Body, Model, require_in_schema
from mangrove.web.storage_details import Ignored, MountDetails

Row = TypeVar("Row")
Text = Annotated[str, Field(max_length=4096)]
LongText = Annotated[str, Field(max_length=100_000)]
Number = Annotated[int, Field(ge=-(2**53), le=2**53)]
RecordId = Annotated[int, Field(description="Id of the record.")]
AddedTime = Annotated[datetime, Field(description="Time when it was added.")]
LastUsedTime = Annotated[datetime, Field(description="Time of the last use; the time when it was added if never used.")]
Title = Annotated[str, Field(description="A name that the user chooses.")]
NewTitle = Annotated[Title, Field(max_length=255)]


def _parse_flag(value: Any) -> Any:
    """Accept a flag as a text: the documented interface has `enable_sign` as a string in bodies."""
    return {"true": True, "false": False, "": False}.get(value, value) if isinstance(value, str) else value


Flag = Annotated[bool, BeforeValidator(_parse_flag, json_schema_input_type=bool | str)]


class Rows(Model, Generic[Row]):
    content: list[Row] = Field(description="Entries of this page, in order.")
    total: int = Field(description="Number of entries on all pages.")


class Id(Model):
    id: RecordId


class LoginReq(Body):
    model_config = require_in_schema("username")

    username: Text = Field("", description="Name that the user signs in with.")
    password: Text = Field(
        "",
        description="The password; for `login/hash` the hexadecimal SHA-256 of the password, a hyphen and "
        "`https://github.com/alist-org/alist`.",
    )
    otp_code: str = Field("", max_length=32, description="The one-time code of a user who has a second factor.")


class Token(Model):
    token: str = Field(description="Token for the header `Authorization` of every further request.")


class Verify2FAReq(Body):
    model_config = require_in_schema("code", "secret")

    code: str = Field("", max_length=32, description="A current code of the secret.")
    secret: str = Field("", max_length=128, description="Secret of the second factor, in Base32.")


class Enrolment(Model):
    qr: str = Field(description="The secret as a QR code, in a data URL.")
    secret: str = Field(description="Secret of the second factor, in Base32.")


class UpdateMeReq(Body):
    model_config = require_in_schema("username")

    username: Text = Field("", description="Name that the user signs in with.")
    password: Text = Field("", description="The new password, which ends all sessions; empty for no change.")
    sso_id: Text = Field(
        "", description="Identity at single sign-on: the one of the answer to `get_sso_id` links it, empty unlinks it."
    )


class AddKeyReq(Body):
    model_config = require_in_schema("title", "key")

    title: NewTitle = ""
    key: str = Field("", max_length=16_384, description="The public key, as a line of `authorized_keys`.")


class SshKeyRow(Model):
    id: RecordId
    title: Title
    fingerprint: str = Field(description="SHA-256 of the key, partly masked.")
    added_time: AddedTime
    last_used_time: LastUsedTime


class AddAppPasswordReq(Body):
    model_config = require_in_schema("title")

    title: NewTitle = ""


class NewAppPassword(Model):
    id: RecordId
    title: Title
    password: str = Field(description="The password. No other answer has it.")


class AppPasswordRow(Model):
    id: RecordId
    title: Title
    added_time: AddedTime
    last_used_time: LastUsedTime


class LockRow(Model):
    token: str = Field(description="Token of the lock.")
    path: str = Field(description="The file or folder, as its user locked it.")
    username: str = Field(description="User who has the lock; empty if the account was removed.")
    owner: str = Field(description="Name that the client gave itself.")
    exclusive: bool = Field(description="True if the lock excludes all other locks.")
    deep: bool = Field(description="True if the lock covers everything below the folder.")
    expires: datetime = Field(description="Time when the lock ends unless it is refreshed.")


Role = Annotated[int, Field(description="0 ordinary user, 1 guest, 2 administrator.")]
Permission = Annotated[
    int, Field(description="Rights of the user, one bit each; the guide to users and permissions has the list.")
]
BasePath = Annotated[str, Field(description="The folder of the tree that is the user's root.")]
SsoId = Annotated[str, Field(description="The user's name at the single sign-on.")]
AllowLdap = Annotated[bool, Field(description="Let the user sign in through LDAP.")]
Disabled = Annotated[bool, Field(description="True if it is disabled.")]
Username = Annotated[str, Field(description="Name that the user signs in with.")]


class UserReq(Body):
    model_config = require_in_schema("username")

    id: Number = Field(0, description="Id of the record.")
    username: Annotated[Username, Field(max_length=4096)] = ""
    password: Text = Field("", description="The new password; empty for no change.")
    base_path: Annotated[BasePath, Field(max_length=4096)] = ""
    role: Annotated[Role, Field(ge=-(2**53), le=2**53)] = 0
    permission: Annotated[Permission, Field(ge=-(2**53), le=2**53)] = 0
    disabled: Disabled = False
    sso_id: Annotated[SsoId, Field(max_length=4096)] = ""
    allow_ldap: AllowLdap = True


class UserRow(Model):
    id: RecordId
    username: Username
    password: str = Field(description="Always empty.")
    base_path: BasePath
    role: Role
    disabled: Disabled
    permission: Permission
    sso_id: SsoId
    allow_ldap: AllowLdap


class Me(UserRow):
    otp: bool = Field(description="True if the user has a second factor.")


UserIds = Annotated[list[Number], Field(max_length=10_000)] | None


class MetaReq(Body):
    model_config = require_in_schema("path")

    id: Number = Field(0, description="Id of the record.")
    path: Text = Field("", description="Path in the tree to which the rule applies.")
    read_users: UserIds = Field(None, description="Ids of users who may read here; null or empty for all.")
    read_users_sub: bool = Field(False, description="Apply `read_users` to subfolders.")
    write_users: UserIds = Field(None, description="Ids of users who may write here; null or empty for all.")
    write_users_sub: bool = Field(False, description="Apply `write_users` to subfolders.")
    password: Text = Field("", description="Password that reading here requires; empty for none.")
    p_sub: bool = Field(False, description="Apply `password` to subfolders.")
    write: bool = Field(False, description="Let everyone add entries here.")
    w_sub: bool = Field(False, description="Apply `write` to subfolders.")
    hide: LongText = Field("", description="Patterns (RE2) of hidden names, one per line.")
    h_sub: bool = Field(False, description="Apply `hide` to subfolders.")
    readme: LongText = Field("", description="Text below the listing, as Markdown.")
    r_sub: bool = Field(False, description="Apply `readme` to subfolders.")
    header: LongText = Field("", description="Text above the listing, as Markdown.")
    header_sub: bool = Field(False, description="Apply `header` to subfolders.")
    read_groups: UserIds = Field(None, description="Ids of groups whose members may read here, beside `read_users`.")
    write_groups: UserIds = Field(None, description="Ids of groups whose members may write here, beside `write_users`.")


IgnoredText = Annotated[Any, WithJsonSchema({"type": "string"})]
IgnoredNumber = Annotated[Any, WithJsonSchema({"type": "integer"})]
SETTING_TEXTS = {
    "key": "Name of the setting.",
    "value": "Value, as text.",
    "help": "Explanation.",
    "type": "`string`, `text`, `bool`, `number` or `select`.",
    "options": "Allowed values, separated by commas.",
    "group": "Number of the group of settings.",
    "flag": "0 public, 1 private, 2 read-only, 3 obsolete.",
    "index": "Position in the list of all settings.",
}


class SettingReq(Body):
    """A setting as the list returned it. Only `key` and `value` are used."""

    key: str = Field("", max_length=255, description=SETTING_TEXTS["key"])
    value: LongText = Field("", description=SETTING_TEXTS["value"])
    help: IgnoredText = Field("", description=SETTING_TEXTS["help"])
    type: IgnoredText = Field("", description=SETTING_TEXTS["type"])
    options: IgnoredText = Field("", description=SETTING_TEXTS["options"])
    group: IgnoredNumber = Field(0, description=SETTING_TEXTS["group"])
    flag: IgnoredNumber = Field(0, description=SETTING_TEXTS["flag"])
    index: IgnoredNumber = Field(0, description=SETTING_TEXTS["index"])


class SettingRow(Model):
    key: str = Field(description=SETTING_TEXTS["key"])
    value: str = Field(description=SETTING_TEXTS["value"])
    help: str = Field(description=SETTING_TEXTS["help"])
    type: str = Field(description=SETTING_TEXTS["type"])
    options: str = Field(description=SETTING_TEXTS["options"])
    group: int = Field(description=SETTING_TEXTS["group"])
    flag: int = Field(description=SETTING_TEXTS["flag"])
    index: int = Field(description=SETTING_TEXTS["index"])


class Aria2Req(Body):
    model_config = require_in_schema("uri", "secret")

    uri: Text = Field("", description="Address of aria2.")
    secret: Text = Field("", description="Secret of aria2; empty for none.")


class IndexUpdateReq(Body):
    paths: Annotated[list[Text], FailFast()] = Field(
        default_factory=list, max_length=1000, description="Folders of the tree; empty for the whole tree."
    )
    max_depth: Number = Field(0, description="Depth of folders to read; 0 or less for no limit.")


class IndexProgress(Model):
    obj_count: int = Field(description="Number of names in the index.")
    is_done: bool = Field(description="True if the index is not being built.")
    last_done_time: str | None = Field(description="Time when the index was last complete.")
    error: str = Field(description="Reason of the failure; empty if there is none.")


class QbitReq(Body):
    model_config = require_in_schema("url", "seedtime")

    url: Text = Field("", description="Address of qBittorrent, with its user and password.")
    seedtime: Text = Field("", description="Minutes of seeding after a torrent is complete; negative for no end.")


class StorageReq(Body):
    model_config = require_in_schema("mount_path", "driver")

    id: Number = Field(0, description="Id of the storage to change.")
    mount_path: Text = Field("", description="Path of the storage in the tree.")
    order: Number = Field(0, description="Position among storages and mounts.")
    driver: Text = Field("", description="Name of the driver.")
    cache_expiration: int = Field(30, ge=0, le=10**9, description="Minutes to cache listings; 0 for no cache.")
    custom_cache_policies: LongText = Field(
        "", description="Lines `glob:minutes`; the first that matches a path replaces `cache_expiration`."
    )
    status: IgnoredText = Field("", description=Ignored)
    addition: str = Field(
        "", max_length=300_000, description="The driver's own options, as JSON text; `driver/info` lists them."
    )
    remark: LongText = Field("", description="A note for administrators.")
    disabled: Disabled = False
    disable_index: Flag = Field(False, description="Exclude the storage from the search.")
    enable_sign: Flag = Field(False, description="Sign every link into the storage.")
    order_by: Text = Field("", description="`name`, `size` or `modified`.")
    order_direction: Text = Field("", description="`asc` or `desc`.")
    extract_folder: Text = Field("", description="Position of folders: `front`, `back`, or empty for among the files.")
    web_proxy: Flag = Field(False, description="Pass downloads through this service instead of redirecting them.")
    webdav_policy: Text = Field(
        "native_proxy", description="Downloads of WebDAV clients: `302_redirect`, `use_proxy_url` or `native_proxy`."
    )
    proxy_range: Flag = Field(False, description="Request ranges from the storage one by one.")
    down_proxy_url: Text = Field("", description="Addresses of download proxies, one per line.")
    disable_proxy_sign: Flag = Field(False, description="Leave out the signature in links to download proxies.")


class StorageRow(StorageReq):
    model_config = ConfigDict(json_schema_extra={}, json_schema_serialization_defaults_required=True)

    status: str = Field(description="`work`, or the reason why the storage does not work.")
    modified: datetime = Field(description="Time of the last change.")


class StorageTrialReq(Body):
    model_config = require_in_schema("driver")

    driver: Text = Field("", description="Name of the driver.")
    addition: str = Field("", max_length=300_000, description="The driver's own options, as JSON text.")
    folder: Text = Field("/", description="Path in the storage of the folder to list.")


class StorageTrial(Model):
    folders: list[str] = Field(description="Names of the folders in `folder`, at most 1,000.")
    addition: str = Field(description="The options, with the tokens that the driver replaced.")


def _make_optional(schema: dict[str, Any]) -> None:
    schema["required"].remove("mount_details")


class ListedStorage(StorageRow):
    model_config = ConfigDict(json_schema_extra=_make_optional)

    mount_details: MountDetails | None = Field(
        None, description="Usage of the storage, if it is known and the caller may see it."
    )


class TaskRow(Model):
    id: str = Field(description="Id of the task.")
    name: str = Field(description="Name.")
    creator: str = Field(description="User who created the task.")
    creator_role: int = Field(description="That user's role: 0 ordinary user, 1 guest, 2 administrator.")
    state: str | int = Field(
        description="`pending`, `running`, `succeeded`, `canceling`, `canceled`, `errored`, `failing`, `failed`, "
        "`waiting_retry` or `before_retry`; a number (0 to 9) for clients of `/openlist`."
    )
    status: str = Field(description="Current activity, in words.")
    progress: float = Field(description="Percent done.")
    start_time: datetime | None = Field(description="Time when the task began.")
    end_time: datetime | None = Field(description="Time when the task ended.")
    total_bytes: int = Field(description="Bytes to process.")
    error: str = Field(description="Reason of the failure; empty if there is none.")
    done_bytes: int = Field(0, description="Bytes of `total_bytes` that are done.")
    done_items: int = Field(0, description="Items of `total_items` that are done.")
    total_items: int = Field(0, description="Items to process; 0 if it is unknown.")
    current_item: str = Field("", description="Path of the item that was begun last, below the source.")


class Message(Model):
    type: str = Field(description="Type of the message; empty if there is none.")
    content: str = Field(description="Message of a driver; empty if there is none.")


class Option(Model):
    name: str = Field(description="Key in `addition`, or name of a field of the storage.")
    type: str = Field(description="`string`, `text`, `bool`, `number`, `float` or `select`.")
    default: str = Field(description="Value of a new storage.")
    options: str = Field(description="Allowed values, separated by commas.")
    required: bool = Field(description="True if a value is required.")
    help: str = Field(description="Explanation.")


class DriverConfig(Model):
    name: str = Field(description="Name of the driver.")
    local_sort: bool = Field(description="True if the service can sort its listings.")
    only_local: bool = Field(description="True if every download passes through this service.")
    only_proxy: bool = Field(description="True if every download passes through this service.")
    no_cache: bool = Field(description="True if its listings are never cached.")
    no_upload: bool = Field(description="True if it cannot store files.")
    need_ms: bool = Field(description="True if the driver has messages for the administrator.")
    default_root: str = Field(description="Root folder of a new storage.")
    alert: str = Field(description="Warning for administrators who choose this driver.")
    only_indices: bool = Field(description="True if the storage consists of addresses only.")
    prefer_proxy: bool = Field(description="True if `web_proxy` is on in a new storage.")


class Template(Model):
    common: list[Option] = Field(description="Options of every storage.")
    additional: list[Option] = Field(description="Options of this driver.")
    config: DriverConfig = Field(description="Properties of the driver.")
