"""The check of the Makefile for the version of Node.js, with a `node` that tells another version."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mangrove.standalone.template import ROOT

NODE = """#!/bin/sh
if [ "$1" = --version ]; then echo v{version}; exit; fi
exec {node} -e "Object.defineProperty(process, 'versions', {{value: {{node: '{version}'}}}}); $2"
"""
SOURCES = ("page/package-lock.json", "page/index.html", "page/vite.config.ts", "openapi.json")
NOT_BUILT = "the page is not built, page/build.log says why: there is the API alone"


def make_page(folder: Path, version: str) -> list[str]:
    """Return what `make` prints for the page, with a `node` of that version, none for "", and an `npm` that fails."""
    programs = folder / "programs"
    programs.mkdir()
    for name in ("sh", "bash", "find", "make", "touch"):
        (programs / name).symlink_to(str(shutil.which(name)))
    write_program(programs / "npm", "#!/bin/sh\necho npm has failed\nexit 1\n")
    if version:
        write_program(programs / "node", NODE.format(version=version, node=shutil.which("node")))
    for name in SOURCES:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    for name in ("page/src", "page/public"):
        (folder / name).mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    command = ["make", "--no-print-directory", "page/dist/ready", "PYTHON=python3"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    made = subprocess.run(
        command, cwd=folder, env=environment | {"PATH": str(programs)}, capture_output=True, text=True, timeout=60
    )
    assert made.returncode == 0, made.stderr
    return made.stdout.splitlines()


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("version", "present"),
    [("18.20.8", "v18.20.8"), ("20.18.3", "v20.18.3"), ("", "none")],
    ids=["18", "20.18", "none"],
)
def test_makefile_names_the_version_of_node_that_is_too_old(tmp_path: Path, version: str, present: str) -> None:
    line = f"the page needs Node.js 20.19 or newer: there is {present}"
    assert make_page(tmp_path, version) == [line, NOT_BUILT]
    assert not (tmp_path / "page/dist/ready").exists()


@pytest.mark.parametrize("version", ["20.19.0", "22.3.1"])
def test_makefile_says_only_why_a_build_failed_with_a_new_node(tmp_path: Path, version: str) -> None:
    assert make_page(tmp_path, version) == [NOT_BUILT]
    assert "npm has failed" in (tmp_path / "page/build.log").read_text()
