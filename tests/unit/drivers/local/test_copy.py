"""Copies within a request: copied, left to a task, or refused."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged, EntryExists, EntryNotFound, NotSupported, StorageProblem
from mangrove.drivers.base import CopyRequest
from mangrove.drivers.local import copy, durability, kernel
from mangrove.drivers.local.copy import FileCopier
from mangrove.drivers.local.durability import Durability
from mangrove.drivers.local.rooted import FileStat, Root

P = TreePath


@pytest.fixture
def roots(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path / "a", tmp_path / "b"


def copier(folder: Path) -> FileCopier:
    root = Root(str(folder))
    return FileCopier(root, Durability(root))


def request_of(path: Path, name: str, overwrite: bool = False, durable: bool = False) -> CopyRequest:
    status = (path / name).stat()
    return CopyRequest(
        P(f"/{name}"), P(f"/{name}"), status.st_size, status.st_mtime, overwrite, FileStat.of(status).etag, durable
    )


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_copied_with_its_time_and_mode(roots: tuple[Path, Path], durable: bool) -> None:
    folder, _ = roots
    (folder / "f").write_bytes(b"content")
    (folder / "f").chmod(0o640)
    os.utime(folder / "f", (1, 1_700_000_000.5))
    copier(folder).copy(P("/f"), P("/g"), True, durable)
    status = (folder / "g").stat()
    assert (status.st_mtime, status.st_mode & 0o777) == (1_700_000_000.5, 0o640)
    assert (folder / "g").read_bytes() == b"content"
    assert sorted(os.listdir(folder)) == ["f", "g"]


@pytest.mark.parametrize("durable", [False, True])
def test_an_empty_folder_is_copied_and_a_full_one_is_work_for_a_task(roots: tuple[Path, Path], durable: bool) -> None:
    folder, _ = roots
    (folder / "empty").mkdir()
    copier(folder).copy(P("/empty"), P("/copied"), True, durable)
    assert (folder / "copied").is_dir()
    with pytest.raises(EntryExists):
        copier(folder).copy(P("/empty"), P("/copied"), True, durable)
    (folder / "empty/f").touch()
    with pytest.raises(NotSupported):
        copier(folder).copy(P("/empty"), P("/again"), True, durable)
    os.mkfifo(folder / "device")
    with pytest.raises(StorageProblem, match="cannot copy a device"):
        copier(folder).copy(P("/device"), P("/again"), True, durable)
    assert not (folder / "again").exists()


@pytest.mark.parametrize("durable", [False, True])
def test_small_files_of_another_root_are_copied_each_by_itself(roots: tuple[Path, Path], durable: bool) -> None:
    source, target = roots
    for name in ("new", "taken", "replaced", "changed", "other", "gone"):
        (source / name).write_bytes(name.encode())
    for name in ("taken", "replaced"):
        (target / name).write_bytes(b"old")
    files = [request_of(source, name, name == "replaced", durable) for name in ("new", "taken", "replaced")]
    files += [request_of(source, "changed")._replace(size=1), request_of(source, "other")._replace(etag="1-2-3-5")]
    files += [request_of(source, "gone")]
    (source / "gone").unlink()
    results = copier(target).copy_from(Root(str(source)), files)
    assert [type(result) for result in results] == [
        type(None),
        EntryExists,
        type(None),
        EntryChanged,
        EntryChanged,
        EntryNotFound,
    ]
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        "new": b"new", "taken": b"old", "replaced": b"replaced",
    }  # fmt: skip


def test_a_folder_at_the_target_is_not_replaced(roots: tuple[Path, Path]) -> None:
    source, target = roots
    (source / "f").write_bytes(b"f")
    (target / "f").mkdir()
    (result,) = copier(target).copy_from(Root(str(source)), [request_of(source, "f", True)])
    assert isinstance(result, EntryExists)
    assert os.listdir(target) == ["f"]


@pytest.mark.parametrize(("offset", "length", "copied"), [(0, 5, 5), (3, 99, 7), (10, 1, 0)])
def test_a_range_is_copied_to_the_same_offset(roots: tuple[Path, Path], offset: int, length: int, copied: int) -> None:
    source, target = roots
    (source / "f").write_bytes(b"0123456789")
    with open(target / "f", "wb") as file:
        assert copier(target).copy_range(Root(str(source)), P("/f"), file.fileno(), offset, length) == copied
    expected = bytes(offset) + b"0123456789"[offset : offset + length] if copied else b""
    assert (target / "f").read_bytes() == expected


def test_files_whose_bytes_cannot_be_flushed_get_no_names(
    roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails after the bytes are written: none of them counts as copied, none replaces what is there."""
    source, target = roots
    for number in range(durability.MIN_FILES_FOR_SYNCFS):
        (source / f"f{number}").write_bytes(b"new")
    (target / "f0").write_bytes(b"old")

    def fail(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(kernel, "sync_file_system", fail)
    monkeypatch.setattr(os, "fsync", fail)
    files = [request_of(source, name, True, True) for name in os.listdir(source)]
    results = copier(target).copy_from(Root(str(source)), files)
    assert {str(result) for result in results} == {"Input/output error"}
    assert [(path.name, path.read_bytes()) for path in target.iterdir()] == [("f0", b"old")]


def test_copy_of_more_files_than_a_batch_copies_all(roots: tuple[Path, Path]) -> None:
    source, target = roots
    for number in range(copy.MAX_BATCH + 5):
        (source / f"f{number}").write_bytes(b"%d" % number)
    results = copier(target).copy_from(
        Root(str(source)), [request_of(source, name, False, True) for name in os.listdir(source)]
    )
    assert results == [None] * (copy.MAX_BATCH + 5)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        path.name: path.read_bytes() for path in source.iterdir()
    }


