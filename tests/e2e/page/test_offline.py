"""The page without its service: the shell that the browser stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.page.steps import sign_in
from tests.support.service import run_forked


def test_page_opens_without_the_service_and_stores_no_files(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    with run_forked(tmp_path / "data") as service:
        service.client().put("/files/secret.txt", b"secret")
        page.goto(service.address)
        sign_in(page, f"{service.address}/@/files")
        page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        page.reload()
        page.get_by_role("grid").wait_for()
        page.get_by_role("link", name="secret.txt").click()
        page.get_by_text("secret", exact=True).wait_for()
    page.reload()
    page.get_by_text("The service cannot be reached").first.wait_for()
    addresses = page.evaluate(
        "caches.keys().then(names => Promise.all(names.map(name => caches.open(name).then(cache => cache.keys()))))"
        ".then(lists => lists.flat().map(request => new URL(request.url).pathname))"
    )
    assert "/@/" in addresses
    assert all(address == "/@/" or address.startswith("/@assets/") for address in addresses)
    context.close()
