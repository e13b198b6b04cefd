"""Settings: the table, and what the public sees of it."""

from __future__ import annotations

import re
from uuid import uuid4

from mangrove.configuration.values import DECLARED
from tests.contract.api import fixtures
from tests.contract.api.accounts import Caller, get_data, get_refusal, guest, stranger
from tests.contract.api.settings_client import (
    DEPRECATED,
    PRIVATE,
    PUBLIC,
    READONLY,
    TOKEN,
    get_value,
    list_settings,
)
from tests.support.service import Client, Service

FIELDS = {"key", "value", "help", "type", "options", "group", "flag", "index"}
TEXT_TYPES = (
    "txt,htm,html,xml,java,properties,sql,js,md,json,conf,ini,vue,php,py,bat,gitignore,yml,go,sh,c,cpp,h,hpp,"
    "tsx,vtt,srt,ass,rs,lrc,strm"
)
# key, type, options, default (None: our own), group, flag
TABLE: list[tuple[str, str, str, str | None, int, int]] = [
    ("version", "string", "", None, 1, 2),
    ("site_title", "string", "", None, 1, 0),
    ("announcement", "text", "", None, 1, 0),
    ("pagination_type", "select", "all,pagination,load_more,auto_load_more", "all", 1, 0),
    ("default_page_size", "number", "", "30", 1, 0),
    ("allow_indexed", "bool", "", "false", 1, 0),
    ("allow_mounted", "bool", "", "true", 1, 0),
    ("robots_txt", "text", "", "User-agent: *\nAllow: /", 1, 0),
    ("logo", "text", "", None, 2, 0),
    ("favicon", "string", "", None, 2, 0),
    ("main_color", "string", "", "#1890ff", 2, 0),
    ("home_icon", "string", "", "🏠", 2, 0),
    ("share_icon", "string", "", "🎁", 2, 0),
    ("home_container", "select", "max_980px,hope_container", "max_980px", 2, 0),
    ("settings_layout", "select", "list,responsive", "list", 2, 0),
    ("hide_storage_details", "bool", "", "true", 2, 1),
    ("hide_storage_details_in_manage_page", "bool", "", "true", 2, 1),
    ("show_disk_usage_in_plain_text", "bool", "", "false", 2, 0),
    ("text_types", "text", "", TEXT_TYPES, 3, 1),
    ("audio_types", "text", "", "mp3,flac,ogg,m4a,wav,opus,wma", 3, 1),
    ("video_types", "text", "", "mp4,mkv,avi,mov,rmvb,webm,flv,m3u8", 3, 1),
    ("image_types", "text", "", "jpg,tiff,jpeg,png,gif,bmp,svg,ico,swf,webp,avif", 3, 1),
    ("proxy_types", "text", "", "m3u8,url", 3, 1),
    ("proxy_ignore_headers", "text", "", "authorization,referer", 3, 1),
    ("external_previews", "text", "", "{}", 3, 0),
    ("iframe_previews", "text", "", None, 3, 0),
    ("audio_cover", "string", "", None, 3, 0),
    ("audio_autoplay", "bool", "", "true", 3, 0),
    ("video_autoplay", "bool", "", "true", 3, 0),
    ("preview_download_by_default", "bool", "", "false", 3, 0),
    ("preview_archives_by_default", "bool", "", "true", 3, 0),
    ("share_preview_download_by_default", "bool", "", "true", 3, 0),
    ("share_preview_archives_by_default", "bool", "", "false", 3, 0),
    ("readme_autorender", "bool", "", "true", 3, 0),
    ("filter_readme_scripts", "bool", "", "true", 3, 0),
    ("non_efs_zip_encoding", "string", "", "IBM437", 3, 0),
    ("hide_files", "text", "", "/\\/README.md/i", 4, 0),
    ("package_download", "bool", "", "true", 4, 0),
    ("customize_head", "text", "", "", 4, 1),
    ("customize_body", "text", "", "", 4, 1),
    ("link_expiration", "number", "", "0", 4, 1),
    ("sign_all", "bool", "", "true", 4, 1),
    ("privacy_regs", "text", "", None, 4, 1),
    ("ocr_api", "string", "", None, 4, 0),
    ("filename_char_mapping", "text", "", '{"/": "|"}', 4, 0),
    ("forward_direct_link_params", "bool", "", "false", 4, 0),
    ("ignore_direct_link_params", "string", "", None, 4, 0),
    ("webauthn_login_enabled", "bool", "", "false", 4, 0),
    ("share_preview", "bool", "", "false", 4, 0),
    ("share_archive_preview", "bool", "", "false", 4, 0),
    ("share_force_proxy", "bool", "", "true", 4, 1),
    ("share_summary_content", "text", "", None, 4, 0),
    ("handle_hook_after_writing", "bool", "", "false", 4, 1),
    ("handle_hook_rate_limit", "number", "", "0", 4, 1),
    ("ignore_system_files", "bool", "", "false", 4, 1),
    ("token", "string", "", None, 0, 1),
    ("search_index", "select", "database,database_non_full_text,bleve,meilisearch,none", "none", 6, 0),
    ("auto_update_index", "bool", "", "false", 6, 0),
    ("ignore_paths", "text", "", "", 6, 1),
    ("max_index_depth", "number", "", "20", 6, 1),
    ("index_progress", "text", "", None, 0, 1),
    ("sso_login_enabled", "bool", "", "false", 7, 0),
    ("sso_login_platform", "select", "Casdoor,Github,Microsoft,Google,Dingtalk,OIDC", "", 7, 0),
    ("sso_client_id", "string", "", "", 7, 1),
    ("sso_client_secret", "string", "", "", 7, 1),
    ("sso_oidc_username_key", "string", "", "name", 7, 1),
    ("sso_organization_name", "string", "", "", 7, 1),
    ("sso_application_name", "string", "", "", 7, 1),
    ("sso_endpoint_name", "string", "", "", 7, 1),
    ("sso_jwt_public_key", "string", "", "", 7, 1),
    ("sso_extra_scopes", "string", "", "", 7, 1),
    ("sso_auto_register", "bool", "", "false", 7, 1),
    ("sso_default_dir", "string", "", "/", 7, 1),
    ("sso_default_permission", "number", "", "0", 7, 1),
    ("sso_compatibility_mode", "bool", "", "false", 7, 0),
    ("ldap_login_enabled", "bool", "", "false", 8, 0),
    ("ldap_server", "string", "", "", 8, 1),
    ("ldap_skip_tls_verify", "bool", "", "false", 8, 1),
    ("ldap_manager_dn", "string", "", "", 8, 1),
    ("ldap_manager_password", "string", "", "", 8, 1),
    ("ldap_user_search_base", "string", "", "", 8, 1),
    ("ldap_user_search_filter", "string", "", "(uid=%s)", 8, 1),
    ("ldap_default_dir", "string", "", "/", 8, 1),
    ("ldap_default_permission", "number", "", "0", 8, 1),
    ("ldap_login_tips", "string", "", "login with ldap", 8, 0),
    ("s3_access_key_id", "string", "", "", 9, 1),
    ("s3_secret_access_key", "string", "", "", 9, 1),
    ("s3_buckets", "string", "", "[]", 9, 1),
    ("ftp_public_host", "string", "", "127.0.0.1", 10, 1),
    ("ftp_pasv_port_map", "text", "", "", 10, 1),
    ("ftp_mandatory_tls", "bool", "", "false", 10, 1),
    ("ftp_implicit_tls", "bool", "", "false", 10, 1),
    ("ftp_tls_private_key_path", "string", "", "", 10, 1),
    ("ftp_tls_public_cert_path", "string", "", "", 10, 1),
    ("sftp_disable_password_login", "bool", "", "false", 10, 1),
    ("offline_download_task_threads_num", "number", "", "5", 11, 1),
    ("offline_download_transfer_task_threads_num", "number", "", "5", 11, 1),
    ("upload_task_threads_num", "number", "", "5", 11, 1),
    ("copy_task_threads_num", "number", "", "5", 11, 1),
    ("move_task_threads_num", "number", "", "5", 11, 1),
    ("decompress_download_task_threads_num", "number", "", "5", 11, 1),
    ("decompress_upload_task_threads_num", "number", "", "5", 11, 1),
    ("max_client_download_speed", "number", "", "-1", 11, 1),
    ("max_client_upload_speed", "number", "", "-1", 11, 1),
    ("max_server_download_speed", "number", "", "-1", 11, 1),
    ("max_server_upload_speed", "number", "", "-1", 11, 1),
    ("multipart_enabled", "bool", "", "true", 11, 0),
    ("multipart_chunk_size", "number", "", "10", 11, 0),
    ("aria2_secret", "string", "", "", 5, 1),
    ("aria2_uri", "string", "", "http://localhost:6800/jsonrpc", 5, 1),
    ("qbittorrent_seedtime", "number", "", "0", 5, 1),
    ("qbittorrent_url", "string", "", None, 5, 1),
    ("transmission_seedtime", "number", "", "0", 5, 1),
    ("transmission_uri", "string", "", "http://localhost:9091/transmission/rpc", 5, 1),
]
KNOWN = {key for key, *_ in TABLE}
OWN_SETTINGS: list[tuple[str, str, str, str | None, int, int]] = [  # what only our own clients know: as declared
    (key, setting.type, setting.options, setting.default, int(setting.group), int(setting.flag))
    for key, setting in DECLARED.items()
    if key not in KNOWN
]
OWN_KEYS = {key for key, *_ in OWN_SETTINGS}
NAMED_BY_THE_DOCUMENT = """
    allow_indexed allow_mounted announcement audio_autoplay audio_cover auto_update_index default_page_size
    external_previews favicon filename_char_mapping forward_direct_link_params hide_files home_container home_icon
    iframe_previews logo main_color ocr_api package_download pagination_type robots_txt search_index settings_layout
    site_title sso_login_enabled sso_login_platform version video_autoplay
"""


