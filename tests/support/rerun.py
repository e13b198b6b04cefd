"""`python -m tests.support.rerun`: run tests by three workers, then those that failed once more by themselves.

Tests share two processors with each other, and a limit of time that one of 10,000 misses says nothing about the code.
The output names every test that needed the second run. A test that fails twice fails the run. It goes away with the
last test that waits for time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
WORKERS = ("-n", "3", "--dist", "loadgroup")
MAX_FAILURES = 3  # more of them are not an accident
TESTS_FAILED = 1  # pytest's exit status


def main(arguments: list[str]) -> int:
    """Return the exit status of the run; `arguments` choose the tests."""
    pytest = [sys.executable, "-m", "pytest"]
    status = subprocess.run([*pytest, "-rs", "--cache-clear", *WORKERS, *arguments]).returncode
    if status != TESTS_FAILED:
        print("tests that needed a second run: 0")
        return status
    failed = sorted(read_failed())
    print(f"tests that needed a second run: {len(failed)}: {', '.join(failed)}", flush=True)
    if not 0 < len(failed) <= MAX_FAILURES:
        return status
    return subprocess.run([*pytest, "-v", *failed]).returncode


def read_failed() -> set[str]:
    """Return the ids of the tests that failed when they ran last."""
    return {name for name, has_failed in json.loads(LAST_FAILED.read_text()).items() if has_failed}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
