"""A storage without room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import mount
from tests.support.disks import mount_small
from tests.support.service import Client


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte."""
    with mount_small(tmp_path / "small", "1m") as folder:
        yield folder


def test_a_full_disk_is_said_and_leaves_no_partial_file(admin: Client, small: Path) -> None:
    path, answer = mount(admin, "Local", root_folder_path=str(small), show_hidden=True)
    assert answer["code"] == 200
    try:
        assert admin.put(f"{path}/kept", b"old")["code"] == 200
        for name in ("new", "kept"):
            refusal = admin.put(f"{path}/{name}", b"x" * (3 << 20))
            assert (refusal["code"], refusal["message"]) == (
                500, f"failed to store [{name}]: no space left on the storage",
            )  # fmt: skip
        assert [child.name for child in small.iterdir()] == ["kept"]
        assert (small / "kept").read_bytes() == b"old"
        assert admin.put(f"{path}/fits", b"x" * (1 << 19))["code"] == 200
    finally:
        admin.ok("/api/admin/storage/delete", params={"id": answer["data"]["id"]})
