"""The page in front of the functions of the cloud: a ZIP file that does not fit into an answer is made by a task."""

from __future__ import annotations

import os
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.scenarios import Person
from tests.e2e.page.steps import select_row, sign_in
from tests.servers.ftp import make_certificate
from tests.support import lambdas
from tests.support.cloud_gateway import serve_cloud

PAGE = Path(__file__).resolve().parents[3] / "page" / "dist"
FILE_BYTES = 4_000_000  # two do not fit into an answer
NAMES = ("one.bin", "two.bin")


@pytest.fixture(scope="module")
def cloud() -> Iterator[lambdas.Cloud]:
    with lambdas.deploy(page=PAGE) as cloud:
        assert cloud.run_setup()["Status"] == "SUCCESS"
        yield cloud


@pytest.fixture(scope="module")
def admin(cloud: lambdas.Cloud) -> Person:
    """The administrator, with a folder of NAMES."""
    admin = Person(cloud).sign_in("admin", lambdas.ADMIN_PASSWORD)
    for name in NAMES:
        assert admin.puts(f"/files/large/{name}", os.urandom(FILE_BYTES)) == 200
    return admin


def note(errors: list[str], message: Any) -> None:
    """Note an error in the console, except Chromium's line for an answer that the archive is not ready yet."""
    if message.type == "error" and "404 (Not Found)" not in message.text:
        errors.append(message.text)


@pytest.fixture
def visitor(browser: Any, cloud: lambdas.Cloud, errors: list[str], tmp_path: Path) -> Iterator[Any]:
    """A page of someone without an account, in front of the functions."""
    with serve_cloud(cloud, make_certificate(tmp_path)) as address:
        context = browser.new_context(
            base_url=address,
            viewport={"width": 1280, "height": 800},
            ignore_https_errors=True,
            service_workers="block",  # Chromium fetches their script without that exception
        )
        context.set_default_timeout(60_000)
        page = context.new_page()
        page.on("console", lambda message: note(errors, message))
        yield page
        context.close()
    assert errors == []


def fetch(page: Any, cloud: lambdas.Cloud, button: Any) -> list[str]:
    """Press a button that downloads a ZIP file, and run the executions that it starts. Return the names in the file."""
    ended = threading.Event()

    def run_machines() -> None:
        while not ended.wait(0.2):
            cloud.run_executions()

    machines = threading.Thread(target=run_machines)
    machines.start()
    try:
        with page.expect_download() as waiting:
            button.click()
        path = waiting.value.path()
    finally:
        ended.set()
        machines.join()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return archive.namelist()


def test_visitor_of_a_share_waits_for_the_task(visitor: Any, cloud: lambdas.Cloud, admin: Person) -> None:
    id = admin.gets("shares/create", files=["/files/large"])["id"]
    visitor.goto(f"/@s/{id}")
    visitor.get_by_role("link", name="one.bin").wait_for()
    names = fetch(visitor, cloud, visitor.get_by_role("link", name="Download all"))
    assert {Path(name).name for name in names} >= set(NAMES)


def test_user_waits_for_the_task(visitor: Any, cloud: lambdas.Cloud, admin: Person) -> None:
    sign_in(visitor, "/@/files", lambdas.ADMIN_PASSWORD)
    select_row(visitor, "large")
    visitor.keyboard.press("Shift+F10")
    visitor.get_by_role("menuitem", name="Download").click()
    names = fetch(visitor, cloud, visitor.get_by_role("dialog").get_by_role("button", name="Download"))
    assert {Path(name).name for name in names} >= set(NAMES)
