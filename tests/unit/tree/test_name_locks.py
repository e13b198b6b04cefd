"""A name has one holder, in this process and in all others, and is free again when its holder is dead."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, InUse, RecordsUnavailable
from mangrove.drivers.base import Upload
from mangrove.records import name_locks as lock_records
from mangrove.records.store import base
from mangrove.records.store.counters import Counter
from mangrove.tree import lock_leases
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import name_locks
from mangrove.tree.operations.name_locks import lock_name
from tests.unit.tree import builders
from tests.unit.tree.checking_driver import CheckingDriver
from tests.unit.tree.environment import TreeEnv

pytestmark = pytest.mark.usefixtures("records")
HOLDER = """
import asyncio
from mangrove.tree import lock_leases
from mangrove.tree.operations import name_locks
from tests.unit.tree.test_name_locks import locate

async def main():
    async with name_locks.lock_name(locate("/x")):
        print("held", flush=True)
        await asyncio.sleep(600)

lock_leases.RENEWAL_INTERVAL_SECONDS = 0.3
asyncio.run(main())
"""
COUNTER = """
import asyncio, sys
from pathlib import Path
from mangrove.tree import lock_leases
from mangrove.tree.operations.name_locks import lock_name
from tests.unit.tree.test_name_locks import locate

async def count(path):
    async with lock_name(locate("/x")):
        number = int(path.read_text())
        await asyncio.sleep(0.01)
        path.write_text(str(number + 1))

async def main():
    for _ in range(5):
        await asyncio.gather(*(count(Path(sys.argv[1])) for _ in range(3)))

