"""The compiled libraries of a build are for the processor that the build records, also if this computer has another."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from deployment.parameters import find_architecture
from tests.support.built import BUILD
from tests.support.runtime_api import ROOT

ARCHITECTURES = {"x86_64", "arm64"}
LAYER = "SignInLayer"  # the smallest one with compiled libraries
BUILD_SECONDS = 300


def read_architecture() -> str:
    return (BUILD.parent / "architecture").read_text()


def test_every_library_is_for_the_processor_that_the_build_records() -> None:
    libraries = sorted(BUILD.rglob("*.so*"))
    assert len(libraries) > 10
    assert {find_architecture([library]) for library in libraries} == {read_architecture()}


def test_layer_for_another_processor_has_only_libraries_of_it(tmp_path: Path) -> None:
    (other,) = ARCHITECTURES - {read_architecture()}
    tools = ROOT / ".venv-build" / "bin"
    environment = os.environ | {"SAM_CLI_TELEMETRY": "0", "PATH": f"{tools}:{os.environ['PATH']}"}
    parameters = ["--parameter-overrides", "Release=unknown", f"Architecture={other}"]
    command = [f"{tools}/sam", "build", LAYER, "--region", "us-east-1", "--build-dir", f"{tmp_path}/build", *parameters]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS)
    assert done.returncode == 0, done.stderr
    libraries = sorted((tmp_path / "build" / LAYER).rglob("*.so"))
    assert len(libraries) >= 3
    assert {find_architecture([library]) for library in libraries} == {other}
