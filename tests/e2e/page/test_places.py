"""The frame around a list: places, details, the tool bar of a selection, moving by hand, quick look, commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.samples import make_picture
from tests.e2e.page.steps import fill_sign_in, find_violations, select_row, sign_in
from tests.support.service import Service

WIDE = pytest.mark.parametrize("page", ["wide"], indirect=True)
PHONE = pytest.mark.parametrize("page", ["phone"], indirect=True)


@pytest.fixture
def folder(service: Service, request: pytest.FixtureRequest) -> str:
    """A new folder with two files and two folders."""
    path = f"/files/{request.node.originalname}"
    client = service.client()
    assert client.put(f"{path}/letter.txt", b"x" * 2048)["code"] == 200
    assert client.put(f"{path}/picture.png", make_picture(320, 200, (10, 90, 200)))["code"] == 200
    for name in ("inbox", "outbox"):
        client.ok("/api/fs/mkdir", path=f"{path}/{name}")
    return path


def check(page: Any, shots: Path, name: str) -> None:
    """Look at what is shown."""
    page.screenshot(path=shots / f"{name}-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []


@WIDE
def test_places_lead_to_storages_and_keep_favourites(page: Any, folder: str, shots: Path) -> None:
    sign_in(page, f"/@{folder}")
    places = page.get_by_role("navigation", name="Places")
    places.get_by_role("link", name="files", exact=True).wait_for()
    select_row(page, "inbox")
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name="Add to favourites").click()
    places.get_by_role("link", name="inbox").click()
    page.wait_for_url(f"**/@{folder}/inbox")
    check(page, shots, "places")
    page.reload()
    places.get_by_role("link", name="inbox").wait_for()
    page.get_by_role("button", name="Remove from favourites").click()
    places.get_by_role("link", name="inbox").wait_for(state="detached")
    page.get_by_role("button", name="Hide places").click()
    places.wait_for(state="detached")


@PHONE
def test_places_lie_over_the_list_on_a_phone(page: Any, folder: str, shots: Path) -> None:
    sign_in(page, f"/@{folder}")
    page.get_by_role("button", name="Show places").click()
    dialog = page.get_by_role("dialog", name="Places")
    dialog.get_by_role("link", name="Trash").wait_for()
    check(page, shots, "drawer")
    dialog.get_by_role("link", name="Trash").click()
    page.wait_for_url("**/@trash")
    dialog.wait_for(state="detached")


@WIDE
def test_selection_has_its_actions_and_bytes_at_hand(page: Any, service: Service, folder: str, shots: Path) -> None:
    sign_in(page, f"/@{folder}")
    select_row(page, "letter")
    page.get_by_text("2 KiB").first.wait_for()
    check(page, shots, "selection")
    page.locator(".quick").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("row", name="letter.txt").wait_for(state="detached")
    page.get_by_role("grid").focus()
    page.keyboard.press("Control+z")
    page.get_by_role("row", name="letter.txt").wait_for()
    assert "letter.txt" in service.client().names(folder)


@WIDE
def test_entries_are_dragged_into_folders_and_moved_back(page: Any, service: Service, folder: str) -> None:
    client = service.client()
    sign_in(page, f"/@{folder}")
    page.get_by_role("row", name="letter.txt").get_by_role("link").drag_to(page.get_by_role("row", name="inbox"))
    page.get_by_text("Moved to “inbox”").wait_for()
    assert client.names(f"{folder}/inbox") == ["letter.txt"]
    page.get_by_role("button", name="Undo").click()
    page.get_by_role("row", name="letter.txt").wait_for()
    assert client.names(f"{folder}/inbox") == []


@WIDE
def test_copied_entries_are_pasted_and_keep_both(page: Any, service: Service, folder: str, shots: Path) -> None:
    client = service.client()
    sign_in(page, f"/@{folder}")
    select_row(page, "letter")
    page.keyboard.press("Control+c")
    page.keyboard.press("Control+v")
    page.get_by_role("row", name="letter (2).txt").wait_for()
    client.put(f"{folder}/inbox/letter.txt", b"another")
    page.get_by_role("row", name="letter.txt").locator(".size").click()
    page.get_by_role("grid").focus()
    page.keyboard.press("Control+c")
    page.get_by_role("link", name="inbox", exact=True).click()
    page.get_by_role("row", name="letter.txt").wait_for()
    page.get_by_role("grid").focus()
    page.keyboard.press("Control+v")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Keep both").check()
    check(page, shots, "clash")
    dialog.get_by_role("button", name="Continue").click()
    page.get_by_role("row", name="letter (2).txt").wait_for()
    assert client.names(f"{folder}/inbox") == ["letter (2).txt", "letter.txt"]


@WIDE
def test_a_band_selects_the_rows_that_it_touches(page: Any, folder: str) -> None:
    sign_in(page, f"/@{folder}")
    row = page.get_by_role("row", name="letter.txt").bounding_box()
    page.mouse.move(row["x"] + row["width"] * 0.6, row["y"] + row["height"] / 2)
    page.mouse.down()
    page.mouse.move(row["x"] + row["width"] * 0.7, row["y"] + row["height"] * 1.5, steps=5)
    page.mouse.up()
    assert page.locator("[role=row][aria-selected=true]").count() == 2


@WIDE
def test_details_show_size_dimensions_and_address(page: Any, folder: str, shots: Path) -> None:
    sign_in(page, f"/@{folder}")
    select_row(page, "picture")
    page.get_by_role("button", name="Details", exact=True).click()
    pane = page.get_by_role("complementary", name="Details")
    pane.get_by_text("320 × 200 pixels").wait_for()
    check(page, shots, "details")
    assert pane.get_by_role("textbox", name="Address").input_value().endswith(f"/@{folder}/picture.png")


@WIDE
def test_space_looks_at_files_and_arrows_go_on(page: Any, folder: str, shots: Path) -> None:
    sign_in(page, f"/@{folder}")
    page.wait_for_timeout(900)  # a space soon after letters belongs to the name
    page.get_by_role("grid").focus()
    page.keyboard.press("End")
    page.keyboard.press("Space")
    dialog = page.get_by_role("dialog", name="Quick look: picture.png")
    dialog.get_by_role("img").first.wait_for()
    check(page, shots, "look")
    page.keyboard.press("ArrowUp")
    page.get_by_role("dialog", name="Quick look: letter.txt").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.locator("[role=row][aria-selected=true]", has_text="letter.txt").wait_for()


@WIDE
def test_the_palette_runs_commands_and_goes_to_places(page: Any, folder: str, shots: Path) -> None:
    sign_in(page, f"/@{folder}")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Type a command")
    field.fill("new fold")
    check(page, shots, "palette")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("heading", name="New folder").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    field.fill("trash")
    page.keyboard.press("Enter")
    page.wait_for_url("**/@trash")
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keyboard shortcuts").wait_for()
    check(page, shots, "keys")


@WIDE
def test_the_chevron_lists_the_folders_beside(page: Any, folder: str) -> None:
    sign_in(page, f"/@{folder}/inbox")
    page.get_by_role("button", name="Folders beside this one").last.click()
    page.get_by_role("menuitem", name="outbox").click()
    page.wait_for_url(f"**/@{folder}/outbox")


@WIDE
def test_back_returns_to_where_a_view_was_scrolled_to(page: Any) -> None:
    page.goto("/@manage/settings")
    fill_sign_in(page)
    scroller = page.locator("[data-scroller]")
    page.wait_for_function("() => document.querySelector('[data-scroller]')?.scrollHeight > innerHeight + 50")
    scroller.evaluate("element => element.scrollTo(0, 100)")
    page.wait_for_function("() => document.querySelector('[data-scroller]')?.scrollTop === 100")
    page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
    page.locator("a[href='/@manage/users']").evaluate("link => link.click()")
    page.locator("a[href='/@manage/users'][aria-current]").wait_for()
    assert scroller.evaluate("element => element.scrollTop") == 0
    page.go_back()
    page.wait_for_function("() => document.querySelector('[data-scroller]')?.scrollTop === 100")
