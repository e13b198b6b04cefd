"""The cost of a request with very many names: rules are evaluated once per folder, and other requests get their
turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mangrove.core.paths import MAX_PATH_DEPTH, TreePath
from mangrove.core.problems import BadRequest, EntryNotFound
from mangrove.drivers.base import Capabilities, DriverProperties, Entry
from mangrove.identity.rights import Right
from mangrove.tree.access import PathAccess
from mangrove.tree.operations import changes, transfers
from mangrove.tree.operations.plans import TransferRequest
from mangrove.tree.rules import Rules
from tests.unit.tree import builders
from tests.unit.tree.memory_folders import MemoryFolders

DEEP = TreePath("/".join(["d"] * (MAX_PATH_DEPTH - 2)))
RULES = [builders.meta(str(path), hide="^secret$", h_sub=True) for path in DEEP.ancestors()[::4]]
Verb = Callable[[PathAccess, list[str]], Coroutine[Any, Any, Any]]


class Folders(MemoryFolders):
    """A storage that answers immediately, and never yields to other tasks."""

    config = DriverProperties(no_cache=True, direct_lookup=True)
    capabilities = Capabilities(remove=True, rename=True, move=True, copy=True)

    async def can_refuse_existing(self) -> bool:
        return True

    async def stat(self, path: TreePath) -> Entry:
        if path not in (DEEP, DEEP.parent) and path.parent != DEEP:
            raise EntryNotFound
        return Entry(path.name, 1, 1.0, path.name == "d")

    async def change(self, *args: Any, **options: Any) -> None:
        """Done."""

    remove = rename = move = copy = change


VERBS: dict[str, tuple[Right, Verb]] = {
    "copy": (
        Right.COPY,
        lambda folder, names: transfers.transfer(TransferRequest(Right.COPY, folder, folder.parent, names)),
    ),
    "move": (
        Right.MOVE,
        lambda folder, names: transfers.transfer(TransferRequest(Right.MOVE, folder, folder.parent, names)),
    ),
    "remove": (Right.DELETE, changes.remove),
    "rename": (Right.RENAME, lambda folder, names: transfers.rename_all(folder, {n: f"{n}x" for n in names}, True)),
}


@pytest.mark.parametrize("verb", VERBS)
def test_rules_are_evaluated_in_one_pass_with_turns_for_others(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passes, turns, evaluate = 0, 0, Rules.evaluate

    def count(*args: Any) -> Any:
        nonlocal passes
        passes += 1
        return evaluate(*args)

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def go() -> None:
        others = asyncio.create_task(take_turns())
        await act(builders.access(Folders(), str(DEEP), right, *RULES), [f"n{number}" for number in range(2000)])
        others.cancel()

    right, act = VERBS[verb]
    monkeypatch.setattr(Rules, "evaluate", count)
    asyncio.run(go())
    assert passes < 10
    assert turns > 5


@pytest.mark.parametrize("verb", ["copy", "move"])
def test_a_folder_that_is_missing_is_found_before_names_are_judged(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, act = VERBS[verb]
    folder = builders.access(Folders(), "/gone", right, *RULES)
    monkeypatch.setattr(Rules, "evaluate_child", None)
    with pytest.raises(EntryNotFound, match="failed to get src object"):
        asyncio.run(act(folder, ["a", "b"]))


@pytest.mark.parametrize("verb", VERBS)
def test_a_request_has_ten_thousand_names_at_most(verb: str) -> None:
    right, act = VERBS[verb]
    with pytest.raises(BadRequest, match="10001 names in one request, at most 10000 are taken"):
        asyncio.run(act(builders.access(Folders(), str(DEEP), right), [f"n{number}" for number in range(10_001)]))
