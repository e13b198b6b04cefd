"""Cases of the driver suite: each says which capabilities it needs, and runs on a fresh driver.

The name of a case is the sentence that it proves.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mangrove.drivers import registry
from mangrove.drivers.base import Driver

Need = str | tuple[str, ...]  # a field of `Capabilities`; of several, one is enough
FILES = ("write", "put_url")  # it makes files; what is in them is not read
CHANGES = ("write", "makedirs", "rename", "move", "remove")


@dataclass(frozen=True, slots=True)
class Server:
    """The actions of a test on a storage behind its driver's back; each of them may be missing.

    `fill(driver, path, names)` makes files of one byte in a folder, and the folder too; a server that remembers folders
    has not seen it before. `look(driver, path)` gives all names of a folder, also those that the driver leaves out.
    `restart` stops the server and starts it again, and returns when it answers. `keeps_bytes`: what was written can be
    read. `many`: entries of a folder that it lists in about a second.
    """

    fill: Callable[[Any, str, Sequence[str]], Awaitable[None]] | None = None
    look: Callable[[Any, str], Sequence[str]] | None = None
    restart: Callable[[], None] | None = None
    keeps_bytes: bool = True
    many: int = 10_000


def on_disk(folder: Path, restart: Callable[[], None] | None = None, many: int = 10_000) -> Server:
    """A storage whose root is a folder of this machine, files as they are."""

    async def fill(driver: Any, path: str, names: Sequence[str]) -> None:
        owner, filled = folder.stat(), folder / path[1:]
        filled.mkdir(exist_ok=True)
        first = filled / names[0]
        first.write_bytes(b"x")
        for created in (filled, first):
            os.chown(created, owner.st_uid, owner.st_gid)
        for name in names[1:]:  # links are made in a fraction of the time
            os.link(first, filled / name)

    def look(driver: Any, path: str) -> Sequence[str]:
        return os.listdir(folder / path[1:])

    return Server(fill, look, restart, many=many)


class Case(NamedTuple):
    function: Callable[..., Awaitable[None]]
    needs: Sequence[Need]
    hooks: Sequence[str]  # fields of Server without which it does not run


CASES: dict[str, Case] = {}


def needs(*capabilities: Need, hooks: Sequence[str] = ()) -> Callable[[Any], Any]:
    """Register a case for drivers with these capabilities.

    With `hooks`, of which it needs all, or with a second parameter, it gets the Server too.
    """

    def register(case: Any) -> Any:
        assert case.__name__ not in CASES
        CASES[case.__name__] = Case(case, capabilities, hooks)
        return case

    return register


def has(driver: Driver | type[Driver], need: Need) -> bool:
    """Return True if a driver has a capability, or one of several."""
    return any(getattr(driver.capabilities, name) for name in ((need,) if isinstance(need, str) else need))


def list_cases(driver: str, but: Collection[str] = (), *, keeps_bytes: bool = True) -> Sequence[str]:
    """Return the names of all cases for which a driver has the capabilities, but for some."""
    assert CASES.keys() >= {*but}
    kind = registry.load(driver)
    return [
        name
        for name, case in CASES.items()
        if name not in but
        and all(has(kind, need) for need in case.needs)
        and (keeps_bytes or "write" not in case.needs)
    ]


def refuse_unfit(driver: Driver, case: Case, server: Server) -> None:
    """Skip a case that the driver or its server has nothing for."""
    for need in case.needs:
        if not has(driver, need):
            pytest.skip(f"{driver.name} does not claim {need}")
    if "write" in case.needs and not server.keeps_bytes:
        pytest.skip(f"{driver.name} keeps no bytes")
    for hook in case.hooks:
        if getattr(server, hook) is None:
            pytest.skip(f"the server of this test has no way to {hook}")


def run(start: Callable[[], Awaitable[Driver]], name: str, server: Server | None = None) -> None:
    """Run one case on a fresh driver; skipped when the driver does not have the capabilities."""
    case, server_given = CASES[name], server or Server()
    wants_server = case.function.__code__.co_argcount == 2

    async def run_case() -> None:
        driver = await start()
        try:
            refuse_unfit(driver, case, server_given)
            await (case.function(driver, server_given) if wants_server else case.function(driver))
        finally:
            await driver.stop()

    asyncio.run(run_case())
