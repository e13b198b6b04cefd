"""The table of settings: key, type, default, group, flag, one line each (behaviour 7.2)."""

from __future__ import annotations

from dataclasses import dataclass

from mangrove import __version__

SINGLE, SITE, STYLE, PREVIEW, GLOBAL, OFFLINE, INDEX, SSO, LDAP, S3, FTP, TRAFFIC = range(12)
PUBLIC, PRIVATE, READONLY, DEPRECATED = range(4)
SHARING, WEBAUTHN = "sharing", "WebAuthn"
SINGLE_SIGN_ON, LDAP_LOGIN, TRANSMISSION = "single sign-on", "LDAP", "Transmission"
S3_SERVER, FTP_SERVER = "S3 server", "FTP server"

LOGO = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Cpath fill='%232e7d5b' "
    "d='M16 2C9 2 4 7 4 12c0 4 4 6 9 6v12h6V18c5 0 9-2 9-6 0-5-5-10-12-10z'/%3E%3C/svg%3E"
)
PRIVACY = (
    r"(?:(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]\d|\d)"
    "\n"
    r"(?:[\da-fA-F]{1,4}:){2,7}[\da-fA-F]{1,4}|::(?:[\da-fA-F]{1,4}:){0,6}[\da-fA-F]{1,4}"
    "\n"
    r"(?U)access_token=(.*)&"
)
PREVIEWS = (
    '{"doc,docx,xls,xlsx,ppt,pptx":{"Microsoft":"https://view.officeapps.live.com/op/view.aspx?src=$e_url",'
    '"Google":"https://docs.google.com/gview?url=$e_url&embedded=true"}}'
)
SHARE_TEXT = (
    "{{creator}} shares {{#each files}}{{this}} {{/each}}: {{base_url}}/@s/{{id}}"
    "{{#if pwd}} password: {{pwd}}{{/if}}{{#if expires}} until {{expires}}{{/if}}"
)
NO_INDEX = '{"obj_count":0,"is_done":true,"last_done_time":null,"error":""}'


@dataclass(frozen=True, slots=True)
class Setting:
    """What a key is; `default` as text, `options` comma-separated for a select.

    `absent`: the feature it would switch on, when this version does not have it: only what leaves it off can be saved.
    """

    key: str
    type: str
    default: str
    group: int
    flag: int
    options: str = ""
    help: str = ""
    absent: str = ""

    def asks_for_absent(self, value: str) -> bool:
        """Whether `value` would switch on what is not there."""
        if not self.absent:
            return False
        return value in ("true", "1") if self.type == "bool" else value not in ("", self.default)


