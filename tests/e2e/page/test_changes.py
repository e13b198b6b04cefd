"""Work with files as a person does it: make, rename, move, copy, remove, download, unpack, fetch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import (
    choose,
    fill_sign_in,
    find_violations,
    open_folder,
    select_row,
    select_several,
    wait_for_message,
)
from tests.support.service import Client

PASSWORD = "a long password"
wide = pytest.mark.parametrize("page", ["wide"], indirect=True)


def go_to(page: Any, *letters: str) -> None:
    """Open folders in the picker, from the root on, by letters and Enter."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Home", exact=True).click()
    for word in letters:
        field = dialog.get_by_role("combobox", name="Find a folder")
        field.fill(word)
        dialog.get_by_role("option", name=word).first.wait_for()
        field.press("Enter")
        dialog.locator("[aria-current=location]", has_text=word).wait_for()


def read(client: Client, path: str) -> bytes:
    return client.bytes(path).content


@wide
def test_new_folder_and_new_file_by_keyboard(page: Any, client: Client, folder: str) -> None:
    open_folder(page, folder)
    page.get_by_role("button", name="New", exact=True).press("Enter")
    page.get_by_role("menuitem", name="New folder").press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.type("albums")
    page.keyboard.press("Enter")
    page.locator("[role=row][aria-selected=true]", has_text="albums").wait_for()

    page.get_by_role("button", name="New", exact=True).press("Enter")
    page.get_by_role("menuitem", name="New folder").press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.type("albums")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("already taken").wait_for()
    page.keyboard.press("Escape")

    page.get_by_role("button", name="New", exact=True).press("Enter")
    page.get_by_role("menuitem", name="New file").press("Enter")
    page.get_by_role("dialog").wait_for()
    page.keyboard.type("alpha")
    page.keyboard.press("Enter")
    page.get_by_role("alert").get_by_text("already taken").wait_for()
    page.keyboard.press("Control+a")
    page.keyboard.type("notes.md")
    page.keyboard.press("Enter")
    page.locator("[role=row][aria-selected=true]", has_text="notes.md").wait_for()
    assert {"albums", "notes.md"} <= set(client.names(folder))
    assert read(client, f"{folder}/alpha.txt") == b"alpha.txt"


def test_move_with_the_picker(page: Any, client: Client, folder: str, shots: Path) -> None:
    width = page.viewport_size["width"]
    open_folder(page, folder)
    select_row(page, "alpha")
    choose(page, "Move to…")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("The items are already in this folder").wait_for()
    assert dialog.get_by_role("button", name="Move to").is_disabled()
    dialog.get_by_role("option", name="inner").wait_for()
    page.screenshot(path=shots / f"picker-{width}.png")
    assert find_violations(page, AXE) == []

    field = dialog.get_by_role("combobox")
    field.press("ArrowDown")
    field.press("Enter")
    dialog.get_by_role("option", name="deep").wait_for()
    field.press("Backspace")
    dialog.get_by_role("option", name="other").wait_for()
    field.fill("oth")
    field.press("Enter")
    dialog.get_by_text("No subfolders.").wait_for()
    dialog.get_by_role("button", name="New folder").press("Enter")
    page.keyboard.type("fresh")
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Move to “fresh”").wait_for()
    field.press("Enter")  # nothing is looked for: the dialog's own
    wait_for_message(page, "Moved to “fresh”")
    page.get_by_role("row", name="alpha.txt").wait_for(state="detached")
    assert client.names(f"{folder}/other/fresh") == ["alpha.txt"]

    select_row(page, "beta")
    choose(page, "Move to…")
    page.get_by_role("button", name="Move to “fresh”").click()  # the place is remembered
    page.get_by_role("row", name="beta.txt").wait_for(state="detached")
    assert client.names(f"{folder}/other/fresh") == ["alpha.txt", "beta.txt"]
    page.get_by_role("button", name="Undo").last.click()
    page.get_by_role("row", name="beta.txt").wait_for()
    assert client.names(f"{folder}/other/fresh") == ["alpha.txt"]


