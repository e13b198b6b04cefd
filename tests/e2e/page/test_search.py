"""The search: words, filters, hits as one scrolls, and the way to the folder of one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import find_violations, select_row, sign_in
from tests.support.service import Client, Service

HIT_COUNT = 450  # hits, of which a page holds 200


@pytest.fixture(scope="module")
def mount_name(service: Service) -> str:
    """Folders with files that are looked for."""
    admin = service.client()
    for path, size in (("/near/walrus one.txt", 10), ("/near/deep/walrus two.jpg", 3000), ("/far/walrus three.md", 20)):
        assert admin.put(f"/files/sought{path}", b"x" * size)["code"] == 200
    admin.ok("/api/fs/mkdir", path="/files/sought/near/walrus folder")
    return "/files/sought"


def open_search(page: Any) -> Any:
    page.get_by_role("button", name="Search").click()
    return wait_for_panel(page)


def wait_for_panel(page: Any) -> Any:
    """The panel, once it takes what is typed."""
    page.locator("dialog input[type=search]:focus").wait_for()
    return page.get_by_role("dialog", name="Search")


def wait_for_hits(panel: Any, *names: str) -> None:
    """Wait until these are found, and no other."""
    count = f"{len(names)} entries found" if len(names) != 1 else "1 entry found"
    panel.get_by_text(count, exact=True).wait_for()
    for name in names:
        panel.get_by_role("link", name=name).wait_for()


def test_words_and_filters_find_entries_and_lead_to_their_folder(page: Any, mount_name: str, shots: Path) -> None:
    width = page.viewport_size["width"]
    sign_in(page, f"/@{mount_name}/near")
    panel = open_search(page)
    panel.get_by_text("Type part of a name").wait_for()
    page.keyboard.type("walrus")
    wait_for_hits(panel, "walrus one.txt", "walrus two.jpg", "walrus folder")
    page.screenshot(path=shots / f"search-{width}.png")
    assert find_violations(page, AXE) == []
    panel.get_by_label("Where").select_option("Everywhere")
    wait_for_hits(panel, "walrus one.txt", "walrus two.jpg", "walrus folder", "walrus three.md")

    panel.get_by_text("Filters", exact=True).click()
    panel.get_by_label("Kind").select_option("Folders")
    wait_for_hits(panel, "walrus folder")
    panel.get_by_label("Kind").select_option("Files")
    panel.get_by_label("Extensions").fill("jpg, md")
    wait_for_hits(panel, "walrus two.jpg", "walrus three.md")
    panel.get_by_label("Size from").fill("1")
    panel.get_by_label("Unit").select_option("KiB")
    wait_for_hits(panel, "walrus two.jpg")
    page.screenshot(path=shots / f"search-filters-{width}.png")
    assert find_violations(page, AXE) == []
    panel.get_by_label("Size to").fill("2")
    panel.get_by_text("No results").wait_for()
    panel.get_by_role("button", name="Clear the filters").click()
    panel.get_by_label("Modified until").fill("2001-01-01")
    panel.get_by_text("No results").wait_for()
    panel.get_by_label("Modified until").fill("")
    panel.get_by_label("Modified from").fill("2001-01-01")
    wait_for_hits(panel, "walrus one.txt", "walrus two.jpg", "walrus folder", "walrus three.md")

    row = panel.get_by_role("listitem").filter(has_text="walrus two.jpg")
    row.get_by_role("button", name="Show in its folder").click()
    page.wait_for_url(f"**/@{mount_name}/near/deep")
    page.locator("[data-row][aria-selected=true]", has_text="walrus two.jpg").wait_for()
    page.keyboard.press("F2")
    page.get_by_role("dialog", name="Rename").wait_for()
    page.keyboard.press("Escape")


def test_filter_without_words_finds_entries(page: Any, mount_name: str) -> None:
    sign_in(page, f"/@{mount_name}/near")
    panel = open_search(page)
    panel.get_by_text("Filters", exact=True).click()
    panel.get_by_label("Extensions").fill("jpg, md")
    wait_for_hits(panel, "walrus two.jpg")


def test_the_search_is_used_by_keyboard_alone(page: Any, mount_name: str) -> None:
    sign_in(page, f"/@{mount_name}")
    page.get_by_role("button", name="Search").focus()
    page.keyboard.press("Enter")
    panel = wait_for_panel(page)
    page.keyboard.type("walrus folder")
    wait_for_hits(panel, "walrus folder")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/walrus%20folder")
    assert panel.count() == 0
    page.get_by_role("button", name="Search").focus()
    page.keyboard.press("Enter")
    wait_for_panel(page)
    page.keyboard.press("Escape")
    panel.wait_for(state="detached")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Search"


@pytest.fixture(scope="module")
def herd(service: Service) -> str:
    """A storage with many files of one word, in the index."""
    folder = service.data.parent / "herd"
    folder.mkdir()
    for number in range(HIT_COUNT):
        (folder / f"seal {number:03}.txt").write_text("x")
    admin = service.client()
    addition = json.dumps({"root_folder_path": str(folder)})
    admin.ok("/api/admin/storage/create", mount_path="/herd", driver="Local", addition=addition)
    while admin.ok("/api/fs/search", parent="/herd", keywords="seal", page=1, per_page=1)["total"] < HIT_COUNT:
        time.sleep(0.1)
    return "/herd"


def test_hits_are_fetched_as_one_scrolls(page: Any, herd: str) -> None:
    sign_in(page, f"/@{herd}")
    panel = open_search(page)
    page.keyboard.type("seal")
    panel.get_by_text(f"{HIT_COUNT} entries found").wait_for()
    panel.get_by_role("link", name="seal 000.txt").wait_for()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    last = panel.get_by_role("listitem").filter(has_text=f"seal {HIT_COUNT - 1}.txt")
    last.wait_for()
    assert panel.get_by_role("listitem").count() < 60
    last.get_by_role("button").click()
    page.locator("[data-row][aria-selected=true]", has_text=f"seal {HIT_COUNT - 1}.txt").wait_for()


def test_the_password_of_a_folder_is_sent_with_the_search(page: Any, service: Service) -> None:
    width = page.viewport_size["width"]
    name = f"vault{width}"
    admin = service.client()
    admin.put(f"/files/{name}/narwhal {width}.txt", b"text")
    admin.ok("/api/admin/meta/create", path=f"/files/{name}", password="sesame", p_sub=True)
    admin.ok("/api/admin/user/create", username=name, password="a long password", base_path="/files", permission=0)
    page.goto(f"/@/{name}")
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill("a long password")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Folder password").fill("sesame")
    page.get_by_role("button", name="Open the folder").click()
    page.get_by_role("grid").wait_for()
    panel = open_search(page)
    page.keyboard.type("narwhal")
    wait_for_hits(panel, f"narwhal {width}.txt")


@pytest.fixture
def no_search(service: Service) -> Iterator[None]:
    """The search is switched off meanwhile."""
    admin = service.client()
    save(admin, "none")
    yield
    save(admin, "database")


def save(admin: Client, value: str) -> None:
    body = [{"key": "search_index", "value": value}]
    assert admin.envelope(admin.http.post("/api/admin/setting/save", json=body))["code"] == 200


@pytest.mark.usefixtures("no_search")
def test_there_is_no_search_where_the_service_has_none(page: Any) -> None:
    sign_in(page)
    assert page.get_by_role("button", name="Search").count() == 0


@pytest.mark.parametrize("page", ["wide"], indirect=True)
def test_details_tell_the_size_of_a_folder_from_the_index(page: Any, herd: str) -> None:
    sign_in(page, "/@/")
    select_row(page, herd.removeprefix("/"))
    page.get_by_role("button", name="Details", exact=True).click()
    pane = page.get_by_role("complementary", name="Details")
    pane.get_by_text(f"{HIT_COUNT} B in {HIT_COUNT} files").wait_for()


@pytest.mark.parametrize("page", ["wide"], indirect=True)
def test_details_name_the_user_who_changed_a_file_last(page: Any, service: Service, shots: Path) -> None:
    admin, name = service.client(), f"walter-{time.time_ns()}"
    admin.ok(
        "/api/admin/user/create", username=name, password="a password of some length", base_path="/",
        permission=0xFFFF, role=0,
    )  # fmt: skip
    user = service.client(name, "a password of some length")
    for client, path in ((admin, "first.txt"), (user, "second.txt")):
        assert client.put(f"/files/changers/{path}", b"content")["code"] == 200
    (service.data / "files/changers/third.txt").write_text("by another program")
    sign_in(page, "/@/files/changers")
    page.get_by_role("button", name="Details", exact=True).click()
    pane = page.get_by_role("complementary", name="Details")
    for row, username in (("first", "admin"), ("second", name)):
        page.get_by_role("row", name=row).click()
        pane.locator("dt:text-is('Changed by') + dd").get_by_text(username, exact=True).wait_for()
    page.screenshot(path=shots / "details-changer.png")
    with page.expect_response("**/api/fs/changer") as answer:
        page.get_by_role("row", name="third").click()
    assert answer.value.json()["data"] == {"username": ""}
    pane.get_by_role("heading", name="third.txt").wait_for()
    assert pane.get_by_text("Changed by").count() == 0
