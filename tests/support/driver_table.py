"""The table at the end of a run: driver × server × passed, failed, skipped, from the marker `driver(name, server)`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

PROPERTY = "driver"  # of a report; it reaches the process that prints, also from a worker
Row = tuple[str, str]  # driver, server
MAX_REASONS = 2


def note_row(item: pytest.Item) -> None:
    """Let every report of a test say which row of the table it belongs to."""
    for mark in item.iter_markers("driver"):
        name, server = mark.args
        item.user_properties.append((PROPERTY, [name, server]))


def _list_rows(report: Any) -> Iterator[Row]:
    for name, value in getattr(report, "user_properties", ()):
        if name == PROPERTY:
            yield value[0], value[1]


def _get_reason(report: Any) -> str:
    """Why a test was skipped; "" for what the driver itself does not claim."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    reason = str(text).removeprefix("Skipped: ")
    return reason if report.when == "setup" else ""


class _Counts:
    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.seconds = 0.0
        self.reasons: Counter[str] = Counter()

    def add(self, outcome: str, report: Any) -> None:
        self.outcomes[outcome] += 1
        self.seconds += report.duration
        if outcome == "skipped":
            self.reasons[_get_reason(report)] += 1

    def explain(self) -> str:
        """The reasons for which whole tests were not begun, such as a server that is not installed."""
        reasons = [reason for reason, _ in self.reasons.most_common() if reason]
        return "; ".join(reasons[:MAX_REASONS])


def _count(stats: Mapping[str, Iterable[Any]]) -> Mapping[Row, _Counts]:
    counts: dict[Row, _Counts] = {}
    for outcome, key in (("passed", "passed"), ("failed", "failed"), ("failed", "error"), ("skipped", "skipped")):
        for report in stats.get(key, ()):
            for row in _list_rows(report):
                counts.setdefault(row, _Counts()).add(outcome, report)
    return counts


def make_lines(stats: Mapping[str, Iterable[Any]]) -> Sequence[str]:
    """The table of what a run reported; empty when no test belongs to it. `seconds`: in the tests themselves."""
    counts = _count(stats)
    if not counts:
        return []
    lines = [f"{'driver':<12} {'server':<16} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}"]
    for (name, server), count in sorted(counts.items()):
        numbers = count.outcomes
        lines.append(
            f"{name:<12} {server:<16} {numbers['passed']:>7} {numbers['failed']:>7} {numbers['skipped']:>8} "
            f"{count.seconds:>8.1f}  {count.explain()}".rstrip()
        )
    return lines
