"""The records tests once more on DynamoDB Local, AWS's own word on what DynamoDB does; needs java and mvn."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers

POM = Path(__file__).resolve().parents[2] / "dynamodb_local" / "pom.xml"
FETCH = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
MAIN = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    if not (shutil.which("java") and shutil.which("mvn")):
        pytest.skip("DynamoDB Local needs java and mvn")
    jars = tmp_path / "jars"
    fetched = subprocess.run([*FETCH, f"-DoutputDirectory={jars}"], capture_output=True, timeout=240)
    if fetched.returncode != 0:
        pytest.skip("DynamoDB Local cannot be fetched here")
    port = servers.free_port()
    command = ["java", f"-Djava.library.path={jars}", "-cp", f"{jars}/*", MAIN, "-inMemory", "-port", str(port)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            servers.wait_for(port, 60)
            yield f"http://127.0.0.1:{port}"
        finally:
            child.kill()


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
        cwd=POM.parents[2],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert run.returncode == 0, run.stdout
    assert "100%" in run.stdout
