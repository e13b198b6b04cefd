"""The order of a folder, and the keyboard after it was changed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.page.steps import sign_in
from tests.e2e.page.test_uploads import WIDE
from tests.support.service import Service

NAMES = ("scan 10.txt", "Scan 2.txt", "scan 1.txt")
NATURAL = ("scan 1.txt", "Scan 2.txt", "scan 10.txt")
RING_VIEWS = ("/@/files", "/@profile", "/@manage/storages/new", "/@manage/settings", "/@trash", "/@links")

# Focuses each control of the view, and returns those of which an edge cuts off the focus ring on a side.
FIND_CLIPPED = """() => {
  const clipped = []
  const controls = 'a[href], button, input, select, textarea, summary, [tabindex="0"]'
  for (const control of document.querySelectorAll(controls)) {
    if (!control.checkVisibility() || control.disabled) continue
    control.focus({ focusVisible: true })
    const style = getComputedStyle(control)
    if (document.activeElement !== control || style.outlineStyle === 'none') continue
    control.scrollIntoView({ block: 'center', inline: 'center' })
    const reach = parseFloat(style.outlineWidth) + parseFloat(style.outlineOffset)
    const box = control.getBoundingClientRect()
    const edges = [document.documentElement.getBoundingClientRect()]
    for (let outer = control.parentElement; outer; outer = outer.parentElement) {
      if (getComputedStyle(outer).overflowX !== 'visible') edges.push(outer.getBoundingClientRect())
    }
    if (edges.some((edge) => box.left - reach < edge.left - 1 || box.right + reach > edge.right + 1))
      clipped.push(control.outerHTML.slice(0, 160))
  }
  return clipped
}"""


@pytest.fixture
def folder(service: Service, request: pytest.FixtureRequest) -> str:
    path = f"/files/{request.node.name.partition('[')[0]}"
    for name in NAMES:
        assert service.client().put(f"{path}/{name}", name.encode())["code"] == 200
    return path


def list_names(page: Any) -> tuple[str, ...]:
    return tuple(name.strip() for name in page.get_by_role("grid").get_by_role("link").all_inner_texts())


@WIDE
def test_many_are_numbered_in_natural_order(page: Any, service: Service, folder: str) -> None:
    sign_in(page, f"/@{folder}")
    page.get_by_role("row", name=NAMES[0]).wait_for()
    assert list_names(page) == NATURAL
    page.get_by_role("button", name="Folder actions").press("Enter")
    page.get_by_role("menuitem", name="Rename several").press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Method").select_option("Number them")
    dialog.get_by_label("Name", exact=True).fill("page #")
    dialog.get_by_text("3 of 3 names change").wait_for()
    dialog.get_by_role("button", name="Rename").click()
    page.get_by_text("Renamed: 3").wait_for()
    client = service.client()
    contents = [client.bytes(f"{folder}/page {number}.txt").text for number in (1, 2, 3)]
    assert tuple(contents) == NATURAL


@WIDE
def test_list_has_the_keyboard_after_a_click_on_a_column(page: Any, folder: str) -> None:
    sign_in(page, f"/@{folder}")
    page.get_by_role("columnheader", name="Name").get_by_role("button").click()
    page.locator("[role=columnheader][aria-sort=descending]").wait_for()
    page.wait_for_function("() => document.activeElement?.getAttribute('role') === 'grid'")
    page.keyboard.press("ArrowDown")
    page.locator("[role=row][aria-selected=true]", has_text=NATURAL[-1]).wait_for()
    page.keyboard.press("ArrowDown")
    page.locator("[role=row][aria-selected=true]", has_text=NATURAL[-2]).wait_for()
    header = page.get_by_role("columnheader", name="Size").get_by_role("button")
    header.press("Enter")  # a key leaves the focus where it is
    page.locator("[role=columnheader][aria-sort=ascending]", has_text="Size").wait_for()
    assert header.evaluate("button => button === document.activeElement")


def test_no_focus_ring_is_clipped_at_an_edge(page: Any, folder: str) -> None:
    sign_in(page, f"/@{folder}")
    page.get_by_role("row", name=NAMES[0]).wait_for()
    clipped = {folder: page.evaluate(FIND_CLIPPED)}
    for address in RING_VIEWS:
        page.goto(address)
        page.locator("#content h1, #content form, [role=grid]").first.wait_for()
        clipped[address] = page.evaluate(FIND_CLIPPED)
    assert {view: rows for view, rows in clipped.items() if rows} == {}
    page.locator("main button").first.evaluate("button => { button.style.outlineOffset = '100vw' }")
    assert len(page.evaluate(FIND_CLIPPED)) == 1  # one that reaches beyond the edge is found