# The table
def test_every_setting_has_its_type_options_group_flag_and_place(admin: Client) -> None:
    known = [setting for setting in list_settings(admin) if setting["flag"] != DEPRECATED]
    assert all(set(setting) == FIELDS for setting in known)
    got = [
        (setting["key"], setting["type"], setting["options"], setting["group"], setting["flag"]) for setting in known
    ]
    table, own = ([(*row[:3], *row[4:]) for row in rows] for rows in (TABLE, OWN_SETTINGS))
    assert [row for row in got if row[0] not in OWN_KEYS] == table
    assert {row for row in got if row[0] in OWN_KEYS} == set(own)
    assert [setting["index"] for setting in known] == list(range(len(TABLE) + len(OWN_SETTINGS)))
    assert [setting["key"] for setting in known if not setting["help"]] == []
    assert all(isinstance(setting["value"], str) for setting in known)


def test_the_defaults_are_those_clients_know(admin: Client) -> None:
    rows = get_data(admin.post("/api/admin/setting/default"))
    got = {setting["key"]: setting["value"] for setting in rows}
    assert [key for key in got if key not in OWN_KEYS] == [key for key, *_ in TABLE]
    expected = {key: default for key, _, _, default, _, _ in [*TABLE, *OWN_SETTINGS] if default is not None}
    assert {key: got[key] for key in expected} == expected


