"""Open sessions: listed and ended by their user, and by an administrator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import fill_sign_in, find_violations
from tests.e2e.page.test_people import PASSWORD, find_user, make_user
from tests.support.service import Service

LANGUAGES = {"en": "Sessions", "zh": "会话"}


def find_violations_in_every_look(page: Any, shots: Path, name: str) -> list[str]:
    """Return the violations of the page as it is, in two themes and two languages. Take a screenshot of each."""
    violations = []
    for language, heading in LANGUAGES.items():
        page.evaluate("language => localStorage.setItem('mangrove.language', language)", language)
        page.reload()
        page.get_by_role("heading", name=heading, exact=True).scroll_into_view_if_needed()
        page.get_by_role("heading", name=heading, exact=True).locator("..").locator("li").first.wait_for()
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            violations += find_violations(page, AXE)
            page.screenshot(path=shots / f"{name}-{language}-{theme}-{page.viewport_size['width']}.png")
    page.evaluate("localStorage.removeItem('mangrove.language')")
    page.reload()
    return violations


def test_user_ends_a_session_of_another_device(page: Any, service: Service, shots: Path) -> None:
    name = f"eve{page.viewport_size['width']}"
    other = make_user(service, name)
    page.goto("/@profile")
    fill_sign_in(page, name, PASSWORD)
    section = page.get_by_role("region", name="Sessions")
    section.get_by_text("Chrome on Linux").wait_for()
    assert section.get_by_text("This session").count() == 1
    assert section.get_by_text("127.").count() == 2
    assert find_violations_in_every_look(page, shots, "sessions") == []
    section.get_by_role("button", name="End the session of").click()
    page.get_by_role("dialog").get_by_role("button", name="End", exact=True).click()
    page.get_by_text("Session ended").wait_for()
    section.get_by_role("listitem").nth(1).wait_for(state="detached")
    assert section.get_by_role("listitem").count() == 1
    assert other.get("/api/me")["code"] == 401


def test_administrator_ends_the_sessions_of_a_user(page: Any, service: Service, shots: Path) -> None:
    name = f"finn{page.viewport_size['width']}"
    others = [make_user(service, name), service.client(name, PASSWORD)]
    user = find_user(service, name)
    assert user is not None
    page.goto(f"/@manage/users/{user['id']}")
    fill_sign_in(page)
    page.get_by_role("heading", name="Sessions").wait_for()
    rows = page.get_by_role("listitem").filter(has_text="127.")
    rows.first.wait_for()
    assert rows.count() == 2
    assert find_violations_in_every_look(page, shots, "sessions-of-user") == []
    rows.first.get_by_role("button").click()
    page.get_by_role("dialog").get_by_role("button", name="End", exact=True).click()
    page.get_by_text("Session ended").wait_for()
    assert sorted(other.get("/api/me")["code"] for other in others) == [200, 401]
    page.get_by_role("button", name="End all sessions").click()
    page.get_by_role("dialog").get_by_role("button", name="End all sessions").click()
    page.get_by_text("There are no open sessions").wait_for()
    assert [other.get("/api/me")["code"] for other in others] == [401, 401]
