"""Settings: saving with its checks, and the permanent token."""

from __future__ import annotations

import re
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.contract.api import fixtures
from tests.contract.api.accounts import Caller, get_data, get_refusal, stranger
from tests.contract.api.settings_client import (
    DEPRECATED,
    PUBLIC,
    TOKEN,
    get_value,
    list_settings,
    make_row,
    save,
)
from tests.support.service import Client, Service


@pytest.fixture
def unknown(admin: Client) -> Iterator[str]:
    """A key that the service does not know; removed afterwards."""
    key = f"unknown_{uuid4().hex}"
    yield key
    admin.post("/api/admin/setting/delete", params={"key": key})


# Saving
def test_a_saved_value_is_shown_at_once_everywhere(service: Service, admin: Client) -> None:
    title = f"Title {uuid4().hex}"
    with fixtures.settings(admin, site_title=title):
        assert get_value(admin, "site_title") == title
        assert get_data(stranger(service).get("/api/public/settings"))["site_title"] == title
        assert next(setting for setting in list_settings(admin) if setting["key"] == "site_title")["value"] == title


def test_what_the_list_gave_can_be_saved_back(admin: Client) -> None:
    before = list_settings(admin)
    assert get_data(save(admin, *before)) is None
    assert list_settings(admin) == before


def test_type_group_and_flag_are_never_the_clients(service: Service, admin: Client) -> None:
    mark = uuid4().hex
    before = get_data(admin.get("/api/admin/setting/get", key="aria2_secret"))
    wish = {"flag": PUBLIC, "group": 1, "type": "bool", "options": "x", "help": "x", "index": 99}
    try:
        get_data(save(admin, make_row("aria2_secret", mark) | wish))
        assert get_data(admin.get("/api/admin/setting/get", key="aria2_secret")) == before | {"value": mark}
        assert mark not in stranger(service).http.get("/api/public/settings").text
    finally:
        get_data(save(admin, before))


def test_the_version_cannot_be_saved(admin: Client) -> None:
    before = get_value(admin, "version")
    with fixtures.settings(admin, site_title="with a read-only row"):
        rows = [make_row("version", "v99.0.0"), make_row("site_title", "and another")]
        assert get_data(save(admin, *rows)) is None
        assert get_value(admin, "version") == before
        assert get_value(admin, "site_title") == "and another"


def test_nothing_to_save_is_refused(admin: Client) -> None:
    assert get_refusal(save(admin)) == (500, "there is no setting to save")
    for body in ("{}", '{"key":"site_title","value":"x"}', "[5]", '[{"key":"site_title","value":5}]', '["x"]'):
        answer = admin.envelope(admin.http.post("/api/admin/setting/save", content=body))
        assert get_refusal(answer)[0] == 400


def test_an_unknown_key_is_kept_as_deprecated_and_shown_to_nobody_else(
    service: Service, admin: Client, unknown: str
) -> None:
    get_data(save(admin, make_row(unknown, "kept") | {"flag": PUBLIC, "group": 1}))
    got = get_data(admin.get("/api/admin/setting/get", key=unknown))
    assert (got["value"], got["flag"], got["type"]) == ("kept", DEPRECATED, "string")
    assert unknown not in get_data(stranger(service).get("/api/public/settings"))
    assert list_settings(admin)[-1]["key"] == unknown


def test_only_a_deprecated_setting_can_be_deleted(admin: Client, unknown: str) -> None:
    get_data(save(admin, make_row(unknown, "x")))
    assert get_data(admin.post("/api/admin/setting/delete", params={"key": unknown})) == {}
    assert get_refusal(admin.get("/api/admin/setting/get", key=unknown)) == (400, "record not found")
    gone = get_refusal(admin.post("/api/admin/setting/delete", params={"key": unknown}))
    assert gone == (500, "failed to get settingItem: record not found")
    for key in ("site_title", "token", "version"):
        refused = get_refusal(admin.post("/api/admin/setting/delete", params={"key": key}))
        assert refused == (500, f"setting [{key}] is not deprecated")
    assert get_refusal(admin.post("/api/admin/setting/delete"))[0] == 400
    get_data(save(admin, make_row(unknown, "x")))
    assert get_data(admin.post("/openlist/api/admin/setting/delete", params={"key": unknown})) is None


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("privacy_regs", "ok\n(", ""),
        ("filename_char_mapping", "{", ""),
        ("filename_char_mapping", "[]", ""),
        ("multipart_chunk_size", "0", 'multipart chunk size must be a positive integer (MB), got "0"'),
        ("multipart_chunk_size", "-3", 'multipart chunk size must be a positive integer (MB), got "-3"'),
        ("small_file_threads_num", "0", "a whole number from 1 to 32"),
        ("small_file_threads_num", "33", "a whole number from 1 to 32"),
        ("search_index", "grep", "not support index: grep"),
        ("ignore_paths", "/fine\n/a/../../b", ""),
        ("max_index_depth", "-1", "a whole number from 0 on"),
        ("pagination_type", "endless", ""),
        ("offline_download_allowed_hosts", "10.0.0.0/99", ""),
        ("offline_download_allowed_hosts", "fine.example, http://not.example/", ""),
        ("offline_download_allowed_hosts", "what host?", "not a host: host?"),
        ("link_expiration", "soon", ""),
        ("sign_all", "maybe", ""),
    ],
)
def test_a_value_its_hook_refuses_saves_nothing_of_the_batch(admin: Client, key: str, text: str, reason: str) -> None:
    before = list_settings(admin)
    code, message = get_refusal(
        save(admin, make_row("site_title", "half a batch"), make_row(key, text), make_row("home_icon", "x"))
    )
    assert code == 500
    assert message.startswith(f"setting [{key}]: {reason}")
    assert "\n" not in message
    assert list_settings(admin) == before