@pytest.mark.parametrize("durable", [False, True])
def test_taken_names_of_a_large_batch_are_not_replaced(roots: tuple[Path, Path], durable: bool) -> None:
    """Only the first and each sixteenth of them are looked up before their bytes are copied."""
    source, target = roots
    taken = {"f05", "f06", "f20"}
    for number in range(40):
        (source / f"f{number:02}").write_bytes(b"new")
    for name in taken:
        (target / name).write_bytes(b"old")
    names = sorted(os.listdir(source))
    results = copier(target).copy_from(Root(str(source)), [request_of(source, name, False, durable) for name in names])
    refused = {name for name, result in zip(names, results, strict=True) if isinstance(result, EntryExists)}
    assert refused == taken
    assert [result for result in results if result is not None and not isinstance(result, EntryExists)] == []
    contents = {path.name: path.read_bytes() for path in target.iterdir()}
    assert contents == {name: b"old" if name in taken else b"new" for name in names}


def test_names_after_a_taken_one_are_looked_up(roots: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = roots
    for number in range(40):
        (source / f"f{number:02}").write_bytes(b"new")
        (target / f"f{number:02}").write_bytes(b"old")
    copied: list[int] = []
    monkeypatch.setattr(copy.RangeCopier, "copy_whole", lambda *arguments: copied.append(1))
    results = copier(target).copy_from(
        Root(str(source)), [request_of(source, name) for name in sorted(os.listdir(source))]
    )
    assert {type(result) for result in results} == {EntryExists}
    assert copied == []


@pytest.mark.parametrize("durable", [False, True])
def test_links_in_a_large_batch_lead_nowhere(roots: tuple[Path, Path], durable: bool) -> None:
    source, target = roots
    for number in range(20):
        (source / f"f{number:02}").write_bytes(b"new")
    outside = target.parent / "outside"
    (target / "f03").symlink_to("../outside")
    (target / "f04").symlink_to("inside")
    results = copier(target).copy_from(
        Root(str(source)), [request_of(source, name, False, durable) for name in sorted(os.listdir(source))]
    )
    refused = [number for number, result in enumerate(results) if result is not None]
    assert refused == [3, 4] and {type(results[number]) for number in refused} == {EntryExists}
    assert not outside.exists() and (target / "f03").is_symlink() and (target / "f04").is_symlink()
