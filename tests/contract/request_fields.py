"""Every text in a request: a path or a name, which is attacked, or one of NOT_PATHS.

FILES has a valid request for each file route in addition to the fields that are attacked. A route below `/api/fs/`
whose only texts are `path` and `password` needs no line: its path is attacked.
"""

from __future__ import annotations

from typing import Any

from tests.contract.attacks.scene import fields, operations

ARCHIVE = {"path": "/x.zip", "inner_path": "/sub"}
SEARCH = {"parent": "/sub", "keywords": "*", "page": 1, "per_page": 10}
FILES: dict[str, tuple[set[str], Any]] = {
    "GET /api/fs/archive/list": ({"path", "inner_path"}, ARCHIVE),
    "GET /api/fs/archive/meta": ({"path"}, {"path": "/x.zip"}),
    "GET /api/fs/dirs": ({"path"}, {"path": "/"}),
    "GET /api/fs/get": ({"path"}, {"path": "/f.txt"}),
    "GET /api/fs/list": ({"path"}, {"path": "/sub"}),
    "GET /api/fs/search": ({"parent"}, SEARCH),
    "POST /api/fs/add_offline_download": (
        {"path"},
        {"path": "/empty", "urls": ["http://127.0.0.1:9/x"], "tool": "SimpleHttp"},
    ),
    "POST /api/fs/archive/compress": (
        {"src_dir", "dst_dir", "names[]", "name"},
        {"src_dir": "/", "dst_dir": "/empty", "names": ["f.txt"], "name": "new.zip"},
    ),
    "POST /api/fs/archive/decompress": (
        {"src_dir", "dst_dir", "name[]", "inner_path"},
        {"src_dir": "/", "dst_dir": "/empty", "name": ["x.zip"], "inner_path": "/sub"},
    ),
    "POST /api/fs/archive/list": ({"path", "inner_path"}, ARCHIVE),
    "POST /api/fs/archive/meta": ({"path"}, {"path": "/x.zip"}),
    "POST /api/fs/batch_rename": (
        {"src_dir", "rename_objects[].src_name", "rename_objects[].new_name"},
        {"src_dir": "/", "rename_objects": [{"src_name": "f.txt", "new_name": "new.txt"}]},
    ),
    "POST /api/fs/copy": (
        {"src_dir", "dst_dir", "names[]"},
        {"src_dir": "/", "dst_dir": "/empty", "names": ["f.txt"], "overwrite": True},
    ),
    "POST /api/fs/dirs": ({"path"}, {"path": "/"}),
    "POST /api/fs/get": ({"path"}, {"path": "/f.txt"}),
    "POST /api/fs/list": ({"path"}, {"path": "/sub", "refresh": True}),
    "POST /api/fs/get_direct_upload_info": (
        {"path", "file_name"},
        {"path": "/sub", "file_name": "new.txt", "file_size": 3},
    ),
    "POST /api/fs/mkdir": ({"path"}, {"path": "/new"}),
    "POST /api/fs/move": (
        {"src_dir", "dst_dir", "names[]"},
        {"src_dir": "/", "dst_dir": "/empty", "names": ["f.txt"], "overwrite": True},
    ),
    "POST /api/fs/other": ({"path"}, {"path": "/f.txt", "method": "x"}),
    "POST /api/fs/recursive_move": (
        {"src_dir", "dst_dir"},
        {"src_dir": "/sub", "dst_dir": "/empty", "conflict_policy": "overwrite"},
    ),
    "POST /api/fs/regex_rename": (
        {"src_dir", "src_name_regex", "new_name_regex"},
        {"src_dir": "/", "src_name_regex": r"^(f)\.txt$", "new_name_regex": "$1.new"},
    ),
    "POST /api/fs/remove": ({"dir", "names[]"}, {"dir": "/", "names": ["f.txt"]}),
    "POST /api/fs/remove_empty_directory": ({"src_dir"}, {"src_dir": "/"}),
    "POST /api/fs/rename": ({"path", "name"}, {"path": "/f.txt", "name": "new.txt", "overwrite": True}),
    "POST /api/fs/changer": ({"path"}, {"path": "/f.txt"}),
    "POST /api/fs/search": ({"parent"}, SEARCH),
    "POST /api/fs/zip": ({"dir", "names[]"}, {"dir": "/", "names": ["f.txt"]}),
    "GET /api/fs/trash/list": ({"path"}, {"path": "/sub"}),
    "POST /api/fs/trash/list": ({"path"}, {"path": "/sub"}),
    "GET /api/fs/versions": ({"path"}, {"path": "/f.txt"}),
    "POST /api/fs/versions": ({"path"}, {"path": "/f.txt"}),
    "POST /api/fs/versions/restore": ({"path"}, {"path": "/f.txt", "id": "x"}),
    "POST /api/fs/trash/empty": ({"path"}, {"path": "/sub"}),
    "POST /api/fs/trash/restore": ({"dir", "names[]"}, {"dir": "/", "names": ["f.txt"]}),
    "POST /api/fs/multipart/init": ({"File-Path"}, "/new.txt"),
    "PUT /api/fs/form": ({"File-Path"}, "/new.txt"),
    "PUT /api/fs/put": ({"File-Path"}, "/new.txt"),
}
OPENS_TASKS = {
    "POST /api/fs/add_offline_download",
    "POST /api/fs/archive/compress",
    "POST /api/fs/archive/decompress",
}
RECORDS = {
    "POST /api/admin/meta/create": {"path"},
    "POST /api/admin/meta/update": {"path"},
    "POST /api/admin/storage/create": {"mount_path"},
    "POST /api/admin/storage/update": {"mount_path"},
    "POST /api/admin/user/create": {"base_path"},
    "POST /api/admin/user/update": {"base_path"},
}
SHARED = {"POST /api/share/create": {"files[]"}, "POST /api/share/update": {"files[]"}}
ADDRESSES = {f"{method} {route}": {"path"} for method in ("GET", "HEAD") for route in ("/d/{path}", "/p/{path}")}
SHARED_ADDRESSES = {f"{method} /sd/{{path}}": {"path"} for method in ("GET", "HEAD")}
SHARED_TARGETS = {"PUT /sd/{path}": {"path"}}
SHARED_MEMBERS = {f"{method} /sad/{{path}}": {"path", "inner"} for method in ("GET", "HEAD")}
SELECTIONS = {f"{method} /zip/{{path}}": {"path"} for method in ("GET", "HEAD")}
MEMBERS = {f"{method} /ae/{{path}}": {"path", "inner"} for method in ("GET", "HEAD")}
LINK = {"POST /api/fs/link": {"path"}}
INDEX = {"POST /api/admin/index/update": {"paths[]"}}

