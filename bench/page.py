"""The page in Chromium: how soon a person sees a folder, and how smoothly a long one scrolls."""

from __future__ import annotations

import shutil
import time
from functools import cached_property
from itertools import pairwise
from typing import Any

from bench.environment import Environment
from bench.table import work
from mangrove.standalone.page import BUILT
from tests.service import ADMIN_PASSWORD

ENTRIES, MANY = 1000, 100_000
LOOKS = 3  # at the first view, each with an empty cache
STEP, FRAMES = 120, 400  # px of scrolling in a frame, and frames
SCROLL = """([step, frames]) => new Promise((resolve) => {
    const list = document.querySelector('[role=grid]')
    const times = []
    const go = (now) => {
        times.push(now)
        list.scrollTop += step
        if (times.length > frames) resolve(times)
        else requestAnimationFrame(go)
    }
    requestAnimationFrame(go)
})"""


class Browser:
    """Chromium, as long as the measurements take."""

    def __init__(self, place: Environment) -> None:
        self.place = place

    @cached_property
    def chromium(self) -> Any:
        from playwright.sync_api import sync_playwright  # of the tests: the bench is not needed without it

        path = shutil.which("chromium")
        if not path or not (BUILT / "index.html").exists():
            raise RuntimeError("chromium is not installed, or the page is not built")
        driver = self.place.stack.enter_context(sync_playwright())
        found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        self.place.stack.callback(found.close)
        return found

    def open(self, path: str) -> Any:
        """A page with an empty cache, at the sign-in form for a folder."""
        context = self.chromium.new_context(base_url=self.place.service.address)
        page = context.new_page()
        page.goto(f"/@{path}")
        page.get_by_label("User name").fill("admin")
        page.get_by_label("Password").fill(ADMIN_PASSWORD)
        return page


_browsers: dict[int, Browser] = {}


def _browser(place: Environment) -> Browser:
    return _browsers.setdefault(id(place), Browser(place))


@work("page: sign-in pressed -> 1,000 entries shown", "s", most=1.0)
def first_view(place: Environment) -> float:
    """Seconds from the click until the last entry in view is laid out; the median of LOOKS."""
    path = place.local(ENTRIES)
    taken = []
    for _ in range(LOOKS):
        page = _browser(place).open(path)
        began = time.perf_counter()
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("file 000010.txt").first.wait_for()
        taken.append(time.perf_counter() - began)
        page.context.close()
    return sorted(taken)[LOOKS // 2]


@work("page: address -> sign-in form shown", "s", most=1.0)
def form(place: Environment) -> float:
    """Seconds from the address to the form; the median of LOOKS."""
    taken = []
    for _ in range(LOOKS):
        context = _browser(place).chromium.new_context(base_url=place.service.address)
        page = context.new_page()
        began = time.perf_counter()
        page.goto("/")
        page.get_by_role("button", name="Sign in").wait_for()
        taken.append(time.perf_counter() - began)
        context.close()
    return sorted(taken)[LOOKS // 2]


@work("page: first view, transferred", "kB", most=150.0)
def transferred(place: Environment) -> float:
    """What is fetched up to the entries, without the answers of the API."""
    page = _browser(place).open(place.local(ENTRIES))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("file 000010.txt").first.wait_for()
    sizes: list[float] = page.evaluate(
        """() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
            .filter((one) => !new URL(one.name).pathname.startsWith('/api/')).map((one) => one.transferSize)"""
    )
    page.context.close()
    return sum(sizes) / 1000


@work("page: scrolling 100,000 entries", "frames/s", least=50.0)
def scrolling(place: Environment) -> float:
    """Frames in a second while a folder is scrolled, its pages fetched as they come into view."""
    times = _scroll(place)
    frames = sorted(after - before for before, after in pairwise(times))
    place.kept["slow frame"] = frames[len(frames) * 95 // 100]
    return (len(times) - 1) / (times[-1] - times[0]) * 1000


@work("page: scrolling 100,000 entries, 95 % of frames", "ms", most=33.0)
def slow_frames(place: Environment) -> float:
    """How long a frame takes at most in 95 of 100."""
    if "slow frame" not in place.kept:
        scrolling(place)
    return place.kept["slow frame"]


def _scroll(place: Environment) -> list[float]:
    page = _browser(place).open(place.local(MANY))
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("file 000010.txt").first.wait_for(timeout=60_000)
    times: list[float] = page.evaluate(SCROLL, [STEP, FRAMES])
    page.context.close()
    return times
