"""Access of visitors, and the administrator's additions to the page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyotp
import pytest

from tests.e2e.page.conftest import VIEWS
from tests.e2e.page.steps import fill_sign_in
from tests.support.service import ADMIN_PASSWORD, Client, Service

PASSWORD = "a long password"


@pytest.fixture
def guest(service: Service) -> Iterator[None]:
    """The guest is let in meanwhile."""
    admin = service.client()
    user = next(row for row in admin.get("/api/admin/user/list")["data"]["content"] if row["role"] == 1)
    admin.ok("/api/admin/user/update", **{**user, "disabled": False})
    yield
    admin.ok("/api/admin/user/update", **{**user, "disabled": True})


@pytest.mark.usefixtures("guest")
def test_a_guest_looks_around_and_may_sign_in(page: Any) -> None:
    page.goto("/")
    page.locator("#content").get_by_role("link", name="files").wait_for()
    assert page.get_by_role("button", name="New folder").count() == 0
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Continue as guest").click()
    page.locator("#content").get_by_role("link", name="files").click()
    page.get_by_role("button", name="Sign in").click()
    fill_sign_in(page)
    page.wait_for_url("**/@/files")
    page.get_by_role("button", name="Account").wait_for()


def test_a_wrong_password_is_said_and_a_second_factor_asked_for(page: Any, service: Service) -> None:
    name = f"factor{page.viewport_size['width']}"
    service.client().ok("/api/admin/user/create", username=name, password=PASSWORD, base_path="/", permission=0)
    token = Client(service.address).ok("/api/auth/login", username=name, password=PASSWORD)["token"]
    user = Client(service.address, token)
    secret = user.ok("/api/auth/2fa/generate")["secret"]
    user.ok("/api/auth/2fa/verify", secret=secret, code=make_code(secret))

    page.goto("/@/files")
    fill_sign_in(page, name, "wrong")
    page.get_by_text("is wrong").wait_for()
    fill_sign_in(page, name, PASSWORD)
    page.get_by_label("Two-factor code").fill("000000")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("wrong or has expired").wait_for()
    page.get_by_label("Two-factor code").fill(make_code(secret, 1))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("grid").wait_for()
    assert page.url.endswith("/@/files")


def make_code(secret: str, later: int = 0) -> str:
    """The code of now, or that of so many steps later: one code signs in once."""
    return pyotp.TOTP(secret).at(int(time.time()) + 30 * later)


@pytest.fixture
def custom(service: Service) -> Iterator[None]:
    """A script and a style of the administrator's own are in the page meanwhile."""
    admin = service.client()
    body = '<p id="own" style="color: red">own</p><script>document.body.dataset.own = "ran"</script>'
    save(admin, site_title="Our files", main_color="#7b1fa2", announcement="Closed on Monday", customize_body=body)
    yield
    save(admin, site_title="Mangrove", main_color="#1890ff", announcement="", customize_body="")


def save(admin: Client, **values: str) -> None:
    body = [{"key": key, "value": value} for key, value in values.items()]
    assert admin.envelope(admin.http.post("/api/admin/setting/save", json=body))["code"] == 200


@pytest.mark.usefixtures("custom")
def test_title_colour_announcement_and_own_content_have_their_effect(page: Any, service: Service) -> None:
    page.goto("/")
    fill_sign_in(page)
    page.get_by_text("Closed on Monday").wait_for()
    assert page.title() == "Our files"
    assert page.evaluate("document.body.dataset.own") == "ran"
    assert page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--main-color')") == "#7b1fa2"
    page.get_by_role("button", name="Close").click()
    page.goto("/@manage")
    assert page.evaluate("document.body.dataset.own") is None


def test_the_page_speaks_the_language_of_the_browser_and_stands_both_ways(
    browser: Any, service: Service, shots: Path, errors: list[str]
) -> None:
    admin = service.client()
    for name in (
        "<img src=x onerror=alert(1)>.txt",
        "evil\u202egnp.exe",
        "x" * 200 + ".txt",
        "\u05e9\u05dc\u05d5\u05dd.txt",
    ):
        assert admin.put(f"/files/names/{name}", b"x" * 2000)["code"] == 200
    for width, height in VIEWS.values():
        context = browser.new_context(
            base_url=service.address, viewport={"width": width, "height": height}, locale="zh-CN"
        )
        page = context.new_page()
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto("/@/files/names")
        page.get_by_label("用户名").fill("admin")
        page.get_by_label("密码").fill(ADMIN_PASSWORD)
        page.get_by_role("button", name="登录", exact=True).click()
        page.get_by_role("row").nth(3).wait_for()
        page.evaluate("document.documentElement.dir = 'rtl'")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.locator("[role=row] img").count() == 0
        page.screenshot(path=shots / f"right-to-left-{width}.png")
        context.close()
    assert errors == []
