"""Storages of every generic driver as an administrator keeps them: mounted, wrong, mended, disabled; and what they
show of changes made behind the service's back."""

from __future__ import annotations

import io
import json
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from PIL import Image

from tests.contract.api import fixtures
from tests.contract.api.task_client import wait_until
from tests.protocol import places
from tests.protocol.places import Place
from tests.support.service import Client

pytestmark = pytest.mark.long


SPACE = {"Local", "SFTP", "SMB", "Crypt"}  # the drivers whose protocol tells it, on the servers here

UNCACHED = {"Local", "SMB", "Crypt"}  # their listings are not kept for cache_expiration
REFUSALS = ("storage not init", "permission denied", "password", "refuses the sign-in")
CHANGE_SECONDS = 2.0  # far above the time for which a local folder is fresh without a look, on a loaded machine too


def find_storage(admin: Client, mount: str) -> dict[str, Any]:
    """The record of the storage at a mount path."""
    rows = admin.get("/api/admin/storage/list")["data"]["content"]
    mount_row: dict[str, Any] = next(row for row in rows if row["mount_path"] == mount)
    return mount_row


def test_a_change_behind_the_back_is_seen_at_once_without_a_cache(place: Place) -> None:
    place.fill("old", "gone")
    with place.mounted_again(cache_expiration=0) as again:
        assert place.admin.names(again) == ["gone", "old"]
        place.fill("new")
        place.admin.ok("/api/fs/remove", dir=place.folder, names=["gone"])
        wait_until(lambda: place.admin.names(again) == ["new", "old"], CHANGE_SECONDS)
        assert place.admin.put(f"{place.folder}/old", b"longer than before")["code"] == 200
        assert place.read(again) == {"new": b"new", "old": b"longer than before"}


def test_a_change_behind_the_back_is_seen_after_a_refresh_with_a_cache(place: Place) -> None:
    place.fill("old")
    with place.mounted_again(cache_expiration=30) as again:
        assert place.admin.names(again) == ["old"]
        place.fill("new")
        if place.kind.driver not in UNCACHED:
            assert place.admin.names(again) == ["old"]
        assert set(place.read(again)) == {"new", "old"}
        assert place.admin.names(again) == ["new", "old"]
        fixtures.fill(place.admin, again, "own")
        assert place.admin.names(again) == ["new", "old", "own"]


def test_a_storage_is_disabled_and_enabled_again(place: Place) -> None:
    place.fill("kept")
    with place.mounted_again() as again:
        number = {"id": find_storage(place.admin, again.rpartition("/")[0])["id"]}
        for _ in range(2):
            assert place.admin.names(again) == ["kept"]
            place.admin.ok("/api/admin/storage/disable", params=number)
            assert place.admin.post("/api/fs/list", path=again)["code"] == 500
            assert place.admin.get("/api/admin/storage/get", **number)["data"]["status"] == "disabled"
            place.admin.ok("/api/admin/storage/enable", params=number)
        assert place.admin.bytes(f"{again}/kept").content == b"kept"


def test_a_storage_is_whole_again_when_all_are_loaded_anew(place: Place) -> None:
    place.fill("kept")
    place.admin.ok("/api/admin/storage/load_all")
    assert place.admin.bytes(f"{place.folder}/kept").content == b"kept"


@places.choose("FTP", "SFTP", "SMB", "WebDav", "Crypt")
def test_wrong_password_is_reported_at_creation_and_can_be_fixed(place: Place) -> None:
    place.fill("kept")
    secret = place.kind.make_wrong_secret()
    wrong = place.options | {place.kind.secret: secret}
    record = {"mount_path": f"/{uuid4().hex}", "driver": place.kind.driver, "addition": json.dumps(wrong)}
    record |= places.PROXIED
    answer = place.admin.post("/api/admin/storage/create", **record)
    try:
        assert answer["code"] == (500 if place.kind.says_at_once else 200), answer
        check_refused(place, record["mount_path"], answer if place.kind.says_at_once else None, secret)
        update(place.admin, record["mount_path"], place.options)
        assert set(place.admin.names(record["mount_path"])) >= {place.folder.rpartition("/")[2]}
        update_in_vain(place, record["mount_path"], wrong, secret)
        update(place.admin, record["mount_path"], place.options)
        assert (
            place.admin.bytes(place.folder.replace(place.mount, record["mount_path"], 1) + "/kept").content == b"kept"
        )
    finally:
        number = find_storage(place.admin, record["mount_path"])["id"]
        place.admin.ok("/api/admin/storage/delete", params={"id": number})


