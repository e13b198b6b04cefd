"""The output of commands: rows for people or JSON, and progress."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Protocol

LINE_INTERVAL_SECONDS = 10.0  # between two lines of progress where there is no terminal
SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class Status(IntEnum):
    """The exit status of a command."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    MISSING = 3
    DENIED = 4
    UNREACHABLE = 5
    PARTLY = 6
    INTERRUPTED = 130


class Bar(Protocol):
    """Progress of one piece of work."""

    total: float

    def update(self, count: float) -> object:
        """Add to the progress."""

    def refresh(self) -> object:
        """Show a changed total."""


class Lines:
    """Progress as lines on standard error, where there is no terminal."""

    def __init__(self, title: str, total: float, unit: str) -> None:
        self.total = total
        self._title, self._unit, self._count = title, unit, 0.0
        self._shown = time.monotonic()

    def update(self, count: float) -> None:
        self._count += count
        if time.monotonic() - self._shown >= LINE_INTERVAL_SECONDS:
            self._shown = time.monotonic()
            amount = format_size(int(self._count)) if self._unit == "B" else f"{self._count:.0f}{self._unit}"
            print(f"{self._title}: {amount}", file=sys.stderr, flush=True)

    def refresh(self) -> None:
        """Do nothing: the next line has the new total."""


class Silence:
    """Progress that is not shown."""

    total = 0.0

    def update(self, count: float) -> None:
        """Do nothing."""

    def refresh(self) -> None:
        """Do nothing."""


class Output:
    """The output of one command. With `is_json`, standard output gets one JSON document and nothing else."""

    def __init__(self, *, is_json: bool = False, is_quiet: bool = False) -> None:
        self.is_json = is_json
        self.is_quiet = is_quiet

    def print_document(self, document: Any) -> None:
        """Print a JSON document."""
        print(json.dumps(document, ensure_ascii=False, indent=2), flush=True)

    def print_rows(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Print rows: all fields as JSON, or the columns as a table."""
        table = list(rows)
        if self.is_json:
            self.print_document(table)
            return
        texts = [[clean(str(format_value(row.get(column)))) for column in columns] for row in table]
        widths = [max(map(len, texts_of_column)) for texts_of_column in zip(columns, *texts, strict=True)]
        for line in [[column.upper() for column in columns], *texts]:
            print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
        sys.stdout.flush()

    def print_result(self, text: str, **fields: Any) -> None:
        """Print a sentence, or the fields as JSON."""
        if self.is_json:
            self.print_document(fields)
        else:
            print(clean(text), flush=True)

    def warn(self, text: str) -> None:
        """Print a line on standard error."""
        print(f"mangrove: {clean(text)}", file=sys.stderr, flush=True)

    def report(self, text: str) -> None:
        """Print a line about finished work on standard error, where no progress bar shows it."""
        if not self.is_quiet and not sys.stderr.isatty():
            print(clean(text), file=sys.stderr, flush=True)

    @contextmanager
    def open_bar(self, title: str, total: float = 0, unit: str = "B") -> Iterator[Bar]:
        """Show progress: a bar at a terminal, otherwise lines. `unit` is B for bytes, or % of 100."""
        if self.is_quiet:
            yield Silence()
        elif not sys.stderr.isatty():
            yield Lines(title, total, unit)
        else:
            from tqdm import tqdm  # imported here, because most commands need none

            is_bytes = unit == "B"
            with tqdm(
                desc=clean(title), total=total or None, unit=unit, unit_scale=is_bytes, unit_divisor=1024, leave=False
            ) as bar:
                yield bar


def make_notify(bar: Bar) -> Callable[[float], None]:
    """Return a function that sets the progress of a bar."""
    shown = 0.0

    def notify(progress: float) -> None:
        nonlocal shown
        bar.update(progress - shown)
        shown = progress

    return notify


def clean(text: str) -> str:
    """Return a text without control characters, which names may have and a terminal would obey."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)


def format_size(size: int) -> str:
    """Return a number of bytes with a unit."""
    number, unit = float(size), SIZE_UNITS[0]
    for unit in SIZE_UNITS:
        if number < 1024 or unit == SIZE_UNITS[-1]:
            break
        number /= 1024
    return f"{size} B" if unit == "B" else f"{number:.1f} {unit}"


def format_value(value: Any) -> Any:
    """Return a value as a table shows it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, list) else value
