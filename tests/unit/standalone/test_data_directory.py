"""The data directory: one process holds it, others learn which one."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from mangrove.standalone import data_directory
from mangrove.standalone.data_directory import DataDirectory, ProcessInfo, StartupError


def lock(data: Path) -> DataDirectory:
    directory = DataDirectory(data)
    directory.lock()
    directory.prepare()
    return directory


def test_a_lock_makes_the_directory_and_a_key_for_the_owner_alone(tmp_path: Path) -> None:
    directory = lock(tmp_path / "deep" / "data")
    files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.data.iterdir()}
    assert files == {"key": 0o600, "mangrove.lock": 0o600}
    assert len(directory.key.read_bytes()) == 32


def test_a_key_is_made_once(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"the old one")
    lock(tmp_path)
    assert (tmp_path / "key").read_bytes() == b"the old one"


def test_the_holder_is_known_to_others_as_it_writes_itself_down(tmp_path: Path) -> None:
    directory = lock(tmp_path)
    other = DataDirectory(tmp_path)
    assert other.read_holder() == ProcessInfo(os.getpid())
    assert json.loads((tmp_path / "mangrove.lock").read_text()) == {"pid": os.getpid()}
    info = ProcessInfo(os.getpid(), "http://127.0.0.1:5244", "http://127.1.2.3:4000")
    directory.write_holder(info)
    assert other.read_holder() == info
    directory.write_holder(ProcessInfo(1))
    assert other.read_holder() == ProcessInfo(1)


def test_a_second_lock_names_the_process_that_has_it(tmp_path: Path) -> None:
    directory = lock(tmp_path)
    with pytest.raises(StartupError, match=rf"^the data directory {tmp_path} is in use by process {os.getpid()}$"):
        lock(tmp_path)
    directory.write_holder(ProcessInfo(os.getpid(), "http://a:1"))
    with pytest.raises(StartupError, match=r" \(http://a:1\)$"):
        lock(tmp_path)
    (tmp_path / "mangrove.lock").write_text("{")
    with pytest.raises(StartupError, match=r"in use by process \?$"):
        lock(tmp_path)


@contextmanager
def hold_after_the_end(folder: Path) -> Iterator[tuple[int, Callable[[], None]]]:
    """Have the child of a process hold the lock of the directory after the end of that process; its pid, and a function
    that ends the child.
    """
    code = (
        "import os, sys, pathlib; from mangrove.standalone.data_directory import DataDirectory as D; "
        "D(pathlib.Path(sys.argv[1])).lock(); "
        "sys.stdin.read() if not os.fork() else print(os.getpid(), flush=True)"
    )
    command = [sys.executable, "-c", code, str(folder)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        assert process.wait() == 0
        yield int(process.stdout.readline()), process.stdin.close


def test_lock_of_an_ended_process_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hold_after_the_end(tmp_path) as (_, end):
        waits: list[float] = []

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            if len(waits) == 3:
                end()
            time.sleep(seconds)

        monkeypatch.setattr(data_directory, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
        monkeypatch.setattr(data_directory, "ENDED_HOLDER_SECONDS", 120.0)
        directory = lock(tmp_path)
        assert len(waits) >= 3
        assert directory.read_holder() == ProcessInfo(os.getpid())


def test_lock_that_outlasts_its_process_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_directory, "ENDED_HOLDER_SECONDS", 0.2)
    with hold_after_the_end(tmp_path) as (pid, _), pytest.raises(StartupError, match=f"in use by process {pid}$"):
        lock(tmp_path)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = "import sys, pathlib; from mangrove.standalone.data_directory import DataDirectory as D; "
    subprocess.run([sys.executable, "-c", code + "D(pathlib.Path(sys.argv[1])).lock()", str(tmp_path)], check=True)
    before = DataDirectory(tmp_path).read_holder()
    assert before is not None and before.pid != os.getpid()
    lock(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "5", "nonsense", '{"pid": 1, "more": 2}', "{}"])
def test_what_cannot_be_read_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "mangrove.lock").write_text(text)
    assert DataDirectory(tmp_path).read_holder() is None


def test_no_file_says_nothing(tmp_path: Path) -> None:
    assert DataDirectory(tmp_path / "none").read_holder() is None


def test_a_directory_that_cannot_be_is_refused_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for data, reason in (("file", "File exists"), ("file/data", "Not a directory")):
        with pytest.raises(StartupError) as caught:
            lock(tmp_path / data)
        assert str(caught.value) == f"cannot write to the data directory {tmp_path / data}: {reason}"
