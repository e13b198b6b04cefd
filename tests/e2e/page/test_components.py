"""The components of the page in every state, as `npm run dev` shows them at /@components."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangrove.standalone.docs import BUILT
from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import find_violations

FOLDER = BUILT.parent
THEMES = ("light", "dark")


START_SECONDS = 120.0


def _wait_for_port(port: int) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < end, "the development server did not start"
            time.sleep(0.1)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a development server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [
        str(FOLDER / "node_modules" / ".bin" / "vite"),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--strictPort",
    ]
    with subprocess.Popen(command, cwd=FOLDER, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        _wait_for_port(port)
        yield f"http://127.0.0.1:{port}"
        server.terminate()


@pytest.mark.parametrize("theme", THEMES)
def test_components_are_shown_without_violations(browser: Any, address: str, shots: Path, theme: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 2600}, color_scheme=theme)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{address}/@components", timeout=120_000)
    page.get_by_role("heading", name="Empty views").wait_for(timeout=120_000)
    page.get_by_role("button", name="Show messages").click()
    page.get_by_text("The storage does not answer.").wait_for()
    assert find_violations(page, AXE) == []
    for density in ("comfortable", "compact"):
        page.get_by_role("button", name=density).click()
        assert page.locator("html").get_attribute("data-density") == density
        page.screenshot(path=shots / f"components-{theme}-{density}.png")
    page.get_by_role("button", name="Open a dialog").click()
    page.get_by_role("dialog").wait_for()
    assert find_violations(page, AXE) == []
    context.close()
    assert errors == []
