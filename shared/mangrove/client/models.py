# Derived from the service by `make generate`.
"""The shapes of requests and answers."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class AddAppPasswordReq(TypedDict):
    title: str


class AddKeyReq(TypedDict):
    title: str
    key: str


class AppPasswordRow(TypedDict):
    id: int
    title: str
    added_time: str
    last_used_time: str


class ArchiveListReq(TypedDict):
    path: NotRequired[str]
    password: NotRequired[str]
    refresh: NotRequired[bool]
    archive_pass: NotRequired[str]
    page: NotRequired[int]
    per_page: NotRequired[int]
    inner_path: NotRequired[str]
    order_by: NotRequired[str]
    order_direction: NotRequired[str]


class ArchiveListing(TypedDict):
    content: list[FileObject]
    total: int


class ArchiveMeta(TypedDict):
    comment: str
    encrypted: bool
    content: list[ArchiveNode] | None
    sort: NotRequired[Order | None]
    raw_url: str
    sign: str


class ArchiveNode(TypedDict):
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
    mount_details: NotRequired[MountDetails | None]
    children: list[ArchiveNode] | None


class ArchiveReq(TypedDict):
    path: NotRequired[str]
    password: NotRequired[str]
    refresh: NotRequired[bool]
    archive_pass: NotRequired[str]


class Aria2Req(TypedDict):
    uri: str
    secret: str


class AssertionParts(TypedDict):
    clientDataJSON: NotRequired[str]
    authenticatorData: NotRequired[str]
    signature: NotRequired[str]
    userHandle: NotRequired[str]


class AssertionReq(TypedDict):
    id: NotRequired[str]
    rawId: NotRequired[str]
    type: NotRequired[str]
    response: NotRequired[AssertionParts]


class AttestationParts(TypedDict):
    clientDataJSON: NotRequired[str]
    attestationObject: NotRequired[str]


class AttestationReq(TypedDict):
    id: NotRequired[str]
    rawId: NotRequired[str]
    type: NotRequired[str]
    response: NotRequired[AttestationParts]


class AuditAction(TypedDict):
    pass


class AuditReq(TypedDict):
    username: NotRequired[str]
    action: NotRequired[AuditAction | str]
    since: NotRequired[str]
    until: NotRequired[str]
    start: NotRequired[str]
    per_page: NotRequired[int]


class AuditRow(TypedDict):
    id: str
    time: str
    username: str
    address: str
    action: AuditAction
    target: str


class AuditRows(TypedDict):
    content: list[AuditRow]
    next: str


class BatchAnswer(TypedDict):
    files: list[BatchOutcome]


class BatchOutcome(TypedDict):
    code: int
    message: str
    problem: str


class BatchRenameReq(TypedDict):
    password: NotRequired[str]
    src_dir: NotRequired[str]
    rename_objects: NotRequired[list[RenameObject]]


class Changer(TypedDict):
    username: str


class ChangerReq(TypedDict):
    path: NotRequired[str]
    password: NotRequired[str]


class CompressReq(TypedDict):
    password: NotRequired[str]
    src_dir: NotRequired[str]
    names: NotRequired[list[str]]
    dst_dir: NotRequired[str]
    name: NotRequired[str]


class CreatedTask(TypedDict):
    id: str
    name: str
    state: int
    status: str
    progress: int
    error: str


class DecompressReq(TypedDict):
    password: NotRequired[str]
    src_dir: NotRequired[str]
    dst_dir: NotRequired[str]
    name: NotRequired[list[str]]
    archive_pass: NotRequired[str]
    inner_path: NotRequired[str]
    cache_full: NotRequired[bool]
    put_into_new_dir: NotRequired[bool]
    overwrite: NotRequired[bool]


class DeletePasskeyReq(TypedDict):
    id: NotRequired[str]


class DirectInfo(TypedDict):
    upload_url: str
    chunk_size: int
    method: str
    headers: dict[str, str]


class DirectLink(TypedDict):
    url: str
    header: dict[str, list[str]] | None
    Expiration: int | None
    concurrency: int
    part_size: int
    content_length: int


class DirectReq(TypedDict):
    path: NotRequired[str]
    file_name: NotRequired[str]
    file_size: NotRequired[int]
    password: NotRequired[str]
    tool: NotRequired[str]


class DirsReq(TypedDict):
    path: NotRequired[str]
    password: NotRequired[str]
    force_root: NotRequired[bool]


class Done(TypedDict):
    message: str
    tasks: NotRequired[list[CreatedTask] | None]


class DriverConfig(TypedDict):
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


class Enrolment(TypedDict):
    qr: str
    secret: str


class EvictSessionReq(TypedDict):
    session_id: str


class FileObject(TypedDict):
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
    mount_details: NotRequired[MountDetails | None]


class FolderName(TypedDict):
    name: str
    modified: str


class GetReq(TypedDict):
    path: NotRequired[str]
    password: NotRequired[str]
    page: NotRequired[int]
    per_page: NotRequired[int]
    refresh: NotRequired[bool]


class GroupFolder(TypedDict):
    path: str
    permission: int


class GroupFolderReq(TypedDict):
    path: NotRequired[str]
    permission: NotRequired[int]


class GroupReq(TypedDict):
    id: NotRequired[int]
    name: str
    members: NotRequired[list[int]]
    permission: NotRequired[int]
    folders: NotRequired[list[GroupFolderReq]]


class GroupRow(TypedDict):
    id: int
    name: str
    members: list[int]
    permission: int
    folders: list[GroupFolder]


class Id(TypedDict):
    id: int


class IndexProgress(TypedDict):
    obj_count: int
    is_done: bool
    last_done_time: str | None
    error: str


class IndexUpdateReq(TypedDict):
    paths: NotRequired[list[str]]
    max_depth: NotRequired[int]


class LinkReq(TypedDict):
    path: NotRequired[str]


class ListReq(TypedDict):
    path: NotRequired[str]
    password: NotRequired[str]
    page: NotRequired[int]
    per_page: NotRequired[int]
    refresh: NotRequired[bool]
    order_by: NotRequired[str]
    order_direction: NotRequired[str]


class ListedStorage(TypedDict):
    id: int
    mount_path: str
    order: int
    driver: str
    cache_expiration: int
    custom_cache_policies: str
    status: str
    addition: str
    remark: str
    disabled: bool
    disable_index: bool
    enable_sign: bool
    order_by: str
    order_direction: str
    extract_folder: str
    web_proxy: bool
    webdav_policy: str
    proxy_range: bool
    down_proxy_url: str
    disable_proxy_sign: bool
    modified: str
    mount_details: NotRequired[MountDetails | None]


class Listing(TypedDict):
    content: list[FileObject]
    total: int
    readme: str
    header: str
    write: bool
    write_content_bypass: bool
    provider: str


class LockRow(TypedDict):
    token: str
    path: str
    username: str
    owner: str
    exclusive: bool
    deep: bool
    expires: str


class LoginReq(TypedDict):
    username: str
    password: NotRequired[str]
    otp_code: NotRequired[str]


class Me(TypedDict):
    id: int
    username: str
    password: str
    base_path: str
    role: int
    disabled: bool
    permission: int
    sso_id: str
    allow_ldap: bool
    otp: bool


class Message(TypedDict):
    type: str
    content: str


class MetaReq(TypedDict):
    id: NotRequired[int]
    path: str
    read_users: NotRequired[list[int] | None]
    read_users_sub: NotRequired[bool]
    write_users: NotRequired[list[int] | None]
    write_users_sub: NotRequired[bool]
    password: NotRequired[str]
    p_sub: NotRequired[bool]
    write: NotRequired[bool]
    w_sub: NotRequired[bool]
    hide: NotRequired[str]
    h_sub: NotRequired[bool]
    readme: NotRequired[str]
    r_sub: NotRequired[bool]
    header: NotRequired[str]
    header_sub: NotRequired[bool]
    read_groups: NotRequired[list[int] | None]
    write_groups: NotRequired[list[int] | None]


class MkdirReq(TypedDict):
    path: NotRequired[str]


class MountDetails(TypedDict):
    total_space: int
    used_space: int
    free_space: int


class MoveCopyReq(TypedDict):
    password: NotRequired[str]
    src_dir: NotRequired[str]
    dst_dir: NotRequired[str]
    names: NotRequired[list[str]]
    overwrite: NotRequired[bool]
    skip_existing: NotRequired[bool]
    merge: NotRequired[bool]
    keep_both: NotRequired[bool]


class NewAppPassword(TypedDict):
    id: int
    title: str
    password: str


class NewTokenRow(TypedDict):
    id: int
    title: str
    folder: str
    mode: str
    protocols: list[str]
    expires: str | None
    administration: bool
    added_time: str
    last_used_time: str
    token: str


class OfflineDownloadReq(TypedDict):
    urls: NotRequired[list[str]]
    path: NotRequired[str]
    tool: NotRequired[str]
    delete_policy: NotRequired[str]


class Opened(TypedDict):
    tasks: list[CreatedTask]


class Option(TypedDict):
    name: str
    type: str
    default: str
    options: str
    required: bool
    help: str


class Order(TypedDict):
    order_by: str
    order_direction: str
    extract_folder: str


class OtherReq(TypedDict):
    path: NotRequired[str]
    password: NotRequired[str]
    method: NotRequired[str]


class OverviewFailure(TypedDict):
    kind: str
    id: str
    name: str
    error: str
    end_time: str | None


class OverviewIndex(TypedDict):
    is_enabled: bool
    waiting_changes: int
    lag_seconds: float


class OverviewMachine(TypedDict):
    connections: int
    event_streams: int
    sessions: int
    total_bytes: int
    free_bytes: int
    processes: list[OverviewProcess]
    requests: int
    failed_requests: int
    warnings: int
    errors: int


class OverviewProcess(TypedDict):
    name: str
    bytes: int


class OverviewStorage(TypedDict):
    mount_path: str
    driver: str
    status: str
    is_enabled: bool
    is_up: bool
    total_bytes: int | None
    free_bytes: int | None


class OverviewTasks(TypedDict):
    kind: str
    waiting: int
    running: int
    oldest_seconds: float


class PasskeyChallenge(TypedDict):
    options: dict[str, Any]
    session: str


class PasskeyRow(TypedDict):
    id: str
    fingerprint: str
    title: str
    added_time: str
    last_used_time: str


class QbitReq(TypedDict):
    url: str
    seedtime: str


class RecursiveMoveReq(TypedDict):
    password: NotRequired[str]
    src_dir: NotRequired[str]
    dst_dir: NotRequired[str]
    conflict_policy: NotRequired[str]


class RegexRenameReq(TypedDict):
    password: NotRequired[str]
    src_dir: NotRequired[str]
    src_name_regex: NotRequired[str]
    new_name_regex: NotRequired[str]


class RemoveEmptyReq(TypedDict):
    password: NotRequired[str]
    src_dir: NotRequired[str]


class RemoveReq(TypedDict):
    password: NotRequired[str]
    dir: NotRequired[str]
    names: NotRequired[list[str]]


class RenameObject(TypedDict):
    src_name: NotRequired[str | None]
    new_name: NotRequired[str | None]


class RenameReq(TypedDict):
    password: NotRequired[str]
    path: NotRequired[str]
    name: NotRequired[str]
    overwrite: NotRequired[bool]


class AppPasswordRowPage(TypedDict):
    content: list[AppPasswordRow]
    total: int


class GroupRowPage(TypedDict):
    content: list[GroupRow]
    total: int


class ListedStoragePage(TypedDict):
    content: list[ListedStorage]
    total: int


class LockRowPage(TypedDict):
    content: list[LockRow]
    total: int


class MetaReqPage(TypedDict):
    content: list[MetaReq]
    total: int


class ShareRowPage(TypedDict):
    content: list[ShareRow]
    total: int


class SshKeyRowPage(TypedDict):
    content: list[SshKeyRow]
    total: int


class TokenRowPage(TypedDict):
    content: list[TokenRow]
    total: int


class UserRowPage(TypedDict):
    content: list[UserRow]
    total: int


class SearchPage(TypedDict):
    content: list[SearchRow]
    total: int
    indexing: NotRequired[bool]


class SearchReq(TypedDict):
    parent: NotRequired[str]
    keywords: NotRequired[str]
    scope: NotRequired[int]
    page: NotRequired[int]
    per_page: NotRequired[int]
    password: NotRequired[str]
    ext: NotRequired[str]
    min_size: NotRequired[int | None]
    max_size: NotRequired[int | None]
    since: NotRequired[str]
    until: NotRequired[str]


class SearchRow(TypedDict):
    parent: str
    name: str
    is_dir: bool
    size: int
    type: int
    modified: str


class ServiceOverview(TypedDict):
    version: str
    storages: list[OverviewStorage]
    tasks: list[OverviewTasks]
    index: OverviewIndex
    failures: list[OverviewFailure]
    machine: OverviewMachine | None


class SessionRow(TypedDict):
    session_id: str
    user_id: int
    username: str
    last_active: int
    status: int
    ua: str
    ip: str
    created: str
    expires: str
    current: bool


class SettingReq(TypedDict):
    key: NotRequired[str]
    value: NotRequired[str]
    help: NotRequired[str]
    type: NotRequired[str]
    options: NotRequired[str]
    group: NotRequired[int]
    flag: NotRequired[int]
    index: NotRequired[int]


class SettingRow(TypedDict):
    key: str
    value: str
    help: str
    type: str
    options: str
    group: int
    flag: int
    index: int


class SharePageReq(TypedDict):
    page: NotRequired[int]
    per_page: NotRequired[int]


class ShareReq(TypedDict):
    files: list[str]
    id: NotRequired[str]
    creator: NotRequired[str]
    expires: NotRequired[str]
    pwd: NotRequired[str]
    max_accessed: NotRequired[int]
    accessed: NotRequired[int]
    disabled: NotRequired[bool]
    remark: NotRequired[str]
    readme: NotRequired[str]
    header: NotRequired[str]
    order_by: NotRequired[str]
    order_direction: NotRequired[str]
    extract_folder: NotRequired[str]
    mode: NotRequired[str]
    max_file_size: NotRequired[int]
    max_total_size: NotRequired[int]
    max_files: NotRequired[int]
    extensions: NotRequired[list[str]]


class ShareRow(TypedDict):
    id: str
    files: list[str]
    creator: str
    creator_role: int
    expires: str | None
    pwd: str
    accessed: int
    max_accessed: int
    disabled: bool
    remark: str
    readme: str
    header: str
    order_by: str
    order_direction: str
    extract_folder: str
    mode: str
    max_file_size: int
    max_total_size: int
    max_files: int
    extensions: list[str]


class ShareUpdateReq(TypedDict):
    files: list[str]
    id: str
    creator: NotRequired[str]
    expires: NotRequired[str]
    pwd: NotRequired[str]
    max_accessed: NotRequired[int]
    accessed: NotRequired[int | None]
    disabled: NotRequired[bool]
    remark: NotRequired[str]
    readme: NotRequired[str]
    header: NotRequired[str]
    order_by: NotRequired[str]
    order_direction: NotRequired[str]
    extract_folder: NotRequired[str]
    mode: NotRequired[str]
    max_file_size: NotRequired[int]
    max_total_size: NotRequired[int]
    max_files: NotRequired[int]
    extensions: NotRequired[list[str]]
    new_id: NotRequired[str]


class SignReq(TypedDict):
    upload_id: NotRequired[str]
    chunks: list[WantedChunk]


class SignedChunk(TypedDict):
    index: int
    url: str
    method: str
    headers: dict[str, str]
    expires_in: int


class SignedChunks(TypedDict):
    chunks: list[SignedChunk]


class SingleObject(TypedDict):
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
    mount_details: NotRequired[MountDetails | None]
    raw_url: str
    readme: str
    header: str
    provider: str
    related: list[FileObject] | None


class SshKeyRow(TypedDict):
    id: int
    title: str
    fingerprint: str
    added_time: str
    last_used_time: str


class StorageReq(TypedDict):
    id: NotRequired[int]
    mount_path: str
    order: NotRequired[int]
    driver: str
    cache_expiration: NotRequired[int]
    custom_cache_policies: NotRequired[str]
    status: NotRequired[str]
    addition: NotRequired[str]
    remark: NotRequired[str]
    disabled: NotRequired[bool]
    disable_index: NotRequired[bool | str]
    enable_sign: NotRequired[bool | str]
    order_by: NotRequired[str]
    order_direction: NotRequired[str]
    extract_folder: NotRequired[str]
    web_proxy: NotRequired[bool | str]
    webdav_policy: NotRequired[str]
    proxy_range: NotRequired[bool | str]
    down_proxy_url: NotRequired[str]
    disable_proxy_sign: NotRequired[bool | str]


class StorageRow(TypedDict):
    id: int
    mount_path: str
    order: int
    driver: str
    cache_expiration: int
    custom_cache_policies: str
    status: str
    addition: str
    remark: str
    disabled: bool
    disable_index: bool
    enable_sign: bool
    order_by: str
    order_direction: str
    extract_folder: str
    web_proxy: bool
    webdav_policy: str
    proxy_range: bool
    down_proxy_url: str
    disable_proxy_sign: bool
    modified: str


class StorageTrial(TypedDict):
    folders: list[str]
    addition: str


class StorageTrialReq(TypedDict):
    driver: str
    addition: NotRequired[str]
    folder: NotRequired[str]


class Stored(TypedDict):
    task: CreatedTask


class TaskRow(TypedDict):
    id: str
    name: str
    creator: str
    creator_role: int
    state: str | int
    status: str
    progress: float
    start_time: str | None
    end_time: str | None
    total_bytes: int
    error: str
    done_bytes: NotRequired[int]
    done_items: NotRequired[int]
    total_items: NotRequired[int]
    current_item: NotRequired[str]


class Template(TypedDict):
    common: list[Option]
    additional: list[Option]
    config: DriverConfig


class Token(TypedDict):
    token: str


class TokenReq(TypedDict):
    title: str
    folder: NotRequired[str]
    mode: NotRequired[str]
    protocols: list[str]
    expires: NotRequired[str]
    administration: NotRequired[bool]


class TokenRow(TypedDict):
    id: int
    title: str
    folder: str
    mode: str
    protocols: list[str]
    expires: str | None
    administration: bool
    added_time: str
    last_used_time: str


class TrashDone(TypedDict):
    id: str
    path: str


class TrashEmptied(TypedDict):
    deleted: int
    failed: int
    more: bool


class TrashEmptyReq(TypedDict):
    path: NotRequired[str]
    password: NotRequired[str]


class TrashFailed(TypedDict):
    id: str
    message: str


class TrashIdsReq(TypedDict):
    ids: NotRequired[list[str]]
    password: NotRequired[str]


class TrashListReq(TypedDict):
    path: NotRequired[str]
    password: NotRequired[str]
    start: NotRequired[str]
    per_page: NotRequired[int]


class TrashListing(TypedDict):
    content: list[TrashObject]
    next: str
    days: int | None


class TrashObject(TypedDict):
    id: str
    path: str
    name: str
    size: int
    is_dir: bool
    modified: str
    removed: str
    remover: str
    expires: str | None
    replaced: bool


class TrashOutcome(TypedDict):
    done: list[TrashDone]
    failed: list[TrashFailed]


class TrashRestoreReq(TypedDict):
    ids: NotRequired[list[str]]
    password: NotRequired[str]
    dir: NotRequired[str]
    names: NotRequired[list[str]]
    overwrite: NotRequired[bool]


class TrashRestored(TypedDict):
    done: list[TrashDone]
    failed: list[TrashFailed]
    task: CreatedTask | None


class Unpacking(TypedDict):
    task: list[CreatedTask]


class UpdateMeReq(TypedDict):
    username: str
    password: NotRequired[str]
    sso_id: NotRequired[str]


class UploadSnapshot(TypedDict):
    upload_id: str
    state: str
    attempt: int
    path: str
    size: int
    chunk_size: int
    total_chunks: int
    received: list[list[int]] | None
    received_bytes: int
    frontier: int
    storage_progress: int
    direct: bool
    receipt: NotRequired[dict[str, str | int] | None]
    error: NotRequired[str]
    resumed: NotRequired[bool]
    task: NotRequired[CreatedTask | None]


class UserReq(TypedDict):
    id: NotRequired[int]
    username: str
    password: NotRequired[str]
    base_path: NotRequired[str]
    role: NotRequired[int]
    permission: NotRequired[int]
    disabled: NotRequired[bool]
    sso_id: NotRequired[str]
    allow_ldap: NotRequired[bool]


class UserRow(TypedDict):
    id: int
    username: str
    password: str
    base_path: str
    role: int
    disabled: bool
    permission: int
    sso_id: str
    allow_ldap: bool


class Verify2FAReq(TypedDict):
    code: str
    secret: str


class VersionObject(TypedDict):
    id: str
    size: int
    modified: str
    is_latest: bool
    deleted: bool


class VersionRestoreReq(TypedDict):
    path: NotRequired[str]
    password: NotRequired[str]
    id: NotRequired[str]


class Versions(TypedDict):
    content: list[VersionObject]
    sign: str


class VersionsReq(TypedDict):
    path: NotRequired[str]
    password: NotRequired[str]


class WantedChunk(TypedDict):
    index: int
    crc32: str


class ZipLink(TypedDict):
    url: str
    task: CreatedTask | None


class ZipReq(TypedDict):
    dir: NotRequired[str]
    password: NotRequired[str]
    names: NotRequired[list[str]]
