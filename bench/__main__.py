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
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

TABLES = ("comparison", "service", "coldstart", "economy", "clients", "page", "growth")  # a module each


def main() -> int:
    """Print a table; return 1 if a row could not be measured."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure the real service")
    parser.add_argument("table", nargs="?", default="comparison", choices=TABLES)
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    parser.add_argument("--seconds", type=int, default=3, help="duration of each measurement of requests per second")
    parser.add_argument("--size-mib", type=int, default=1024, help="size of the large file; that of S3 has a quarter")
    parser.add_argument("--runs", type=int, default=5, help="runs of each row")
    parser.add_argument("--peer", type=Path, default=os.environ.get("PEER") or None, help="another service's binary")
    parser.add_argument("--sizes", default="10000,100000,1000000", help="numbers of entries for growth")
    parser.add_argument("--record", action="store_true", help="keep the table in docs/reference/performance.md")
    options = parser.parse_args()
    is_whole = True
    with TemporaryDirectory(prefix="mangrove-bench-") as folder:
        for table in import_module(f"bench.{options.table}").print_tables(Path(folder), options):
            is_whole &= table.is_whole
            if options.record:
                table.record()
    return int(not is_whole)


if __name__ == "__main__":
    raise SystemExit(main())
