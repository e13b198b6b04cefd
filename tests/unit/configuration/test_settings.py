"""Valid values of settings."""

from __future__ import annotations

from typing import Any

import pytest

from mangrove import configuration
from mangrove.configuration import settings
from mangrove.configuration.declared.access import MAX_LINK_HOURS
from mangrove.configuration.setting import Setting
from mangrove.configuration.values import DECLARED
from mangrove.core.problems import Problem
from mangrove.records import settings as records

pytestmark = pytest.mark.usefixtures("records")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("privacy_regs", "fine\n(", "setting [privacy_regs]: "),
        ("filename_char_mapping", "{", "setting [filename_char_mapping]: "),
        ("filename_char_mapping", "[]", "setting [filename_char_mapping]: not a JSON object"),
        ("filename_char_mapping", "[" * 90_000, "setting [filename_char_mapping]: "),
        ("pagination_type", "some", 'setting [pagination_type]: "some" is none of '),
        ("allow_mounted", "yes", 'setting [allow_mounted]: "yes" is neither true nor false'),
        ("default_page_size", "many", "setting [default_page_size]: "),
        ("link_expiration", "9" * 5000, "setting [link_expiration]: "),
        ("token", "short", "setting [token]: a token needs at least 32 characters"),
        ("", "x", "setting []: the key or its value is too long, or the key is empty"),
        ("x" * 256, "x", "setting ["), ("site_title", "x" * 100_001, "setting [site_title]: "),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_stops_the_whole_save(key: str, value: str, message: str) -> None:
    with pytest.raises(Problem) as refusal:
        settings.save({"announcement": "before", key: value})
    assert refusal.value.message.startswith(message)
    assert "\n" not in refusal.value.message
    assert records.all() == {}


def test_what_is_saved_is_there_at_once_except_for_what_is_read_only() -> None:
    before = configuration.get_sync()
    settings.save({"site_title": "Mine", "version": "v9", "other": "kept", "sign_all": "false"})
    now = configuration.get_sync()
    assert now.version > before.version
    assert (now.settings.site_title, now.settings.sign_all) == ("Mine", False)
    assert records.all() == {"site_title": "Mine", "other": "kept", "sign_all": "false"}


def test_only_a_deprecated_setting_can_be_deleted() -> None:
    settings.save({"old_one": "x"})
    with pytest.raises(Problem, match=r"setting \[site_title\] is not deprecated"):
        settings.delete("site_title")
    with pytest.raises(Problem, match="failed to get settingItem: record not found"):
        settings.delete("never_there")
    settings.delete("old_one")
    assert "old_one" not in configuration.get_sync().settings


def test_nothing_to_save_is_an_error() -> None:
    with pytest.raises(Problem, match="there is no setting to save"):
        settings.save({})


def test_a_new_token_ends_the_old_one_and_its_links() -> None:
    first, salt = settings.reset_token(), configuration.get_sync().settings.link_salt
    second = settings.reset_token()
    now = configuration.get_sync().settings
    assert first != second == now.token
    assert "" != salt != now.link_salt != ""
    settings.save({"token": second, "link_salt": salt, "site_title": "x"})
    assert configuration.get_sync().settings.link_salt == now.link_salt, (
        "what a client sends back does not end its links"
    )
    settings.save({"token": "x" * 32, "link_salt": now.link_salt})
    assert configuration.get_sync().settings.link_salt not in ("", now.link_salt)


