"""`python -m deployment.checks`: print the violations of the rules for the code; fail if there are any."""

from __future__ import annotations

import sys

from deployment.checks import find_violations
from deployment.checks.project import ROOT, read_project


def main() -> int:
    violations = list(find_violations(read_project(ROOT)))
    for line in violations:
        print(line)
    return int(bool(violations))


if __name__ == "__main__":
    sys.exit(main())
