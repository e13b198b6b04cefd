"""The page in Chromium: Lighthouse, the sign-in page on a slow line, the first list, a folder of 100,000 entries."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.tables import Aim, Table, describe_machine, format_value, format_values
from bench.workspace import FIRST_FILE, fill
from tests.e2e.page.conftest import CHROMIUM, VIEWS
from tests.e2e.page.steps import fill_sign_in
from tests.servers import free_port
from tests.support.service import Service, run_service

LIGHTHOUSE = Path(__file__).parent / "lighthouse" / "node_modules" / "lighthouse" / "cli" / "index.js"
LIGHTHOUSE_SECONDS = 180
LARGE_FOLDER, LAST_NAME = 100_000, "file 099999.txt"
SMALL_FOLDER, SMALL_FILES = "small", 30
SLOW_LINE = {  # slow 4G, as the developer tools of Chromium apply it
    "offline": False,
    "latency": 562.5,  # ms
    "downloadThroughput": 1.6e6 * 0.9 / 8,
    "uploadThroughput": 750e3 * 0.9 / 8,
}
CPU_FACTOR = 4
GO_TO_END = """async name => {
  const grid = document.querySelector('[role=grid]')
  const began = performance.now()
  grid.dispatchEvent(new KeyboardEvent('keydown', { key: 'End', bubbles: true }))
  while (!grid.textContent.includes(name)) await new Promise(requestAnimationFrame)
  return (performance.now() - began) / 1000
}"""
CATEGORIES = {"performance": 95, "accessibility": 100, "best-practices": 100}
Values = Iterator[tuple[Aim, float]]


@dataclass(frozen=True, slots=True)
class Visitor:
    """A Chromium with an empty profile, and the service that it visits."""

    page: Any
    tools: Any  # a session of the protocol of the developer tools
    port: int  # of the same protocol
    service: Service

    def sign_in(self, folder: str) -> None:
        """Sign in at an address of the page, and stay signed in."""
        self.page.get_by_label("Stay signed in").check()
        fill_sign_in(self.page)
        self.page.get_by_role("grid", name=folder).wait_for()


@contextmanager
def visit(service: Service, profile: Path) -> Iterator[Visitor]:
    """Open Chromium with a new profile."""
    from playwright.sync_api import sync_playwright

    port = free_port()
    width, height = VIEWS["wide"]
    with sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            profile,
            executable_path=CHROMIUM,
            args=["--no-sandbox", f"--remote-debugging-port={port}"],
            base_url=service.address,
            locale="en",
            viewport={"width": width, "height": height},
        )
        context.set_default_timeout(60_000)
        page = context.pages[0]
        yield Visitor(page, context.new_cdp_session(page), port, service)
        context.close()


def _measure_slow_line(visitor: Visitor) -> Values:
    """Time the first visit, until the form is there."""
    tools = visitor.tools
    tools.send("Network.enable")
    tools.send("Network.emulateNetworkConditions", SLOW_LINE)
    tools.send("Emulation.setCPUThrottlingRate", {"rate": CPU_FACTOR})
    began = perf_counter()
    visitor.page.goto("/@login", wait_until="commit")
    visitor.page.locator("[autocomplete=username]").wait_for()
    yield Aim("sign-in page on slow 4G with 4 x CPU", "s", most=2.5), perf_counter() - began


def _measure_transfer(visitor: Visitor) -> Values:
    """Add what a first visit transfers, from the address of a folder over the sign-in page to its list."""
    sizes: list[int] = []
    visitor.tools.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
    visitor.tools.send("Network.enable")
    visitor.tools.send("Network.setBypassServiceWorker", {"bypass": True})
    visitor.page.goto(f"/@/files/{SMALL_FOLDER}")
    visitor.sign_in(f"/files/{SMALL_FOLDER}")
    visitor.page.get_by_text(FIRST_FILE, exact=True).wait_for()
    visitor.page.evaluate("new Promise(requestIdleCallback)")
    yield Aim("sign-in page and first list, transferred", "kB", most=110), sum(sizes) / 1000


def _measure_large_folder(visitor: Visitor) -> Values:
    """Open a folder that the service has not listed yet by a click in the list of the folder above."""
    page = visitor.page
    fill(visitor.service.data / "files" / "large", LARGE_FOLDER)
    page.goto("/@/files")
    visitor.sign_in("/files")
    link = page.get_by_role("grid").get_by_text("large", exact=True)
    link.wait_for()
    page.evaluate("new Promise(requestIdleCallback)")
    began = perf_counter()
    link.click()
    page.get_by_text(FIRST_FILE, exact=True).wait_for()
    yield Aim(f"first rows of {LARGE_FOLDER:,} entries, cold", "s", most=1.0), perf_counter() - began
    yield Aim(f"end of {LARGE_FOLDER:,} entries", "s", most=0.06), page.evaluate(GO_TO_END, LAST_NAME)
    visitor.tools.send("HeapProfiler.collectGarbage")
    heap = visitor.tools.send("Runtime.getHeapUsage")["usedSize"] / 1e6
    yield Aim(f"heap with {LARGE_FOLDER:,} entries", "MB", most=12), heap


def _measure_lighthouse(visitor: Visitor) -> Values:
    """Ask Lighthouse about the sign-in page, and about a list: as a phone of the middle class on slow 4G."""
    if not LIGHTHOUSE.exists():
        print("lighthouse is missing: npm ci --prefix bench/lighthouse", file=sys.stderr, flush=True)
        return
    yield from _ask_lighthouse(visitor, "sign-in page", "/@login")
    visitor.page.goto(f"/@login?next=/files/{SMALL_FOLDER}")
    visitor.sign_in(f"/files/{SMALL_FOLDER}")
    visitor.page.goto("about:blank")
    yield from _ask_lighthouse(visitor, "first list", f"/@/files/{SMALL_FOLDER}")


def _ask_lighthouse(visitor: Visitor, name: str, path: str) -> Values:
    command = [
        *("node", str(LIGHTHOUSE), visitor.service.address + path, f"--port={visitor.port}", "--quiet"),
        *("--output=json", "--disable-storage-reset", f"--only-categories={','.join(CATEGORIES)}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIGHTHOUSE_SECONDS, check=True)
    report = json.loads(done.stdout)
    assert report["finalDisplayedUrl"] == visitor.service.address + path, "Lighthouse saw another page"
    for audit in report["audits"].values():
        if audit["scoreDisplayMode"] == "binary" and audit["score"] == 0:
            print(f"{name}: {audit['id']}: {audit['title']}", file=sys.stderr, flush=True)
    for category, least in CATEGORIES.items():
        yield Aim(f"Lighthouse, {name}: {category}", "", least=least), report["categories"][category]["score"] * 100


MEASUREMENTS: Sequence[Callable[[Visitor], Values]] = (
    _measure_slow_line, _measure_transfer, _measure_large_folder, _measure_lighthouse,
)  # fmt: skip


def print_tables(folder: Path, options: Namespace) -> Iterator[Table]:
    """Print the medians of the measurements whose names contain `only`, each with a service of its own."""
    measured = defaultdict[Aim, list[float]](list)
    chosen = [measure for measure in MEASUREMENTS if options.only in measure.__name__]
    note = f"{describe_machine()}; {options.runs} runs, each with a new service and an empty profile of Chromium"
    table = Table("The page", note, "", "median", "aim")
    for number, measure in product(range(options.runs), chosen):
        place = folder / f"{number}{measure.__name__}"
        place.mkdir()
        with run_service(place / "data") as service, visit(service, place / "profile") as visitor:
            fill(service.data / "files" / SMALL_FOLDER, SMALL_FILES)
            for aim, value in measure(visitor):
                measured[aim].append(value)
                print(aim.name, format_value(value), aim.unit, file=sys.stderr, flush=True)
    for aim, values in measured.items():
        table.add(aim.name, aim.mark(statistics.median(values)) + format_values(values, aim.unit), str(aim))
    table.is_whole = bool(measured)
    yield table
