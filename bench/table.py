"""What is measured, and how it is shown: one line per work, aims missed are marked, nothing is asserted."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.environment import Environment


class Figure(NamedTuple):
    """What was measured, and beside it what helps to judge it, in the last column."""

    value: float
    beside: str = ""


Measure = Callable[[Environment], float | Figure]
HEADS = ("work", "measured", "aim", "peer")
WIDTHS = (48, 16, 16, 10)
MISSED = "!"


@dataclass(frozen=True, slots=True)
class Work:
    """One line. `least` and `most` are the aim, in `unit`; None where there is none."""

    name: str
    unit: str
    measure: Measure
    least: float | None
    most: float | None
    peer: str

    @property
    def aim(self) -> str:
        if self.least is not None:
            return f">= {self.least:,.10g} {self.unit}"
        return "" if self.most is None else f"<= {self.most:,.10g} {self.unit}"

    def is_reached(self, value: float) -> bool:
        """Whether a measured value is as good as the aim."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


works: list[Work] = []


def work(
    name: str, unit: str, least: float | None = None, most: float | None = None, peer: str = ""
) -> Callable[[Measure], Measure]:
    """Put a measurement into the table; it answers a number of `unit`."""

    def keep(measure: Measure) -> Measure:
        works.append(Work(name, unit, measure, least, most, peer))
        return measure

    return keep


def format_line(cells: tuple[str, str, str, str]) -> str:
    """One aligned line."""
    name, measured, aim, peer = WIDTHS
    return f"{cells[0]:<{name}} | {cells[1]:>{measured}} | {cells[2]:>{aim}} | {cells[3]:>{peer}}".rstrip()


def format_head() -> str:
    """The first two lines."""
    return f"{format_line(HEADS)}\n{'-+-'.join('-' * width for width in WIDTHS)}"


def format_row(one: Work, measured: float | Figure) -> str:
    """A measured line."""
    value, beside = measured if isinstance(measured, Figure) else (measured, one.peer)
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    mark = "" if one.is_reached(value) else f"{MISSED} "
    return format_line((one.name, f"{mark}{value:,.{digits}f} {one.unit}", one.aim, beside))


def describe_machine() -> str:
    """What this was measured on."""
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((fact.partition(":")[2].strip() for fact in facts if fact.startswith("model name")), "unknown CPU")
    load = os.getloadavg()[0]
    python = f"Python {platform.python_version()}"
    return f"{model}, {os.cpu_count()} cores, {python}, kernel {platform.release()}, load before {load:.1f}"