META = {"password", "hide", "readme", "header"}
USER = {"username", "password", "sso_id"}
STORAGE = {
    "driver", "custom_cache_policies", "status", "addition", "remark", "disable_index", "enable_sign", "order_by",
    "order_direction", "extract_folder", "web_proxy", "webdav_policy", "proxy_range", "down_proxy_url",
    "disable_proxy_sign",
}  # fmt: skip
SHARE = {
    "id", "creator", "expires", "pwd", "remark", "readme", "header", "order_by", "order_direction", "extract_folder",
    "mode", "extensions[]",
}  # fmt: skip
LOGIN = {"username", "password", "otp_code"}
CALLBACK = {"code", "state", "iss", "error"}
CREDENTIAL = {"id", "rawId", "type", "session", "response.clientDataJSON"}
AUDIT = {"username", "action", "since", "until", "start"}
PAGES = {"page", "per_page"}
UPLOAD = {"Password", "X-File-Md5", "X-File-Sha1", "X-File-Sha256"}
SEARCH_FIELDS = {"keywords", "password", "ext", "since", "until"}
NOT_PATHS: dict[str, set[str]] = (
    {
        "GET /@assets/{path}": {"path"},  # a name among the page's files, attacked in unit/standalone/test_page.py
        "HEAD /@assets/{path}": {"path"},
        "GET /@s/{path}": {"path"},  # the page of a share link, which is the same for all
        "HEAD /@s/{path}": {"path"},
        "GET /api/admin/driver/info": {"driver"},
        "GET /api/events": {"path", "password"},  # attacked in api/test_event_streams.py, as its answer has no end
        "POST /api/admin/lock/delete": {"token"},
        "GET /api/admin/lock/list": PAGES,
        "POST /api/admin/meta/create": META,
        "GET /api/admin/meta/list": PAGES,
        "POST /api/admin/meta/update": META,
        "POST /api/admin/setting/default": {"groups", "group"},
        "POST /api/admin/setting/delete": {"key"},
        "GET /api/admin/setting/get": {"key", "keys"},
        "GET /api/admin/setting/list": {"groups", "group"},
        "POST /api/admin/setting/save": {"[].key", "[].value", "[].help", "[].type", "[].options"},
        "POST /api/admin/setting/set_aria2": {"uri", "secret"},
        "POST /api/admin/setting/set_qbit": {"url", "seedtime"},
        "POST /api/admin/storage/create": STORAGE,
        "GET /api/admin/storage/list": PAGES,
        "POST /api/admin/storage/test": {"driver", "addition", "folder"},  # a path in the storage
        "POST /api/admin/storage/update": STORAGE,
        "POST /api/admin/user/create": USER,
        "POST /api/admin/user/del_cache": {"username"},
        "GET /api/admin/user/list": PAGES,
        "POST /api/admin/user/update": USER,
        "POST /api/admin/user/cancel_2fa": {"code", "otp-code"},
        "POST /api/auth/2fa/verify": {"code", "secret", "otp-code"},
        "POST /api/auth/login": LOGIN,
        "POST /api/auth/login/hash": LOGIN,
        "POST /api/auth/login/ldap": LOGIN,
        "GET /api/auth/sso": {"method"},
        "GET /api/auth/sso_callback": CALLBACK,
        "GET /api/auth/sso_get_token": CALLBACK,
        "GET /api/auth/get_sso_id": CALLBACK,
        "GET /api/authn/webauthn_begin_login": {"username"},
        "POST /api/authn/webauthn_finish_login": CREDENTIAL
        | {"response.authenticatorData", "response.signature", "response.userHandle", "username"},
        "GET /api/authn/webauthn_begin_registration": {"code", "otp-code"},
        "POST /api/authn/webauthn_finish_registration": CREDENTIAL | {"response.attestationObject", "title"},
        "POST /api/authn/delete_authn": {"id"},
        "GET /api/fs/archive/list": {"password", "archive_pass", "order_by", "order_direction"},
        "GET /api/fs/archive/meta": {"password", "archive_pass"},
        "GET /api/fs/search": SEARCH_FIELDS,
        "POST /api/fs/search": SEARCH_FIELDS,
        "POST /api/fs/add_offline_download": {"urls[]", "tool", "delete_policy"},
        "POST /api/fs/archive/compress": {"password"},
        "POST /api/fs/archive/decompress": {"archive_pass", "password"},
        "POST /api/fs/archive/list": {"password", "archive_pass", "order_by", "order_direction"},
        "POST /api/fs/archive/meta": {"password", "archive_pass"},
        "POST /api/fs/changer": {"password"},
        "POST /api/fs/dirs": {"password"},
        "GET /api/fs/trash/list": {"password", "start"},
        "POST /api/fs/trash/list": {"password", "start"},
        "POST /api/fs/trash/delete": {"ids[]", "password"},
        "POST /api/fs/trash/empty": {"password"},
        "GET /api/fs/versions": {"password"},
        "POST /api/fs/versions": {"password"},
        "POST /api/fs/versions/restore": {"password", "id"},
        "POST /api/fs/trash/restore": {"ids[]", "password"},
        "GET /api/fs/dirs": {"password"},
        "POST /api/fs/get": {"password"},
        "GET /api/fs/get": {"password"},
        "POST /api/fs/list": {"password", "order_by", "order_direction", "X-Share-Session"},
        "GET /api/fs/list": {"password", "order_by", "order_direction", "X-Share-Session"},
        "POST /api/fs/other": {"password", "method"},
        "POST /api/fs/batch_rename": {"password"},
        "POST /api/fs/copy": {"password"},
        "POST /api/fs/move": {"password"},
        "POST /api/fs/recursive_move": {"conflict_policy", "password"},
        "POST /api/fs/regex_rename": {"password"},
        "POST /api/fs/remove": {"password"},
        "POST /api/fs/remove_empty_directory": {"password"},
        "POST /api/fs/rename": {"password"},
        "POST /api/fs/zip": {"password"},
        "POST /api/me/sshkey/add": {"title", "key"},
        "POST /api/me/app_password/add": {"title"},
        "POST /api/me/sessions/evict": {"session_id"},
        "POST /api/admin/session/evict": {"session_id"},
        "GET /api/admin/audit/list": AUDIT,
        "POST /api/admin/audit/list": AUDIT,
        "GET /api/admin/session/list": {"uid"},
        "POST /api/admin/group/create": {"name", "folders[].path"},  # see test_groups
        "POST /api/admin/group/update": {"name", "folders[].path"},
        "GET /api/admin/group/list": {"page", "per_page"},
        # see test_token_scopes
        "POST /api/me/token/create": {"title", "folder", "mode", "protocols[]", "expires", "code", "otp-code"},
        "POST /api/me/update": USER,
        "POST /api/fs/get_direct_upload_info": {"tool", "password"},
        "POST /api/fs/multipart/init": UPLOAD,
        "PUT /api/fs/multipart/chunk": {"X-Upload-Id", "X-Chunk-Crc32"},
        "POST /api/fs/multipart/sign": {"upload_id", "chunks[].crc32"},
        "POST /api/fs/multipart/complete": {"X-Upload-Id", "Password", "X-Share-Session"},
        "POST /api/fs/multipart/abort": {"X-Upload-Id"},
        "GET /api/fs/multipart/status": {"upload_id", "path", "size"},  # of the caller's own sessions, and of no file
        "POST /api/share/create": SHARE,
        "POST /api/share/update": SHARE | {"new_id"},
        "GET /api/share/get": {"id"},
        "POST /api/share/delete": {"id"},
        "POST /api/share/disable": {"id"},
        "POST /api/share/enable": {"id"},
        "PUT /api/fs/form": UPLOAD,
        "PUT /api/fs/put": UPLOAD,
    }
    | {name: {"sign", "type", "version"} for name in ADDRESSES}
    | {name: {"pass", "sign"} for name in MEMBERS}
    | {name: {"pwd", "X-Share-Session"} | UPLOAD - {"Password"} for name in SHARED_TARGETS}
    | {name: {"pwd", "type", "zip", "names"} for name in SHARED_ADDRESSES}
    | {name: {"pass", "pwd"} for name in SHARED_MEMBERS}
    | {name: {"id", "sign"} for name in SELECTIONS}
)

TASKS: dict[str, set[str]] = {
    f"{method} /api{area}/task/{{kind}}/{verb}": {"kind", *names}
    for area in ("", "/admin")
    for method, names, verbs in (
        ("GET", PAGES, ("undone", "done")),
        ("POST", {"tid"}, ("info", "cancel", "delete", "retry")),
        ("POST", {"[]"}, ("cancel_some", "delete_some", "retry_some")),
        ("POST", set(), ("clear_done", "clear_succeeded", "retry_failed")),
    )
    for verb in verbs
}
NOT_PATHS |= TASKS

for _name in operations():
    _texts = {field.name for field in fields(_name)}
    if " /api/fs/" in _name and _name not in FILES | LINK and "path" in _texts <= {"path", "password"}:
        FILES[_name] = ({"path"}, {"path": "/sub"})
        NOT_PATHS[_name] = _texts - {"path"}

ATTACKED = (
    {name: attacked_texts for name, (attacked_texts, _) in FILES.items()}
    | RECORDS
    | SHARED
    | SHARED_ADDRESSES
    | SHARED_MEMBERS
    | SHARED_TARGETS
    | ADDRESSES
    | MEMBERS
    | SELECTIONS
    | LINK
    | INDEX
)