@wide
def test_a_folder_does_not_go_into_itself(page: Any, folder: str) -> None:
    open_folder(page, folder)
    select_row(page, "inner")
    choose(page, "Copy to…")
    dialog = page.get_by_role("dialog")
    option = dialog.get_by_role("option", name="inner")
    option.click(force=True)
    assert option.get_attribute("aria-disabled") == "true"
    dialog.get_by_text("The items are already in this folder").wait_for()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert page.get_by_role("grid").evaluate("grid => grid === document.activeElement")


def test_names_that_are_taken_are_named_and_asked_about(page: Any, client: Client, folder: str, shots: Path) -> None:
    client.put(f"{folder}/other/alpha.txt", b"old")
    client.put(f"{folder}/other/gamma.png", b"old")
    open_folder(page, folder)
    select_several(page, "alpha.txt", "beta.txt", "gamma.png")
    choose(page, "Move to…")
    go_to(page, *folder.strip("/").split("/"), "other")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Move to “other”").click()
    dialog.get_by_text("“other” already has: “alpha.txt” and “gamma.png”").wait_for()
    page.screenshot(path=shots / f"conflict-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    assert client.names(f"{folder}/other") == ["alpha.txt", "gamma.png", "two.txt"]
    dialog.get_by_role("radio", name="Skip").check()
    dialog.get_by_role("button", name="Move to “other”").click()
    wait_for_message(page, "existing items were kept")
    assert read(client, f"{folder}/other/alpha.txt") == b"old"
    assert "beta.txt" in client.names(f"{folder}/other")

    select_row(page, "alpha")
    choose(page, "Move to…")
    dialog.get_by_role("button", name="Move to “other”").click()
    dialog.get_by_role("radio", name="Replace").check()
    dialog.get_by_role("button", name="Move to “other”").click()
    page.get_by_role("row", name="alpha.txt").wait_for(state="detached")
    assert read(client, f"{folder}/other/alpha.txt") == b"alpha.txt"


@wide
def test_a_copy_that_becomes_a_task_says_so(
    page: Any, client: Client, folder: str, tmp_path: Path, shots: Path
) -> None:
    root = tmp_path / "elsewhere"
    root.mkdir()
    mount = f"/elsewhere {tmp_path.name}"
    addition = json.dumps({"root_folder_path": str(root)})
    client.ok("/api/admin/storage/create", mount_path=mount, driver="Local", addition=addition)
    open_folder(page, folder)
    select_several(page, "alpha.txt", "inner")
    choose(page, "Copy to…")
    go_to(page, mount.strip("/"))
    page.get_by_role("button", name="Copy to “elsewhere").click()
    wait_for_message(page, "in the background")
    page.screenshot(path=shots / "copy-begun.png")
    page.get_by_role("button", name="Show tasks").click()
    panel = page.get_by_role("dialog", name="Tasks")
    panel.get_by_text("alpha.txt").first.wait_for()
    page.screenshot(path=shots / "tasks-opened.png")


def test_many_are_renamed_as_the_preview_shows(page: Any, client: Client, folder: str, shots: Path) -> None:
    width = page.viewport_size["width"]
    open_folder(page, folder)
    select_several(page, "alpha.txt", "beta.txt", "gamma.png")
    page.get_by_role("grid").focus()
    page.keyboard.press("F2")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Method").select_option("Number them")
    dialog.get_by_label("Name", exact=True).fill("Photo ##")
    dialog.get_by_text("3 of 3 names change").wait_for()
    dialog.get_by_role("listitem").filter(has_text="gamma.png").get_by_text("Photo 03.png").wait_for()
    page.screenshot(path=shots / f"number-{width}.png")
    assert find_violations(page, AXE) == []
    dialog.get_by_label("Method").select_option("Replace text")
    dialog.get_by_label("Find").fill("a")
    dialog.get_by_label("Replace with").fill("other/")
    dialog.get_by_text("3 of them are not possible").wait_for()
    page.screenshot(path=shots / f"faults-{width}.png")
    assert dialog.get_by_role("button", name="Rename").is_disabled()
    dialog.get_by_label("Replace with").fill("A")
    dialog.get_by_role("button", name="Rename").click()
    wait_for_message(page, "Renamed: 3")
    assert client.names(folder) == ["AlphA.txt", "betA.txt", "gAmmA.png", "inner", "other"]


@wide
def test_a_whole_folder_is_renamed_by_a_pattern(page: Any, client: Client, folder: str) -> None:
    open_folder(page, folder)
    page.get_by_role("button", name="Folder actions").press("Enter")
    page.get_by_role("menuitem", name="Rename several").press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Method").select_option("Replace by a pattern (regular expression)")
    dialog.get_by_label("Pattern").fill("(")
    dialog.get_by_text("This is not a valid pattern").wait_for()
    dialog.get_by_label("Pattern").fill(r"^(?P<first>\w+)a\.txt$")
    dialog.get_by_label("Replace with").fill("${first}o $1.md")
    dialog.get_by_text("2 of 5 names change").wait_for()
    dialog.get_by_text("beto bet.md").wait_for()
    dialog.get_by_label("Replace with").press("Enter")
    page.get_by_role("row", name="beto bet.md").wait_for()
    assert client.names(folder) == ["alpho alph.md", "beto bet.md", "gamma.png", "inner", "other"]


@wide
def test_names_that_could_not_be_removed_are_named(page: Any, client: Client, folder: str, shots: Path) -> None:
    def refuse(route: Any) -> None:
        client.ok("/api/fs/remove", dir=folder, names=["alpha.txt"])
        route.fulfill(json={"code": 500, "message": "the disk is on fire", "data": None, "problem": "StorageProblem"})

    open_folder(page, folder)
    select_several(page, "alpha.txt", "beta.txt", "inner")
    page.route("**/api/fs/remove", refuse, times=1)
    page.get_by_role("grid").focus()
    page.keyboard.press("Delete")
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("Delete “inner”, “alpha.txt”, and “beta.txt”?").wait_for()
    dialog.get_by_role("button", name="Delete").click()
    dialog.get_by_text("Not deleted: “inner” and “beta.txt”.").wait_for()
    page.screenshot(path=shots / "not-removed.png")
    dialog.get_by_role("button", name="Delete").click()
    dialog.wait_for(state="detached")
    page.get_by_role("row", name="beta.txt").wait_for(state="detached")
    assert client.names(folder) == ["gamma.png", "other"]


@wide
def test_files_are_gathered_and_empty_folders_removed(page: Any, client: Client, folder: str) -> None:
    client.put(f"{folder}/inner/two.txt", b"the same name")
    open_folder(page, folder)
    more = page.get_by_role("button", name="Folder actions")
    dialog = page.get_by_role("dialog")
    more.press("Enter")
    page.get_by_role("menuitem", name="Gather files").press("Enter")
    dialog.get_by_role("button", name="Move the files").click()
    dialog.get_by_text("More than one file has the name “two.txt”").wait_for()
    dialog.get_by_role("radio", name="Skip").check()
    dialog.get_by_role("button", name="Move the files").click()
    page.get_by_role("row", name="one.txt").wait_for()

    more.press("Enter")
    page.get_by_role("menuitem", name="Delete empty folders").press("Enter")
    dialog.get_by_role("button", name="Delete").click()
    dialog.wait_for(state="detached")
    wait_for_message(page, "Empty folders deleted")
    left = client.names(folder)
    assert {"alpha.txt", "one.txt", "two.txt"} <= set(left)
    assert len({"inner", "other"} & set(left)) == 1  # the one where the second file of the name stayed


@wide
def test_only_what_one_may_do_is_offered(page: Any, client: Client, folder: str) -> None:
    name = "changes-reader"
    client.ok("/api/admin/user/create", username=name, password=PASSWORD, base_path="/", permission=0)
    page.goto(f"/@{folder}")
    fill_sign_in(page, name, PASSWORD)
    select_row(page, "alpha")
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name="Open").wait_for()
    assert page.get_by_role("menuitem").all_inner_texts() == [
        "Open", "Download", "Copy link", "Versions…", "Add to favourites",
    ]  # fmt: skip
    page.keyboard.press("Escape")
    assert page.get_by_role("button", name="New", exact=True).count() == 0
    assert page.get_by_role("button", name="Folder actions").count() == 0
