"""The bytes that a browser without a cache transfers until the first list is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.page.conftest import VIEWS
from tests.support.service import ADMIN_PASSWORD, Service
from tests.support.waiting import wait_until

MAX_TRANSFERRED_BYTES = {"en": 105_000, "zh": 110_000}
MAX_REQUESTS = 30


class Transfers:
    """The requests of a tab, with the bytes that each one transferred."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._addresses: dict[str, str] = {}
        self._sizes: dict[str, int] = {}
        session = page.context.new_cdp_session(page)
        session.on("Network.requestWillBeSent", self._note_request)
        session.on("Network.loadingFinished", self._note_end)
        session.on("Network.loadingFailed", lambda event: self._sizes.setdefault(event["requestId"], 0))
        session.send("Network.enable")

    def _note_request(self, event: dict[str, Any]) -> None:
        address = event["request"]["url"]
        if address.startswith("http"):
            self._addresses[event["requestId"]] = address

    def _note_end(self, event: dict[str, Any]) -> None:
        self._sizes[event["requestId"]] = int(event["encodedDataLength"])

    def have_ended(self) -> bool:
        """Return True if every request has ended, except the stream of events, which has no end."""
        self._page.evaluate("true")  # while it waits for an answer, Playwright delivers events
        return all(key in self._sizes or "/api/events" in address for key, address in self._addresses.items())

    def list_largest(self) -> list[tuple[int, str]]:
        """Return the bytes and the address of each request, the largest one first."""
        return sorted(((self._sizes.get(key, 0), address) for key, address in self._addresses.items()), reverse=True)


@pytest.fixture
def new_visitor(browser: Any, service: Service, language: str) -> Iterator[Any]:
    """A page in a browser that was never here. Without a service worker, whose requests the tab does not see."""
    width, height = VIEWS["wide"]
    context = browser.new_context(
        base_url=service.address,
        locale=language,
        service_workers="block",
        viewport={"width": width, "height": height},
    )
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("language", MAX_TRANSFERRED_BYTES)
def test_first_list_transfers_little(new_visitor: Any, service: Service, language: str) -> None:
    admin = service.client()
    for number in range(30):
        admin.put(f"/files/file{number}.txt", b"text")
    transfers = Transfers(new_visitor)

    new_visitor.goto("/@/files")
    new_visitor.locator("[autocomplete=username]").fill("admin")
    new_visitor.locator("[autocomplete=current-password]").fill(ADMIN_PASSWORD)
    new_visitor.keyboard.press("Enter")
    new_visitor.get_by_role("grid").get_by_text("file1.txt", exact=True).wait_for()
    new_visitor.evaluate("new Promise(requestIdleCallback)")
    wait_until(transfers.have_ended)

    largest = transfers.list_largest()
    assert sum(size for size, _ in largest) <= MAX_TRANSFERRED_BYTES[language], largest
    assert len(largest) <= MAX_REQUESTS, largest
