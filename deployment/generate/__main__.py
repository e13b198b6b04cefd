"""`python -m deployment.generate` writes all derived files. With `--check` it names outdated files, and fails."""

from __future__ import annotations

import argparse
import sys

from deployment.generate import ROOT, list_changes
from deployment.generate.registry import GENERATORS


def main() -> int:
    """Write or check all derived files."""
    parser = argparse.ArgumentParser(prog="python -m deployment.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a file is not up to date")
    is_check = parser.parse_args().check
    change_count = 0
    for file, content in list_changes(GENERATORS):  # each is written before a later one is derived from it
        change_count += 1
        if not is_check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        print(f"{file.relative_to(ROOT)} {'is not up to date' if is_check else 'written'}")
    if is_check and change_count:
        print("run `make generate` and look at the difference", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