def test_a_short_token_that_an_older_backup_carries_goes_on_and_no_other() -> None:
    records.save({"token": "x" * 16})
    settings.save({"token": "x" * 16, "site_title": "x"})
    assert configuration.get_sync().settings.token == "x" * 16
    with pytest.raises(Problem, match="a token needs at least 32 characters"):
        settings.save({"token": "y" * 31})
    settings.save({"token": "z" * 16, "link_salt": "its own", "version": "v0.1.0"})
    assert (configuration.get_sync().settings.token, configuration.get_sync().settings.link_salt) == (
        "z" * 16,
        "its own",
    )


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("multipart_chunk_size", "1", "0"), ("multipart_chunk_size", "25", ""), ("archive_max_size", "0", "-1"),
        ("archive_max_ratio", "9" * 15, "9" * 16), ("archive_max_members", "7", "\N{ARABIC-INDIC DIGIT SEVEN}"),
        ("non_efs_zip_encoding", "cp437", "no such encoding"), ("non_efs_zip_encoding", "GBK", "base64"),
        ("search_index", "none", ""), ("link_expiration", "0", "-1"),
        ("link_expiration", str(MAX_LINK_HOURS), str(MAX_LINK_HOURS + 1)),
        ("offline_download_allowed_hosts", "a.example, 10.0.0.0/8\n[::1]", "a.example/path"),
        ("offline_download_allowed_hosts", "", "10.0.0.0/99"), ("token", "", "x" * 15), ("token", "x" * 32, "x" * 31),
        ("privacy_regs", "a+\n\n(b)", "a\n(?<=b)"), ("filename_char_mapping", "{}", "null"),
        ("filename_char_mapping", '{"/": "|", "ab": ""}', '{"/": 5}'), ("filename_char_mapping", "{}", '{"": "x"}'),
        ("filename_char_mapping", "{}", '{"|": "/"}'), ("filename_char_mapping", "{}", '{"|": "\\u0000"}'),
        ("sign_all", "1", "on"), ("default_page_size", "", "1.5"),
    ],
)  # fmt: skip
def test_the_bounds_of_a_value(key: str, good: str, bad: str) -> None:
    settings.save({key: good})
    with pytest.raises(Problem, match=rf"setting \[{key}\]: "):
        settings.save({key: bad})
    assert records.all()[key] == good


def test_the_message_of_a_wrong_pattern_is_that_of_its_library() -> None:
    with pytest.raises(Problem) as refusal:
        settings.save({"privacy_regs": "("})
    assert refusal.value.message == "setting [privacy_regs]: missing ): ("


def test_a_key_that_was_saved_since_the_snapshot_can_be_deleted() -> None:
    configuration.get_sync()
    records.save({"old_one": "x"})
    settings.delete("old_one")
    assert records.all() == {}


ABSENT = [setting for setting in DECLARED.values() if setting.absent]


@pytest.mark.parametrize("setting", ABSENT, ids=[setting.key for setting in ABSENT])
def test_what_is_not_there_cannot_be_switched_on(setting: Setting[Any]) -> None:
    on = {"bool": "true", "number": "1", "select": setting.options.partition(",")[0]}.get(setting.type, "something")
    with pytest.raises(Problem) as refusal:
        settings.save({"site_title": "half a form", setting.key: on})
    reason = f'this version has no {setting.absent}: only "{setting.default}" can be saved'
    assert refusal.value.message == f"setting [{setting.key}]: {reason}"
    assert records.all() == {}
    settings.save({setting.key: setting.default})
    records.save({setting.key: on})  # as an older version did
    now = configuration.get_sync().settings
    assert now[setting.key] == now.make_record(setting.key)["value"] == setting.default
    assert now.get_public().get(setting.key, setting.default) == setting.default


@pytest.mark.parametrize(("key", "feature"), [("ftp_enabled", "FTP server"), ("s3_enabled", "S3 server")])
@pytest.mark.parametrize("value", ["true", "1", "yes"])
def test_switch_of_an_absent_server_is_refused_by_name(key: str, feature: str, value: str) -> None:
    """B5: it could be saved as on although nothing is there."""
    with pytest.raises(Problem) as refusal:
        settings.save({"site_title": "half a form", key: value})
    assert refusal.value.message == f'setting [{key}]: this version has no {feature}: only "false" can be saved'
    assert records.all() == {}
    settings.save({key: "false"})
    records.save({key: value})  # as an older version did
    assert key not in configuration.get_sync().settings


@pytest.mark.parametrize("group", range(12))
def test_the_form_of_a_group_can_be_saved_as_it_is(group: int) -> None:
    """The web client posts all settings of a group, whichever of them was changed."""
    rows = {row["key"]: row["value"] for row in configuration.get_sync().settings.make_records(frozenset({group}))}
    settings.save(rows)
    assert records.all() == {key: value for key, value in rows.items() if key not in ("version", "link_salt")}
