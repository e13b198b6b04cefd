"""Real file systems beside the disk: one in memory, and small ones that are soon full."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

MEMORY = "/dev/shm"


@contextmanager
def other_file_system(folder: Path) -> Iterator[Path]:
    """A new folder on another file system than `folder`; the test is skipped where there is none."""
    if not os.access(MEMORY, os.W_OK) or os.stat(MEMORY).st_dev == folder.stat().st_dev:
        pytest.skip(f"{MEMORY} is no file system beside that of {folder}")
    made = Path(tempfile.mkdtemp(dir=MEMORY, prefix="mangrove-test-"))
    try:
        yield made
    finally:
        shutil.rmtree(made)


@contextmanager
def mount_small(folder: Path, size: str) -> Iterator[Path]:
    """A new file system at a new folder, `size` as for mount(8); the test is skipped where none may be mounted."""
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
    if made.returncode:
        pytest.skip("a small file system needs the right to mount one")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nothing more be made or removed by the path of a folder; files that are open can be written to. The test is
    skipped where that needs a right that it does not have."""
    bound = subprocess.run(["mount", "--bind", folder, folder], capture_output=True)
    if bound.returncode:
        pytest.skip("a read-only folder needs the right to mount one")
    remount = ["mount", "-o", "remount,bind,ro", folder]
    try:
        wait_until(lambda: subprocess.run(remount).returncode == 0)  # it is refused while a file is open for writing
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
