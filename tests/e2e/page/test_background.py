"""Work that the service ends by itself: the page follows it, and says how it ended."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.contract.api import fixtures
from tests.e2e.page.conftest import AXE
from tests.e2e.page.steps import find_violations, sign_in
from tests.e2e.page.test_tasks import open_panel, set_workers
from tests.e2e.page.test_uploads import WIDE, choose
from tests.support.disks import mount_small
from tests.support.service import Client, Service

MIB = 1 << 20
PARTS_BYTES = 12 * MIB  # more than one chunk has
SIZES = {"batched.bin": 3, "single.bin": MIB, "parts.bin": PARTS_BYTES}
COPY_BYTES = 12 * MIB  # of each of three files
COPY_KIB_PER_SECOND = 4096
MAX_DELAY_SECONDS = 2.0
PROGRESS = re.compile(r"\d+ % · [\d.]+ MiB of 36 MiB · \d of 4 items · [\d.]+ MiB/s · \d+ s left")

# Keeps each text of the progress of the task in view, with its time.
OBSERVE = """() => {
  window.seen = []
  const note = () => {
    const item = document.querySelector('dialog li')
    const text = item?.querySelector('.about')?.textContent.trim().replace(/\\s+/g, ' ') ?? ''
    const of = item?.querySelector('.item')?.textContent ?? ''
    if (text && window.seen.at(-1)?.text !== text) window.seen.push({ text, of, time: performance.now() / 1000 })
  }
  new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true })
  note()
}"""


def add_storage(admin: Client, path: str, root: Path) -> int:
    addition = f'{{"root_folder_path": "{root}"}}'
    id: int = admin.ok("/api/admin/storage/create", mount_path=path, driver="Local", addition=addition)["id"]
    return id


@pytest.fixture
def full(service: Service, tmp_path: Path) -> Iterator[Path]:
    """A storage at /full with room for one mebibyte, and no upload is stored until a test says so."""
    admin = service.client()
    with mount_small(tmp_path / "small", "1m") as folder:
        id = add_storage(admin, "/full", folder)
        set_workers(admin, "upload", 0)
        yield folder
        set_workers(admin, "upload", 5)
        admin.ok("/api/admin/storage/delete", params={"id": id})


@WIDE
def test_upload_onto_full_storage_fails_in_the_panel_and_is_tried_again(
    page: Any, service: Service, full: Path, tmp_path: Path, shots: Path
) -> None:
    admin, large = service.client(), tmp_path / "large.bin"
    large.write_bytes(os.urandom(PARTS_BYTES))
    sign_in(page, "/@/full")
    choose(page, "Upload files", large)
    row = page.get_by_role("listitem").filter(has_text="large.bin")
    row.get_by_text("Received; storing").wait_for()
    page.get_by_text("0 of 1 uploaded").wait_for()
    page.get_by_text("storing 1 file", exact=True).wait_for()
    set_workers(admin, "upload", 5)
    row.get_by_text("no space left on the storage").wait_for()
    page.get_by_text("1 failed").wait_for()
    page.get_by_text("0 of 1 uploaded").wait_for()
    assert admin.names("/full") == []
    page.screenshot(path=shots / "full.png")
    assert find_violations(page, AXE) == []
    subprocess.run(["mount", "-o", "remount,size=32m", full], check=True)
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("1 of 1 uploaded").wait_for()
    assert admin.bytes("/full/large.bin").content == large.read_bytes()


@WIDE
def test_files_of_every_size_are_finished_in_the_background(
    page: Any, service: Service, full: Path, tmp_path: Path
) -> None:
    admin = service.client()
    subprocess.run(["mount", "-o", "remount,size=32m", full], check=True)
    first, *files = [tmp_path / name for name in ("first.bin", *SIZES)]
    for file in (first, *files):
        file.write_bytes(bytes(SIZES.get(file.name, 1)))
    sign_in(page, "/@/full")
    choose(page, "Upload files", first)
    page.get_by_text("1 of 1 uploaded").wait_for()
    page.get_by_role("button", name="Show the list of uploads").click()
    page.get_by_label("Finish in the background").check()
    choose(page, "Upload files", *files)
    page.get_by_text("storing 3 files").wait_for()
    page.get_by_text("1 of 4 uploaded").wait_for()
    assert admin.names("/full") == ["first.bin"]
    set_workers(admin, "upload", 5)
    page.get_by_text("4 of 4 uploaded").wait_for()
    assert {file.name: file.stat().st_size for file in full.iterdir() if file.is_file()} == SIZES | {"first.bin": 1}


@WIDE
def test_list_of_uploads_folds_when_all_have_ended_well(
    page: Any, service: Service, full: Path, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("first.bin", "second.bin", "large.bin")]
    for file, size in zip(files, (1, 1, PARTS_BYTES), strict=True):
        file.write_bytes(bytes(size))
    sign_in(page, "/@/full")
    choose(page, "Upload files", *files[:2])
    page.get_by_text("2 of 2 uploaded").wait_for()
    page.get_by_role("button", name="Show the list of uploads").wait_for()
    assert page.get_by_role("listitem").filter(has_text="first.bin").count() == 0
    choose(page, "Upload files", files[2])
    page.get_by_role("listitem").filter(has_text="large.bin").get_by_text("storing").wait_for()  # it unfolds
    set_workers(service.client(), "upload", 5)
    page.get_by_text("1 failed").wait_for()
    page.get_by_role("listitem").filter(has_text="large.bin").get_by_text("no space left").wait_for()


@WIDE
def test_progress_of_a_task_follows_its_bytes(page: Any, service: Service, tmp_path: Path, shots: Path) -> None:
    admin, target = service.client(), tmp_path / "target"
    target.mkdir()
    for number in range(3):
        assert admin.put(f"/files/progress/file {number}.bin", bytes(COPY_BYTES))["code"] == 200
    id = add_storage(admin, "/progress", target)
    sign_in(page, "/@/files")
    panel = open_panel(page)
    try:
        with fixtures.settings(admin, max_server_download_speed=str(COPY_KIB_PER_SECOND)):
            admin.ok("/api/fs/copy", src_dir="/files", dst_dir="/progress", names=["progress"])
            item = panel.get_by_role("listitem").first
            item.get_by_text("s left").wait_for()
            page.evaluate(OBSERVE)
            page.screenshot(path=shots / "progress.png")
            assert find_violations(page, AXE) == []
            panel.get_by_text("Running (1)").wait_for(state="hidden")
        seen = page.evaluate("window.seen")
    finally:
        admin.ok("/api/admin/storage/delete", params={"id": id})
    running = [row for row in seen if row["text"].startswith("Running")]
    print(*seen, sep="\n")
    assert any(PROGRESS.search(row["text"]) for row in running)
    assert {row["of"] for row in running} >= {"file 1.bin", "file 2.bin"}
    delays = [later["time"] - earlier["time"] for earlier, later in pairwise(seen)]
    assert max(delays) <= MAX_DELAY_SECONDS
