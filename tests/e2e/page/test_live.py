"""Changes by others, and the overview, on the page without a reload."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import find_violations, sign_in
from tests.support.service import Service


def test_change_by_another_client_appears(page: Any, service: Service) -> None:
    admin = service.client()
    admin.ok("/api/fs/mkdir", path="/files/live")
    sign_in(page, "/files/live")
    admin.put("/files/live/first.txt", b"x")
    page.get_by_role("grid").get_by_text("first.txt").wait_for(timeout=5000)
    admin.ok("/api/fs/remove", dir="/files/live", names=["first.txt"])
    page.get_by_role("grid").get_by_text("first.txt").wait_for(state="detached", timeout=5000)


def test_folder_in_view_does_not_poll_tasks(page: Any, service: Service) -> None:
    sign_in(page, "/files")
    page.wait_for_timeout(1500)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.wait_for_timeout(5000)
    assert [url for url in requests if "/api/task/" in url] == []


def test_overview_shows_the_state_of_the_service(page: Any, service: Service, shots: Path) -> None:
    admin = service.client()
    addition = '{"root_folder_path": "/none/at/all"}'
    admin.post("/api/admin/storage/create", mount_path="/gone", driver="Local", addition=addition)
    sign_in(page, "/files")
    page.goto("/@manage/overview")
    page.get_by_role("heading", name="Overview").wait_for()
    page.get_by_text("One storage does not work").wait_for()
    page.get_by_text("Data disk", exact=True).wait_for()
    assert find_violations(page, AXE) == []
    page.screenshot(path=str(shots / f"overview-{page.viewport_size['width']}.png"), full_page=True)
    rows = admin.get("/api/admin/storage/list")["data"]["content"]
    admin.ok(
        "/api/admin/storage/delete", params={"id": next(row["id"] for row in rows if row["mount_path"] == "/gone")}
    )
