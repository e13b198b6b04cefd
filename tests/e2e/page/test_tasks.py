"""Background work of the service: one panel for all kinds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import fill_sign_in, find_violations, sign_in
from tests.e2e.page.test_uploads import PASSWORD, WIDE, choose, make_files, show_list
from tests.support.service import Client, Service


@pytest.fixture
def other(service: Service, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A second storage: what is copied there takes a task."""
    admin, path = service.client(), f"/{request.node.name}"
    addition = f'{{"root_folder_path": "{tmp_path}"}}'
    id = admin.ok("/api/admin/storage/create", mount_path=path, driver="Local", addition=addition)["id"]
    yield path
    admin.ok("/api/admin/storage/delete", params={"id": id})


def set_workers(admin: Client, kind: str, count: int) -> None:
    """Set the number of concurrent tasks of a kind; with 0 they wait."""
    settings = admin.get("/api/admin/setting/list")["data"]
    setting = next(row for row in settings if row["key"] == f"{kind}_task_threads_num")
    answer = admin.envelope(admin.http.post("/api/admin/setting/save", json=[setting | {"value": str(count)}]))
    assert answer["code"] == 200, answer


@pytest.fixture
def waiting(service: Service) -> Iterator[Client]:
    """Copies and uploads wait; an administrator who can let them run."""
    admin = service.client()
    for kind in ("copy", "upload"):
        set_workers(admin, kind, 0)
    yield admin
    for kind in ("copy", "upload"):
        set_workers(admin, kind, 5)


def open_panel(page: Any) -> Any:
    page.get_by_role("button", name="Tasks").first.click()
    panel = page.get_by_role("dialog", name="Tasks")
    panel.wait_for()
    return panel


def test_tasks_are_followed_cancelled_retried_and_cleared(
    page: Any, waiting: Client, other: str, tmp_path: Path, shots: Path
) -> None:
    width = page.viewport_size["width"]
    names = [f"letter {number} {width}.txt" for number in range(3)]
    for name in names:
        waiting.put(f"/files/{name}", b"text")
    (tmp_path / names[1]).mkdir()  # a copy of this one fails
    waiting.ok("/api/fs/copy", src_dir="/files", dst_dir=other, names=names, overwrite=True)
    sign_in(page, f"/@{other}")
    panel = open_panel(page)
    panel.get_by_text("Running (3)").wait_for()
    item = panel.get_by_role("listitem")
    item.filter(has_text=names[0]).get_by_role("button", name="Show details").click()
    item.filter(has_text=names[0]).get_by_text(f"/files/{names[0]}", exact=True).wait_for()
    page.screenshot(path=shots / f"tasks-waiting-{width}.png")
    assert find_violations(page, AXE) == []

    item.filter(has_text=names[2]).get_by_role("button", name="Cancel").click()
    set_workers(waiting, "copy", 5)
    panel.get_by_text("Finished (3)").wait_for()
    item.filter(has_text=names[0]).get_by_text("Done").first.wait_for()
    item.filter(has_text=names[1]).get_by_text("Failed").first.wait_for()
    item.filter(has_text=names[2]).get_by_text("Cancelled").wait_for()
    page.screenshot(path=shots / f"tasks-{width}.png")
    assert find_violations(page, AXE) == []

    (tmp_path / names[1]).rmdir()
    item.filter(has_text=names[1]).get_by_role("button", name="Try again").click()
    item.filter(has_text=names[1]).get_by_text("Done").wait_for()
    panel.get_by_label("Kind").select_option("Move")
    panel.get_by_text("There are no tasks").wait_for()
    panel.get_by_label("Kind").select_option("All kinds")
    item.filter(has_text=names[2]).get_by_role("button", name="Remove").click()
    panel.get_by_text("Finished (2)").wait_for()
    panel.get_by_role("button", name="Clear succeeded").click()
    panel.get_by_text("There are no tasks").wait_for()
    page.keyboard.press("Escape")
    panel.wait_for(state="hidden")
    page.get_by_role("row", name=names[0]).wait_for()  # the folder in view was listed again
    page.get_by_role("row", name=names[1]).wait_for()


@WIDE
def test_an_upload_is_finished_in_the_background(page: Any, waiting: Client, other: str, tmp_path: Path) -> None:
    sign_in(page, f"/@{other}")
    files = make_files(tmp_path / "given", "first.txt", "second.txt")
    choose(page, "Upload files", files[0])
    page.get_by_text("1 of 1 uploaded").wait_for()
    show_list(page)
    page.get_by_label("Finish in the background").check()
    choose(page, "Upload files", files[1])
    page.get_by_text("Received; storing").wait_for()
    page.get_by_role("button", name="1 running").wait_for()
    assert "second.txt" not in waiting.names(other)
    page.get_by_text("1 of 2 uploaded").wait_for()
    set_workers(waiting, "upload", 5)
    page.get_by_role("row", name="second.txt").wait_for()
    page.get_by_text("2 of 2 uploaded").wait_for()


@WIDE
def test_a_user_sees_own_tasks_and_an_administrator_all(
    page: Any, service: Service, waiting: Client, other: str
) -> None:
    waiting.ok("/api/admin/user/create", username="copier", password=PASSWORD, base_path="/", permission=64)
    for client, name in ((waiting, "admin's.txt"), (service.client("copier", PASSWORD), "copier's.txt")):
        waiting.put(f"/files/{name}", b"text")
        client.ok("/api/fs/copy", src_dir="/files", dst_dir=other, names=[name])
    page.goto("/")
    fill_sign_in(page, "copier", PASSWORD)
    page.get_by_role("grid").wait_for()
    panel = open_panel(page)
    panel.get_by_text("Running (1)").wait_for()
    panel.get_by_role("listitem").filter(has_text="copier's.txt").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Account").click()
    page.get_by_role("menuitem", name="Sign out").click()
    fill_sign_in(page)
    page.get_by_role("grid").wait_for()
    panel = open_panel(page)
    panel.get_by_label("Kind").select_option("Copy")
    panel.get_by_text("Running (2)").wait_for()
    panel.get_by_role("button", name="Cancel all").click()
    panel.get_by_text("Finished (2)").wait_for()
    panel.get_by_role("button", name="Clear finished").click()
    panel.get_by_text("There are no tasks").wait_for()
