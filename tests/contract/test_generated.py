"""The check of derived files finds one that is not up to date. `make check` runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deployment.generate import ROOT, list_changes, replace_between


def test_check_of_a_changed_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "same").write_text("a\n")
    (tmp_path / "old").write_text("a\n")
    changes = list_changes([lambda: {"same": "a\n", "old": "b\n", "docs/new": "c\n"}], tmp_path)
    assert [(file.relative_to(tmp_path).as_posix(), content) for file, content in changes] == [
        ("old", "b\n"),
        ("docs/new", "c\n"),
    ]


def test_replace_between_lines_that_are_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="has no lines nothing and such"):
        replace_between("Makefile", "nothing", "such", "x\n")


@pytest.mark.long
def test_check_command_says_that_all_is_up_to_date() -> None:
    command = [sys.executable, "-m", "deployment.generate", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
