"""`python -m bench`: what people wait for, with one process and the default, beside the service that `--peer` names.

Every other word measures the real service and prints a table. Nothing is asserted; `!` marks a missed aim.

`python -m bench service`: more of the same: bounds of memory, a million entries, queues, a start.
`python -m bench drivers`: each driver on a real server, beside the library that it uses.
`python -m bench search`: the index of names, as it is built and asked.
`python -m bench page`: what a person sees, in Chromium.
`python -m bench doors`: the protocols beside HTTP.
`python -m bench records`: 100,000 users, 1,000,000 tasks, a flat folder of 1,000,000 files, 2,000 tasks at once.
`python -m bench renames`: a folder of 100,000 objects of a bucket that is renamed.
`python -m bench coldstart`: the CPU of each function's first request.
`python -m bench endurance`: memory and open files of each process over 1,000,000 requests.
`python -m bench economy`: what requests call of AWS in the cloud, and what that costs.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import table
from bench.environment import Environment

LINES = {  # the modules of measurements, in the order of the table
    "service": ("folders", "buckets", "names", "transfers", "tasks", "starts"),
    "search": ("search",),
    "page": ("page",),
    "doors": ("doors", "webdav"),
    "records": ("records", "executions"),
    "renames": ("renames",),
    "coldstart": ("coldstart",),
}


def main() -> int:
    """Print a table; 1 when something could not be measured."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure the real service")
    parser.add_argument(
        "what", nargs="?", default="comparison", choices=("comparison", *LINES, "drivers", "economy", "endurance")
    )
    parser.add_argument("--only", default="", help="only lines whose name contains this")
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement of requests per second")
    parser.add_argument("--size-mib", type=int, default=1024, help="size of the large file")
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="of tasks; users, and objects that are renamed, are a tenth of them"
    )
    parser.add_argument("--entries", default="10000,100000", help="of the folders that drivers list")
    parser.add_argument("--requests", type=int, default=1_000_000, help="of the endurance run, at least")
    parser.add_argument("--runs", type=int, default=5, help="of each row of the comparison")
    parser.add_argument("--peer", type=Path, default=os.environ.get("PEER") or None, help="another service's binary")
    chosen = parser.parse_args()
    if chosen.what == "comparison":
        return compare(chosen)
    if chosen.what == "endurance":
        return measure_endurance(chosen.requests)
    if chosen.what == "economy":
        return measure_economy()
    return measure_drivers(chosen) if chosen.what == "drivers" else measure_service(chosen)


def compare(chosen: argparse.Namespace) -> int:
    """Print the comparison."""
    from bench.comparison.report import Plan, print_comparison

    plan = Plan(chosen.only, chosen.runs, chosen.seconds, chosen.size_mib << 20, chosen.peer)
    with TemporaryDirectory(prefix="mangrove-bench-") as folder:
        return int(not print_comparison(Path(folder), plan))


def measure_drivers(chosen: argparse.Namespace) -> int:
    """Print the table of drivers and libraries."""
    from bench import drivers

    entries = [int(count) for count in chosen.entries.split(",")]
    with TemporaryDirectory(prefix="mangrove-bench-") as folder:
        Path(folder).chmod(0o755)  # a server may work as another user
        return int(not drivers.print_table(Path(folder), chosen.only, chosen.size_mib << 20, entries))


def measure_economy() -> int:
    """Print the table of calls and prices."""
    from bench import economy

    economy.print_table()
    return 0


def measure_endurance(requests: int) -> int:
    """Print what a service holds over so many requests."""
    from bench.endurance import print_endurance

    print_endurance(requests)
    return 0


def measure_service(chosen: argparse.Namespace) -> int:
    """Print a table of the service's lines."""
    for name in LINES[chosen.what]:
        import_module(f"bench.{name}")
    print(f"{table.describe_machine()}; large file {chosen.size_mib:,} MiB\n{table.format_head()}", flush=True)
    failed = False
    with TemporaryDirectory(prefix="mangrove-bench-") as folder, ExitStack() as stack:
        env = Environment(Path(folder), stack, chosen.seconds, chosen.size_mib << 20, chosen.rows)
        for one in table.works:
            if chosen.only.lower() not in one.name.lower():
                continue
            try:
                print(table.format_row(one, one.measure(env)), flush=True)
            except Exception:
                failed = True
                traceback.print_exc()
                print(table.format_line((one.name, "failed", one.aim, one.peer)), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
