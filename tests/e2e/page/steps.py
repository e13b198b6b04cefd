"""Steps that journeys through the page share."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.service import ADMIN_PASSWORD, Client

WAIT_SECONDS = 120.0
HAS_SHOWN = "text => window.shownMessages.some(message => message.includes(text))"
MAX_TYPING_ATTEMPTS = 10
TYPING_MILLISECONDS = 3000
# Keeps the text of each short message of the page: it goes by itself after four seconds.
KEEP_MESSAGES = """
window.shownMessages = []
new MutationObserver(() => {
  for (const message of document.querySelectorAll('.toasts .toast')) {
    if (!window.shownMessages.includes(message.textContent)) window.shownMessages.push(message.textContent)
  }
}).observe(document, { subtree: true, childList: true, characterData: true })
"""


def sign_in(page: Any, path: str = "/", password: str = ADMIN_PASSWORD) -> None:
    """Open an address of the page as the administrator."""
    page.goto(path)
    fill_sign_in(page, password=password)
    page.get_by_role("grid").wait_for()


def fill_sign_in(page: Any, username: str = "admin", password: str = ADMIN_PASSWORD) -> None:
    """Sign in on the form that is shown."""
    page.get_by_label("User name").fill(username)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def select_row(page: Any, name: str) -> None:
    """Go to an entry by typing its name, again when there was a pause between two letters: it begins another word."""
    from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

    for _ in range(MAX_TYPING_ATTEMPTS):
        page.get_by_role("grid").focus()
        page.keyboard.type(name)
        try:
            page.locator("[role=row][aria-selected=true]", has_text=name).wait_for(timeout=TYPING_MILLISECONDS)
            return
        except PlaywrightTimeoutError:
            continue  # which was longer than that pause
    raise AssertionError(f"{name} was not selected")


def wait_until(holds: Callable[[], bool], page: Any) -> None:
    """Wait while the page goes on and its events arrive."""
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < end
        page.wait_for_timeout(50)


def wait_for_message(page: Any, text: str) -> None:
    """Wait until the page has shown a short message with this text. It may be gone by now."""
    wait_until(lambda: bool(page.evaluate(HAS_SHOWN, text)), page)


def open_folder(page: Any, folder: str) -> None:
    """Sign in and open a folder that has `alpha.txt`."""
    sign_in(page, f"/@{folder}")
    page.get_by_role("row", name="alpha.txt").wait_for()


def select_several(page: Any, *names: str) -> None:
    """Select entries by their boxes."""
    for name in names:
        page.get_by_role("checkbox", name=f"Select {name}").click()
    page.get_by_text(f"{len(names)} selected").wait_for()


def choose(page: Any, item: str) -> None:
    """Start an action on the selection, from the menu that keys open."""
    page.get_by_role("grid").focus()
    page.keyboard.press("Shift+F10")
    page.get_by_role("menuitem", name=item, exact=True).click()
    page.get_by_role("dialog").wait_for()


def wait_for_names(client: Client, folder: str, names: list[str], seconds: float = WAIT_SECONDS) -> None:
    """Wait until a task has put these names into a folder."""
    end = time.monotonic() + seconds
    while client.post("/api/fs/list", path=folder)["code"] != 200 or client.names(folder) != names:
        assert time.monotonic() < end, names
        time.sleep(0.1)


def find_violations(page: Any, axe: Path) -> list[str]:
    """Return the violations that axe-core reports for the page as it is shown now."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe.read_text())  # not a script element: the policy of the page would refuse one
    result = page.evaluate("axe.run()")
    return [
        f"{violation['id']}: {node['html'][:200]}" for violation in result["violations"] for node in violation["nodes"]
    ]
