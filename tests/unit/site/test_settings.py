"""The table of settings, its values, and what may be saved."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from mangrove.problems import BadRequest, Problem
from mangrove.site import values
from mangrove.site.settings import check_type
from mangrove.site.table import BY_KEY, DEPRECATED, PRIVATE, PUBLIC, READONLY, TABLE
from mangrove.site.values import Settings

SHOWN = (
    "allow_indexed allow_mounted announcement audio_autoplay audio_cover auto_update_index default_page_size "
    "external_previews favicon filename_char_mapping forward_direct_link_params hide_files home_container home_icon "
    "iframe_previews logo main_color ocr_api package_download pagination_type robots_txt search_index settings_layout "
    "site_title sso_login_enabled sso_login_platform version video_autoplay"
)  # the document, "Public site settings"


def test_the_tables_defaults_are_values_it_would_take() -> None:
    assert len(BY_KEY) == len(TABLE)
    for setting in TABLE:
        assert setting.type in ("string", "number", "bool", "select", "text"), setting.key
        assert setting.flag in (PUBLIC, PRIVATE, READONLY), setting.key
        assert bool(setting.options) == (setting.type == "select"), setting.key
        check_type(setting.type, setting.options, setting.default)


def test_everybody_sees_what_the_document_lists_and_no_secret() -> None:
    public = Settings({"token": "mangrove-secret", "announcement": "hello"}).get_public()
    assert set(SHOWN.split()) <= set(public)
    assert public["announcement"] == "hello"
    assert all(isinstance(value, str) for value in public.values())
    assert not {key for key in public if re.search("token|secret|password", key)}
    assert "mangrove-secret" not in public.values()


def test_stored_values_cover_defaults_except_for_the_version() -> None:
    found = Settings({"site_title": "Mine", "version": "v999", "unknown": "x"})
    assert found["site_title"] == "Mine"
    assert found["version"] == BY_KEY["version"].default
    assert found["default_page_size"] == "30"
    assert len(found) == len(TABLE) + 1


def test_records_come_in_the_order_of_the_table_and_unknown_keys_last_and_deprecated() -> None:
    rows = Settings({"unknown": "x"}).make_records()
    assert [row["key"] for row in rows] == [*(setting.key for setting in TABLE), "unknown"]
    assert rows[-1]["flag"] == DEPRECATED
    assert [row["index"] for row in rows[:-1]] == list(range(len(TABLE)))
    assert {tuple(row) for row in rows} == {("key", "value", "help", "type", "options", "group", "flag", "index")}
    assert {row["group"] for row in Settings({}).make_records(frozenset({1, 3}))} == {1, 3}
    with pytest.raises(BadRequest, match="record not found"):
        Settings({}).make_record("nothing")


def test_typed_values() -> None:
    found = Settings({"sign_all": "1", "link_expiration": "", "audio_types": " MP3, ,flac ", "allow_mounted": "false"})
    assert found.sign_all
    assert not found.on("allow_mounted")
    assert found.link_expiration == 0
    assert found.extensions("audio_types") == {"mp3", "flac"}


def test_every_new_token_is_another_one() -> None:
    one, other = values.make_token(), values.make_token()
    assert one != other
    assert re.fullmatch(r"mangrove-[0-9a-f-]{36}[0-9A-Za-z]{64}", one)
    tokens = [row["value"] for _ in range(2) for row in values.make_default_records() if row["key"] == "token"]
    assert len({*tokens, one}) == 3


@pytest.fixture
def site(records: None) -> Iterator[None]:
    from mangrove.site import snapshot

    snapshot.refresh()
    yield


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("privacy_regs", "fine\n(", "failed to execute hook on privacy_regs: "),
        ("filename_char_mapping", "{", "failed to execute hook on filename_char_mapping: "),
        ("filename_char_mapping", "[]", "failed to execute hook on filename_char_mapping: not a JSON object"),
        ("filename_char_mapping", "[" * 90_000, "failed to execute hook on filename_char_mapping: "),
        ("pagination_type", "some", "failed to execute hook on pagination_type: not support: some"),
        ("allow_mounted", "yes", 'failed to execute hook on allow_mounted: "yes" is neither true nor false'),
        ("default_page_size", "many", "failed to execute hook on default_page_size: "),
        ("link_expiration", "9" * 5000, "failed to execute hook on link_expiration: "),
        ("token", "short", "failed to execute hook on token: a token needs at least 16 characters"),
        ("", "x", "setting []: the key or its value is too long, or the key is empty"),
        ("x" * 256, "x", "setting ["), ("site_title", "x" * 100_001, "setting [site_title]: "),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_stops_the_whole_save(site: None, key: str, value: str, message: str) -> None:
    from mangrove.records import settings as stored
    from mangrove.site import settings

    with pytest.raises(Problem) as refusal:
        settings.save({"announcement": "before", key: value})
    assert refusal.value.message.startswith(message)
    assert "\n" not in refusal.value.message
    assert stored.all() == {}


def test_what_is_saved_is_there_at_once_except_for_what_is_read_only(site: None) -> None:
    from mangrove.records import settings as stored
    from mangrove.site import settings, snapshot

    before = snapshot.latest()
    settings.save({"site_title": "Mine", "version": "v9", "other": "kept", "allow_mounted": "false"})
    now = snapshot.latest()
    assert now.version > before.version
    assert (now.settings["site_title"], now.settings.on("allow_mounted")) == ("Mine", False)
    assert stored.all() == {"site_title": "Mine", "other": "kept", "allow_mounted": "false"}


def test_only_a_deprecated_setting_can_be_deleted(site: None) -> None:
    from mangrove.site import settings, snapshot

    settings.save({"old_one": "x"})
    with pytest.raises(Problem, match=r"setting \[site_title\] is not deprecated"):
        settings.delete("site_title")
    with pytest.raises(Problem, match="failed to get settingItem: record not found"):
        settings.delete("never_there")
    settings.delete("old_one")
    assert "old_one" not in snapshot.latest().settings


def test_nothing_to_save_is_an_error(site: None) -> None:
    from mangrove.site import settings

    with pytest.raises(Problem, match="failed save setting: empty slice found"):
        settings.save({})


def test_a_new_token_ends_the_old_one(site: None) -> None:
    from mangrove.site import settings, snapshot

    first = settings.reset_token()
    second = settings.reset_token()
    assert first != second == snapshot.latest().settings.token