lock_leases.WAIT_SECONDS = lock_leases.TAKEOVER_SECONDS = 240.0  # however slow the computer is
lock_leases.LEASE_SECONDS = 120.0
asyncio.run(main())
"""


class SameFolders(CheckingDriver):
    """Tells which folder a path is, whatever its mount."""

    capabilities = replace(CheckingDriver.capabilities, identify=True)

    async def identify(self, path: TreePath) -> set[str]:
        if path == "/none":
            raise EntryNotFound
        return {f"folder:{path}"}


def locate(path: str, driver: CheckingDriver | None = None, mount_path: str = "/") -> StoragePath:
    return StoragePath(driver or CheckingDriver(), TreePath(path), builders.mount(mount_path))


def list_holds() -> list[str]:
    return [counter.key for counter in Counter.scan() if counter.key.startswith("hold#")]


@contextmanager
def start_process(code: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def try_to_hold(storage_path: StoragePath) -> None:
    async with lock_name(storage_path):
        pass


def test_a_name_has_one_holder_at_a_time_and_is_free_afterwards() -> None:
    async def work() -> None:
        holders: list[int] = []

        async def hold(number: int) -> None:
            async with lock_name(locate("/x")):
                holders.append(number)
                await asyncio.sleep(0.005)
                assert holders[-1] == number
                assert len(await asyncio.to_thread(list_holds)) == 1

        await asyncio.gather(*(hold(number) for number in range(10)))
        assert sorted(holders) == list(range(10))
        assert list_holds() == []

    asyncio.run(work())


def test_processes_do_not_hold_a_name_together(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("count") / "count"
    file.write_text("0")
    with start_process(COUNTER, str(file)) as first, start_process(COUNTER, str(file)) as other:
        assert (first.wait(300), other.wait(300)) == (0, 0)
    assert file.read_text() == "30"


@pytest.mark.long
def test_a_name_is_kept_while_its_holder_lives_and_free_when_it_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_leases, "TAKEOVER_SECONDS", 4.0)
    monkeypatch.setattr(lock_leases, "WAIT_SECONDS", 6.0)
    with start_process(HOLDER) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        with pytest.raises(InUse):
            asyncio.run(try_to_hold(locate("/x")))
        process.kill()
        process.wait()
        monkeypatch.setattr(lock_leases, "WAIT_SECONDS", 60.0)
        asyncio.run(try_to_hold(locate("/x")))
    assert list_holds() == []


def test_waiting_for_a_name_ends_with_a_clear_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with lock_name(locate("/x")):
            with monkeypatch.context() as short:
                short.setattr(lock_leases, "WAIT_SECONDS", 0.2)
                with pytest.raises(InUse, match="in use by another request"):
                    await try_to_hold(locate("/x"))
            await try_to_hold(locate("/y"))
        await try_to_hold(locate("/x"))

    asyncio.run(work())


def test_work_under_a_hold_that_was_lost_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_leases, "RENEWAL_INTERVAL_SECONDS", 0.05)

    async def work() -> None:
        with pytest.raises(RecordsUnavailable, match="could not be held"):
            async with lock_name(locate("/x")):
                for counter in list(Counter.scan()):
                    counter.delete()
                await asyncio.sleep(60)

    asyncio.run(work())


def test_work_ends_when_the_hold_cannot_be_renewed_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_leases, "RENEWAL_INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr(lock_leases, "LEASE_SECONDS", 0.5)

    def fail(name: str, holder: str) -> None:
        raise RecordsUnavailable

    async def work() -> None:
        with pytest.raises(RecordsUnavailable):
            async with lock_name(locate("/x")):
                monkeypatch.setattr(lock_records, "send_heartbeat", fail)
                await asyncio.sleep(60)

    asyncio.run(work())


@pytest.mark.parametrize("failure", [ValueError, TimeoutError, asyncio.CancelledError])
def test_what_ends_the_work_goes_on_and_the_name_is_free(failure: type[BaseException]) -> None:
    async def work() -> None:
        with pytest.raises(failure):
            async with lock_name(locate("/x")):
                raise failure

    asyncio.run(work())
    assert list_holds() == []


def test_a_request_that_is_cancelled_while_it_waits_leaves_nothing_behind() -> None:
    async def work() -> None:
        async with lock_name(locate("/x")):
            waiting = [asyncio.create_task(try_to_hold(locate("/x"))) for _ in range(3)]
            await asyncio.sleep(0.05)
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            assert all(task.cancelled() for task in waiting)
        await try_to_hold(locate("/x"))

    asyncio.run(work())
    assert list_holds() == []


def test_where_the_storage_refuses_by_itself_nothing_is_held_or_asked() -> None:
    driver = CheckingDriver("/d", refuses=True)

    async def work() -> None:
        before = base.count_calls()
        async with lock_name(locate("/d", driver), overwrite=False):
            await try_to_hold(locate("/d", driver))
        await name_locks.makedirs(locate("/d/e/f", driver))
        assert base.count_calls() == before

    asyncio.run(work())
    assert driver.files[TreePath("/d/e/f")] is None


def test_a_name_that_something_has_is_refused_while_it_is_held() -> None:
    async def work() -> None:
        driver = CheckingDriver("/d")
        with pytest.raises(EntryExists):
            async with lock_name(locate("/d", driver), overwrite=False):
                raise AssertionError("it was held")
        async with lock_name(locate("/d", driver)):
            pass

    asyncio.run(work())


def test_slow_sender_does_not_block_name_and_finds_it_taken() -> None:
    async def work() -> None:
        driver = CheckingDriver()
        storage_path = locate("/x", driver)

        async def send_slowly() -> AsyncIterator[bytes]:
            yield b"slow"
            await name_locks.write(storage_path, send(b"fast"), Upload(4, 1.0, overwrite=False))
            yield b"er"

        with pytest.raises(EntryExists):
            await name_locks.write(storage_path, send_slowly(), Upload(6, 1.0, overwrite=False))
        assert driver.files[storage_path.path] == b"fast"

    asyncio.run(work())


async def send(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def hold_both(first: StoragePath, other: StoragePath, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    async with lock_name(first):
        monkeypatch.setattr(lock_leases, "WAIT_SECONDS", seconds)
        await try_to_hold(other)


@pytest.mark.parametrize(
    ("first", "other", "same"),
    [
        (("/d/x", "/m"), ("/d/x", "/m"), True), (("/d/x", "/m"), ("/d/X", "/m"), True),
        (("/d/\u00e9", "/m"), ("/d/e\u0301", "/m"), True), (("/d/x", "/m"), ("/d/y", "/m"), False),
        (("/d/x", "/m"), ("/e/x", "/m"), False), (("/d/x", "/m"), ("/d/x", "/n"), False),
        (("/d/x", "/m.balance"), ("/d/x", "/m.balance1"), True),
    ],
)  # fmt: skip
def test_balanced_storages_and_spellings_that_may_be_one_share_a_name(
    monkeypatch: pytest.MonkeyPatch, first: tuple[str, str], other: tuple[str, str], same: bool
) -> None:
    check_shared(monkeypatch, same, *(locate(path, mount_path=mount) for path, mount in (first, other)))


@pytest.mark.parametrize(("path", "same"), [("/d/x", True), ("/none/x", False)])
def test_a_file_that_is_reached_through_two_storages_has_one_name(
    monkeypatch: pytest.MonkeyPatch, path: str, same: bool
) -> None:
    driver = SameFolders()
    check_shared(monkeypatch, same, locate(path, driver, "/m"), locate(path, driver, "/n"))


def check_shared(monkeypatch: pytest.MonkeyPatch, same: bool, *places: StoragePath) -> None:
    first, other = places
    if same:
        with pytest.raises(InUse):
            asyncio.run(hold_both(first, other, monkeypatch, 0.2))
    else:
        asyncio.run(hold_both(first, other, monkeypatch, 60))


def test_opposite_renames_do_not_deadlock() -> None:
    async def hold(*places: StoragePath) -> None:
        async with lock_name(*places):
            await asyncio.sleep(0.005)

    async def work() -> None:
        first, other = locate("/a"), locate("/b")
        await asyncio.gather(*(hold(*ends) for _ in range(5) for ends in ((first, other), (other, first))))

    asyncio.run(work())


def test_folders_are_made_in_order_and_file_in_path_is_refused() -> None:
    async def work(verb: Callable[[StoragePath], Awaitable[None]]) -> None:
        driver = CheckingDriver()
        await asyncio.gather(*(verb(locate(f"/a/b/{number}", driver)) for number in range(3)))
        assert {path for path in driver.files if path.parent == "/a/b"} == {"/a/b/0", "/a/b/1", "/a/b/2"}
        driver.files[TreePath("/file")] = b""
        for path in ("/file", "/file/below/deeper"):
            with pytest.raises(EntryExists):
                await verb(locate(path, driver))

    asyncio.run(work(name_locks.makedirs))


def test_a_local_storage_takes_no_uploads_twice_at_one_name(tree: TreeEnv) -> None:
    """A real storage with its own capabilities: of eight concurrent bodies, one is stored."""
    disk = tree.mount_disk()
    storage_path = tree.run(tree.access("/disk/x").locate())
    contents = [bytes([number]) * 100_000 for number in range(8)]

    async def race() -> list[object]:
        writes = (
            name_locks.write(storage_path, send(content), Upload(len(content), 1.0, overwrite=False))
            for content in contents
        )
        return await asyncio.gather(*writes, return_exceptions=True)

    ends = tree.run(race())
    (winner,) = (index for index, end in enumerate(ends) if not isinstance(end, EntryExists))
    assert (disk / "x").read_bytes() == contents[winner]
