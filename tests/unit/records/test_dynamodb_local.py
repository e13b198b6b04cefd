"""The records tests once more on DynamoDB Local, AWS's own word on what DynamoDB does; needs java and mvn."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import engine as engines


@pytest.fixture
def endpoint() -> Iterator[str]:
    with engines.dynamodb_local() as endpoint:
        yield endpoint


@pytest.mark.dynamodb_local
@pytest.mark.long
def test_the_records_tests_pass_on_dynamodb_local(endpoint: str) -> None:
    tests = Path(__file__).parent
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-m",
            "not dynamodb_local and not long",
            str(tests),
        ],
        env=os.environ | {"MANGROVE_TEST_ENGINE": endpoint},
        cwd=engines.ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert run.returncode == 0, run.stdout
    assert "100%" in run.stdout
