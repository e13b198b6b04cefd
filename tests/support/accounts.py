"""Another account of this machine, as which tests run programs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NOBODY = 65534
BECOME = f"import os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another account")


def run_as_nobody(imports: str, code: str, *arguments: str) -> str:
    """Return the output of a Python program of another account; `imports` are its modules, which that account may not
    be able to see."""
    program = f"import {imports}, encodings.idna\n{BECOME}\n{code}"
    done = subprocess.run([sys.executable, "-I", "-c", program, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout
