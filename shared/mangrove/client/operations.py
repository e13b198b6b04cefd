# Derived from the service by `make generate`.
"""A method for each operation of the API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from mangrove.client import models

TASK_STATES = (
    "pending",
    "running",
    "succeeded",
    "canceling",
    "canceled",
    "errored",
    "failing",
    "failed",
    "waiting_retry",
    "before_retry",
)
TASK_KINDS = (
    "compress",
    "copy",
    "decompress",
    "decompress_upload",
    "move",
    "offline_download",
    "offline_download_transfer",
    "upload",
)
RIGHTS = {
    "see_hidden": 1,
    "skip_password": 2,
    "offline_download": 4,
    "write": 8,
    "rename": 16,
    "move": 32,
    "copy": 64,
    "delete": 128,
    "webdav_read": 256,
    "webdav_manage": 512,
    "ftp_read": 1024,
    "ftp_manage": 2048,
    "read_archives": 4096,
    "decompress": 8192,
    "share": 16384,
    "custom_share_id": 32768,
}
Content = bytes | Iterable[bytes]


class Operations:
    """The operations, by their paths: `POST /api/fs/list` is `fs_list`."""

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        json: Any = None,
        content: Content | None = None,
    ) -> Any:
        """Send a request and return `data` of its answer."""
        raise NotImplementedError

    def admin_audit_list(self, **body: Unpack[models.AuditReq]) -> models.AuditRows:
        """List sign-ins and changes of accounts, storages, settings, rules and share links, the last first."""
        return self._call("POST", "/api/admin/audit/list", json=body)

    def admin_driver_info(self, *, driver: str) -> models.Template:
        """Return the form of a driver."""
        return self._call("GET", "/api/admin/driver/info", query={"driver": driver})

    def admin_driver_list(self) -> dict[str, models.Template]:
        """Return the forms of all drivers."""
        return self._call("GET", "/api/admin/driver/list")

    def admin_driver_names(self) -> list[str]:
        """List the names of all drivers."""
        return self._call("GET", "/api/admin/driver/names")

    def admin_group_create(self, **body: Unpack[models.GroupReq]) -> models.GroupRow:
        """Create a group."""
        return self._call("POST", "/api/admin/group/create", json=body)

    def admin_group_delete(self, *, id: int) -> None:
        """Delete a group; rules that name it still do."""
        self._call("POST", "/api/admin/group/delete", query={"id": id})

    def admin_group_get(self, *, id: int) -> models.GroupRow:
        """Return a group."""
        return self._call("GET", "/api/admin/group/get", query={"id": id})

    def admin_group_list(self, *, page: str | None = None, per_page: str | None = None) -> models.GroupRowPage:
        """List all groups."""
        return self._call("GET", "/api/admin/group/list", query={"page": page, "per_page": per_page})

    def admin_group_update(self, **body: Unpack[models.GroupReq]) -> models.GroupRow:
        """Replace the record of a group."""
        return self._call("POST", "/api/admin/group/update", json=body)

    def admin_index_build(self, *, idempotency_key: str | None = None) -> None:
        """Rebuild the index of names."""
        self._call("POST", "/api/admin/index/build", headers={"Idempotency-Key": idempotency_key})

    def admin_index_clear(self) -> None:
        """Delete the index."""
        self._call("POST", "/api/admin/index/clear")

    def admin_index_progress(self) -> models.IndexProgress:
        """Return the progress of building the index."""
        return self._call("GET", "/api/admin/index/progress")

    def admin_index_stop(self) -> None:
        """Stop building the index."""
        self._call("POST", "/api/admin/index/stop")

    def admin_index_update(self, *, idempotency_key: str | None = None, **body: Unpack[models.IndexUpdateReq]) -> None:
        """Update the index below certain folders."""
        self._call("POST", "/api/admin/index/update", headers={"Idempotency-Key": idempotency_key}, json=body)

    def admin_lock_delete(self, *, token: str) -> None:
        """Delete a lock of any user; its client learns that at its next request."""
        self._call("POST", "/api/admin/lock/delete", query={"token": token})

    def admin_lock_list(self, *, page: str | None = None, per_page: str | None = None) -> models.LockRowPage:
        """List the locks of WebDAV clients, by path."""
        return self._call("GET", "/api/admin/lock/list", query={"page": page, "per_page": per_page})

    def admin_message_get(self) -> models.Message:
        """Return a driver's message for the administrator; no driver of this version has messages."""
        return self._call("POST", "/api/admin/message/get")

    def admin_message_send(self) -> None:
        """Answer a driver's message; no driver of this version expects answers."""
        self._call("POST", "/api/admin/message/send")

    def admin_meta_create(self, **body: Unpack[models.MetaReq]) -> None:
        """Create a rule for a path."""
        self._call("POST", "/api/admin/meta/create", json=body)

    def admin_meta_delete(self, *, id: int) -> None:
        """Delete a rule."""
        self._call("POST", "/api/admin/meta/delete", query={"id": id})

    def admin_meta_get(self, *, id: int) -> models.MetaReq:
        """Return a rule."""
        return self._call("GET", "/api/admin/meta/get", query={"id": id})

    def admin_meta_list(self, *, page: str | None = None, per_page: str | None = None) -> models.MetaReqPage:
        """List all rules."""
        return self._call("GET", "/api/admin/meta/list", query={"page": page, "per_page": per_page})

    def admin_meta_update(self, **body: Unpack[models.MetaReq]) -> None:
        """Replace a rule."""
        self._call("POST", "/api/admin/meta/update", json=body)

    def admin_overview(self) -> models.ServiceOverview:
        """Return the state of the service: storages, tasks, the index, the last failures, and figures of its machine."""
        return self._call("GET", "/api/admin/overview")

    def admin_session_evict(self, **body: Unpack[models.EvictSessionReq]) -> None:
        """End a session of any user."""
        self._call("POST", "/api/admin/session/evict", json=body)

    def admin_session_evict_all(self, *, uid: int) -> None:
        """End all sessions of a user, except that of this request."""
        self._call("POST", "/api/admin/session/evict_all", query={"uid": uid})

    def admin_session_list(self, *, uid: str | None = None) -> list[models.SessionRow]:
        """List open sessions, the last used first: of all users, or of one."""
        return self._call("GET", "/api/admin/session/list", query={"uid": uid})

    def admin_setting_default(self, *, groups: str | None = None, group: str | None = None) -> list[models.SettingRow]:
        """List settings with their default values; nothing is changed."""
        return self._call("POST", "/api/admin/setting/default", query={"groups": groups, "group": group})

    def admin_setting_delete(self, *, key: str) -> dict[str, Any] | None:
        """Delete an obsolete setting."""
        return self._call("POST", "/api/admin/setting/delete", query={"key": key})

    def admin_setting_get(
        self, *, key: str | None = None, keys: str | None = None
    ) -> models.SettingRow | list[models.SettingRow]:
        """Return a setting by `key`, or several by `keys`."""
        return self._call("GET", "/api/admin/setting/get", query={"key": key, "keys": keys})

    def admin_setting_list(self, *, groups: str | None = None, group: str | None = None) -> list[models.SettingRow]:
        """List settings with their values, all or those of certain groups."""
        return self._call("GET", "/api/admin/setting/list", query={"groups": groups, "group": group})

    def admin_setting_reset_token(self) -> str:
        """Replace the permanent token; the old token and all links become invalid."""
        return self._call("POST", "/api/admin/setting/reset_token")

    def admin_setting_save(self, body: list[models.SettingReq]) -> None:
        """Change settings: all of them or, if one is refused, none."""
        self._call("POST", "/api/admin/setting/save", json=body)

    def admin_setting_set_aria2(self, **body: Unpack[models.Aria2Req]) -> str:
        """Set the address of aria2, and check it by asking for the version."""
        return self._call("POST", "/api/admin/setting/set_aria2", json=body)

    def admin_setting_set_qbit(self, **body: Unpack[models.QbitReq]) -> str:
        """Set the address of qBittorrent, and check it by signing in."""
        return self._call("POST", "/api/admin/setting/set_qbit", json=body)

    def admin_storage_create(self, **body: Unpack[models.StorageReq]) -> models.Id:
        """Add a storage. If it does not start, it is stored nevertheless and the failure has its id."""
        return self._call("POST", "/api/admin/storage/create", json=body)

    def admin_storage_delete(self, *, id: int) -> None:
        """Remove a storage from the tree; its files are not deleted."""
        self._call("POST", "/api/admin/storage/delete", query={"id": id})

    def admin_storage_disable(self, *, id: int) -> None:
        """Disable a storage."""
        self._call("POST", "/api/admin/storage/disable", query={"id": id})

    def admin_storage_enable(self, *, id: int) -> None:
        """Start a storage that was disabled."""
        self._call("POST", "/api/admin/storage/enable", query={"id": id})

    def admin_storage_get(self, *, id: int) -> models.StorageRow:
        """Return a storage."""
        return self._call("GET", "/api/admin/storage/get", query={"id": id})

    def admin_storage_list(self, *, page: str | None = None, per_page: str | None = None) -> models.ListedStoragePage:
        """List all storages."""
        return self._call("GET", "/api/admin/storage/list", query={"page": page, "per_page": per_page})

    def admin_storage_load_all(self) -> None:
        """Restart all storages."""
        self._call("POST", "/api/admin/storage/load_all")

    def admin_storage_test(self, **body: Unpack[models.StorageTrialReq]) -> models.StorageTrial:
        """Start a driver with options that are not stored, and list the folders of a folder of the storage."""
        return self._call("POST", "/api/admin/storage/test", json=body)

    def admin_storage_update(self, **body: Unpack[models.StorageReq]) -> models.Id:
        """Replace the record of a storage and restart it."""
        return self._call("POST", "/api/admin/storage/update", json=body)

    def admin_task_cancel(self, kind: str, *, tid: str | None = None) -> None:
        """Cancel a task."""
        self._call("POST", f"/api/admin/task/{kind}/cancel", query={"tid": tid})

    def admin_task_cancel_some(self, kind: str, body: list[str]) -> dict[str, str]:
        """Cancel tasks; returns the ids that could not be cancelled, with the reasons."""
        return self._call("POST", f"/api/admin/task/{kind}/cancel_some", json=body)

    def admin_task_clear_done(self, kind: str) -> None:
        """Delete all finished tasks from the list."""
        self._call("POST", f"/api/admin/task/{kind}/clear_done")

    def admin_task_clear_succeeded(self, kind: str) -> None:
        """Delete all succeeded tasks from the list."""
        self._call("POST", f"/api/admin/task/{kind}/clear_succeeded")

    def admin_task_delete(self, kind: str, *, tid: str | None = None) -> None:
        """Delete a finished task from the list."""
        self._call("POST", f"/api/admin/task/{kind}/delete", query={"tid": tid})

    def admin_task_delete_some(self, kind: str, body: list[str]) -> dict[str, str]:
        """Delete tasks from the list; returns the ids that could not be deleted, with the reasons."""
        return self._call("POST", f"/api/admin/task/{kind}/delete_some", json=body)

    def admin_task_done(
        self, kind: str, *, page: str | None = None, per_page: str | None = None
    ) -> list[models.TaskRow]:
        """List finished tasks; administrators see those of all users."""
        return self._call("GET", f"/api/admin/task/{kind}/done", query={"page": page, "per_page": per_page})

    def admin_task_info(self, kind: str, *, tid: str | None = None) -> models.TaskRow:
        """Return a task."""
        return self._call("POST", f"/api/admin/task/{kind}/info", query={"tid": tid})

    def admin_task_retry(self, kind: str, *, tid: str | None = None) -> None:
        """Retry a task."""
        self._call("POST", f"/api/admin/task/{kind}/retry", query={"tid": tid})

    def admin_task_retry_failed(self, kind: str) -> None:
        """Retry all failed tasks."""
        self._call("POST", f"/api/admin/task/{kind}/retry_failed")

    def admin_task_retry_some(self, kind: str, body: list[str]) -> dict[str, str]:
        """Retry tasks; returns the ids that could not be retried, with the reasons."""
        return self._call("POST", f"/api/admin/task/{kind}/retry_some", json=body)

    def admin_task_undone(
        self, kind: str, *, page: str | None = None, per_page: str | None = None
    ) -> list[models.TaskRow]:
        """List unfinished tasks; administrators see those of all users."""
        return self._call("GET", f"/api/admin/task/{kind}/undone", query={"page": page, "per_page": per_page})

    def admin_user_app_password_delete(self, *, id: int) -> None:
        """Delete an application password of any user; its sessions end."""
        self._call("POST", "/api/admin/user/app_password/delete", query={"id": id})

    def admin_user_app_password_list(self, *, uid: int) -> models.AppPasswordRowPage:
        """List the application passwords of a user, without their texts."""
        return self._call("GET", "/api/admin/user/app_password/list", query={"uid": uid})

    def admin_user_cancel_2fa(self, *, id: int, code: str | None = None, otp_code: str | None = None) -> None:
        """Switch off the second factor of a user; for oneself, a current code is required."""
        self._call("POST", "/api/admin/user/cancel_2fa", query={"id": id, "code": code}, headers={"otp-code": otp_code})

    def admin_user_create(self, **body: Unpack[models.UserReq]) -> None:
        """Create an ordinary user; without a password nobody can sign in as that user."""
        self._call("POST", "/api/admin/user/create", json=body)

    def admin_user_del_cache(self, *, username: str) -> None:
        """Read a user again; no stale record stays in the cache."""
        self._call("POST", "/api/admin/user/del_cache", query={"username": username})

    def admin_user_delete(self, *, id: int) -> None:
        """Delete an ordinary user with their sessions, keys, application passwords and passkeys."""
        self._call("POST", "/api/admin/user/delete", query={"id": id})

    def admin_user_get(self, *, id: int) -> models.UserRow:
        """Return a user."""
        return self._call("GET", "/api/admin/user/get", query={"id": id})

    def admin_user_list(self, *, page: str | None = None, per_page: str | None = None) -> models.UserRowPage:
        """List all users."""
        return self._call("GET", "/api/admin/user/list", query={"page": page, "per_page": per_page})

    def admin_user_sshkey_delete(self, *, id: int) -> None:
        """Delete an SSH key of any user."""
        self._call("POST", "/api/admin/user/sshkey/delete", query={"id": id})

    def admin_user_sshkey_list(self, *, uid: int) -> models.SshKeyRowPage:
        """List the SSH keys of a user."""
        return self._call("GET", "/api/admin/user/sshkey/list", query={"uid": uid})

    def admin_user_token_delete(self, *, id: int) -> None:
        """Delete a token of any user; its sessions end, and its tasks fail."""
        self._call("POST", "/api/admin/user/token/delete", query={"id": id})

    def admin_user_token_list(self, *, uid: int) -> models.TokenRowPage:
        """List the tokens of a user, without their texts."""
        return self._call("GET", "/api/admin/user/token/list", query={"uid": uid})

    def admin_user_update(self, **body: Unpack[models.UserReq]) -> None:
        """Replace the record of a user; an empty password keeps the old one."""
        self._call("POST", "/api/admin/user/update", json=body)

    def auth_2fa_generate(self) -> models.Enrolment:
        """Create a secret for a second factor; `verify` with a code of it switches it on."""
        return self._call("POST", "/api/auth/2fa/generate")

    def auth_2fa_verify(
        self, body: models.Verify2FAReq, *, code: str | None = None, otp_code: str | None = None
    ) -> None:
        """Switch the second factor on, or replace it."""
        self._call("POST", "/api/auth/2fa/verify", query={"code": code}, headers={"otp-code": otp_code}, json=body)

    def auth_login(self, **body: Unpack[models.LoginReq]) -> models.Token:
        """Sign in with a name and a password; returns a token."""
        return self._call("POST", "/api/auth/login", json=body)

    def auth_login_hash(self, **body: Unpack[models.LoginReq]) -> models.Token:
        """Sign in with a name and the hash of a password; returns a token."""
        return self._call("POST", "/api/auth/login/hash", json=body)

    def auth_login_ldap(self, **body: Unpack[models.LoginReq]) -> models.Token:
        """Sign in with a name and password of the directory; returns a token."""
        return self._call("POST", "/api/auth/login/ldap", json=body)

    def auth_logout(self) -> None:
        """End the session of the token in the request."""
        self._call("GET", "/api/auth/logout")

    def authn_delete_authn(self, **body: Unpack[models.DeletePasskeyReq]) -> None:
        """Delete a passkey of the caller."""
        self._call("POST", "/api/authn/delete_authn", json=body)

    def authn_getcredentials(self) -> list[models.PasskeyRow]:
        """List the passkeys of the caller."""
        return self._call("GET", "/api/authn/getcredentials")

    def authn_webauthn_begin_login(self, *, username: str | None = None) -> models.PasskeyChallenge:
        """Begin a sign-in with a passkey. The answer is the same for every user."""
        return self._call("GET", "/api/authn/webauthn_begin_login", query={"username": username})

    def authn_webauthn_begin_registration(
        self, *, code: str | None = None, otp_code: str | None = None
    ) -> models.PasskeyChallenge:
        """Begin the registration of a passkey; a user with a second factor needs a current code of it."""
        return self._call(
            "GET", "/api/authn/webauthn_begin_registration", query={"code": code}, headers={"otp-code": otp_code}
        )

    def authn_webauthn_finish_login(
        self, *, username: str | None = None, session: str | None = None, **body: Unpack[models.AssertionReq]
    ) -> models.Token:
        """Sign in with a passkey, which counts as both factors; returns a token."""
        return self._call(
            "POST",
            "/api/authn/webauthn_finish_login",
            query={"username": username},
            headers={"session": session},
            json=body,
        )

    def authn_webauthn_finish_registration(
        self, *, title: str | None = None, session: str | None = None, **body: Unpack[models.AttestationReq]
    ) -> None:
        """Register the passkey that an authenticator made."""
        self._call(
            "POST",
            "/api/authn/webauthn_finish_registration",
            query={"title": title},
            headers={"session": session},
            json=body,
        )

    def fs_add_offline_download(
        self, *, idempotency_key: str | None = None, **body: Unpack[models.OfflineDownloadReq]
    ) -> models.Opened:
        """Download addresses into a folder."""
        return self._call(
            "POST", "/api/fs/add_offline_download", headers={"Idempotency-Key": idempotency_key}, json=body
        )

    def fs_archive_compress(
        self, *, idempotency_key: str | None = None, **body: Unpack[models.CompressReq]
    ) -> models.Stored:
        """Pack entries of a folder into a new archive of another folder, as a task."""
        return self._call("POST", "/api/fs/archive/compress", headers={"Idempotency-Key": idempotency_key}, json=body)

    def fs_archive_decompress(
        self, *, idempotency_key: str | None = None, **body: Unpack[models.DecompressReq]
    ) -> models.Unpacking:
        """Unpack archives into a folder, as tasks."""
        return self._call("POST", "/api/fs/archive/decompress", headers={"Idempotency-Key": idempotency_key}, json=body)

    def fs_archive_list(self, **body: Unpack[models.ArchiveListReq]) -> models.ArchiveListing:
        """List a page of a folder inside an archive."""
        return self._call("POST", "/api/fs/archive/list", json=body)

    def fs_archive_meta(self, **body: Unpack[models.ArchiveReq]) -> models.ArchiveMeta:
        """Return the properties of an archive and all its entries."""
        return self._call("POST", "/api/fs/archive/meta", json=body)

    def fs_batch_rename(
        self, *, idempotency_key: str | None = None, **body: Unpack[models.BatchRenameReq]
    ) -> models.Done | None:
        """Rename entries of a folder, each to its own name, at once or as a task."""
        return self._call("POST", "/api/fs/batch_rename", headers={"Idempotency-Key": idempotency_key}, json=body)

    def fs_changer(self, **body: Unpack[models.ChangerReq]) -> models.Changer:
        """Return the user who changed a file last through the service, as far as the index knows."""
        return self._call("POST", "/api/fs/changer", json=body)

    def fs_copy(self, *, idempotency_key: str | None = None, **body: Unpack[models.MoveCopyReq]) -> models.Done | None:
        """Copy entries into another folder, at once or as tasks."""
        return self._call("POST", "/api/fs/copy", headers={"Idempotency-Key": idempotency_key}, json=body)

    def fs_dirs(self, **body: Unpack[models.DirsReq]) -> list[models.FolderName]:
        """List the folders in a folder."""
        return self._call("POST", "/api/fs/dirs", json=body)

    def fs_get(self, **body: Unpack[models.GetReq]) -> models.SingleObject:
        """Return a file or folder, with the address of its bytes."""
        return self._call("POST", "/api/fs/get", json=body)

    def fs_get_direct_upload_info(
        self, *, overwrite: bool | None = None, **body: Unpack[models.DirectReq]
    ) -> models.DirectInfo:
        """Return the address at the storage to which the client sends a whole file. Other storages refuse it."""
        return self._call("POST", "/api/fs/get_direct_upload_info", headers={"Overwrite": overwrite}, json=body)

    def fs_link(self, **body: Unpack[models.LinkReq]) -> models.DirectLink:
        """Return the address of a file at the storage itself."""
        return self._call("POST", "/api/fs/link", json=body)

    def fs_list(self, *, x_share_session: str | None = None, **body: Unpack[models.ListReq]) -> models.Listing:
        """List a page of a folder."""
        return self._call("POST", "/api/fs/list", headers={"X-Share-Session": x_share_session}, json=body)

    def fs_mkdir(self, **body: Unpack[models.MkdirReq]) -> None:
        """Create a folder and its missing parents."""
        self._call("POST", "/api/fs/mkdir", json=body)

    def fs_move(self, *, idempotency_key: str | None = None, **body: Unpack[models.MoveCopyReq]) -> models.Done | None:
        """Move entries into another folder, at once or as tasks."""
        return self._call("POST", "/api/fs/move", headers={"Idempotency-Key": idempotency_key}, json=body)

    def fs_multipart_abort(self, *, x_upload_id: str) -> models.UploadSnapshot:
        """Abort an upload and delete its chunks."""
        return self._call("POST", "/api/fs/multipart/abort", headers={"X-Upload-Id": x_upload_id})

    def fs_multipart_chunk(
        self, content: Content, *, x_upload_id: str, x_chunk_index: int, x_chunk_crc32: str | None = None
    ) -> models.UploadSnapshot:
        """Store a chunk, in any order; a chunk that is sent again replaces the previous one."""
        return self._call(
            "PUT",
            "/api/fs/multipart/chunk",
            headers={"X-Upload-Id": x_upload_id, "X-Chunk-Index": x_chunk_index, "X-Chunk-Crc32": x_chunk_crc32},
            content=content,
        )

    def fs_multipart_complete(
        self,
        *,
        x_share_session: str | None = None,
        x_upload_id: str,
        password: str | None = None,
        idempotency_key: str | None = None,
    ) -> models.UploadSnapshot:
        """Assemble the file from its chunks; missing chunks are named. The request may be repeated."""
        return self._call(
            "POST",
            "/api/fs/multipart/complete",
            headers={
                "X-Share-Session": x_share_session,
                "X-Upload-Id": x_upload_id,
                "Password": password,
                "Idempotency-Key": idempotency_key,
            },
        )

    def fs_multipart_init(
        self,
        *,
        file_path: str,
        password: str | None = None,
        overwrite: bool | None = None,
        last_modified: int | None = None,
        x_file_size: int,
        x_file_md5: str | None = None,
        x_file_sha1: str | None = None,
        x_file_sha256: str | None = None,
        x_chunk_size: int | None = None,
    ) -> models.UploadSnapshot:
        """Begin an upload in chunks, or resume the upload of the same file."""
        return self._call(
            "POST",
            "/api/fs/multipart/init",
            headers={
                "File-Path": file_path,
                "Password": password,
                "Overwrite": overwrite,
                "Last-Modified": last_modified,
                "X-File-Size": x_file_size,
                "X-File-Md5": x_file_md5,
                "X-File-Sha1": x_file_sha1,
                "X-File-Sha256": x_file_sha256,
                "X-Chunk-Size": x_chunk_size,
            },
        )

    def fs_multipart_sign(self, **body: Unpack[models.SignReq]) -> models.SignedChunks:
        """Return addresses at the storage for chunks; each accepts a chunk of the same size and CRC-32 only."""
        return self._call("POST", "/api/fs/multipart/sign", json=body)

    def fs_multipart_status(
        self, *, upload_id: str | None = None, path: str | None = None, size: str | None = None
    ) -> models.UploadSnapshot:
        """Return the state of an upload in chunks, by its id or by path and size; the newest if there are several."""
        return self._call("GET", "/api/fs/multipart/status", query={"upload_id": upload_id, "path": path, "size": size})

    def fs_other(self, **body: Unpack[models.OtherReq]) -> None:
        """Send a request to the driver; no driver of this version has any."""
        self._call("POST", "/api/fs/other", json=body)

    def fs_put(
        self,
        content: Content,
        *,
        file_path: str,
        content_length: int | None = None,
        password: str | None = None,
        overwrite: bool | None = None,
        as_task: bool | None = None,
        last_modified: int | None = None,
        x_file_size: int | None = None,
        x_file_md5: str | None = None,
        x_file_sha1: str | None = None,
        x_file_sha256: str | None = None,
        idempotency_key: str | None = None,
    ) -> models.Stored | None:
        """Store the body as a file."""
        return self._call(
            "PUT",
            "/api/fs/put",
            headers={
                "File-Path": file_path,
                "Content-Length": content_length,
                "Password": password,
                "Overwrite": overwrite,
                "As-Task": as_task,
                "Last-Modified": last_modified,
                "X-File-Size": x_file_size,
                "X-File-Md5": x_file_md5,
                "X-File-Sha1": x_file_sha1,
                "X-File-Sha256": x_file_sha256,
                "Idempotency-Key": idempotency_key,
            },
            content=content,
        )

    def fs_put_batch(self, content: Content, *, x_manifest_size: int) -> models.BatchAnswer:
        """Store several small files. The body is a manifest in JSON, then the bytes of the files."""
        return self._call("PUT", "/api/fs/put_batch", headers={"X-Manifest-Size": x_manifest_size}, content=content)

    def fs_recursive_move(
        self, *, idempotency_key: str | None = None, **body: Unpack[models.RecursiveMoveReq]
    ) -> models.Done | None:
        """Move all files below a folder into another folder, without their subfolders, at once or as a task."""
        return self._call("POST", "/api/fs/recursive_move", headers={"Idempotency-Key": idempotency_key}, json=body)

    def fs_regex_rename(
        self, *, idempotency_key: str | None = None, **body: Unpack[models.RegexRenameReq]
    ) -> models.Done | None:
        """Rename entries of a folder by a pattern, at once or as a task."""
        return self._call("POST", "/api/fs/regex_rename", headers={"Idempotency-Key": idempotency_key}, json=body)

    def fs_remove(self, *, idempotency_key: str | None = None, **body: Unpack[models.RemoveReq]) -> models.Done | None:
        """Remove entries of a folder with their contents, at once or as a task."""
        return self._call("POST", "/api/fs/remove", headers={"Idempotency-Key": idempotency_key}, json=body)

    def fs_remove_empty_directory(
        self, *, idempotency_key: str | None = None, **body: Unpack[models.RemoveEmptyReq]
    ) -> models.Done | None:
        """Remove the empty folders below a folder, at once or as a task."""
        return self._call(
            "POST", "/api/fs/remove_empty_directory", headers={"Idempotency-Key": idempotency_key}, json=body
        )

    def fs_rename(self, *, idempotency_key: str | None = None, **body: Unpack[models.RenameReq]) -> models.Done | None:
        """Rename a file or folder, at once or as a task."""
        return self._call("POST", "/api/fs/rename", headers={"Idempotency-Key": idempotency_key}, json=body)

    def fs_search(self, **body: Unpack[models.SearchReq]) -> models.SearchPage:
        """Search names in a folder and its subfolders."""
        return self._call("POST", "/api/fs/search", json=body)

    def fs_trash_delete(self, **body: Unpack[models.TrashIdsReq]) -> models.TrashOutcome:
        """Permanently delete removed entries."""
        return self._call("POST", "/api/fs/trash/delete", json=body)

    def fs_trash_empty(self, **body: Unpack[models.TrashEmptyReq]) -> models.TrashEmptied:
        """Permanently delete your removed entries, those of a folder, or as an administrator all."""
        return self._call("POST", "/api/fs/trash/empty", json=body)

    def fs_trash_list(self, **body: Unpack[models.TrashListReq]) -> models.TrashListing:
        """List removed entries: your own, those of a folder, or as an administrator all."""
        return self._call("POST", "/api/fs/trash/list", json=body)

    def fs_trash_restore(
        self, *, idempotency_key: str | None = None, **body: Unpack[models.TrashRestoreReq]
    ) -> models.TrashRestored:
        """Restore removed entries to where they were, at once or as a task."""
        return self._call("POST", "/api/fs/trash/restore", headers={"Idempotency-Key": idempotency_key}, json=body)

    def fs_versions(self, **body: Unpack[models.VersionsReq]) -> models.Versions:
        """List the versions of a file."""
        return self._call("POST", "/api/fs/versions", json=body)

    def fs_versions_restore(self, **body: Unpack[models.VersionRestoreReq]) -> None:
        """Make a version of a file the present one, which is kept as a version."""
        self._call("POST", "/api/fs/versions/restore", json=body)

    def fs_zip(self, *, idempotency_key: str | None = None, **body: Unpack[models.ZipReq]) -> models.ZipLink:
        """Return the address of a ZIP file of some entries of a folder. It is valid for one hour."""
        return self._call("POST", "/api/fs/zip", headers={"Idempotency-Key": idempotency_key}, json=body)

    def me(self) -> models.Me:
        """Return the caller; without a token, the guest."""
        return self._call("GET", "/api/me")

    def me_app_password_add(self, **body: Unpack[models.AddAppPasswordReq]) -> models.NewAppPassword:
        """Create an application password of the caller, for WebDAV and SFTP; only this answer has its text."""
        return self._call("POST", "/api/me/app_password/add", json=body)

    def me_app_password_delete(self, *, id: int) -> None:
        """Delete an application password of the caller; its sessions end."""
        self._call("POST", "/api/me/app_password/delete", query={"id": id})

    def me_app_password_list(self) -> models.AppPasswordRowPage:
        """List the caller's application passwords, without their texts."""
        return self._call("GET", "/api/me/app_password/list")

    def me_sessions(self) -> list[models.SessionRow]:
        """List the caller's open sessions, the last used first."""
        return self._call("GET", "/api/me/sessions")

    def me_sessions_evict(self, **body: Unpack[models.EvictSessionReq]) -> None:
        """End a session of the caller."""
        self._call("POST", "/api/me/sessions/evict", json=body)

    def me_sessions_evict_others(self) -> None:
        """End all sessions of the caller except that of this request."""
        self._call("POST", "/api/me/sessions/evict_others")

    def me_sshkey_add(self, **body: Unpack[models.AddKeyReq]) -> None:
        """Add an SSH key of the caller."""
        self._call("POST", "/api/me/sshkey/add", json=body)

    def me_sshkey_delete(self, *, id: int) -> None:
        """Delete an SSH key of the caller."""
        self._call("POST", "/api/me/sshkey/delete", query={"id": id})

    def me_sshkey_list(self) -> models.SshKeyRowPage:
        """List the caller's SSH keys."""
        return self._call("GET", "/api/me/sshkey/list")

    def me_token_create(
        self, *, code: str | None = None, otp_code: str | None = None, **body: Unpack[models.TokenReq]
    ) -> models.NewTokenRow:
        """Create a token of the caller with a scope; only this answer has its text."""
        return self._call(
            "POST", "/api/me/token/create", query={"code": code}, headers={"otp-code": otp_code}, json=body
        )

    def me_token_delete(self, *, id: int) -> None:
        """Delete a token of the caller; its sessions end, and its tasks fail."""
        self._call("POST", "/api/me/token/delete", query={"id": id})

    def me_token_list(self) -> models.TokenRowPage:
        """List the caller's tokens, without their texts."""
        return self._call("GET", "/api/me/token/list")

    def me_update(self, **body: Unpack[models.UpdateMeReq]) -> None:
        """Change the caller's own name and password, and link or unlink an identity."""
        self._call("POST", "/api/me/update", json=body)

    def public_archive_extensions(self) -> list[str]:
        """List the extensions of archives that can be read."""
        return self._call("GET", "/api/public/archive_extensions")

    def public_offline_download_tools(self) -> list[str]:
        """List the download tools that are available now."""
        return self._call("GET", "/api/public/offline_download_tools")

    def public_settings(self) -> dict[str, str]:
        """Return all public settings by name."""
        return self._call("GET", "/api/public/settings")

    def share_create(self, **body: Unpack[models.ShareReq]) -> models.ShareRow:
        """Create a share link, with a random id unless one is chosen."""
        return self._call("POST", "/api/share/create", json=body)

    def share_delete(self, *, id: str) -> None:
        """Delete a share link."""
        self._call("POST", "/api/share/delete", query={"id": id})

    def share_disable(self, *, id: str) -> None:
        """Disable a share link: nobody can open it until it is enabled."""
        self._call("POST", "/api/share/disable", query={"id": id})

    def share_enable(self, *, id: str) -> None:
        """Enable a share link."""
        self._call("POST", "/api/share/enable", query={"id": id})

    def share_get(self, *, id: str) -> models.ShareRow:
        """Return a share link of the caller; an administrator gets any."""
        return self._call("GET", "/api/share/get", query={"id": id})

    def share_list(self, **body: Unpack[models.SharePageReq]) -> models.ShareRowPage:
        """List the caller's share links; an administrator gets all."""
        return self._call("POST", "/api/share/list", json=body)

    def share_update(self, **body: Unpack[models.ShareUpdateReq]) -> models.ShareRow:
        """Replace the fields of a share link; absent ones get their defaults."""
        return self._call("POST", "/api/share/update", json=body)

    def task_cancel(self, kind: str, *, tid: str | None = None) -> None:
        """Cancel a task."""
        self._call("POST", f"/api/task/{kind}/cancel", query={"tid": tid})

    def task_cancel_some(self, kind: str, body: list[str]) -> dict[str, str]:
        """Cancel tasks; returns the ids that could not be cancelled, with the reasons."""
        return self._call("POST", f"/api/task/{kind}/cancel_some", json=body)

    def task_clear_done(self, kind: str) -> None:
        """Delete all finished tasks from the list."""
        self._call("POST", f"/api/task/{kind}/clear_done")

    def task_clear_succeeded(self, kind: str) -> None:
        """Delete all succeeded tasks from the list."""
        self._call("POST", f"/api/task/{kind}/clear_succeeded")

    def task_delete(self, kind: str, *, tid: str | None = None) -> None:
        """Delete a finished task from the list."""
        self._call("POST", f"/api/task/{kind}/delete", query={"tid": tid})

    def task_delete_some(self, kind: str, body: list[str]) -> dict[str, str]:
        """Delete tasks from the list; returns the ids that could not be deleted, with the reasons."""
        return self._call("POST", f"/api/task/{kind}/delete_some", json=body)

    def task_done(self, kind: str, *, page: str | None = None, per_page: str | None = None) -> list[models.TaskRow]:
        """List finished tasks; administrators see those of all users."""
        return self._call("GET", f"/api/task/{kind}/done", query={"page": page, "per_page": per_page})

    def task_info(self, kind: str, *, tid: str | None = None) -> list[models.TaskRow] | models.TaskRow:
        """Return a task."""
        return self._call("POST", f"/api/task/{kind}/info", query={"tid": tid})

    def task_retry(self, kind: str, *, tid: str | None = None) -> None:
        """Retry a task."""
        self._call("POST", f"/api/task/{kind}/retry", query={"tid": tid})

    def task_retry_failed(self, kind: str) -> None:
        """Retry all failed tasks."""
        self._call("POST", f"/api/task/{kind}/retry_failed")

    def task_retry_some(self, kind: str, body: list[str]) -> dict[str, str]:
        """Retry tasks; returns the ids that could not be retried, with the reasons."""
        return self._call("POST", f"/api/task/{kind}/retry_some", json=body)

    def task_undone(self, kind: str, *, page: str | None = None, per_page: str | None = None) -> list[models.TaskRow]:
        """List unfinished tasks; administrators see those of all users."""
        return self._call("GET", f"/api/task/{kind}/undone", query={"page": page, "per_page": per_page})
