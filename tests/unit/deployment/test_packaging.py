"""The files of `packaging/` pass the checkers of their kind, and the package declares what the service needs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from deployment.package import DATA_FILES, DATA_FOLDERS, ROOT, list_requirements, make_project
from tests.e2e.proxies import PACKAGING, find_program

MAX_EXPOSURE = 2.5


def check(*command: str) -> str:
    """Run a checker; its output."""
    program = find_program(command[0])
    if program is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_containerfile_has_no_defect() -> None:
    assert check("hadolint", "--no-color", str(PACKAGING / "Containerfile")) == ""


def test_container_stays_without_rights() -> None:
    text = (PACKAGING / "Containerfile").read_text()
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER [1-9]\d*$", last, re.MULTILINE) and "VOLUME /data" in last and "HEALTHCHECK" in last
    service = yaml.safe_load((PACKAGING / "compose.yaml").read_text())["services"]["mangrove"]
    assert service["read_only"] and service["cap_drop"] == ["ALL"]
    assert "ports" not in service  # only the proxy is reached from outside


def test_unit_of_systemd_is_hardened() -> None:
    output = check("systemd-analyze", "security", "--offline=yes", str(PACKAGING / "mangrove.service"))
    level = re.search(r"exposure level for \S+: ([\d.]+)", output)
    assert level and float(level[1]) <= MAX_EXPOSURE, output[-300:]


def test_package_requires_the_locked_versions_or_compatible_ones() -> None:
    requirements = list_requirements(ROOT / "requirements")
    project = tomllib.loads(make_project(requirements))["project"]
    assert project["name"] == "mangrove-files" and project["dependencies"] == requirements
    assert set(project["optional-dependencies"]) == {"fsspec", "otel"}
    names = {re.split(r"[\[>;]", row)[0] for row in requirements}
    assert {"fastapi", "pynamodb", "uvicorn", "duckdb", "tqdm"} <= names
    assert not names & {"setuptools", "pytest", "moto"}
    assert all(re.search(r">=[\w.]+,<[\d.]+", row) for row in requirements)


def test_package_takes_every_file_that_the_service_reads() -> None:
    sources = (Path(ROOT) / "shared" / "mangrove" / "standalone").glob("*.py")
    names = set(re.findall(r'ROOT / "([\w.-]+)"', "".join(source.read_text() for source in sources)))
    taken = {name.partition("/")[0] for name in (*DATA_FILES, *DATA_FOLDERS)} | {"node_modules"}
    assert names <= taken, names - taken