def test_the_default_token_is_a_new_one_each_time_and_never_the_real_one(admin: Client) -> None:
    tokens = {
        next(
            setting["value"]
            for setting in get_data(admin.post("/api/admin/setting/default"))
            if setting["key"] == "token"
        )
        for _ in range(2)
    }
    assert len(tokens) == 2 and all(re.fullmatch(TOKEN, token) for token in tokens)
    assert get_value(admin, "token") not in tokens


def test_defaults_and_lists_are_given_by_group(admin: Client) -> None:
    for group in range(12):
        keys = [key for key, _, _, _, place, _ in TABLE if place == group]
        own = {key for key, _, _, _, place, _ in OWN_SETTINGS if place == group}
        known = [setting["key"] for setting in list_settings(admin, group=group) if setting["flag"] != DEPRECATED]
        assert [key for key in known if key not in OWN_KEYS] == keys
        assert set(known) - set(keys) == own
        defaults = get_data(admin.post("/api/admin/setting/default", params={"group": group}))
        assert [setting["key"] for setting in defaults] == known
    both = [setting["group"] for setting in list_settings(admin, groups="2,3", group="1")]
    assert set(both) == {2, 3}
    assert list_settings(admin, group="99") == []
    for query in ({"group": "x"}, {"groups": "1,x"}):
        assert get_refusal(admin.get("/api/admin/setting/list", **query)) == (
            400,
            '"x" is no integer',
        )