def update(admin: Client, mount: str, options: dict[str, Any]) -> None:
    admin.ok("/api/admin/storage/update", **(find_storage(admin, mount) | {"addition": json.dumps(options)}))
    assert find_storage(admin, mount)["status"] == "work"


def update_in_vain(place: Place, mount: str, options: dict[str, Any], secret: str) -> None:
    body = find_storage(place.admin, mount) | {"addition": json.dumps(options)}
    answer = place.admin.post("/api/admin/storage/update", **body)
    assert answer["code"] == (500 if place.kind.says_at_once else 200), answer
    check_refused(place, mount, answer if place.kind.says_at_once else None, secret)


def check_refused(place: Place, mount: str, told: dict[str, Any] | None, secret: str) -> None:
    """The storage refuses with a reason that is no secret, and shows nothing."""
    listed = place.admin.post("/api/fs/list", path=mount, refresh=True)
    if told is not None:
        assert find_storage(place.admin, mount)["status"] in told["message"]
        assert secret not in told["message"]
    assert secret not in listed["message"]
    if place.kind.driver == "Crypt":  # no name can be read
        assert listed["code"] == 500 or not listed["data"]["content"]
        wait_until(lambda: "decrypt" in find_storage(place.admin, mount)["status"])
        return
    assert listed["code"] == 500
    assert any(reason in listed["message"] for reason in REFUSALS), listed


def test_space_is_told_where_the_protocol_knows_it(place: Place) -> None:
    with fixtures.settings(place.admin, hide_storage_details="false", hide_storage_details_in_manage_page="false"):
        row = find_storage(place.admin, place.mount)
        shown = place.admin.ok("/api/fs/get", path=place.mount)
        details = [row.get("mount_details"), shown.get("mount_details")]
    if place.kind.driver not in SPACE:
        assert details == [None, None]
        return
    for detail in details:
        assert set(detail) == {"total_space", "used_space", "free_space"}
        assert detail["total_space"] == detail["used_space"] + detail["free_space"] > detail["free_space"] > 0


@places.choose("Crypt")
def test_a_thumbnail_kept_beside_a_file_is_shown(place: Place) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (20, 10), (200, 10, 10)).save(picture, "WEBP")
    place.fill("a.png", ".thumbnails/")
    assert place.admin.put(f"{place.folder}/.thumbnails/a.png.webp", picture.getvalue())["code"] == 200
    rows = place.admin.ok("/api/fs/list", path=place.folder, refresh=True)["content"]
    thumb = urlsplit(next(row["thumb"] for row in rows if row["name"] == "a.png"))
    answer = place.admin.http.get(f"{thumb.path}?{thumb.query}")
    assert (answer.status_code, answer.content) == (200, picture.getvalue())


@places.choose("FTP", "SFTP", "SMB", "WebDav", "S3")
def test_a_storage_on_a_folder_below_shows_that_folder_only(place: Place) -> None:
    place.fill("in/", "in/kept", "out")
    root = place.options["root_folder_path"].rstrip("/.") + f"{place.folder.removeprefix(place.mount)}/in"
    with places.mount(place.admin, place.kind, place.options | {"root_folder_path": root}) as mounted:
        assert place.read(mounted) == {"kept": b"in/kept"}
        fixtures.fill(place.admin, mounted, "new")
    assert set(place.read(f"{place.folder}/in")) == {"kept", "new"}
