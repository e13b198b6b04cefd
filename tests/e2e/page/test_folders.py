"""Folders that are long, locked or out of reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import fill_sign_in, find_violations, sign_in
from tests.support.service import Service

PASSWORD = "a long password"
ENTRY_COUNT = 1_000_000


def invent_page(route: Any) -> None:
    """Answer a listing with its part of a million entries: no storage makes so many in the time of a test."""
    request = route.request.post_data_json
    start = (request["page"] - 1) * request["per_page"]
    entry = {"size": 7, "is_dir": False, "modified": "2026-01-02T03:04:05Z", "created": "2026-01-02T03:04:05Z",
             "sign": "", "thumb": "", "type": 4, "hashinfo": "null", "hash_info": None}  # fmt: skip
    content = [
        {"name": f"file {number}.txt", **entry}
        for number in range(start, min(start + request["per_page"], ENTRY_COUNT))
    ]
    about = {"readme": "", "header": "", "write": True, "write_content_bypass": False, "provider": "unknown"}
    route.fulfill(json={"code": 200, "message": "success", "data": {"content": content, "total": ENTRY_COUNT, **about}})


def test_a_folder_of_a_million_entries_is_reached_to_its_end(page: Any, shots: Path) -> None:
    page.route("**/api/fs/list", invent_page)
    sign_in(page)
    page.get_by_text("1,000,000 entries").wait_for(state="attached")
    page.get_by_role("grid").focus()
    page.keyboard.press("End")
    page.get_by_role("link", name="file 999999.txt").wait_for()
    page.screenshot(path=shots / f"long-{page.viewport_size['width']}.png")
    page.keyboard.press("Control+a")
    page.get_by_text("1,000,000 selected").first.wait_for()
    page.keyboard.press("ArrowUp")
    page.locator("[aria-rowindex='1000000'][aria-selected=true] a").wait_for()
    assert page.get_by_role("row").count() < 100
    page.keyboard.press("Home")
    page.locator("[aria-rowindex='2'][aria-selected=true] a").wait_for()


def test_a_locked_folder_asks_for_its_password(page: Any, service: Service, shots: Path) -> None:
    admin = service.client()
    width = page.viewport_size["width"]
    name = f"locked{width}"
    admin.put(f"/files/{name}/inside/letter.txt", b"text")
    admin.ok("/api/admin/meta/create", path=f"/files/{name}", password="sesame", p_sub=True)
    admin.ok("/api/admin/user/create", username=name, password=PASSWORD, base_path="/files", permission=0)

    page.goto(f"/@/{name}/inside")
    fill_sign_in(page, name, PASSWORD)
    page.get_by_label("Folder password").fill("wrong")
    page.get_by_role("button", name="Open the folder").click()
    page.get_by_text("password is wrong").wait_for()
    page.screenshot(path=shots / f"locked-{width}.png")
    assert find_violations(page, AXE) == []
    page.get_by_label("Folder password").fill("sesame")
    page.get_by_role("button", name="Open the folder").click()
    page.get_by_role("link", name="letter.txt").click()
    page.get_by_role("link", name="Download").wait_for()
    assert "sesame" not in page.url


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (None, "cannot be reached"),
        ({"code": 500, "message": "the disk is on fire", "data": None}, "the disk is on fire"),
    ],
)
def test_what_cannot_be_had_is_said_and_tried_again(
    page: Any, answer: dict[str, Any] | None, sentence: str, shots: Path, errors: list[str]
) -> None:
    sign_in(page)
    page.route("**/api/fs/list", lambda route: route.fulfill(json=answer) if answer else route.abort())
    page.locator("#content").get_by_role("link", name="files").click()
    page.get_by_text(sentence).wait_for()
    page.screenshot(path=shots / f"problem-{sentence[:6]}-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    page.unroute("**/api/fs/list")
    if answer:  # after an outage the page tries by itself
        page.get_by_role("button", name="Try again").click()
    page.get_by_role("grid").wait_for()
    errors.clear()  # the browser itself logs a request that fails


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system(page: Any, scheme: str, shots: Path) -> None:
    page.emulate_media(color_scheme=scheme)
    page.goto("/")
    page.get_by_role("button", name="Sign in").wait_for()
    assert find_violations(page, AXE) == []
    sign_in(page)
    page.screenshot(path=shots / f"{scheme}-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []


def test_the_address_of_a_tree_path_is_made_canonical(page: Any) -> None:
    sign_in(page, "/files")
    page.wait_for_url("**/@/files")


def test_the_session_survives_a_reload_and_reaches_a_new_tab(page: Any) -> None:
    sign_in(page)
    assert page.evaluate("localStorage.getItem('mangrove.token')") is None
    page.reload()
    page.get_by_role("grid").wait_for()
    tab = page.context.new_page()
    tab.goto("/@/files")
    tab.get_by_role("grid").wait_for()
    assert "token" not in tab.url
    sign_out(tab)
    page.get_by_label("User name").wait_for()
    page.get_by_text("You are signed out").wait_for()
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0


def test_the_session_ends_with_the_last_tab_unless_kept(page: Any) -> None:
    context = page.context
    sign_in(page)
    page.close()
    page = context.new_page()
    page.goto("/")
    page.get_by_label("Stay signed in").check()
    fill_sign_in(page)
    page.get_by_role("grid").wait_for()
    page.close()
    page = context.new_page()
    page.goto("/")
    page.get_by_role("grid").wait_for()
    sign_out(page)
    assert page.evaluate("localStorage.getItem('mangrove.token')") is None


def sign_out(page: Any) -> None:
    page.get_by_role("button", name="Account").click()
    page.get_by_role("menuitem", name="Sign out").click()
    page.get_by_label("User name").wait_for()
