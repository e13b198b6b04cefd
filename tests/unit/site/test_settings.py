"""What may be saved as a setting."""

from __future__ import annotations

import pytest

from mangrove.problems import Problem
from mangrove.records import settings as records
from mangrove.site import settings, snapshot
from mangrove.site.settings import HOOKS
from mangrove.site.table import BY_KEY

pytestmark = pytest.mark.usefixtures("records")


def test_the_keys_that_demand_more_than_their_type_are_in_the_table() -> None:
    assert HOOKS.keys() <= BY_KEY.keys()
    for key, check in HOOKS.items():
        check(BY_KEY[key].default)


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
def test_a_value_that_does_not_fit_stops_the_whole_save(key: str, value: str, message: str) -> None:
    with pytest.raises(Problem) as refusal:
        settings.save({"announcement": "before", key: value})
    assert refusal.value.message.startswith(message)
    assert "\n" not in refusal.value.message
    assert records.all() == {}


def test_what_is_saved_is_there_at_once_except_for_what_is_read_only() -> None:
    before = snapshot.latest()
    settings.save({"site_title": "Mine", "version": "v9", "other": "kept", "sign_all": "false"})
    now = snapshot.latest()
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
    assert "old_one" not in snapshot.latest().settings


def test_nothing_to_save_is_an_error() -> None:
    with pytest.raises(Problem, match="failed save setting: empty slice found"):
        settings.save({})


def test_a_new_token_ends_the_old_one() -> None:
    first = settings.reset_token()
    second = settings.reset_token()
    assert first != second == snapshot.latest().settings.token


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("multipart_chunk_size", "1", "0"), ("multipart_chunk_size", "25", ""), ("archive_max_size", "0", "-1"),
        ("archive_max_ratio", "9" * 15, "9" * 16), ("archive_max_members", "7", "\N{ARABIC-INDIC DIGIT SEVEN}"),
        ("non_efs_zip_encoding", "cp437", "no such encoding"), ("non_efs_zip_encoding", "GBK", "base64"),
        ("search_index", "none", ""), ("link_expiration", "0", "-1"),
        ("link_expiration", str(settings.MAX_LINK_HOURS), str(settings.MAX_LINK_HOURS + 1)),
        ("offline_download_allowed_hosts", "a.example, 10.0.0.0/8\n[::1]", "a.example/path"),
        ("offline_download_allowed_hosts", "", "10.0.0.0/99"), ("token", "", "x" * 15), ("token", "x" * 16, "short"),
        ("privacy_regs", "a+\n\n(b)", "a\n(?<=b)"), ("filename_char_mapping", "{}", "null"),
        ("sign_all", "1", "on"), ("default_page_size", "", "1.5"),
    ],
)  # fmt: skip
def test_the_bounds_of_a_value(key: str, good: str, bad: str) -> None:
    settings.save({key: good})
    with pytest.raises(Problem, match=f"failed to execute hook on {key}: "):
        settings.save({key: bad})
    assert records.all() == {key: good}


def test_the_message_of_a_wrong_pattern_is_that_of_its_library() -> None:
    with pytest.raises(Problem) as refusal:
        settings.save({"privacy_regs": "("})
    assert refusal.value.message == "failed to execute hook on privacy_regs: missing ): ("


def test_a_key_that_was_saved_since_the_snapshot_can_be_deleted() -> None:
    snapshot.latest()
    records.save({"old_one": "x"})
    settings.delete("old_one")
    assert records.all() == {}
