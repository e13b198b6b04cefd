"""The comparison, printed: for each row the median of all runs and between what they lay; `!` marks a missed aim."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

from bench.comparison.rows import Place, Row, rows
from bench.comparison.scaling import print_scaling
from bench.comparison.subjects import Launch, Subject, launch_ours, launch_peer
from bench.load import describe_client
from bench.table import MISSED, describe_machine

ROWS = (
    "idle",
    "folders",
    "requests",
    "files",
    "copies",
    "after",
)  # in this order: memory is of a start, and of the end
ONE, DEFAULT, PEER = "--processes 1", "default", "peer"
WIDTHS = (42, 28, 20)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for; `peer`: another service's binary. `size` is in bytes, `seconds` is of one measurement."""

    only: str
    runs: int
    seconds: int
    size: int
    peer: Path | None


def print_comparison(folder: Path, plan: Plan) -> bool:
    """Print all rows, then requests per second against processes; whether all could be measured."""
    for name in ROWS:
        import_module(f"bench.comparison.{name}")
    chosen = [one for one in sorted(rows, key=_get_place) if plan.only.lower() in one.name.lower()]
    print(f"{describe_machine()}; {describe_client()}; large file {plan.size >> 20:,} MiB; {plan.runs} runs in turn")
    with ExitStack() as stack:
        place = Place(folder, stack, plan.size, plan.seconds)
        subjects = _make_subjects(folder, plan.peer)
        for subject in subjects:
            stack.callback(subject.stop)
            subject.start()
            print(f"{subject.name}: {subject.count_processes()} process(es) that answer")
        names = [subject.name for subject in subjects]
        print(_format(["", *names, *(f"{name} : {PEER}" for name in names if name != PEER), "aim"], len(names)))
        is_whole = all([_print_row(place, subjects, one, plan.runs) for one in chosen])
        for subject in subjects:
            subject.stop()
        if "processes" in plan.only or not plan.only:
            print_scaling(place, _make_peer(folder / "scaling", plan.peer), plan.runs)
    return is_whole


def _get_place(one: Row) -> int:
    return ROWS.index(one.measure.__module__.rpartition(".")[2])


def _make_peer(folder: Path, binary: Path | None) -> Launch | None:
    if binary is None:
        return None
    folder.mkdir(parents=True)
    return partial(launch_peer, binary, folder / "data")


def _make_subjects(folder: Path, peer: Path | None) -> list[Subject]:
    subjects = []
    for name, count in ((ONE, 1), (DEFAULT, None)):
        (home := folder / f"ours {count}").mkdir()
        subjects.append(Subject(name, home, partial(launch_ours, home / "data", count)))
    if launch := _make_peer(folder / PEER, peer):
        subjects.append(Subject(PEER, folder / PEER, launch))
    return subjects


def _print_row(place: Place, subjects: Sequence[Subject], one: Row, runs: int) -> bool:
    """Whether everybody could be measured, in turn."""
    values: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    beside: list[float] = []
    is_whole = True
    for _ in range(runs):
        for subject in subjects:
            try:
                values[subject.name].append(one.measure(place, subject))
            except (
                Exception
            ) as error:  # whatever one row meets, the others are measured: the table is said to be partial
                is_whole = False
                print(f"{subject.name}: {one.name}: {error!r}", file=sys.stderr, flush=True)
        if one.beside is not None:
            beside.append(one.beside(place))
    judged = [_judge(one, values[name], values.get(PEER, [])) for name in values if name != PEER]
    cells = [_format_values(found, one.unit) for found in values.values()]
    print(_format([one.name, *cells, *judged, one.aim_text], len(values)), flush=True)
    if beside:
        print(_format([f"  {one.beside_name}", _format_values(beside, one.unit)], len(values)), flush=True)
    return is_whole


def _judge(one: Row, ours: Sequence[float], peer: Sequence[float]) -> str:
    judged = one.judge(ours, peer) if ours else None
    if judged is None:
        return ""
    return ("" if one.is_reached(judged) else f"{MISSED} ") + f"{judged:,.3g}"


def _format_values(found: Sequence[float], unit: str) -> str:
    if not found:
        return "failed"
    lowest, median, highest = (f"{_round(value)}" for value in (min(found), statistics.median(found), max(found)))
    return f"{median} {unit}" + (f" ({lowest}-{highest})" if len(found) > 1 else "")


def _round(value: float) -> str:
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 3}f}"


def _format(cells: Sequence[str], subjects: int) -> str:
    head, wide, narrow = WIDTHS
    widths = [wide] * subjects + [narrow] * (len(cells) - 1 - subjects)
    return " | ".join(
        [f"{cells[0]:<{head}}", *(f"{cell:>{width}}" for cell, width in zip(cells[1:], widths, strict=False))]
    )
