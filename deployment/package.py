"""Build the packages of Python: `python -m deployment.package dist`.

The service is put together in a folder of its own: the package `mangrove`, and in `mangrove/bundle` all that a checkout
has beside it. From there come a source distribution, a wheel for every platform, and a wheel for Linux on x86-64 with
the records engine.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from mangrove import __version__

ROOT = Path(__file__).resolve().parents[1]
NAME = "mangrove-files"
"""The name on the package index; `mangrove` belongs to another project."""

ENGINE = "node_modules/@dynoxide/linux-x64"
ENGINE_PLATFORM = "manylinux_2_17_x86_64"  # the engine is linked statically
DATA_FOLDERS = ("functions", "state_machines", "page/dist")
DATA_FILES = (
    "template.yaml", "template-facts.json", "openapi.json",
    "node_modules/swagger-ui-dist/swagger-ui.css", "node_modules/swagger-ui-dist/swagger-ui-bundle.js",
    "node_modules/swagger-ui-dist/LICENSE",
)  # fmt: skip
BUILD_ONLY = frozenset({"setuptools"})
HOOKS = "import json, sys, setuptools.build_meta as hooks; hooks.{hook}(sys.argv[1], json.loads(sys.argv[2]))"


def build(target: Path) -> list[Path]:
    """Build the source distribution and both wheels into a folder. Return their paths."""
    stage = ROOT / "build" / "package"
    shutil.rmtree(stage, ignore_errors=True)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    prepare(stage)
    _run_hook(stage, "build_sdist", target, {})
    _run_hook(stage, "build_wheel", target, {})
    shutil.copytree(ROOT / ENGINE, stage / "mangrove" / "bundle" / ENGINE)
    shutil.rmtree(stage / "build", ignore_errors=True)
    _run_hook(stage, "build_wheel", target, {"--build-option": ["--plat-name", ENGINE_PLATFORM]})
    return sorted(target.iterdir())


def _run_hook(stage: Path, hook: str, target: Path, options: dict[str, list[str]]) -> None:
    command = [sys.executable, "-c", HOOKS.format(hook=hook), str(target.resolve()), json.dumps(options)]
    done = subprocess.run(command, cwd=stage, capture_output=True, text=True)  # noqa: S603 - own program
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


def prepare(stage: Path) -> None:
    """Put the package together, without the records engine."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "ready")
    package = stage / "mangrove"
    shutil.copytree(ROOT / "shared" / "mangrove", package, ignore=ignored)
    for folder in DATA_FOLDERS:
        shutil.copytree(ROOT / folder, package / "bundle" / folder, ignore=ignored)
    for name in DATA_FILES:
        (package / "bundle" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, package / "bundle" / name)
    (stage / "README.md").write_text(_make_absolute((ROOT / "README.md").read_text()))
    (stage / "MANIFEST.in").write_text("graft mangrove\nglobal-exclude *.pyc\n")
    (stage / "pyproject.toml").write_text(make_project(list_requirements(ROOT / "requirements")))


def _make_absolute(text: str) -> str:
    """Return a Markdown text without pictures that only the repository has."""
    return re.sub(r"^!\[.*\n", "", text, flags=re.MULTILINE)


def make_project(requirements: Iterable[str]) -> str:
    """Return the `pyproject.toml` of the package. Its extras are those of the checkout."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extra_rows = "".join(f"{name} = {json.dumps(rows)}\n" for name, rows in extras.items())
    rows = "".join(f"  {json.dumps(requirement)},\n" for requirement in requirements)
    return f"""[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "{NAME}"
version = "{__version__}"
description = "Many storages under mount paths, shown as one tree, with an API, a page, WebDAV and SFTP"
readme = "README.md"
requires-python = ">=3.11"
classifiers = ["Operating System :: POSIX :: Linux", "Private :: Do Not Upload"]
dependencies = [
{rows}]

[project.optional-dependencies]
{extra_rows}
[project.scripts]
mangrove = "mangrove.standalone.__main__:main"

[project.entry-points."fsspec.specs"]
mangrove = "mangrove.client.filesystem:MangroveFileSystem"

[tool.setuptools.packages.find]
include = ["mangrove*"]
exclude = ["mangrove.bundle*"]

[tool.setuptools.package-data]
mangrove = ["py.typed", "bundle/**/*"]
"""


def list_requirements(folder: Path) -> list[str]:
    """Return the direct requirements of the service, each from its locked version to the next incompatible one."""
    versions: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", (folder / "serve.txt").read_text(), re.MULTILINE):
        versions.setdefault(_normalize(name), []).append(version)
    requirements = []
    for line in sorted(set(_read_lines(folder / "serve.in"))):
        text, semicolon, marker = (part.strip() for part in line.partition(";"))
        name = _normalize(text.partition("[")[0])
        if name not in BUILD_ONLY:
            requirements.append(f"{text}{_make_range(versions[name])}" + (f"; {marker}" if semicolon else ""))
    return requirements


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _read_lines(file: Path) -> Iterator[str]:
    """Yield the requirements of a file and of those that it includes."""
    for line in file.read_text().splitlines():
        if line.startswith("-r "):
            yield from _read_lines(file.parent / line.removeprefix("-r ").strip())
        elif line.strip() and not line.startswith("#"):
            yield line.strip()


def _make_range(versions: list[str]) -> str:
    """Return `>=1.2.3,<2`, or `>=0.2.3,<0.3` for a library whose minor versions may be incompatible."""
    ordered = sorted(versions, key=lambda version: [int(part) for part in re.findall(r"\d+", version)])
    major, minor = ([*re.findall(r"\d+", ordered[-1]), "0"])[:2]
    bound = f"0.{int(minor) + 1}" if major == "0" else str(int(major) + 1)
    return f">={ordered[0]},<{bound}"


if __name__ == "__main__":
    for path in build(Path(sys.argv[1])):
        print(f"{path.stat().st_size / 1_000_000:6.1f} MB  {path.name}")
