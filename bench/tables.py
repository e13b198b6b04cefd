"""Tables as Markdown: printed row by row, and stored in `docs/reference/performance.md` with date and machine."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "performance.md"


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


class Table:
    """A table that is printed while it grows."""

    def __init__(self, title: str, note: str, *columns: str) -> None:
        self.title = title
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
