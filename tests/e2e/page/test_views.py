"""A folder in every form, with mouse, keyboard and fingers; and what stays when it is read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import fill_sign_in, find_violations, select_row, sign_in
from tests.e2e.page.test_folders import ENTRY_COUNT, invent_page
from tests.support.service import Service

SELECTED = "[data-row][aria-selected=true]"


@pytest.fixture
def folder(service: Service, request: pytest.FixtureRequest) -> str:
    """A new folder with files of several sizes and a folder."""
    path = f"/files/{request.node.name}"
    client = service.client()
    for name, size in (("alpha.txt", 300), ("beta.md", 20), ("gamma 2.bin", 5000), ("gamma 10.bin", 40)):
        assert client.put(f"{path}/{name}", b"x" * size)["code"] == 200
    client.ok("/api/fs/mkdir", path=f"{path}/nested")
    return path


@pytest.fixture(scope="module")
def pictures(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A storage that makes thumbnails, with pictures and one that is none."""
    root = tmp_path_factory.mktemp("pictures")
    for number in range(30):
        picture = Image.new("RGB", (400 - number * 8, 200 + number * 8), (number * 8, 120, 255 - number * 8))
        picture.save(root / f"picture {number}.png")
    (root / "broken.png").write_bytes(b"no picture")
    (root / "A rather long name of a file that needs more than the two lines of a tile.txt").write_text("text")
    (root / "folder").mkdir()
    admin = service.client()
    addition = json.dumps({"root_folder_path": str(root), "thumbnail": True})
    admin.ok("/api/admin/storage/create", mount_path="/pictures", driver="Local", addition=addition)
    yield "/pictures"


def choose_view(page: Any, name: str) -> None:
    page.get_by_role("button", name="View and order").click()
    page.get_by_role("menuitemradio", name=name, exact=True).click()


def read_names(page: Any) -> list[str]:
    return [link.inner_text() for link in page.locator("[data-row] a").all()]


def read_selected(page: Any) -> list[str]:
    return [link.inner_text() for link in page.locator(f"{SELECTED} a").all()]


def wait_for_names(page: Any, names: list[str]) -> None:
    from playwright.sync_api import expect  # only now: where it is not installed, the tests are skipped

    expect(page.locator("[data-row] a")).to_have_text(names, timeout=20_000)


def test_list_compact_and_grid_are_chosen_and_remembered(
    page: Any, pictures: str, shots: Path, errors: list[str]
) -> None:
    width = page.viewport_size["width"]
    sign_in(page, f"/@{pictures}")
    page.screenshot(path=shots / f"view-list-{width}.png")
    choose_view(page, "Compact list")
    page.locator("[role=grid].compact").wait_for()
    page.screenshot(path=shots / f"view-compact-{width}.png")
    assert find_violations(page, AXE) == []
    choose_view(page, "Grid")
    page.locator("img").nth(5).wait_for()
    page.evaluate("Promise.allSettled([...document.querySelectorAll('[data-row] img')].map(one => one.decode()))")
    assert page.locator("[data-row] img").first.evaluate("one => one.naturalWidth") > 0
    page.get_by_role("gridcell").filter(has_text="broken.png").locator("svg").first.wait_for()
    page.screenshot(path=shots / f"view-grid-{width}.png")
    assert find_violations(page, AXE) == []

    page.get_by_role("grid").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    per_line = int(page.get_by_role("grid").get_attribute("aria-colcount"))
    assert per_line == (3 if width < 400 else 6)
    page.locator(f"[data-row='{1 + per_line}'][aria-selected=true]").wait_for()
    page.keyboard.press("Shift+ArrowRight")
    assert page.locator(SELECTED).count() == 2

    page.emulate_media(color_scheme="dark")
    page.screenshot(path=shots / f"view-grid-dark-{width}.png")
    page.reload()
    page.locator("[role=grid].grid").wait_for()
    errors[:] = [error for error in errors if "500" not in error]  # the browser logs the thumbnail that cannot be made


def test_a_folder_is_sorted_by_any_column(page: Any, folder: str) -> None:
    width = page.viewport_size["width"]
    sign_in(page, f"/@{folder}")
    wait_for_names(page, ["nested", "alpha.txt", "beta.md", "gamma 2.bin", "gamma 10.bin"])
    choose_view(page, "Storage order")
    page.locator("[role=status]").get_by_text("5 entries").wait_for(state="attached")  # a phone does not show it
    listed = read_names(page)
    if width > 640:
        page.get_by_role("button", name="Size").click()
        wait_for_names(page, ["nested", "beta.md", "gamma 10.bin", "alpha.txt", "gamma 2.bin"])
        page.get_by_role("button", name="Size").click()
        wait_for_names(page, ["nested", "gamma 2.bin", "alpha.txt", "gamma 10.bin", "beta.md"])
        assert page.get_by_role("columnheader", name="Size").get_attribute("aria-sort") == "descending"
        page.get_by_role("button", name="Size").click()
        wait_for_names(page, listed)
        page.keyboard.press("End")  # the list has the keys after a click on the head of a column
        page.locator(f"[aria-selected=true]:has-text('{listed[-1]}')").wait_for()
    choose_view(page, "By name")
    wait_for_names(page, ["nested", "alpha.txt", "beta.md", "gamma 2.bin", "gamma 10.bin"])
    select_row(page, "gamma 10")
    choose_view(page, "Descending")
    wait_for_names(page, ["nested", "gamma 10.bin", "gamma 2.bin", "beta.md", "alpha.txt"])
    assert read_selected(page) == ["gamma 10.bin"]
    choose_view(page, "Storage order")
    wait_for_names(page, listed)


