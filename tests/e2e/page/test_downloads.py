"""Downloads, links, archives and addresses, as a person uses them on the page."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import (
    choose,
    find_violations,
    open_folder,
    select_row,
    select_several,
    wait_for_message,
    wait_for_names,
    wait_until,
)
from tests.support.service import Client, quote_path

wide = pytest.mark.parametrize("page", ["wide"], indirect=True)


@wide
def test_several_are_downloaded_as_a_zip(page: Any, folder: str, shots: Path) -> None:
    open_folder(page, folder)
    select_several(page, "alpha.txt", "inner")
    choose(page, "Download")
    page.screenshot(path=shots / "download.png")
    assert find_violations(page, AXE) == []
    with page.expect_download() as waiting:
        page.get_by_role("dialog").get_by_role("button", name="Download").click()
    assert waiting.value.suggested_filename == f"{folder.rpartition('/')[2]}.zip"
    with zipfile.ZipFile(waiting.value.path()) as packed:
        assert sorted(packed.namelist()) == ["alpha.txt", "inner/", "inner/deep/", "inner/deep/one.txt"]
        assert packed.read("inner/deep/one.txt") == b"inner/deep/one.txt"


@wide
def test_several_are_downloaded_one_by_one(page: Any, folder: str) -> None:
    got: list[Any] = []
    page.on("download", lambda download: got.append(download))
    open_folder(page, folder)
    select_several(page, "alpha.txt", "beta.txt")
    choose(page, "Download")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("radio", name="One file at a time").check()
    dialog.get_by_role("button", name="Download").click()
    dialog.wait_for(state="detached")
    wait_until(lambda: len(got) == 2, page)
    assert [download.suggested_filename for download in got] == ["alpha.txt", "beta.txt"]


@wide
def test_links_are_copied(page: Any, client: Client, folder: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_folder(page, folder)
    select_several(page, "inner", "alpha.txt")
    page.get_by_role("grid").focus()
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name="Copy links").click()
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("radio", name="Direct link").count() == 0
    dialog.get_by_role("button", name="Copy link").click()
    wait_for_message(page, "opens for people who sign in")
    links = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert [link.partition("/@")[2] for link in links] == [
        f"{quote_path(folder)}/{name}" for name in ("inner", "alpha.txt")
    ]


@wide
def test_a_direct_link_to_a_file_says_that_anyone_can_use_it(page: Any, client: Client, folder: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_folder(page, folder)
    select_row(page, "alpha")
    choose(page, "Copy link")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("radio", name="Direct link").check()
    dialog.get_by_role("button", name="Copy link").click()
    wait_for_message(page, "Anyone with this link can download the file, with no expiry")
    link = page.evaluate("navigator.clipboard.readText()")
    assert client.http.get(link, headers={"authorization": ""}).content == b"alpha.txt"


def test_an_archive_is_unpacked(page: Any, client: Client, folder: str, shots: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("letters/a.txt", b"a letter")
    client.put(f"{folder}/mail.zip", packed.getvalue())
    open_folder(page, folder)
    select_row(page, "mail")
    choose(page, "Unpack…")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("option", name="inner").wait_for()
    page.screenshot(path=shots / f"unpack-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    dialog.get_by_role("button", name="Unpack to").click()
    wait_for_message(page, "in the background")
    page.get_by_role("link", name="mail", exact=True).wait_for()  # the folder is listed again when a task has ended
    wait_for_names(client, f"{folder}/mail/letters", ["a.txt"])
    assert client.bytes(f"{folder}/mail/letters/a.txt").content == b"a letter"


@wide
def test_addresses_are_fetched_by_the_service(page: Any, client: Client, folder: str, shots: Path) -> None:
    open_folder(page, folder)
    page.get_by_role("button", name="New", exact=True).press("Enter")
    page.get_by_role("menuitem", name="Download from a URL").press("Enter")
    dialog = page.get_by_role("dialog")
    assert dialog.get_by_role("button", name="Download").is_disabled()
    dialog.get_by_label("URLs").fill("http://127.0.0.1:9/a.txt\n\nhttp://127.0.0.1:9/b.txt")
    dialog.get_by_label("Temporary file").select_option("Keep it")
    assert dialog.get_by_label("Tool").input_value() == "SimpleHttp"
    page.screenshot(path=shots / "offline.png")
    assert find_violations(page, AXE) == []
    with page.expect_request("**/api/fs/add_offline_download") as sent:
        dialog.get_by_role("button", name="Download").click()
    wait_for_message(page, "Downloading 2 to")
    body = sent.value.post_data_json
    assert (body["path"], body["delete_policy"], len(body["urls"])) == (folder, "delete_never", 2)
    assert page.get_by_role("button", name="Show tasks").is_visible()
