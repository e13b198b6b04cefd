"""The audit, as an administrator reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import fill_sign_in, find_violations
from tests.e2e.page.test_people import PASSWORD, make_user
from tests.support.service import Service

LANGUAGES = {"en": "Audit", "zh": "审计"}


def test_administrator_reads_and_filters_the_audit(page: Any, service: Service, shots: Path) -> None:
    name = f"gus{page.viewport_size['width']}"
    client = make_user(service, name)
    client.post("/api/auth/login", username=name, password="not the password")
    client.ok("/api/me/update", username=name, password=PASSWORD)
    page.goto("/@manage/audit")
    fill_sign_in(page)
    rows = page.get_by_role("main").get_by_role("listitem")
    rows.filter(has_text="Changed own account").filter(has_text=name).first.wait_for()
    page.get_by_role("searchbox", name="User").fill(name)
    page.get_by_role("searchbox", name="User").press("Enter")
    refused = rows.filter(has_text="Sign-in refused")
    rows.filter(has_text="Created user").filter(has_text="admin").first.wait_for(state="detached")
    assert refused.count() == 1
    for language, heading in LANGUAGES.items():
        page.evaluate("language => localStorage.setItem('mangrove.language', language)", language)
        page.reload()
        page.get_by_role("heading", name=re.compile(heading)).wait_for()
        rows.first.wait_for()
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            assert find_violations(page, AXE) == []
            page.screenshot(path=shots / f"audit-{language}-{theme}-{page.viewport_size['width']}.png")
    page.evaluate("localStorage.removeItem('mangrove.language')")


def test_audit_without_a_match_leads_back_to_all_actions(page: Any, service: Service) -> None:
    page.goto("/@manage/audit")
    fill_sign_in(page)
    rows = page.get_by_role("main").get_by_role("listitem")
    rows.first.wait_for()
    page.get_by_label("To", exact=True).fill("2020-01-01")
    page.get_by_text("No action is recorded for this choice").wait_for()
    page.get_by_role("button", name="Show all actions").click()
    rows.first.wait_for()
    assert page.get_by_label("To", exact=True).input_value() == ""
