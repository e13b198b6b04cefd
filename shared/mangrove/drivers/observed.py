"""The reachability of a storage, as its use shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, Unreachable
from mangrove.drivers.base import Driver, Entry

Note = Callable[[Unreachable | None], None]
OBSERVED = ("stat", "makedirs", "remove")  # and listings; bodies may fail because of another storage


def observe(driver: Driver, note: Note) -> None:
    """Call `note` with each failure of the driver to reach its storage, and with None for each answer."""
    for name in OBSERVED:
        setattr(driver, name, _observe_call(driver, name, note))
    for name in ("list", "list_names"):
        setattr(driver, name, _observe_list(getattr(driver, name), note))


def _observe_call(driver: Driver, name: str, note: Note) -> Callable[..., Any]:
    async def call(*args: Any, **options: Any) -> Any:
        try:
            result = await getattr(type(driver), name)(driver, *args, **options)
        except Unreachable as problem:
            note(problem)
            raise
        except EntryNotFound:
            note(None)
            raise
        note(None)
        return result

    return call


def _observe_list(
    method: Callable[[TreePath], AsyncIterator[Sequence[Entry]]], note: Note
) -> Callable[[TreePath], AsyncIterator[Sequence[Entry]]]:
    async def call(path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        try:
            async for batch in method(path):
                yield batch
        except Unreachable as problem:
            note(problem)
            raise
        note(None)

    return call
