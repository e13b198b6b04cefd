"""The index of names: a tree to index, a build, a search."""

from __future__ import annotations

from pathlib import Path

from bench.rows import make_empty
from bench.subjects import Subject
from bench.tables import wait_until

FOLDERS, FILES_PER_FOLDER = 1_100, 109
FIRST_FOLDER = "Folder 0000"
NAMES = FOLDERS * (FILES_PER_FOLDER + 1)
MIN_COMMON_HITS = 50
MAX_BUILD_SECONDS = 300.0


def make_names(root: Path, folders: int = FOLDERS) -> Path:
    """Return a folder of FILES_PER_FOLDER + 1 names per folder, made at the first call; one is the rare word."""
    for number in range(0 if root.exists() else folders):
        files = range(number * FILES_PER_FOLDER, (number + 1) * FILES_PER_FOLDER)
        make_empty(root / f"Folder {number:04}", (f"Report {file:06} final.txt" for file in files))
    (root / FIRST_FOLDER / "quagga.txt").touch()
    return root


def wait_for_index(subject: Subject) -> None:
    wait_until(lambda: subject.ask("/api/admin/index/progress")["is_done"], MAX_BUILD_SECONDS, f"{subject.name}: index")


def search(subject: Subject, parent: str, keywords: str, expected: int | None) -> None:
    """Read the first page of hits. `expected`: the number of hits, if it is known."""
    page = {"parent": parent, "keywords": keywords, "scope": 0, "page": 1, "per_page": 50, "password": ""}
    total = subject.ask("/api/fs/search", **page)["total"]
    if total != expected and (expected is not None or total < MIN_COMMON_HITS):
        raise RuntimeError(f"{subject.name}: {total} hits, not {expected}")
