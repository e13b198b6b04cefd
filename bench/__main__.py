"""`python -m bench`: measure the real service and print a table. `!` marks a missed aim; nothing is asserted.

`python -m bench`: everyday work with one process and the default number, beside the service that `--peer` names.
`python -m bench service`: large folders, small files, a start, ZIP files.
`python -m bench coldstart`: the CPU of each function's first request.
`python -m bench economy`: the calls that requests make of AWS, and their price.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from tempfile import TemporaryDirectory


def main() -> int:
    """Print a table; return 1 if a row could not be measured."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure the real service")
    parser.add_argument(
        "table", nargs="?", default="comparison", choices=("comparison", "service", "coldstart", "economy")
    )
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--seconds", type=int, default=3, help="duration of each measurement of requests per second")
    parser.add_argument("--size-mib", type=int, default=1024, help="size of the large file")
    parser.add_argument("--runs", type=int, default=5, help="runs of each row")
    parser.add_argument("--peer", type=Path, default=os.environ.get("PEER") or None, help="another service's binary")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="mangrove-bench-") as folder:
        return int(not measure(Path(folder), arguments))


def measure(folder: Path, arguments: argparse.Namespace) -> bool:
    """Print the chosen table; return True if every row was measured."""
    if arguments.table == "economy":
        from bench.economy import print_economy

        return print_economy(folder)
    if arguments.table == "coldstart":
        from bench.coldstart import print_cold_starts

        return print_cold_starts(folder, arguments.only)
    from bench.report import Plan, print_report

    plan = Plan(arguments.only, arguments.runs, arguments.seconds, arguments.size_mib << 20, arguments.peer)
    return print_report(folder, plan, arguments.table)


if __name__ == "__main__":
    raise SystemExit(main())
