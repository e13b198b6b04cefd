"""The stored thumbnails of pictures on storages that make none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mangrove.core.platform import platform
from mangrove.tree.operations import thumbnails
from tests.support.platforms import use_cloud, use_standalone


def fill(folder: Path, sizes: dict[str, int]) -> None:
    """Make files, the first of which was used last."""
    folder.mkdir(parents=True, exist_ok=True)
    for age, (name, size) in enumerate(sizes.items()):
        (folder / name).write_bytes(bytes(size))
        os.utime(folder / name, (1000 - age, 1000 - age))


def list_stored() -> set[str]:
    folder = platform().thumbnails_folder
    assert folder is not None
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize(("most", "size", "remaining"), [(2, 1000, "ab"), (10, 25, "ab"), (10, 1000, "abc")])
def test_sweep_deletes_what_was_not_used_for_longest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: int, size: int, remaining: str
) -> None:
    use_standalone(tmp_path)
    folder = platform().thumbnails_folder
    assert folder is not None
    fill(folder, {"a": 10, "b": 10, "c": 10})
    monkeypatch.setattr(thumbnails, "MAX_CACHED_THUMBNAILS", most)
    monkeypatch.setattr(thumbnails, "MAX_CACHED_THUMBNAIL_BYTES", size)
    thumbnails.sweep()
    assert list_stored() == set(remaining)


def test_cloud_stores_no_thumbnails() -> None:
    use_cloud()
    assert platform().thumbnails_folder is None
    thumbnails.sweep()
