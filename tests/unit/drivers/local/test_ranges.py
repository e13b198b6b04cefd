"""Bytes copied from one file to another: if the kernel refuses one means, the next one continues from its position."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mangrove.drivers.local.copy import RangeCopier

CONTENT = os.urandom(3_500_000)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[int, int]]:
    (tmp_path / "f").write_bytes(CONTENT)
    handles = os.open(tmp_path / "f", os.O_RDONLY), os.open(tmp_path / "g", os.O_RDWR | os.O_CREAT)
    yield handles
    for handle in handles:
        os.close(handle)


class Refusing:
    """A system call that copies at most `piece` bytes and is refused after several calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, number: int, after: int, piece: int) -> None:
        self.calls = 0
        real = getattr(os, name)

        def call(first: int, second: int, *rest: Any) -> int:
            self.calls += 1
            if self.calls > after:
                raise OSError(number, os.strerror(number))
            length = 0 if name == "copy_file_range" else 1
            return int(real(first, second, *rest[:length], min(rest[length], piece), *rest[length + 1 :]))

        monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize(
    "number",
    [errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EBADF],
    ids=lambda number: errno.errorcode[number],
)
def test_what_one_means_cannot_is_done_by_the_next(
    files: tuple[int, int], monkeypatch: pytest.MonkeyPatch, number: int, after: int
) -> None:
    """Also in the middle of a file: what is copied by then is neither lost nor copied twice."""
    in_kernel = Refusing(monkeypatch, "copy_file_range", number, after, 1_000_001)
    sent = Refusing(monkeypatch, "sendfile", number, after, 300_001)
    assert RangeCopier().copy(*files, 7, len(CONTENT)) == len(CONTENT) - 7
    assert os.pread(files[1], len(CONTENT), 0) == bytes(7) + CONTENT[7:]
    assert (in_kernel.calls, sent.calls) == (after + 1, after + 1)


def test_what_works_between_two_file_systems_is_remembered(
    files: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Refusing(monkeypatch, "copy_file_range", errno.EXDEV, 0, 1)
    copier = RangeCopier()
    for _ in range(5):
        assert copier.copy(*files, 0, len(CONTENT)) == len(CONTENT)
    assert refused.calls == 1
    assert RangeCopier().copy(*files, 0, 10) == 10
    assert refused.calls == 2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT], ids=lambda number: errno.errorcode[number])
def test_a_disk_that_fails_is_not_tried_by_other_means(
    files: tuple[int, int], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    Refusing(monkeypatch, "copy_file_range", number, 1, 1000)
    sent = Refusing(monkeypatch, "sendfile", number, 0, 1)
    with pytest.raises(OSError, match=os.strerror(number)):
        RangeCopier().copy(*files, 0, len(CONTENT))
    assert sent.calls == 0


def test_a_file_of_the_kernel_that_has_no_size_is_copied(files: tuple[int, int]) -> None:
    handle = os.open("/proc/version", os.O_RDONLY)
    try:
        done = RangeCopier().copy(handle, files[1], 0, 4096)
    finally:
        os.close(handle)
    assert os.pread(files[1], 4096, 0) == Path("/proc/version").read_bytes()
    assert done == len(Path("/proc/version").read_bytes())


def test_a_clone_is_tried_once_between_two_file_systems(
    files: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def refuse(handle: int, *_: object) -> None:
        tried.append(handle)
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    copier = RangeCopier()
    assert [copier.copy_whole(*files, len(CONTENT), len(CONTENT), (0, 0)) for _ in range(3)] == [len(CONTENT)] * 3
    assert copier.copy_whole(*files, len(CONTENT), 1, (0, 0)) is None
    assert len(tried) == 1
