"""The service stops and starts again while the page is open."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.page.steps import sign_in
from tests.support.service import Service, command

ENTRY_COUNT = 450


def start_again(service: Service) -> None:
    """Start a stopped service at its former address."""
    port = urlsplit(service.address).port
    with (service.data.parent / "again.log").open("a") as log:
        service.process = subprocess.Popen(
            command("serve", "--port", str(port), "--data", str(service.data)), stdout=log, stderr=log, text=True
        )


@pytest.mark.parametrize("page", ["wide"], indirect=True)
def test_list_stays_and_chosen_files_wait_for_the_service(
    page: Any, service: Service, errors: list[str], tmp_path: Path
) -> None:
    client = service.client()
    assert client.put("/files/outage/before.txt", b"before")["code"] == 200
    sign_in(page, "/@/files/outage")
    page.get_by_role("row", name="before.txt").wait_for()
    page.wait_for_timeout(4000)  # the page fetches the list of uploads a little later than the rest
    path = tmp_path / "during.txt"
    path.write_text("during")
    service.stop()
    try:
        page.get_by_role("button", name="Refresh").click()
        page.get_by_text("cannot be reached").first.wait_for()
        page.get_by_role("row", name="before.txt").wait_for()  # the list stays
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Upload", exact=True).click()
        chooser.value.set_files([str(path)])
        page.get_by_text("0 of 1 uploaded").wait_for()
    finally:
        start_again(service)
    page.get_by_text("1 of 1 uploaded").wait_for(timeout=45_000)
    page.get_by_role("row", name="during.txt").wait_for()
    assert service.client().bytes("/files/outage/during.txt").text == "during"
    errors.clear()  # the browser itself logs a request that fails


@pytest.mark.parametrize("page", ["wide"], indirect=True)
def test_the_way_back_leads_to_the_row_of_a_long_folder(page: Any, service: Service) -> None:
    client = service.client()
    for number in range(ENTRY_COUNT):
        assert client.put(f"/files/long/n{number}.txt", b"x")["code"] == 200
    sign_in(page, "/@/files/long")
    page.get_by_role("grid").focus()
    page.keyboard.press("End")
    page.get_by_role("row", name=f"n{ENTRY_COUNT - 1}.txt").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/n{ENTRY_COUNT - 1}.txt")
    page.keyboard.press("Escape")
    page.get_by_role("row", name=f"n{ENTRY_COUNT - 1}.txt").wait_for()