def test_what_is_selected_stays_so_by_name_when_the_folder_is_read_again(
    page: Any, service: Service, folder: str
) -> None:
    sign_in(page, f"/@{folder}")
    select_row(page, "beta")
    page.keyboard.press("Shift+End")
    chosen = read_selected(page)
    admin = service.client()
    admin.put(f"{folder}/aaa first.txt", b"x")
    admin.ok("/api/fs/remove", dir=folder, names=[chosen[-1]])
    if page.viewport_size["width"] > 640:  # a phone has no such button beside a selection, and follows the events
        page.get_by_role("button", name="Refresh").click()
    page.get_by_role("link", name="aaa first.txt").wait_for()
    page.get_by_text(f"{len(chosen) - 1} selected").wait_for()
    assert read_selected(page) == chosen[:-1]
    page.keyboard.press("Escape")


def test_fingers_select_by_a_long_press_and_then_by_taps(page: Any, folder: str, shots: Path) -> None:
    if page.viewport_size["width"] > 640:
        pytest.skip("no finger at this width")
    sign_in(page, f"/@{folder}")
    box = page.get_by_role("row", name="alpha.txt").locator(".name").bounding_box()
    fingers = page.context.new_cdp_session(page)
    point = {"x": box["x"] + 40, "y": box["y"] + 10}
    fingers.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    page.get_by_text("1 selected").wait_for()
    fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert page.get_by_role("menu").count() == 0
    page.get_by_role("link", name="beta.md").tap()
    page.get_by_text("2 selected").wait_for()
    page.screenshot(path=shots / "fingers.png")
    assert find_violations(page, AXE) == []
    page.get_by_role("row", name="alpha.txt").locator("small").tap()
    page.get_by_text("1 selected").wait_for()
    page.get_by_role("row", name="beta.md").get_by_role("button", name="Actions").tap()
    page.get_by_role("menuitem", name="Copy link").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("link", name="beta.md").tap()
    page.get_by_role("row", name="nested").locator("small").tap()
    page.wait_for_url("**/nested")


def test_what_is_written_about_a_folder_is_shown_around_its_entries(
    page: Any, service: Service, folder: str, shots: Path
) -> None:
    admin = service.client()
    admin.ok("/api/admin/meta/create", path=folder, header="Above **all**", readme="# Read me\n\nBelow all")
    sign_in(page, f"/@{folder}")
    page.get_by_role("region", name="About this folder").get_by_text("Above").wait_for()
    page.get_by_role("region", name="Readme of this folder").get_by_text("Below all").wait_for()
    page.screenshot(path=shots / f"readme-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    page.get_by_role("grid").focus()
    page.keyboard.press("End")
    page.locator("[aria-rowindex='6'][aria-selected=true]").wait_for()


def test_one_comes_back_to_where_one_was_by_keyboard_alone(page: Any, folder: str) -> None:
    sign_in(page, f"/@{folder}")
    select_row(page, "nested")
    page.keyboard.press("Enter")
    page.get_by_text("This folder is empty").wait_for()
    page.keyboard.press("Backspace")
    page.locator("[data-row].focused", has_text="nested").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/nested")


def test_a_long_folder_asks_for_few_pages_at_once(page: Any) -> None:
    under_way = {"now": 0, "most": 0, "all": 0}

    def count(change: int) -> Any:
        def note(request: Any) -> None:
            if request.url.endswith("/api/fs/list"):
                under_way["now"] += change
                under_way["all"] += max(0, change)
                under_way["most"] = max(under_way["most"], under_way["now"])

        return note

    page.on("request", count(1))
    page.on("requestfinished", count(-1))
    page.on("requestfailed", count(-1))
    page.route("**/api/fs/list", invent_page)
    sign_in(page)
    page.get_by_text(f"{ENTRY_COUNT:,} entries").wait_for(state="attached")
    grid = page.get_by_role("grid")
    page.evaluate(
        """async () => {
            const view = document.querySelector('[role=grid]').parentElement
            for (let step = 0; step < 150; step++) {
                view.scrollTop += 40000
                await new Promise(requestAnimationFrame)
            }
        }"""
    )
    grid.focus()
    page.keyboard.press("End")
    page.get_by_role("link", name=f"file {ENTRY_COUNT - 1}.txt").wait_for()
    assert under_way["most"] <= 4
    choose_view(page, "Grid")
    page.get_by_role("link", name=f"file {ENTRY_COUNT - 1}.txt").wait_for()
    assert page.get_by_role("gridcell").count() < 400


def test_who_may_not_write_can_read_a_folder_again(page: Any, service: Service, folder: str) -> None:
    name = f"reader{page.viewport_size['width']}"
    admin = service.client()
    admin.ok("/api/admin/user/create", username=name, password="a long password", base_path="/files", permission=0)
    page.goto(f"/@/{folder.rpartition('/')[2]}")
    fill_sign_in(page, name, "a long password")
    page.get_by_role("link", name="alpha.txt").wait_for()
    admin.put(f"{folder}/new.txt", b"x")
    page.get_by_role("button", name="Refresh").click()
    page.get_by_role("link", name="new.txt").wait_for()