def test_the_list_holds_the_permanent_token_and_the_secrets_of_tools(admin: Client) -> None:
    rows = {setting["key"]: setting["value"] for setting in list_settings(admin)}
    assert re.fullmatch(TOKEN, rows["token"]), "the token of the first start or of a reset"
    assert {"aria2_uri", "aria2_secret", "index_progress", "qbittorrent_url", "qbittorrent_seedtime"} <= set(rows)


def test_one_or_several_settings_are_asked_by_key(admin: Client) -> None:
    setting = get_data(admin.get("/api/admin/setting/get", key="pagination_type"))
    assert set(setting) == FIELDS and setting["options"] == "all,pagination,load_more,auto_load_more"
    several = get_data(admin.get("/api/admin/setting/get", keys="pagination_type,site_title"))
    assert [each["key"] for each in several] == ["pagination_type", "site_title"]
    assert get_data(admin.get("/api/admin/setting/get", keys="site_title"))[0]["key"] == "site_title"
    for query in ({}, {"key": ""}, {"key": "no_such"}, {"keys": "site_title,no_such"}, {"key": "Site_Title"}):
        assert get_refusal(admin.get("/api/admin/setting/get", **query)) == (400, "record not found")


# The public
def test_the_public_sees_exactly_the_public_and_readonly_keys_as_strings(service: Service) -> None:
    shown = get_data(stranger(service).get("/api/public/settings"))
    assert set(shown) == {key for key, *_, flag in [*TABLE, *OWN_SETTINGS] if flag in (PUBLIC, READONLY)}
    assert set(NAMED_BY_THE_DOCUMENT.split()) <= set(shown)
    assert all(isinstance(value, str) for value in shown.values())


def test_no_private_value_is_in_what_the_public_sees(service: Service, admin: Client) -> None:
    private = [key for key, kind, _, _, _, flag in TABLE if flag == PRIVATE and kind in ("string", "text")]
    private = [key for key in private if not key.startswith(("s3_", "ftp_", "transmission_"))]  # cannot be set
    marks = {key: f"mark{uuid4().hex}%s" for key in private if key not in ("privacy_regs", "index_progress", "token")}
    with fixtures.settings(admin, **marks):
        text = stranger(service).http.get("/api/public/settings").text
        assert [key for key, mark in marks.items() if mark in text] == []
        assert get_value(admin, "token") not in text
        assert get_value(admin, "ldap_manager_password") == marks["ldap_manager_password"]


def test_the_public_settings_need_no_token_and_mind_no_bad_one(service: Service, admin: Client) -> None:
    with guest(admin) as visitor:
        assert get_data(visitor.get("/api/public/settings"))["site_title"]
    assert get_data(Caller(service.address, "garbage").get("/api/public/settings"))["site_title"]


def test_the_version_names_a_release(service: Service, admin: Client) -> None:
    shown = get_data(stranger(service).get("/api/public/settings"))["version"]
    assert re.fullmatch(r"v\d+\.\d+\.\d+\S*", shown)
    assert shown == get_value(admin, "version")
    assert service.output.startswith(f"Mangrove {shown} ")


def test_what_browsers_and_robots_look_for_follows_the_settings(service: Service, admin: Client) -> None:
    http = stranger(service).http
    assert http.get("/ping").text == "pong"
    wish = {"robots_txt": "User-agent: x\nDisallow: /", "favicon": "https://example.org/f.ico", "site_title": 'T "q"'}
    with fixtures.settings(admin, logo="https://example.org/a.png\nhttps://example.org/b.png", **wish):
        assert http.get("/robots.txt").text == wish["robots_txt"]
        favicon = http.get("/favicon.ico", follow_redirects=False)
        assert (favicon.status_code, favicon.headers["location"]) == (302, wish["favicon"])
        manifest = http.get("/manifest.json")
        assert manifest.headers["cache-control"] == "public, max-age=3600"
        assert manifest.json()["name"] == wish["site_title"]
        assert [icon["src"] for icon in manifest.json()["icons"]] == ["https://example.org/a.png"]
