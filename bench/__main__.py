"""`python -m bench`: measure the real service and print a table. Nothing is asserted; `!` marks a missed aim."""

from __future__ import annotations

import argparse
import sys
import traceback
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import table
from bench.environment import Environment

LINES = ("answers", "folders", "transfers", "tasks", "starts")  # the modules of measurements, in the order of the table


def main() -> int:
    """Print the table; 1 when something could not be measured."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure the real service")
    parser.add_argument("--only", default="", help="only lines whose name contains this")
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement of requests per second")
    parser.add_argument("--size-mib", type=int, default=1024, help="size of the large file")
    chosen = parser.parse_args()
    for name in LINES:
        import_module(f"bench.{name}")
    print(f"{table.describe_machine()}; large file {chosen.size_mib:,} MiB\n{table.format_head()}", flush=True)
    failed = False
    with TemporaryDirectory(prefix="mangrove-bench-") as folder, ExitStack() as stack:
        env = Environment(Path(folder), stack, chosen.seconds, chosen.size_mib << 20)
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
