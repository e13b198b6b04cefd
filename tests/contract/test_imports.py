"""A function of the cloud starts without a run of the garbage collector."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mangrove.standalone import template

MAX_COLLECTIONS = 20  # those while libraries are imported before ours
SCRIPT = """
import gc, importlib, sys
importlib.import_module(sys.argv[1])
print(sum(generation["collections"] for generation in gc.get_stats()))
"""


@pytest.mark.parametrize("module", ["functions.api.site.app", "functions.workers.transfer.plan"])
def test_function_starts_without_garbage_collection(module: str) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{template.ROOT}:{template.ROOT / 'shared'}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_LAMBDA_FUNCTION_NAME": "any",
        "MANGROVE_TABLES": "any",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, module], env=environment, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) <= MAX_COLLECTIONS
