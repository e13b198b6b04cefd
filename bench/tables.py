"""Measurements in turn, and their tables as Markdown.

Tables are printed row by row, and stored in `docs/reference/performance.md` with date and machine.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "performance.md"


@dataclass(frozen=True, slots=True)
class Aim:
    """A measured value and the bound that it is compared with."""

    name: str
    unit: str
    least: float | None = None
    most: float | None = None
    absolute: bool = True  # False: the bound is for the ratio to the value of a peer

    def mark(self, value: float) -> str:
        """Return what stands before a value: `! ` if it misses the aim."""
        is_low = self.least is not None and value < self.least
        return "! " if is_low or (self.most is not None and value > self.most) else ""

    def __str__(self) -> str:
        bounds = {">=": self.least, "<=": self.most}
        unit = self.unit if self.absolute else ""
        return "".join(f"{sign} {bound:,g} {unit}".rstrip() for sign, bound in bounds.items() if bound is not None)


def measure_seconds(work: Callable[[], object], repeats: int = 1) -> float:
    """Return the median of the seconds that `work` takes."""

    def measure() -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    return statistics.median(measure() for _ in range(repeats))


def wait_until(is_done: Callable[[], object], seconds: float, what: str) -> None:
    """Wait for a condition. The interval grows with the time that it takes. Raise RuntimeError after `seconds`."""
    began = time.monotonic()
    while not is_done():
        waited = time.monotonic() - began
        if waited > seconds:
            raise RuntimeError(f"{what}: not done after {waited:.0f} s")
        time.sleep(0.01 + 0.02 * waited)


def describe_machine() -> str:
    """Return processor, cores, Python, kernel and load in one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown CPU")
    load = os.getloadavg()[0]
    python = f"Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {python}, kernel {platform.release()}, load before {load:.1f}"


def format_value(value: float) -> str:
    """Return a measured value with about three digits."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 3}f}"


def format_values(values: list[float], unit: str) -> str:
    """Return the median of values, and their range."""
    if not values:
        return "failed"
    lowest, median, highest = map(format_value, (min(values), statistics.median(values), max(values)))
    return f"{median} {unit}".rstrip() + (f" ({lowest}-{highest})" if len(values) > 1 else "")


class Table:
    """A table that is printed while it grows."""

    def __init__(self, title: str, note: str, *columns: str) -> None:
        self.title = title
        self.is_whole = True  # False: a row could not be measured
        self._lines = [f"{datetime.now(UTC):%Y-%m-%d}. {note}.", ""]
        print(f"\n## {title}\n\n{self._lines[0]}\n")
        self.add(*columns)
        self.add(*("---" for _ in columns))

    def add(self, *cells: str) -> None:
        """Print a row and keep it."""
        self._lines.append(f"| {' | '.join(cells)} |")
        print(self._lines[-1], flush=True)

    def record(self) -> None:
        """Replace the section of this title in the reference, or append it."""
        section = "\n".join((f"## {self.title}", "", *self._lines, ""))
        text = PAGE.read_text()
        pattern = rf"^## {re.escape(self.title)}\n.*?(?=^## |\Z)"
        section_match = re.search(pattern, text, re.DOTALL | re.MULTILINE)
        start, end = section_match.span() if section_match else (len(text), len(text))
        parts = (text[:start].rstrip("\n"), section.rstrip("\n"), text[end:].strip("\n"))
        PAGE.write_text("\n\n".join(part for part in parts if part) + "\n")
