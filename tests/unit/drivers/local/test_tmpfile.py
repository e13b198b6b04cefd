"""Files without a name until they are whole, and with one where the file system needs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mangrove.drivers.local import tmpfile

Create = Callable[[int, str], int]
CREATE: list[Create] = [tmpfile.create, tmpfile.create_named]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    handle = os.open(tmp_path, os.O_RDONLY)
    yield handle
    os.close(handle)


@pytest.mark.parametrize("create", CREATE)
@pytest.mark.parametrize("overwrite", [True, False])
def test_a_file_takes_its_name_when_it_is_whole(folder: int, tmp_path: Path, create: Create, overwrite: bool) -> None:
    handle = create(folder, "part")
    os.write(handle, b"new")
    assert not (tmp_path / "f").exists()
    tmpfile.commit(handle, folder, "part", "f", overwrite=overwrite)
    os.close(handle)
    assert os.listdir(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"new"


@pytest.mark.parametrize("create", CREATE)
def test_an_old_file_is_replaced_unless_that_is_refused(folder: int, tmp_path: Path, create: Create) -> None:
    (tmp_path / "f").write_bytes(b"old")
    handle = create(folder, "part")
    os.write(handle, b"new")
    with pytest.raises(FileExistsError):
        tmpfile.commit(handle, folder, "part", "f", overwrite=False)
    assert (tmp_path / "f").read_bytes() == b"old"
    tmpfile.commit(handle, folder, "part", "f")
    os.close(handle)
    assert os.listdir(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"new"


@pytest.mark.parametrize("create", CREATE)
def test_a_folder_is_never_replaced_and_what_is_discarded_is_gone(folder: int, tmp_path: Path, create: Create) -> None:
    (tmp_path / "d").mkdir()
    handle = create(folder, "part")
    with pytest.raises(FileExistsError):
        tmpfile.commit(handle, folder, "part", "d")
    tmpfile.discard(folder, "part")
    tmpfile.discard(folder, "part")
    os.close(handle)
    assert os.listdir(tmp_path) == ["d"]


def test_a_named_file_is_new(folder: int, tmp_path: Path) -> None:
    os.close(tmpfile.create_named(folder, "part"))
    with pytest.raises(FileExistsError):
        tmpfile.create_named(folder, "part")
    assert os.listdir(tmp_path) == ["part"]
