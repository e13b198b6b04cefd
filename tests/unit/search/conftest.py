"""Fixtures of the search tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from mangrove.core import runtime
from mangrove.core.config import Config, config
from tests.unit.search.indexed import Index, Storage
from tests.unit.search.search_env import SearchEnv
from tests.unit.tree.conftest import tree
from tests.unit.tree.environment import TreeEnv

__all__ = ["tree"]


@pytest.fixture
def searched(tree: TreeEnv) -> Iterator[SearchEnv]:
    """A tree with an index that knows of its own changes; nothing is mounted."""
    data = tree.folder / "data"
    data.mkdir()
    runtime.put(Config, replace(config(), data=data))
    env = SearchEnv(tree)
    yield env
    env.close()


@pytest.fixture
def make_index(tmp_path: Path) -> Iterator[Callable[[Sequence[Storage]], Index]]:
    """Makes the index of some storages, in the test's own runtime; it is closed at the end."""
    with ExitStack() as stack:

        def make(storages: Sequence[Storage]) -> Index:
            index = Index(tmp_path, storages)
            stack.callback(index.database.close)
            return index

        yield make
