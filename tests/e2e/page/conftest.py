"""A service for each file of tests, and Debian's Chromium in front of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mangrove.standalone.docs import BUILT
from tests.e2e.page.steps import KEEP_MESSAGES
from tests.support.service import Client, Service, run_forked

CHROMIUM = shutil.which("chromium")
AXE = BUILT.parent / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = {"wide": (1280, 800), "phone": (390, 844)}


FOLDER = "tests/e2e/page/"
# in `make test`; all others are in `make crash`
DEFAULT_MODULES = (
    "test_journey",
    "test_changes",
    "test_downloads",
    "test_uploads",
    "test_hostile",
    "test_first_load",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    needs = {
        "Playwright for Python is not installed": find_spec("playwright"),
        "chromium is not installed": CHROMIUM,
        "the page is not built": (BUILT / "index.html").exists(),
    }
    reason = next((reason for reason, is_there in needs.items() if not is_there), None)
    for item in items:
        if item.nodeid.startswith(FOLDER):
            item.add_marker(pytest.mark.xdist_group(f"page {item.path.stem}"))
            if item.path.stem not in DEFAULT_MODULES or ("phone" in item.name and item.path.stem != DEFAULT_MODULES[0]):
                item.add_marker(pytest.mark.long)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_forked(tmp_path_factory.mktemp("page") / "data") as service:
        yield service


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """For one file: while Playwright's driver runs, so does an event loop, and other tests want their own."""
    from playwright.sync_api import sync_playwright  # only now: where it is not installed, the tests are skipped

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def errors() -> list[str]:
    """Errors that the page logged, refusals of its policy among them; none may be left at the end of a test."""
    return []


@pytest.fixture(params=VIEWS)
def page(request: pytest.FixtureRequest, browser: Any, service: Service, errors: list[str]) -> Iterator[Any]:
    """A page at two widths."""
    width, height = VIEWS[request.param]
    context = browser.new_context(
        base_url=service.address, viewport={"width": width, "height": height}, has_touch=request.param == "phone"
    )
    context.set_default_timeout(60_000)
    context.add_init_script(KEEP_MESSAGES)
    page = context.new_page()
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def shots(request: pytest.FixtureRequest) -> Path:
    """The folder for screenshots: `--basetemp` keeps them where one wants to look at them."""
    return Path(request.getfixturevalue("tmp_path_factory").getbasetemp())


@pytest.fixture
def client(service: Service) -> Client:
    return service.client()


@pytest.fixture
def folder(client: Client, request: pytest.FixtureRequest) -> str:
    """A new folder of a test, with three files and two folders."""
    path = f"/files/{request.node.name}"
    for name in ("alpha.txt", "beta.txt", "gamma.png", "inner/deep/one.txt", "other/two.txt"):
        assert client.put(f"{path}/{name}", name.encode())["code"] == 200
    return path
