"""Without overwriting, one of several requests gets a name: nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import NameConflict, Problem
from mangrove.drivers.base import Driver, DriverContext, Upload
from mangrove.drivers.virtual.driver import Virtual
from mangrove.drivers.virtual.options import VirtualOptions
from mangrove.identity.rights import Right
from mangrove.tree.operations import transfers, uploads
from mangrove.tree.operations.plans import TransferRequest
from tests.unit.tree import builders
from tests.unit.tree.checking_driver import CheckingDriver
from tests.unit.tree.environment import stream

pytestmark = pytest.mark.usefixtures("records")
ROUNDS = 20
Verb = Callable[[Driver, str], Coroutine[Any, Any, Any]]


async def put(driver: Driver, name: str, overwrite: bool = False) -> None:
    access = builders.access(driver, "/to/x", Right.WRITE)
    await uploads.write(access, stream(name.encode()), Upload(None, 1.0), overwrite=overwrite, hashes={})


async def rename(driver: Driver, name: str) -> None:
    await transfers.rename(builders.access(driver, f"/to/{name}", Right.RENAME), "x", False)


async def rename_one_of_many(driver: Driver, name: str) -> None:
    await transfers.rename_all(builders.access(driver, "/to", Right.RENAME), {name: "x"})


async def rename_by_pattern(driver: Driver, name: str) -> None:
    await transfers.rename_by_pattern(builders.access(driver, "/to", Right.RENAME), f"^{name}$", "x")


async def move(driver: Driver, name: str) -> None:
    ends = (builders.access(driver, path, Right.MOVE) for path in (f"/{name}", "/to"))
    await transfers.transfer(TransferRequest(Right.MOVE, *ends, ["x"]))


async def copy(driver: Driver, name: str) -> None:
    ends = (builders.access(driver, path, Right.COPY) for path in (f"/{name}", "/to"))
    await transfers.transfer(TransferRequest(Right.COPY, *ends, ["x"]))


async def move_files(driver: Driver, name: str) -> None:
    ends = (builders.access(driver, path, Right.MOVE) for path in (f"/{name}", "/to"))
    await transfers.move_files(*ends, "cancel")


VERBS: list[Verb] = [put, rename, rename_one_of_many, rename_by_pattern, move, copy, move_files]


async def store(driver: Driver, path: str, content: bytes) -> None:
    await driver.write(TreePath(path), stream(content), Upload(len(content), 1.0))


async def prepare(driver: Driver, names: list[str]) -> None:
    """For each name a file in `to` to be renamed to `x`, and one in a folder of that name to be moved or copied."""
    for name in names:
        await store(driver, f"/to/{name}", name.encode())
        await store(driver, f"/{name}/x", name.encode())


async def run_together(*works: Awaitable[Any]) -> list[Problem | None]:
    """Return the outcome of each of several requests."""
    return await asyncio.gather(*works, return_exceptions=True)


@pytest.mark.parametrize("first", VERBS)
@pytest.mark.parametrize("other", VERBS)
def test_one_of_two_requests_gets_a_free_name_and_the_other_collides(first: Verb, other: Verb) -> None:
    async def race() -> None:
        driver = CheckingDriver("/to", "/first", "/second")
        await prepare(driver, ["first", "second"])
        ends = await run_together(first(driver, "first"), other(driver, "second"))
        assert sorted(isinstance(end, NameConflict) for end in ends) == [False, True], ends
        winner = ["first", "second"][ends.index(None)]
        assert driver.files[TreePath("/to/x")] == winner.encode()
        loser = {"first": "second", "second": "first"}[winner]
        assert driver.files[TreePath(f"/to/{loser}")] == driver.files[TreePath(f"/{loser}/x")] == loser.encode()

    asyncio.run(race())


def test_concurrent_requests_for_name_have_one_winner() -> None:
    async def race() -> None:
        for round in range(ROUNDS):
            names = [f"{round}-{index}" for index in range(len(VERBS))]
            driver = CheckingDriver("/to", *(f"/{name}" for name in names))
            await prepare(driver, names)
            ends = await run_together(*(verb(driver, name) for verb, name in zip(VERBS, names, strict=True)))
            winners = [name for name, end in zip(names, ends, strict=True) if end is None]
            assert len(winners) == 1 and driver.files[TreePath("/to/x")] == winners[0].encode(), ends

    asyncio.run(race())


def test_missing_lock_loses_acknowledged_bytes() -> None:
    """The purpose of the lock: a driver that claims to refuse existing names, and cannot."""

    async def race() -> None:
        driver = CheckingDriver("/to", refuses=True)
        await prepare(driver, ["first", "second"])
        assert await run_together(rename(driver, "first"), rename(driver, "second")) == [None, None]

    asyncio.run(race())


@pytest.mark.parametrize("verb", [rename, move])
def test_overwriting_put_survives_request_that_checked_before(verb: Verb) -> None:
    async def race() -> None:
        for _ in range(ROUNDS):
            driver = CheckingDriver("/to", "/first")
            await prepare(driver, ["first"])
            ends = await run_together(verb(driver, "first"), put(driver, "put", overwrite=True))
            assert ends[1] is None and driver.files[TreePath("/to/x")] == b"put", ends

    asyncio.run(race())


def test_what_is_put_at_a_name_that_is_being_renamed_is_there_afterwards() -> None:
    async def race() -> None:
        for _ in range(ROUNDS):
            driver = CheckingDriver("/to")
            await store(driver, "/to/x", b"old")
            renamed = transfers.rename(builders.access(driver, "/to/x", Right.RENAME), "y", False)
            assert await run_together(renamed, put(driver, "put", overwrite=True)) == [[], None]
            assert b"put" in (driver.files.get(TreePath("/to/x")), driver.files.get(TreePath("/to/y")))

    asyncio.run(race())


def test_a_folder_does_not_take_the_name_of_one_that_is_made_for_an_upload() -> None:
    async def race() -> None:
        driver = CheckingDriver("/d")
        await store(driver, "/d/x", b"old")
        renamed = transfers.rename(builders.access(driver, "/d", Right.RENAME), "to", False)
        ends = await run_together(put(driver, "put"), renamed)
        acknowledged = {b"put", b"old"} if ends[0] is None else {b"old"}
        assert acknowledged <= set(driver.files.values()), (ends, driver.files)

    for _ in range(ROUNDS):
        asyncio.run(race())


def test_in_a_virtual_storage_one_of_many_gets_a_name() -> None:
    async def race() -> None:
        options = replace(VirtualOptions.parse("{}"), num_file=0, num_folder=0)
        driver = Virtual(options, DriverContext())
        names = [f"n{index}" for index in range(len(VERBS))]
        for folder in ("to", *names):
            await driver.makedirs(TreePath(f"/{folder}"))
        await prepare(driver, names)
        ends = await run_together(*(verb(driver, name) for verb, name in zip(VERBS, names, strict=True)))
        assert sum(end is None for end in ends) == 1, ends
        assert sum(isinstance(end, NameConflict) for end in ends) == len(VERBS) - 1, ends

    asyncio.run(race())
