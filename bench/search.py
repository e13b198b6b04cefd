"""The index of names: a build, a search, and a search right after a change."""

from __future__ import annotations

import os
import stat
import statistics
import time
from pathlib import Path
from uuid import uuid4

from bench.rows import Row, Workspace, row
from bench.subjects import Subject

FOLDERS, FILES_PER_FOLDER = 1_100, 109
FIRST_FOLDER = "Folder 0000"
NAMES = FOLDERS * (FILES_PER_FOLDER + 1)
LARGE_FOLDER_FILES = 200_000
SEARCHES, MIN_COMMON_HITS = 20, 50
POLL_SECONDS, MAX_BUILD_SECONDS = 0.05, 300.0


def make_names(root: Path, folders: int = FOLDERS) -> Path:
    """Return a folder of FILES_PER_FOLDER + 1 names per folder, made at the first call; one is the rare word."""
    for number in range(0 if root.exists() else folders):
        folder = root / f"Folder {number:04}"
        folder.mkdir(parents=True)
        for file in range(FILES_PER_FOLDER):
            os.mknod(f"{folder}/Report {number * FILES_PER_FOLDER + file:06} final.txt", 0o644 | stat.S_IFREG)
    (root / FIRST_FOLDER / "quagga.txt").touch()
    return root


def wait_for_index(subject: Subject) -> None:
    end = time.monotonic() + MAX_BUILD_SECONDS
    while not (progress := subject.ask("/api/admin/index/progress"))["is_done"]:
        if time.monotonic() > end:
            raise RuntimeError(f"{subject.name}: the index is not built: {progress}")
        time.sleep(POLL_SECONDS)


def search(subject: Subject, parent: str, keywords: str, expected: int | None) -> float:
    """Return the seconds until the first page is complete. `expected`: the number of hits, if it is known."""
    began = time.perf_counter()
    page = {"parent": parent, "keywords": keywords, "scope": 0, "page": 1, "per_page": 50, "password": ""}
    answer = subject.ask("/api/fs/search", **page)
    seconds = time.perf_counter() - began
    if answer["total"] != expected and (expected is not None or answer["total"] < MIN_COMMON_HITS):
        raise RuntimeError(f"{subject.name}: {answer['total']} hits, not {expected}")
    return seconds


@row("index, build of 121,000 names", "names/s", least=3)
def build(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(make_names(workspace.folder / "names"))
    wait_for_index(subject)
    began = time.perf_counter()
    subject.ask("/api/admin/index/build", paths=[path])
    wait_for_index(subject)
    return NAMES / (time.perf_counter() - began)


@row("search for a rare word", "ms", most=0.7)
def rare_word(workspace: Workspace, subject: Subject) -> float:
    path = subject.mount_local(make_names(workspace.folder / "names"))
    wait_for_index(subject)
    return statistics.median(search(subject, path, "quagga", 1) for _ in range(SEARCHES)) * 1000


@row("search right after a put into a folder of 200,000", "ms", most=50, absolute=True)
def after_change(workspace: Workspace, subject: Subject) -> float:
    """Return the seconds of the slowest of several searches, all of which have to find the new file."""
    folder = workspace.make_files(LARGE_FOLDER_FILES)
    path = subject.mount_local(folder)
    wait_for_index(subject)
    name = f"okapi{uuid4().hex}.txt"
    with subject.connect() as connection:
        connection.put(f"{path}/{name}", 1)
    try:
        return max(search(subject, path, name.removesuffix(".txt"), 1) for _ in range(SEARCHES)) * 1000
    finally:
        os.unlink(folder / name)


ROWS: tuple[Row, ...] = (build, rare_word, after_change)
