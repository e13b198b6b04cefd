"""The pane with details of an entry."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import find_violations, select_row, sign_in
from tests.e2e.page.test_uploads import WIDE
from tests.support.service import Service


@WIDE
def test_details_compute_a_checksum_of_the_file(page: Any, service: Service, shots: Path) -> None:
    client, content = service.client(), bytes(range(256)) * 20_000
    for name, body in (("film.bin", content), ("empty.bin", b"")):
        assert client.put(f"/files/sums/{name}", body)["code"] == 200
    sign_in(page, "/@/files/sums")
    select_row(page, "film")
    page.get_by_role("button", name="Details", exact=True).click()
    pane = page.get_by_role("complementary", name="Details")
    pane.get_by_role("button", name="Compute SHA-256").click()
    pane.get_by_text(hashlib.sha256(content).hexdigest(), exact=True).wait_for()
    assert pane.get_by_role("button", name="Compute SHA-256").count() == 0
    page.screenshot(path=shots / "details-sum.png")
    assert find_violations(page, AXE) == []
    select_row(page, "empty")
    pane.get_by_role("heading", name="empty.bin").wait_for()
    pane.get_by_role("button", name="Compute SHA-256").click()
    pane.get_by_text(hashlib.sha256().hexdigest(), exact=True).wait_for()