def test_setting_of_an_absent_feature_saves_nothing_of_the_batch(admin: Client) -> None:
    before, key = list_settings(admin), "s3_buckets"
    code, message = get_refusal(save(admin, make_row("site_title", "half a form"), make_row(key, '[{"name":"a"}]')))
    assert code == 500 and message.startswith(f"setting [{key}]: this version has no ")
    assert list_settings(admin) == before


def test_a_key_or_value_without_measure_is_refused(admin: Client) -> None:
    before = list_settings(admin)
    for invalid in (
        make_row("", "x"),
        make_row("k" * 300, "x"),
        make_row("announcement", "x" * 200_000),
        {"value": "x"},
    ):
        assert get_refusal(save(admin, invalid))[0] == 400
    assert get_refusal(save(admin, *[make_row("site_title", "x")] * 2000))[0] == 400
    assert list_settings(admin) == before


def test_privacy_regs_mask_messages(admin: Client) -> None:
    word = f"needle{uuid4().hex}"
    with fixtures.settings(admin, privacy_regs=word):
        message = admin.post("/openlist/api/fs/list", path=f"/{word}")["message"]
        assert word not in message and "*" * len(word) in message


def test_types_of_files_follow_the_settings(admin: Client, folder: str) -> None:
    get_data(admin.put(f"{folder}/a.oddext", b"x"))
    with fixtures.settings(admin, video_types="oddext, mp4"):
        assert get_data(admin.post("/api/fs/get", path=f"{folder}/a.oddext"))["type"] == 2
    with fixtures.settings(admin, audio_types="oddext"):
        assert get_data(admin.post("/api/fs/get", path=f"{folder}/a.oddext"))["type"] == 3
    assert get_data(admin.post("/api/fs/get", path=f"{folder}/a.oddext"))["type"] == 0


# The permanent token
def test_token_reset_ends_old_token_and_keeps_sessions(service: Service, admin: Client, folder: str) -> None:
    old = get_value(admin, "token")
    try:
        new = get_data(admin.post("/api/admin/setting/reset_token"))
        assert re.fullmatch(TOKEN, new) and new != old
        assert get_value(admin, "token") == new
        assert get_refusal(Caller(service.address, old).get("/api/me")) == (401, "token is invalidated")
        assert get_data(Caller(service.address, new).get("/api/me"))["role"] == 2
        assert get_data(admin.get("/api/me"))["role"] == 2
    finally:
        get_data(save(admin, make_row("token", old)))


def test_a_reset_ends_every_signed_link(admin: Client, folder: str) -> None:
    get_data(admin.put(f"{folder}/a.txt", b"content"))
    old = get_value(admin, "token")
    url = get_data(admin.post("/api/fs/get", path=f"{folder}/a.txt"))["raw_url"]
    assert admin.http.get(url).content == b"content"
    try:
        get_data(admin.post("/api/admin/setting/reset_token"))
        answer = admin.http.get(url)
        assert answer.status_code == 401 and b"content" not in answer.content
        assert admin.bytes(f"{folder}/a.txt").content == b"content"
    finally:
        get_data(save(admin, make_row("token", old)))


def test_the_permanent_token_may_reset_itself(service: Service, admin: Client) -> None:
    old = get_value(admin, "token")
    holder = Caller(service.address, old)
    try:
        get_data(holder.post("/api/admin/setting/reset_token"))
        assert get_refusal(holder.get("/api/me"))[0] == 401
    finally:
        get_data(save(admin, make_row("token", old)))


def test_a_permanent_token_that_could_be_guessed_is_refused(admin: Client) -> None:
    old = get_value(admin, "token")
    assert get_refusal(save(admin, make_row("token", "short")))[0] == 500
    assert get_value(admin, "token") == old