TABLE = (
    Setting("version", "string", f"v{__version__}", SITE, READONLY),
    Setting("site_title", "string", "Mangrove", SITE, PUBLIC),
    Setting("announcement", "text", "", SITE, PUBLIC),
    Setting("pagination_type", "select", "all", SITE, PUBLIC, options="all,pagination,load_more,auto_load_more"),
    Setting("default_page_size", "number", "30", SITE, PUBLIC),
    Setting("allow_indexed", "bool", "false", SITE, PUBLIC),
    Setting("allow_mounted", "bool", "true", SITE, PUBLIC),
    Setting("robots_txt", "text", "User-agent: *\nAllow: /", SITE, PUBLIC),
    Setting("logo", "text", LOGO, STYLE, PUBLIC),
    Setting("favicon", "string", LOGO, STYLE, PUBLIC),
    Setting("main_color", "string", "#1890ff", STYLE, PUBLIC),
    Setting("home_icon", "string", "🏠", STYLE, PUBLIC),
    Setting("share_icon", "string", "🎁", STYLE, PUBLIC),
    Setting("home_container", "select", "max_980px", STYLE, PUBLIC, options="max_980px,hope_container"),
    Setting("settings_layout", "select", "list", STYLE, PUBLIC, options="list,responsive"),
    Setting("hide_storage_details", "bool", "true", STYLE, PRIVATE),
    Setting("hide_storage_details_in_manage_page", "bool", "true", STYLE, PRIVATE),
    Setting("show_disk_usage_in_plain_text", "bool", "false", STYLE, PUBLIC),
    Setting(
        "text_types",
        "text",
        "txt,htm,html,xml,java,properties,sql,js,md,json,conf,ini,vue,php,py,bat,gitignore,yml,go,sh,c,cpp,h,hpp,tsx,vtt,srt,ass,rs,lrc,strm",
        PREVIEW,
        PRIVATE,
    ),
    Setting("audio_types", "text", "mp3,flac,ogg,m4a,wav,opus,wma", PREVIEW, PRIVATE),
    Setting("video_types", "text", "mp4,mkv,avi,mov,rmvb,webm,flv,m3u8", PREVIEW, PRIVATE),
    Setting("image_types", "text", "jpg,tiff,jpeg,png,gif,bmp,svg,ico,swf,webp,avif", PREVIEW, PRIVATE),
    Setting("proxy_types", "text", "m3u8,url", PREVIEW, PRIVATE),
    Setting("proxy_ignore_headers", "text", "authorization,referer", PREVIEW, PRIVATE),
    Setting("external_previews", "text", "{}", PREVIEW, PUBLIC),
    Setting("iframe_previews", "text", PREVIEWS, PREVIEW, PUBLIC),
    Setting("audio_cover", "string", LOGO, PREVIEW, PUBLIC),
    Setting("audio_autoplay", "bool", "true", PREVIEW, PUBLIC),
    Setting("video_autoplay", "bool", "true", PREVIEW, PUBLIC),
    Setting("preview_download_by_default", "bool", "false", PREVIEW, PUBLIC),
    Setting("preview_archives_by_default", "bool", "true", PREVIEW, PUBLIC),
    Setting("share_preview_download_by_default", "bool", "true", PREVIEW, PUBLIC),
    Setting("share_preview_archives_by_default", "bool", "false", PREVIEW, PUBLIC),
    Setting("readme_autorender", "bool", "true", PREVIEW, PUBLIC),
    Setting("filter_readme_scripts", "bool", "true", PREVIEW, PUBLIC),
    Setting("non_efs_zip_encoding", "string", "IBM437", PREVIEW, PUBLIC),
    Setting("hide_files", "text", "/\\/README.md/i", GLOBAL, PUBLIC),
    Setting("package_download", "bool", "true", GLOBAL, PUBLIC),
    Setting("customize_head", "text", "", GLOBAL, PRIVATE),
    Setting("customize_body", "text", "", GLOBAL, PRIVATE),
    Setting("link_expiration", "number", "0", GLOBAL, PRIVATE),
    Setting("sign_all", "bool", "true", GLOBAL, PRIVATE),
    Setting("link_follows_user", "bool", "true", GLOBAL, PRIVATE, help="a link ends when its user may no longer read"),
    Setting("privacy_regs", "text", PRIVACY, GLOBAL, PRIVATE),
    Setting("ocr_api", "string", "", GLOBAL, PUBLIC),
    Setting("filename_char_mapping", "text", '{"/": "|"}', GLOBAL, PUBLIC),
    Setting("forward_direct_link_params", "bool", "false", GLOBAL, PUBLIC),
    Setting("ignore_direct_link_params", "string", "sign,mangrove_ts,openlist_ts,raw", GLOBAL, PUBLIC),
    Setting("webauthn_login_enabled", "bool", "false", GLOBAL, PUBLIC, absent=WEBAUTHN),
    Setting("share_preview", "bool", "false", GLOBAL, PUBLIC, absent=SHARING),
    Setting("share_archive_preview", "bool", "false", GLOBAL, PUBLIC, absent=SHARING),
    Setting("share_force_proxy", "bool", "true", GLOBAL, PRIVATE),
    Setting("share_summary_content", "text", SHARE_TEXT, GLOBAL, PUBLIC),
    Setting("handle_hook_after_writing", "bool", "false", GLOBAL, PRIVATE),
    Setting("handle_hook_rate_limit", "number", "0", GLOBAL, PRIVATE),
    Setting(
        "ignore_system_files",
        "bool",
        "false",
        GLOBAL,
        PRIVATE,
        help="refuse uploads of .DS_Store, desktop.ini, Thumbs.db, @eaDir and names that begin with ._",
    ),
    Setting("min_password_length", "number", "0", GLOBAL, PUBLIC),
    Setting("token", "string", "", SINGLE, PRIVATE),
    Setting("link_salt", "string", "", SINGLE, PRIVATE, help="made anew with the token, which ends all links"),
    Setting(
        "search_index",
        "select",
        "none",
        INDEX,
        PUBLIC,
        options="database,database_non_full_text,bleve,meilisearch,none",
    ),
    Setting("auto_update_index", "bool", "false", INDEX, PUBLIC),
    Setting("ignore_paths", "text", "", INDEX, PRIVATE, help="one path per line"),
    Setting("max_index_depth", "number", "20", INDEX, PRIVATE, help="max depth of index"),
    Setting("index_progress", "text", NO_INDEX, SINGLE, PRIVATE),
    Setting("sso_login_enabled", "bool", "false", SSO, PUBLIC, absent=SINGLE_SIGN_ON),
    Setting("sso_login_platform", "select", "", SSO, PUBLIC, options="Casdoor,Github,Microsoft,Google,Dingtalk,OIDC"),
    Setting("sso_client_id", "string", "", SSO, PRIVATE),
    Setting("sso_client_secret", "string", "", SSO, PRIVATE),
    Setting("sso_oidc_username_key", "string", "name", SSO, PRIVATE),
    Setting("sso_organization_name", "string", "", SSO, PRIVATE),
    Setting("sso_application_name", "string", "", SSO, PRIVATE),
    Setting("sso_endpoint_name", "string", "", SSO, PRIVATE),
    Setting("sso_jwt_public_key", "string", "", SSO, PRIVATE),
    Setting("sso_extra_scopes", "string", "", SSO, PRIVATE),
    Setting("sso_auto_register", "bool", "false", SSO, PRIVATE, absent=SINGLE_SIGN_ON),
    Setting("sso_default_dir", "string", "/", SSO, PRIVATE),
    Setting("sso_default_permission", "number", "0", SSO, PRIVATE),
    Setting("sso_compatibility_mode", "bool", "false", SSO, PUBLIC, absent=SINGLE_SIGN_ON),
    Setting("ldap_login_enabled", "bool", "false", LDAP, PUBLIC, absent=LDAP_LOGIN),
    Setting("ldap_server", "string", "", LDAP, PRIVATE),
    Setting("ldap_skip_tls_verify", "bool", "false", LDAP, PRIVATE),
    Setting("ldap_manager_dn", "string", "", LDAP, PRIVATE),
    Setting("ldap_manager_password", "string", "", LDAP, PRIVATE),
    Setting("ldap_user_search_base", "string", "", LDAP, PRIVATE),
    Setting("ldap_user_search_filter", "string", "(uid=%s)", LDAP, PRIVATE),
    Setting("ldap_default_dir", "string", "/", LDAP, PRIVATE),
    Setting("ldap_default_permission", "number", "0", LDAP, PRIVATE),
    Setting("ldap_login_tips", "string", "login with ldap", LDAP, PUBLIC),
    Setting("s3_access_key_id", "string", "", S3, PRIVATE, absent=S3_SERVER),
    Setting("s3_secret_access_key", "string", "", S3, PRIVATE, absent=S3_SERVER),
    Setting("s3_buckets", "string", "[]", S3, PRIVATE, absent=S3_SERVER),
    Setting("ftp_public_host", "string", "127.0.0.1", FTP, PRIVATE, absent=FTP_SERVER),
    Setting("ftp_pasv_port_map", "text", "", FTP, PRIVATE, absent=FTP_SERVER),
    Setting("ftp_mandatory_tls", "bool", "false", FTP, PRIVATE, absent=FTP_SERVER),
    Setting("ftp_implicit_tls", "bool", "false", FTP, PRIVATE, absent=FTP_SERVER),
    Setting("ftp_tls_private_key_path", "string", "", FTP, PRIVATE, absent=FTP_SERVER),
    Setting("ftp_tls_public_cert_path", "string", "", FTP, PRIVATE, absent=FTP_SERVER),
    Setting("sftp_disable_password_login", "bool", "false", FTP, PRIVATE),
    Setting("offline_download_task_threads_num", "number", "5", TRAFFIC, PRIVATE),
    Setting("offline_download_transfer_task_threads_num", "number", "5", TRAFFIC, PRIVATE),
    Setting("upload_task_threads_num", "number", "5", TRAFFIC, PRIVATE),
    Setting("copy_task_threads_num", "number", "5", TRAFFIC, PRIVATE),
    Setting("move_task_threads_num", "number", "5", TRAFFIC, PRIVATE),
    Setting("decompress_download_task_threads_num", "number", "5", TRAFFIC, PRIVATE),
    Setting("decompress_upload_task_threads_num", "number", "5", TRAFFIC, PRIVATE),
    Setting(
        "small_file_threads_num",
        "number",
        "16",
        TRAFFIC,
        PRIVATE,
        help="small files that a copy or move has under way at once, each on a connection of its own: 1 to 32",
    ),
    Setting(
        "archive_max_members",
        "number",
        "100000",
        TRAFFIC,
        PRIVATE,
        help="entries that an archive may have; 0 is no bound",
    ),
    Setting(
        "archive_max_size",
        "number",
        "102400",
        TRAFFIC,
        PRIVATE,
        help="MiB that an archive may unpack to, in all; 0 is no bound",
    ),
    Setting(
        "archive_max_ratio",
        "number",
        "1000",
        TRAFFIC,
        PRIVATE,
        help="times its packed size to which an archive, or a file in it, may unpack; 0 is no bound",
    ),
    Setting(
        "durability",
        "select",
        "file",
        TRAFFIC,
        PRIVATE,
        options="process,file",
        help="what a stored file survives once that is said: the end of the process, or a power cut",
    ),
    Setting(
        "verify_moves",
        "bool",
        "true",
        TRAFFIC,
        PRIVATE,
        help="read a moved file once more at its target before the source is removed, where no checksum proves it",
    ),
    Setting("task_retention_days", "number", "7", TRAFFIC, PRIVATE, help="Days for which finished tasks are kept"),
    Setting("max_client_download_speed", "number", "-1", TRAFFIC, PRIVATE),
    Setting("max_client_upload_speed", "number", "-1", TRAFFIC, PRIVATE),
    Setting("max_server_download_speed", "number", "-1", TRAFFIC, PRIVATE),
    Setting("max_server_upload_speed", "number", "-1", TRAFFIC, PRIVATE),
    Setting("multipart_enabled", "bool", "true", TRAFFIC, PUBLIC),
    Setting(
        "multipart_chunk_size", "number", "10", TRAFFIC, PUBLIC, help="size in MB of one part of an upload in parts"
    ),
    Setting("aria2_secret", "string", "", OFFLINE, PRIVATE),
    Setting(
        "aria2_http",
        "bool",
        "false",
        OFFLINE,
        PRIVATE,
        help="give addresses of http and https to aria2 where it is chosen; else this service fetches them itself",
    ),
    Setting("aria2_uri", "string", "http://localhost:6800/jsonrpc", OFFLINE, PRIVATE),
    Setting(
        "offline_download_max_size",
        "number",
        "102400",
        OFFLINE,
        PRIVATE,
        help="MiB that a download of one address may have; 0 is no bound",
    ),
    Setting(
        "offline_download_allowed_hosts",
        "text",
        "",
        OFFLINE,
        PRIVATE,
        help="host names, addresses and networks outside the public internet that offline downloads may reach; "
        "separated by commas or lines",
    ),
    Setting("offline_download_ready", "string", "", SINGLE, PRIVATE, help="download tools that answered when set up"),
    Setting("qbittorrent_seedtime", "number", "0", OFFLINE, PRIVATE),
    Setting("qbittorrent_url", "string", "http://localhost:8080/", OFFLINE, PRIVATE),
    Setting("transmission_seedtime", "number", "0", OFFLINE, PRIVATE, absent=TRANSMISSION),
    Setting(
        "transmission_uri", "string", "http://localhost:9091/transmission/rpc", OFFLINE, PRIVATE, absent=TRANSMISSION
    ),
    Setting("sftp_listen", "string", "", FTP, PUBLIC),
    Setting("webdav_enabled", "bool", "true", FTP, PUBLIC),
    Setting("webdav_allow_http", "bool", "false", FTP, PRIVATE),
    Setting("webdav_infinite_depth", "bool", "false", FTP, PRIVATE),
)
BY_KEY = {setting.key: setting for setting in TABLE}
