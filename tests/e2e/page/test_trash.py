"""The trash on the page: undo after a removal, and the view of what was removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import find_violations, select_row, sign_in
from tests.support.service import Client


@pytest.fixture
def folder(client: Client, request: pytest.FixtureRequest) -> str:
    """A folder of this test and width, with three files, in a storage with a trash."""
    path = f"/files/{request.node.name.replace('[', '-').rstrip(']')[-40:]}"
    for name in ("one.txt", "two.txt", "three.txt"):
        assert client.put(f"{path}/{name}", name.encode())["code"] == 200
    return path


def remove(page: Any, name: str) -> None:
    select_row(page, name)
    page.keyboard.press("Delete")
    page.get_by_role("dialog").get_by_text("restored from the trash for 30 days").wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").wait_for(state="detached")


def test_a_removal_is_undone_from_its_message(page: Any, client: Client, folder: str, shots: Path) -> None:
    width = page.viewport_size["width"]
    sign_in(page, f"/@{folder}")
    remove(page, "two.txt")
    page.get_by_role("row", name="two.txt").wait_for(state="detached")
    page.screenshot(path=shots / f"undo-{width}.png")
    assert client.names(folder) == ["one.txt", "three.txt"]
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("row", name="two.txt").wait_for()
    page.get_by_text(f"Restored: {folder}/two.txt").wait_for()
    assert client.bytes(f"{folder}/two.txt").text == "two.txt"


def test_entries_are_restored_deleted_and_the_trash_emptied(
    page: Any, client: Client, folder: str, shots: Path
) -> None:
    width = page.viewport_size["width"]
    client.ok("/api/fs/remove", dir=folder, names=["one.txt", "two.txt", "three.txt"])
    client.put(f"{folder}/one.txt", b"newer")
    sign_in(page, f"/@{folder}")
    page.get_by_role("button", name="Account").click()
    page.get_by_role("menuitem", name="Trash").click()
    page.get_by_role("heading", name="Trash").wait_for()
    page.get_by_role("button", name="Restore one.txt").wait_for()
    page.screenshot(path=shots / f"trash-{width}.png")
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Restore one.txt").click()
    page.get_by_text("one (2).txt").wait_for()
    page.get_by_role("button", name="Delete two.txt for good").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete for good").click()
    page.get_by_text("Deleted for good").wait_for()
    page.get_by_role("button", name="Restore three.txt").wait_for()
    page.get_by_role("button", name="Empty the trash").click()
    page.get_by_role("dialog").get_by_role("button", name="Empty the trash").click()
    page.get_by_role("dialog").wait_for(state="detached")
    page.get_by_role("main").get_by_text("The trash is empty").wait_for()
    page.screenshot(path=shots / f"trash-empty-{width}.png")
    assert find_violations(page, AXE) == []
    assert client.ok("/api/fs/trash/list", path=folder)["content"] == []
    assert client.names(folder) == ["one (2).txt", "one.txt"]


def test_the_dialog_says_that_a_removal_is_final(page: Any, client: Client, tmp_path: Path) -> None:
    mount_path = f"/final{page.viewport_size['width']}"
    (tmp_path / "a.txt").write_text("text")
    addition = f'{{"root_folder_path": "{tmp_path}"}}'
    client.ok("/api/admin/storage/create", mount_path=mount_path, driver="Local", addition=addition)
    sign_in(page, f"/@{mount_path}")
    select_row(page, "a.txt")
    page.keyboard.press("Delete")
    page.get_by_role("dialog").get_by_text("This cannot be undone").wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").wait_for(state="detached")
    assert page.get_by_role("button", name="Undo").count() == 0
    assert client.names(mount_path) == []


def test_a_version_is_opened_and_restored(page: Any, client: Client, tmp_path: Path, shots: Path) -> None:
    width = page.viewport_size["width"]
    mount_path = f"/versions{width}"
    addition = f'{{"root_folder_path": "{tmp_path}", "keep_versions": 5}}'
    client.ok("/api/admin/storage/create", mount_path=mount_path, driver="Local", addition=addition)
    for content in (b"first text", b"second text"):
        assert client.put(f"{mount_path}/a.txt", content)["code"] == 200
    sign_in(page, f"/@{mount_path}")
    page.get_by_role("row", name="a.txt").click(button="right")
    page.get_by_role("menuitem", name="Versions").click()
    dialog = page.get_by_role("dialog", name="Versions of a.txt")
    dialog.get_by_text("current").wait_for()
    page.screenshot(path=shots / f"versions-{width}.png")
    assert find_violations(page, AXE) == []
    link = dialog.get_by_role("link").nth(1).get_attribute("href")
    assert client.http.get(link).text == "first text"
    dialog.get_by_role("button", name="Restore").click()
    page.get_by_text("Restored the version of").wait_for()
    dialog.get_by_role("listitem").nth(2).wait_for()
    assert client.bytes(f"{mount_path}/a.txt").text == "first text"
