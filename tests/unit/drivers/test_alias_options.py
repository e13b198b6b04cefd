"""The file that an alias reads if several have the same name, and its facts about the storages behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import NotSupported
from mangrove.drivers.alias.driver import Alias
from mangrove.drivers.alias.options import AliasOptions
from mangrove.drivers.base import Capacity, DriverContext, list_all
from tests.unit.drivers.test_alias import MountResolver

FILE = TreePath("/f")


@pytest.fixture
def resolver(tmp_path: Path) -> MountResolver:
    """Three disks with a file of one name; the one on c is longer."""
    for name, content in (("a", "a"), ("b", "b"), ("c", "long")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text(content)
    return MountResolver(**{name: tmp_path / name for name in "abc"})


def ask(resolver: MountResolver, work: Callable[[Alias], Awaitable[Any]], **options: Any) -> Any:
    async def go() -> Any:
        values = replace(AliasOptions.parse("{}"), **({"paths": "x:/a\nx:/b\nx:/c"} | options))
        alias = Alias(values, DriverContext(mount_path=TreePath("/alias"), resolver=resolver))
        await alias.start()
        return await work(alias)

    return asyncio.run(go())


async def read_often(alias: Alias) -> set[bytes]:
    contents: set[bytes] = set()
    for _ in range(100):
        contents.add(b"".join([block async for block in await alias.read(FILE)]))
    return contents


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {b"a"}),
        ({"read_conflict_policy": "first"}, {b"a"}),
        ({"read_conflict_policy": "random"}, {b"a", b"b", b"long"}),
        ({"read_conflict_policy": "all"}, {b"a", b"b", b"long"}),
        ({"read_conflict_policy": "random", "file_consistency_check": True}, {b"a", b"b"}),
    ],
)
def test_which_file_is_read(resolver: MountResolver, options: dict[str, Any], expected: set[bytes]) -> None:
    assert ask(resolver, read_often, **options) == expected


def test_the_provider_of_a_file_is_told_where_that_is_wanted(resolver: MountResolver) -> None:
    async def list_providers(alias: Alias) -> set[str]:
        return {(await alias.stat(FILE)).provider} | {entry.provider for entry in await list_all(alias, TreePath("/"))}

    assert ask(resolver, list_providers) == {""}
    assert ask(resolver, list_providers, provider_pass_through=True) == {"Local"}


def test_the_space_of_the_first_storage_is_told_where_that_is_wanted(resolver: MountResolver) -> None:
    async def get_space(alias: Alias) -> Capacity:
        return await alias.get_space()

    assert ask(resolver, get_space, details_pass_through=True).total > 0
    with pytest.raises(NotSupported):
        ask(resolver, get_space)
