"""The frame around the views: the header, languages, titles, colours, the keyboard, failures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import fill_sign_in, find_violations, sign_in
from tests.support.service import ADMIN_PASSWORD, Client, Service

SECTIONS = ("storages", "users", "rules", "settings", "tools", "index", "backup")
ADDRESSES = [
    "/@/", "/@/files/frame", "/@/files/frame/letter.txt", "/@/files/frame/none", "/@profile", "/@nothing",
    *(f"/@manage/{section}" for section in SECTIONS), "/@manage/users/new", "/@manage/users/1", "/@manage/rules/new",
]  # fmt: skip

AT_REST = """() => {
    const last = Math.max(...performance.getEntriesByType('resource').map((one) => one.responseEnd))
    return performance.now() - last > 300 && !document.body.innerText.includes('Loading…')
}"""


@pytest.fixture(scope="module", autouse=True)
def folder(service: Service) -> str:
    """A folder with a file, a rule and a task to look at."""
    client = service.client()
    client.put("/files/frame/letter.txt", b"text")
    client.ok("/api/fs/mkdir", path="/files/frame/nested")
    return "/files/frame"


def save(service: Service, **values: str) -> None:
    """Change settings."""
    client = service.client()
    rows = {row["key"]: row for row in client.get("/api/admin/setting/list")["data"]}
    body = [{**rows[key], "value": value} for key, value in values.items()]
    assert Client.envelope(client.http.post("/api/admin/setting/save", json=body))["code"] == 200


def go(page: Any, address: str) -> None:
    """Show another address of the page without reloading it."""
    page.evaluate(
        "address => { history.pushState(null, '', address); dispatchEvent(new PopStateEvent('popstate')) }", address
    )
    page.locator("#content").wait_for()
    page.wait_for_function(AT_REST)


def test_every_address_and_panel_can_be_used_by_everybody(page: Any, shots: Path) -> None:
    width = page.viewport_size["width"]
    page.emulate_media(reduced_motion="reduce")
    sign_in(page)
    violations = []
    for address in ADDRESSES:
        go(page, address)
        name = address.replace("/", "_")
        page.screenshot(path=shots / f"view{name}-{width}.png", full_page=True)
        violations += [f"{address}: {violation}" for violation in find_violations(page, AXE)]
        violations += [f"{address}: {violation}" for violation in find_overflow(page)]
        page.evaluate("document.documentElement.dir = 'rtl'")
        violations += [f"{address} right to left: {violation}" for violation in find_overflow(page)]
        page.evaluate("document.documentElement.dir = 'ltr'")
    go(page, "/@/files/frame")
    for button in ("Search", "Tasks", re.compile("Account"), "New"):
        opener = page.get_by_role("button", name=button).first
        if not opener.count():
            continue
        opener.click()
        page.wait_for_function(AT_REST)
        page.screenshot(path=shots / f"panel-{button if isinstance(button, str) else 'Account'}-{width}.png")
        violations += [f"{button}: {violation}" for violation in find_violations(page, AXE) + find_overflow(page)]
        page.keyboard.press("Escape")
    assert violations == []


def find_overflow(page: Any) -> list[str]:
    """Return the elements that are wider than the page."""
    width = page.evaluate("document.documentElement.scrollWidth")
    return [] if width <= page.viewport_size["width"] else [f"{width} px wide"]


@pytest.mark.parametrize("page", ["wide"], indirect=True)
def test_any_main_colour_can_be_read(page: Any, shots: Path) -> None:
    sign_in(page, "/@/files/frame")
    page.get_by_role("grid").focus()
    page.keyboard.press("Control+a")
    violations = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for color in ("#ffee00", "#000000", "#ffffff", "#1890ff"):
            page.evaluate("color => document.documentElement.style.setProperty('--main-color', color)", color)
            page.screenshot(path=shots / f"colour-{color[1:]}-{scheme}.png")
            violations += [f"{color} {scheme}: {violation}" for violation in find_violations(page, AXE)]
    assert violations == []


def press_until(page: Any, key: str, name: str | re.Pattern[str], role: str = "button", most: int = 40) -> None:
    """Press a key until what has that name has the focus."""
    target = page.get_by_role(role, name=name)
    for _ in range(most):
        page.keyboard.press(key)
        if target.evaluate_all(
            "(found) => found.some((one) => one === document.activeElement || one.matches('[data-highlighted]'))"
        ):
            return
    raise AssertionError(f"{key} does not lead to {name}")


def test_the_keyboard_alone_does_the_main_journey(page: Any, service: Service) -> None:
    width = page.viewport_size["width"]
    keys = page.keyboard
    page.goto("/")
    page.get_by_label("User name").wait_for()
    keys.type("admin")
    keys.press("Tab")
    keys.type(ADMIN_PASSWORD)
    keys.press("Enter")
    page.get_by_role("row", name="files").wait_for()
    keys.press("Tab")
    page.get_by_role("link", name="Skip to the content").or_(page.get_by_role("grid")).first.wait_for()
    walk_to_list(page)
    keys.type("files")
    keys.press("Enter")
    page.wait_for_url("**/@/files")
    page.get_by_role("row", name="frame").first.wait_for()

    press_until(page, "Tab", re.compile("^New"))
    keys.press("Enter")
    page.get_by_role("menu").or_(page.get_by_role("dialog")).first.wait_for()
    if page.get_by_role("menu").count():
        press_until(page, "ArrowDown", re.compile("^New folder"), "menuitem")
        keys.press("Enter")
    page.get_by_role("dialog").wait_for()
    keys.type(f"by key {width}")
    keys.press("Enter")
    page.locator("[role=row][aria-selected=true]", has_text=f"by key {width}").wait_for()

    walk_to_list(page)
    keys.press("F2")
    page.get_by_role("dialog").wait_for()
    keys.press("Control+a")
    keys.type(f"renamed by key {width}")
    keys.press("Enter")
    page.locator("[role=row][aria-selected=true]", has_text=f"renamed by key {width}").wait_for()

    walk_to_list(page)
    keys.press("Home")
    keys.type(f"renamed by key {width}")
    page.locator("[role=row][aria-selected=true]", has_text=f"renamed by key {width}").wait_for()
    keys.press("Delete")
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    press_until(page, "Tab", re.compile("^(Delete|Remove)$"))
    keys.press("Enter")
    dialog.wait_for(state="detached")
    page.get_by_role("row", name=f"renamed by key {width}").wait_for(state="detached")
    assert f"renamed by key {width}" not in service.client().names("/files")

    press_until(page, "Shift+Tab", re.compile("Account"))
    keys.press("Enter")
    page.get_by_role("menuitem", name="Sign out").wait_for()
    press_until(page, "ArrowDown", "Sign out", "menuitem")
    keys.press("Enter")
    page.get_by_label("User name").wait_for()


def walk_to_list(page: Any) -> None:
    """Have the focus in the list of entries: it is there already, or Tab leads to it."""
    for _ in range(40):
        if page.evaluate("document.activeElement?.getAttribute('role')") == "grid":
            return
        page.keyboard.press("Tab")
    raise AssertionError("Tab does not lead to the list")


@pytest.mark.parametrize("page", ["wide"], indirect=True)
def test_the_way_to_the_content_is_short(page: Any) -> None:
    sign_in(page)
    page.evaluate("document.activeElement?.blur()")
    page.locator("header").evaluate("header => header.querySelector('a').focus()")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    assert page.url.endswith("/@/")


@pytest.mark.parametrize("page", ["wide"], indirect=True)
def test_the_menu_leads_everywhere_and_the_tab_says_where_one_is(page: Any, service: Service) -> None:
    name = f"nora{page.viewport_size['width']}"
    service.client().ok("/api/admin/user/create", username=name, password="seven green bottles", base_path="/files")
    sign_in(page, "/@/files/frame")
    assert page.title() == "frame – Mangrove"
    for item, title in (("Manage", "Manage – Mangrove"), ("Profile", "Profile – Mangrove"), ("Files", "Mangrove")):
        page.get_by_role("button", name="Account").click()
        page.get_by_role("menuitem", name=item).click()
        page.wait_for_function("title => document.title === title", arg=title)
    assert page.locator("link[rel=icon]").get_attribute("href") == "/favicon.ico"
    page.get_by_role("button", name="Account").click()
    page.get_by_role("menuitem", name="Sign out").click()
    fill_sign_in(page, name, "seven green bottles")
    page.get_by_role("grid").wait_for()
    page.get_by_role("button", name="Account").click()
    page.get_by_role("menuitem", name="Profile").wait_for()
    assert page.get_by_role("menuitem", name="Manage").count() == 0
    page.goto("/@manage")
    page.get_by_text("This page does not exist").wait_for()


@pytest.mark.parametrize("page", ["phone"], indirect=True)
def test_the_language_is_chosen_and_kept(page: Any) -> None:
    page.goto("/")
    page.get_by_role("button", name="中文").click()
    page.get_by_label("用户名").wait_for()
    assert page.evaluate("document.documentElement.lang") == "zh"
    page.get_by_label("用户名").fill("admin")
    page.get_by_label("密码").fill(ADMIN_PASSWORD)
    page.get_by_role("button", name="登录", exact=True).click()
    page.get_by_role("button", name="账户").click()
    page.get_by_role("menuitem", name="English").click()
    page.get_by_role("button", name="Account").wait_for()
    page.reload()
    page.get_by_role("button", name="Account").wait_for()


@pytest.mark.parametrize("page", ["phone"], indirect=True)
def test_a_session_that_ended_is_said_and_taken_up_where_it_was(page: Any, service: Service) -> None:
    name = f"olga{page.viewport_size['width']}"
    admin = service.client()
    admin.ok("/api/admin/user/create", username=name, password="seven green bottles", base_path="/files")
    page.goto("/@/frame")
    fill_sign_in(page, name, "seven green bottles")
    page.get_by_role("row", name="letter.txt").wait_for()
    user = next(row for row in admin.get("/api/admin/user/list")["data"]["content"] if row["username"] == name)
    admin.ok("/api/admin/user/update", **{**user, "password": "eight green bottles"})
    page.get_by_role("button", name="Refresh").first.click()
    page.get_by_text("You are signed out").wait_for()
    fill_sign_in(page, name, "eight green bottles")
    page.get_by_role("row", name="letter.txt").wait_for()
    assert page.url.endswith("/@/frame")


@pytest.fixture
def announcement(service: Service) -> Iterator[None]:
    """Announced meanwhile."""
    save(service, announcement="Closed on **Monday**, see [the list](/@/files/frame)")
    yield
    save(service, announcement="")


@pytest.mark.usefixtures("announcement")
def test_what_is_announced_is_read_once(page: Any, shots: Path) -> None:
    sign_in(page)
    page.get_by_role("complementary", name="Announcement").get_by_text("Closed on").wait_for()
    page.wait_for_load_state("networkidle")
    page.screenshot(path=shots / f"announcement-{page.viewport_size['width']}.png")
    assert find_violations(page, AXE) == []
    page.get_by_role("button", name="Close").click()
    page.reload()
    page.get_by_role("grid").wait_for()
    assert page.get_by_text("Closed on").count() == 0


OFFLINE: dict[str, Any] = {}
PROXY = {"status": 502, "content_type": "text/html", "body": "<h1>Bad gateway</h1>"}
OWN = {"code": 500, "message": "the disk is on fire", "data": None, "problem": "Problem"}
SERVICE = {"status": 200, "content_type": "application/json", "body": json.dumps(OWN)}
FAILURES = [
    ("/@/", "/api/public/settings", OFFLINE), ("/@/", "/api/public/settings", PROXY), ("/@/", "/api/me", OFFLINE),
    ("/@/", "/api/me", SERVICE), ("/@manage/users", "/api/admin/user/list", OFFLINE),
    ("/@manage/users/1", "/api/admin/user/get*", PROXY), ("/@manage/rules", "/api/admin/meta/list", SERVICE),
    ("/@profile", "/api/me/sshkey/list", SERVICE),
]  # fmt: skip


@pytest.mark.parametrize("page", ["phone"], indirect=True)
def test_what_cannot_be_had_is_a_sentence_and_is_tried_again(page: Any, errors: list[str], shots: Path) -> None:
    page.goto("/")
    page.get_by_label("Stay signed in").check()
    fill_sign_in(page)
    page.get_by_role("grid").wait_for()
    for path, call, answer in FAILURES:
        fail(page, call, answer)
        page.goto(path)
        alert = page.get_by_role("alert")
        alert.wait_for()
        page.screenshot(path=shots / f"failed{call.replace('/', '_').rstrip('*')}.png")
        text = alert.text_content()
        assert not re.search(r"[{}<>]|Error|undefined|null", text), text
        assert find_violations(page, AXE) == []
        page.unroute(f"**{call}")
        if answer is not OFFLINE:  # after an outage the page tries by itself
            page.get_by_role("button", name="Try again").click()
        alert.wait_for(state="detached")
        page.get_by_role("banner").wait_for()
        page.wait_for_load_state("networkidle")
    errors.clear()  # the browser itself logs a request that fails


def fail(page: Any, call: str, answer: dict[str, Any]) -> None:
    """Have a call answered so, or not at all."""
    page.route(f"**{call}", lambda route: route.fulfill(**answer) if answer else route.abort())


@pytest.mark.parametrize("page", ["phone"], indirect=True)
def test_a_part_of_the_page_that_cannot_be_fetched_is_tried_again(page: Any, errors: list[str]) -> None:
    sign_in(page)
    page.route("**/@assets/ProfileView*", lambda route: route.abort())
    page.get_by_role("button", name="Account").click()
    page.get_by_role("menuitem", name="Profile").click()
    page.get_by_text("cannot be reached").wait_for()
    page.unroute("**/@assets/ProfileView*")
    page.get_by_role("button", name="Try again").click()
    page.get_by_role("heading", name="Profile").wait_for()
    errors.clear()


@pytest.mark.parametrize("page", ["phone"], indirect=True)
def test_tool_bar_on_a_phone_has_every_button_in_view(page: Any) -> None:
    sign_in(page, "/@/files/frame")
    page.set_viewport_size({"width": 360, "height": 780})
    page.get_by_role("row", name="letter.txt").wait_for()
    check_tool_bar(page, 6)
    page.get_by_role("checkbox", name="Select letter.txt").click()
    page.get_by_role("button", name="1 selected").wait_for()
    check_tool_bar(page, 4)


def check_tool_bar(page: Any, count: int) -> None:
    """Check that the tool bar has so many buttons, and that all are inside the window."""
    buttons = page.locator(".toolbar").locator("button:visible")
    buttons.nth(count - 1).wait_for()
    boxes = [button.bounding_box() for button in buttons.all()]
    assert len(boxes) == count
    assert all(box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 360 for box in boxes)
