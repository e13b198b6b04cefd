"""Paths that do not leave their root, and errors of the system as problems."""

from __future__ import annotations

import errno
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryExists,
    EntryNotFound,
    NotAFile,
    NotSupported,
    StorageForbidden,
    StorageFull,
    StorageProblem,
)
from mangrove.drivers.local import kernel
from mangrove.drivers.local.rooted import Root, translate_errors
from tests.support.proc import list_open

P = TreePath


def refuse_call(folder: int, path: str, flags: int) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


@pytest.fixture(params=["openat2", "walk"])
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By what paths are confined: by the kernel, or folder by folder where it cannot."""
    if request.param == "walk":
        monkeypatch.setattr(kernel, "open_beneath", refuse_call)
    return str(request.param)


@pytest.fixture
def root(tmp_path: Path, means: str) -> Root:
    """A root with a folder `d`, a file `d/f`, a link inside, three links out and one to itself."""
    folder = tmp_path / "root"
    (folder / "d").mkdir(parents=True)
    (folder / "d/f").write_bytes(b"inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_bytes(b"secret")
    (folder / "inner").symlink_to("d")
    (folder / "out").symlink_to(tmp_path / "outside")
    (folder / "up").symlink_to("../outside")
    (folder / "secret").symlink_to("../outside/secret")
    (folder / "circle").symlink_to("circle")
    (folder / "absolute").symlink_to(folder / "d")
    (folder / "magic").symlink_to("/proc/self/cwd")
    return Root(str(folder))


@pytest.mark.parametrize("path", ["/d/f", "/inner/f", "/absolute/f"])
def test_a_link_inside_is_followed(root: Root, path: str) -> None:
    handle = root.open(P(path))
    assert os.read(handle, 99) == b"inside"
    os.close(handle)
    assert root.stat(P(path)).st_size == 6


@pytest.mark.parametrize(
    "path", ["/out", "/out/secret", "/up/secret", "/secret", "/circle", "/circle/f", "/magic", "/none"]
)
def test_what_lies_outside_is_not_found(root: Root, path: str) -> None:
    for work in (root.open, root.stat):
        with pytest.raises(EntryNotFound):
            work(P(path))
    with pytest.raises(EntryNotFound), root.open_folder(P(path)):
        pass


@pytest.mark.parametrize("path", ["/out/new", "/up/secret", "/secret"])
def test_nothing_is_written_outside(root: Root, path: str) -> None:
    with pytest.raises(StorageForbidden), root.open_target(P(path)):
        pass


def test_a_target_is_where_a_link_leads_and_a_parent_where_it_is_named(root: Root) -> None:
    with root.open_target(P("/inner")) as (folder, name):
        assert name == "d"
        assert os.listdir(folder) == os.listdir(root.real)
    with root.open_parent(P("/inner")) as (_, name):
        assert name == "inner"
    with root.open_target(P("/")) as (_, name):
        assert name == "."


def test_the_longest_names_and_paths_leave_no_handle(root: Root, tmp_path: Path) -> None:
    before = list_open(tmp_path)
    for path in (P("/d/" + "n" * 255), P(f"/{'n' * 250}" * 16)):
        with suppress(StorageProblem), root.open_target(path):
            pass
        with pytest.raises(StorageProblem):
            root.stat(path)
    assert list_open(tmp_path) == before


@pytest.fixture
def swapping(tmp_path: Path) -> Iterator[None]:
    """Meanwhile `d` is again and again replaced by a link that leads out."""
    folder, end = tmp_path / "root", threading.Event()

    def swap() -> None:
        (folder / "link").symlink_to(tmp_path / "outside")
        while not end.is_set():
            for first, other in (("d", "kept"), ("link", "d"), ("d", "link"), ("kept", "d")):
                os.rename(folder / first, folder / other)

    thread = threading.Thread(target=swap)
    thread.start()
    yield
    end.set()
    thread.join()


def test_whatever_is_swapped_meanwhile_nothing_outside_is_reached(root: Root, tmp_path: Path, swapping: None) -> None:
    outside = (tmp_path / "outside").stat().st_ino
    for _ in range(500):
        with pytest.raises(EntryNotFound):
            root.open(P("/d/secret"))
        with suppress(EntryNotFound):
            assert root.stat(P("/d")).st_ino != outside
        with suppress(EntryNotFound), root.open_folder(P("/d")) as handle:
            assert os.fstat(handle).st_ino != outside
        with suppress(EntryNotFound, StorageForbidden), root.open_target(P("/d/new")) as (handle, _):
            assert os.fstat(handle).st_ino != outside


def test_files_and_folders_are_told_apart(root: Root) -> None:
    for path in ("/", "/d"):
        with pytest.raises(NotSupported, match="not a file"):
            root.open(P(path))
    with pytest.raises(NotSupported, match="not a folder"), root.open_folder(P("/d/f")):
        pass


def test_folder_replaced_by_link_after_resolving_is_not_followed(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "open_beneath", refuse_call)
    real = os.path.realpath
    assert os.path.isdir(root.real)

    def replace(path: str) -> str:
        resolved = real(path)
        (tmp_path / "root/d").rename(tmp_path / "root/moved")
        (tmp_path / "root/d").symlink_to(tmp_path / "outside")
        return resolved

    monkeypatch.setattr(os.path, "realpath", replace)
    with pytest.raises(EntryNotFound):
        root.open(P("/d/secret"))


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM, errno.EAGAIN, errno.EXDEV])
def test_where_the_kernel_does_not_say_the_path_is_walked(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: int, path: str, flags: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(kernel, "open_beneath", refuse)
    (tmp_path / "f").write_bytes(b"inside")
    assert Root(str(tmp_path)).stat(P("/f")).st_size == 6


@pytest.mark.skipif(platform.system() != "Linux", reason="openat2 is Linux's")
def test_the_attacks_meet_a_kernel_that_does_not_know_the_call(tmp_path: Path) -> None:
    words = "import os; from mangrove.drivers.local import kernel; from tests.support import walking"
    words += "; walking.hide_openat2()"
    words += f"; kernel.open_beneath(os.open({str(tmp_path)!r}, os.O_RDONLY), '.', os.O_RDONLY)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "OSError: [Errno 38] Function not implemented"


@pytest.mark.skipif(platform.system() != "Linux", reason="openat2 is Linux's")
def test_a_path_that_the_kernel_can_open_is_not_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/f").write_bytes(b"inside")
    root = Root(str(tmp_path))
    monkeypatch.setattr(Root, "resolve", lambda *_: pytest.fail("walked"))
    assert root.stat(P("/a/b/f")).st_size == 6
    os.close(root.open(P("/a/b/f")))
    with root.open_target(P("/a/b/new")) as (_, name):
        assert name == "new"


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (errno.ENOENT, EntryNotFound, "object not found"), (errno.EEXIST, EntryExists, "file exists"),
        (errno.ENOTEMPTY, EntryExists, "folder is not empty"), (errno.EACCES, StorageForbidden, "permission denied"),
        (errno.EROFS, StorageForbidden, "the storage is read-only"), (errno.EISDIR, NotAFile, "not a file"),
        (errno.ENOSPC, StorageFull, "no space left on the storage"),
        (errno.EIO, StorageProblem, "Input/output error"),
    ],
)  # fmt: skip
def test_an_error_of_the_system_is_a_problem_without_the_path(number: int, kind: type, message: str) -> None:
    with pytest.raises(StorageProblem) as caught, translate_errors():
        raise OSError(number, os.strerror(number), "/srv/secret")
    assert type(caught.value) is kind
    assert caught.value.message == message
