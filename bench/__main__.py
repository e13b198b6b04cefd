"""`python -m bench`: measure the real service and print a table. `!` marks a missed aim; nothing is asserted.

`python -m bench`: everyday work with one process and the default number, beside the service that `--peer` names.
`python -m bench service`: large folders, small files, a start, ZIP files.
`python -m bench coldstart`: the CPU of each function's first request.
`python -m bench economy`: the calls that requests make of AWS, and their price.
`python -m bench clients`: files up and down through the page, WebDAV and SFTP, beside other servers.
`python -m bench page`: the page in Chromium, with Lighthouse.
`python -m bench growth`: cost against the number of processes, entries, users and tasks.
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
        "table",
        nargs="?",
        default="comparison",
        choices=("comparison", "service", "coldstart", "economy", "clients", "page", "growth"),
    )
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--seconds", type=int, default=3, help="duration of each measurement of requests per second")
    parser.add_argument("--size-mib", type=int, default=1024, help="size of the large file")
    parser.add_argument("--runs", type=int, default=5, help="runs of each row")
    parser.add_argument("--peer", type=Path, default=os.environ.get("PEER") or None, help="another service's binary")
    parser.add_argument("--sizes", default="10000,100000,1000000", help="numbers of entries for growth")
    parser.add_argument("--record", action="store_true", help="keep the table in docs/reference/performance.md")
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
    if arguments.table == "clients":
        from bench.clients import print_clients

        size = arguments.size_mib << 20
        return print_clients(folder, size, arguments.runs, arguments.only, arguments.record)
    if arguments.table == "page":
        from bench.page import print_page

        return print_page(folder, arguments.runs, arguments.only, arguments.record)
    from bench.report import Plan, print_growth, print_report

    size, sizes = arguments.size_mib << 20, tuple(map(int, arguments.sizes.split(",")))
    plan = Plan(arguments.only, arguments.runs, arguments.seconds, size, arguments.peer, arguments.record)
    if arguments.table == "growth":
        return print_growth(folder, plan, sizes)
    return print_report(folder, plan, arguments.table)


if __name__ == "__main__":
    raise SystemExit(main())
