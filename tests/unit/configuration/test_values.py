"""Setting values: typed for the service, as records for the wire."""

from __future__ import annotations

import re

import pytest

from mangrove.configuration import values
from mangrove.configuration.setting import Flag
from mangrove.configuration.values import DECLARED, Settings
from mangrove.core.problems import BadRequest

SHOWN = (
    "allow_indexed allow_mounted announcement audio_autoplay audio_cover auto_update_index default_page_size "
    "external_previews favicon filename_char_mapping forward_direct_link_params hide_files home_container home_icon "
    "iframe_previews logo main_color ocr_api package_download pagination_type robots_txt search_index settings_layout "
    "site_title sso_login_enabled sso_login_platform version video_autoplay"
)  # the document, "Public site settings"


def test_everybody_sees_what_the_document_lists_and_no_secret() -> None:
    public = Settings({"token": "mangrove-secret", "announcement": "hello"}).get_public()
    assert set(SHOWN.split()) <= set(public)
    assert public["announcement"] == "hello"
    assert all(isinstance(value, str) for value in public.values())
    assert not {key for key in public if re.search("token|secret|password(?!_length)", key)}
    assert "mangrove-secret" not in public.values()


def test_stored_values_cover_defaults_except_for_the_version() -> None:
    settings = Settings({"site_title": "Mine", "version": "v999", "unknown": "x"})
    assert settings["site_title"] == "Mine"
    assert settings["version"] == DECLARED["version"].default
    assert settings["default_page_size"] == "30"
    assert len(settings) == len(DECLARED) + 1


def test_records_are_in_table_order_with_unknown_keys_last() -> None:
    rows = Settings({"unknown": "x"}).make_records()
    assert [row["key"] for row in rows] == [*DECLARED, "unknown"]
    assert rows[-1]["flag"] == Flag.DEPRECATED
    assert [row["index"] for row in rows[:-1]] == list(range(len(DECLARED)))
    assert {tuple(row) for row in rows} == {("key", "value", "help", "type", "options", "group", "flag", "index")}
    assert {row["group"] for row in Settings({}).make_records(frozenset({1, 3}))} == {1, 3}
    with pytest.raises(BadRequest, match="record not found"):
        Settings({}).make_record("nothing")


def test_stored_number_out_of_bounds_counts_as_the_nearest() -> None:
    stored = Settings({"small_file_threads_num": "900", "multipart_chunk_size": "0", "archive_max_members": "-5"})
    assert (stored.small_file_threads_num, stored.multipart_chunk_size, stored.archive_max_members) == (32, 1 << 20, 0)
    assert (Settings({}).sftp_listen, Settings({"sftp_listen": "[::1]:22"}).sftp_listen) == (None, ("::1", 22))
    assert (
        Settings({}).max_client_upload_speed,
        Settings({"max_client_upload_speed": "2"}).max_client_upload_speed,
    ) == (
        None,
        2048,
    )


def test_typed_values() -> None:
    settings = Settings(
        {"sign_all": "1", "link_expiration": "", "text_types": " MD, ,txt ", "hide_storage_details": "false"}
    )
    assert settings.sign_all
    assert not settings.hide_storage_details
    assert settings.link_expiration == 0
    assert settings.text_types == {"md", "txt"}


def test_every_new_token_is_another_one() -> None:
    first, other = values.make_token(), values.make_token()
    assert first != other
    assert re.fullmatch(r"mangrove-[0-9a-f-]{36}[0-9A-Za-z]{64}", first)
    tokens = [row["value"] for _ in range(2) for row in values.make_default_records() if row["key"] == "token"]
    assert len({*tokens, first}) == 3


def test_sizes_are_bytes_and_lists_are_sets() -> None:
    settings = Settings(
        {
            "archive_max_size": "3", "offline_download_max_size": "2", "ignore_direct_link_params": "sign, a",
            "offline_download_ready": "aria2,,SimpleHttp", "qbittorrent_seedtime": "-1",
        }
    )  # fmt: skip
    assert (settings.archive_max_size, settings.offline_download_max_size) == (3 << 20, 2 << 20)
    assert settings.ignore_direct_link_params == {"sign", "a"}
    assert settings.offline_download_ready == {"aria2", "SimpleHttp"}
    assert settings.qbittorrent_seedtime == -1


def test_of_two_settings_that_name_an_extension_the_first_decides() -> None:
    settings = Settings(
        {"audio_types": "ogg", "video_types": "ogg,MKV", "image_types": "mkv,png", "text_types": "png,txt"}
    )
    assert settings.type_codes == {"ogg": 3, "mkv": 2, "png": 5, "txt": 4}
