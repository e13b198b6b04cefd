"""Descriptors that run short: work in bulk leaves some to others, and an open waits for one."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mangrove.core import descriptors
from mangrove.core.descriptors import count_free_for_bulk, open_patiently, raise_limit, wait_for_bulk
from mangrove.core.paths import TreePath
from mangrove.core.problems import Unreachable
from mangrove.drivers.local.rooted import Root


@contextmanager
def limit_files(count: int) -> Iterator[None]:
    """Let this process have so many descriptors beyond those that are open."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def take_all(stack: ExitStack) -> None:
    while True:
        try:
            stack.callback(os.close, os.open("/", os.O_RDONLY))
        except OSError:
            return


def test_descriptors_few_are_left_to_others_than_bulk() -> None:
    with limit_files(300), ExitStack() as stack:
        before = count_free_for_bulk()
        for _ in range(100):
            stack.callback(os.close, os.open("/", os.O_RDONLY))
        assert abs(count_free_for_bulk() - (before - 100)) < 20  # what other tests have left may be closed meanwhile
        take_all(stack)
        assert -descriptors.MAX_RESERVED_DESCRIPTORS <= count_free_for_bulk() < 0


def test_open_without_a_free_descriptor_waits_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "OPEN_WAIT_SECONDS", 120.0)
    (tmp_path / "x").write_bytes(b"content")
    root = Root(str(tmp_path))
    with ExitStack() as stack, limit_files(20):
        take_all(stack)
        timer = threading.Timer(0.3, stack.close)
        timer.start()
        handle = root.open(TreePath("/x"))
        assert os.read(handle, 10) == b"content"
        os.close(handle)
        timer.join()


def test_open_that_never_gets_a_descriptor_is_worth_a_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "OPEN_WAIT_SECONDS", 0.1)
    (tmp_path / "x").write_bytes(b"content")
    with ExitStack() as stack, limit_files(20):
        take_all(stack)
        with pytest.raises(Unreachable, match="too many files are open"):
            Root(str(tmp_path)).open(TreePath("/x"))


def test_open_that_fails_otherwise_is_not_repeated() -> None:
    calls = []

    def fail() -> int:
        calls.append(1)
        raise FileNotFoundError(2, "no such file")

    with pytest.raises(FileNotFoundError):
        open_patiently(fail)
    assert len(calls) == 1


def test_bulk_waits_until_descriptors_are_free() -> None:
    async def go() -> None:
        with ExitStack() as stack, limit_files(100):
            is_free = asyncio.Event()
            stack.callback(is_free.set)
            take_all(stack)
            asyncio.get_running_loop().call_later(0.2, stack.close)
            await wait_for_bulk()
            assert is_free.is_set()

    asyncio.run(asyncio.wait_for(go(), 120))


def test_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        assert raise_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
