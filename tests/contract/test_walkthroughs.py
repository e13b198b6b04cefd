"""The walk-throughs of docs/contributing, applied to a copy of the checkout: each does what its page says.

A block with a title is a file: a whole new one, or as `diff` lines to add to a file between lines that it has.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "contributing").glob("add-*.md"))
BLOCK = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```', re.DOTALL | re.MULTILINE)
TESTS = re.compile(r'^make test ARGS="([^"]+)"', re.MULTILINE)
SHARED = ("node_modules", "page/dist", "page/node_modules")


def copy_checkout(target: Path) -> None:
    """Copy the files that git knows; what npm has made is linked."""
    names = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    for name in names:
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    for name in SHARED:
        if (ROOT / name).exists():
            (target / name).symlink_to(ROOT / name)


def apply_block(root: Path, language: str, name: str, content: str) -> None:
    """Write a new file, or add the lines with a plus between the others, which stand in the file once."""
    file = root / name
    if language != "diff":
        assert not file.exists(), f"{name} is there already"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return
    lines = content.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if not line.startswith("+"))
    new = "".join(line[1:] for line in lines if not line.startswith("-"))
    text = file.read_text()
    assert text.count(old) == 1, f"{name} has {text.count(old)} times:\n{old}"
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_walkthrough_applied_to_a_copy_passes_its_test(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    copy_checkout(tmp_path)
    blocks = BLOCK.findall(text)
    for language, name, content in blocks:
        apply_block(tmp_path, language, name, content)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path / 'shared'}:{tmp_path}"}
    commands = [
        ["-m", "deployment.generate"],
        ["-m", "deployment.generate", "--check"],
        ["-m", "ruff", "check", *(name for _, name, _ in blocks if name.endswith(".py"))],
        *(["-m", "pytest", "-q", "-p", "no:cacheprovider", *tests.split()] for tests in TESTS.findall(text)),
    ]
    for command in commands:
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
