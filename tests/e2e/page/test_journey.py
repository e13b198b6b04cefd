"""The main way through the page, by keyboard alone: the pattern for the other journeys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import find_violations, select_row, sign_in, wait_for_message, wait_until
from tests.support.service import Service


@pytest.fixture
def folder(service: Service, request: pytest.FixtureRequest) -> str:
    """A new folder with three files and a folder."""
    path = f"/files/{request.node.name}"
    client = service.client()
    for name in ("alpha.txt", "beta.txt", "gamma 10.png"):
        assert client.put(f"{path}/{name}", name.encode())["code"] == 200
    client.ok("/api/fs/mkdir", path=f"{path}/nested")
    return path


def test_sign_in_open_select_rename_and_remove(page: Any, service: Service, folder: str, shots: Path) -> None:
    width = page.viewport_size["width"]
    page.goto("/")
    page.get_by_role("button", name="Sign in").wait_for()
    assert find_violations(page, AXE) == []
    page.screenshot(path=shots / f"sign-in-{width}.png")

    sign_in(page)
    select_row(page, "files")
    page.keyboard.press("Enter")
    page.wait_for_url("**/@/files")
    select_row(page, folder.rpartition("/")[2])
    page.keyboard.press("Enter")
    page.get_by_role("row", name="alpha.txt").wait_for()

    page.get_by_role("grid").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    wait_until(lambda: page.locator("[role=row][aria-selected=true]").count() == 4, page)
    page.screenshot(path=shots / f"selected-{width}.png")
    assert find_violations(page, AXE) == []

    select_row(page, "beta")
    page.keyboard.press("F2")
    page.get_by_role("dialog").wait_for()
    page.screenshot(path=shots / f"rename-{width}.png")
    assert find_violations(page, AXE) == []
    page.keyboard.type("delta")
    page.keyboard.press("Enter")
    page.locator("[role=row][aria-selected=true]", has_text="delta.txt").wait_for()

    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name="Delete").wait_for()
    page.screenshot(path=shots / f"menu-{width}.png")
    assert find_violations(page, AXE) == []
    page.keyboard.press("Escape")
    page.keyboard.press("Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    wait_for_message(page, "Deleted")
    assert service.client().names(folder) == ["alpha.txt", "gamma 10.png", "nested"]
