"""The folders of an alias, and the target of a change if there are several."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    BadRequest,
    EntryExists,
    EntryNotFound,
    NotSupported,
    Problem,
    RelativePath,
    StorageForbidden,
    StorageProblem,
)
from mangrove.drivers import base
from mangrove.drivers.alias.driver import Alias
from mangrove.drivers.alias.options import AliasOptions, parse
from mangrove.drivers.base import Driver, DriverContext, Upload
from mangrove.drivers.local.driver import Local, LocalOptions

P = TreePath


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("", {}), (" \n\n", {}), ("/a", {"a": ["/a"]}), ("/a/b/\r\n", {"b": ["/a/b"]}),
        ("x:/a\n y:/b ", {"x": ["/a"], "y": ["/b"]}), ("x:/a\nx:/b\n/c/x", {"x": ["/a", "/b", "/c/x"]}),
        ("/a:b/c", {"c": ["/a:b/c"]}), ("x:/a:b", {"x": ["/a:b"]}), (":/a/b", {"b": ["/a/b"]}),
        ("x:a\\b", {"x": ["/a/b"]}),
        ("a/x:/b", {"b": ["/a/x:/b"]}), ("/", {"": ["/"]}),
    ],
)  # fmt: skip
def test_lines_name_folders(text: str, sources: dict[str, list[str]]) -> None:
    assert parse(text) == sources


def test_a_path_that_leaves_its_place_is_refused() -> None:
    with pytest.raises(RelativePath):
        parse("x:/a/../b")


class MountResolver:
    """A tree of Local storages."""

    def __init__(self, **roots: Path) -> None:
        self.drivers = {name: Local(LocalOptions.parse(f'{{"root_folder_path": "{roots[name]}"}}'), DriverContext())
                        for name in roots}  # fmt: skip

    async def resolve(self, path: TreePath) -> tuple[Driver, TreePath]:
        name = path.split("/")[1]
        if name not in self.drivers:
            raise StorageProblem(f"storage not found; rawPath: {path}")
        return self.drivers[name], path.below(P(f"/{name}"))

    def folders(self, path: TreePath) -> list[str]:
        return list(self.drivers) if path == "/" else []


@pytest.fixture
def disks(tmp_path: Path) -> dict[str, Path]:
    """Three disks; `both` is on a and b, `on_a` on a alone."""
    disk_folders = {name: tmp_path / name for name in "abc"}
    for name, folders in (("a", ["both", "on_a"]), ("b", ["both"]), ("c", [])):
        for folder in folders:
            (disk_folders[name] / folder).mkdir(parents=True)
        disk_folders[name].mkdir(exist_ok=True)
    return disk_folders


def on(disks: dict[str, Path], work: Callable[[Any], Awaitable[Any]], paths: str = "/a\n/b", **options: Any) -> Any:
    """Run `work` on an alias, by default of the disks a and b under one name."""

    async def go() -> Any:
        text = "\n".join(f"one:{line}" if ":" not in line else line for line in paths.splitlines())
        values = replace(AliasOptions.parse("{}"), **{"paths": text, **options})
        alias = Alias(values, DriverContext(mount_path=P("/alias"), resolver=MountResolver(**disks)))
        await alias.start()
        return await work(alias)

    return asyncio.run(go())


async def body(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def where(disks: dict[str, Path], path: str) -> str:
    """The disks that have it."""
    return "".join(name for name, root in disks.items() if (root / path).exists())


POLICIES = [
    ("", StorageForbidden, StorageForbidden), ("disabled", StorageForbidden, StorageForbidden), ("first", "a", "a"),
    ("deterministic", "path conflict", "a"), ("deterministic_or_all", "ab", "a"), ("all", "ab", "a"),
    ("all_strict", "ab", "leak some of same-name dirs"),
]  # fmt: skip


def expect(disks: dict[str, Path], outcome: Any, made: str, act: Callable[[], Any]) -> None:
    if isinstance(outcome, str) and len(outcome) > 3:
        with pytest.raises(StorageProblem, match=outcome):
            act()
    elif not isinstance(outcome, str):
        with pytest.raises(outcome):
            act()
    else:
        act()
        assert where(disks, made) == outcome
        return
    assert where(disks, made) == ""


@pytest.mark.parametrize(("policy", "both", "on_a"), POLICIES)
def test_where_a_new_folder_goes(disks: dict[str, Path], policy: str, both: Any, on_a: Any) -> None:
    for folder, outcome in (("both", both), ("on_a", on_a)):
        path = P(f"/{folder}/new")
        act = lambda path=path: on(disks, lambda alias: alias.makedirs(path), write_conflict_policy=policy)  # noqa: E731
        expect(disks, outcome, f"{folder}/new", act)


@pytest.mark.parametrize(("policy", "both", "on_a"), [*POLICIES, ("random", None, "a"), ("quota", None, "a")])
def test_where_an_upload_goes(disks: dict[str, Path], policy: str, both: Any, on_a: Any) -> None:
    for folder, outcome in (("both", both), ("on_a", on_a)):
        path = P(f"/{folder}/new")

        def act(path: TreePath = path) -> None:
            upload = Upload(4, 1.0)
            on(disks, lambda alias: alias.write(path, body(b"by", b"te"), upload), put_conflict_policy=policy)

        if outcome is None:
            act()
            assert where(disks, f"{folder}/new") in ("a", "b")
        else:
            expect(disks, outcome, f"{folder}/new", act)
        assert all((disks[name] / folder / "new").read_bytes() == b"byte" for name in where(disks, f"{folder}/new"))


def test_a_quota_that_is_strict_wants_space_everywhere(disks: dict[str, Path]) -> None:
    on(disks, lambda alias: alias.write(P("/both/new"), body(b"x"), Upload(1, 1.0)), put_conflict_policy="quota_strict")
    assert where(disks, "both/new") in ("a", "b")


def test_a_body_that_is_refused_is_left_on_no_disk(disks: dict[str, Path]) -> None:
    async def work(alias: Any) -> None:
        with pytest.raises(BadRequest, match="instead of the announced 9"):
            await alias.write(P("/both/new"), body(b"x"), Upload(9, 1.0))

    on(disks, work, put_conflict_policy="all")
    assert [list((disks[name] / "both").iterdir()) for name in "ab"] == [[], []]


def test_a_body_that_is_cut_is_left_on_no_disk(disks: dict[str, Path]) -> None:
    async def cut() -> AsyncIterator[bytes]:
        yield b"x"
        raise ConnectionResetError("the client went away")

    async def work(alias: Any) -> None:
        with pytest.raises(ConnectionResetError):
            await alias.write(P("/both/new"), cut(), Upload(9, 1.0))

    on(disks, work, put_conflict_policy="all")
    assert [list((disks[name] / "both").iterdir()) for name in "ab"] == [[], []]


def test_a_disk_that_refuses_stops_the_others(disks: dict[str, Path]) -> None:
    (disks["b"] / "both" / "new").mkdir()

    async def work(alias: Any) -> None:
        with pytest.raises(StorageProblem, match="file exists"):
            await alias.write(P("/both/new"), body(*[b"x" * 100_000] * 50), Upload(5_000_000, 1.0))

    on(disks, work, put_conflict_policy="all")
    assert list((disks["a"] / "both").iterdir()) == []


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("holder", ["a", "b"])
def test_body_is_stored_nowhere_if_one_storage_has_the_name(disks: dict[str, Path], holder: str, late: bool) -> None:
    taken = disks[holder] / "both" / "new"

    async def take_the_name() -> AsyncIterator[bytes]:
        yield b"new"
        taken.write_text("old")

    async def work(alias: Any) -> None:
        if not late:
            taken.write_text("old")
        with pytest.raises(EntryExists):
            content = take_the_name() if late else body(b"new")
            await alias.write(P("/both/new"), content, Upload(3, 1.0, overwrite=False))

    on(disks, work, put_conflict_policy="all")
    assert (where(disks, "both/new"), taken.read_text()) == (holder, "old")


@pytest.mark.parametrize("verb", ["rename", "move", "copy"])
def test_a_name_that_one_disk_has_is_taken_on_none_of_them(disks: dict[str, Path], verb: str) -> None:
    for name in "ab":
        (disks[name] / "both" / "old").write_text(name)
    (disks["b"] / "both" / "new").write_text("taken")

    async def work(alias: Any) -> None:
        with pytest.raises(EntryExists):
            await getattr(alias, verb)(P("/both/old"), P("/both/new"), overwrite=False)

    on(disks, work, put_conflict_policy="all", write_conflict_policy="all")
    assert (where(disks, "both/old"), where(disks, "both/new")) == ("ab", "b")
    assert (disks["b"] / "both" / "new").read_text() == "taken"


@pytest.mark.parametrize(
    ("paths", "capable", "expected"),
    [
        ("/a", True, True), ("/a", False, False), ("one:/a\ntwo:/b", True, True), ("/a\n/b", True, False),
        ("/a\n/nowhere", True, False), ("/nowhere", True, False), ("/", True, False),
    ],
)  # fmt: skip
def test_alias_refuses_taken_names_atomically_if_its_storages_do(
    disks: dict[str, Path], monkeypatch: pytest.MonkeyPatch, paths: str, capable: bool, expected: bool
) -> None:
    async def answer(driver: Local) -> bool:
        return capable

    monkeypatch.setattr(Local, "can_refuse_existing", answer)

    async def work(alias: Any) -> None:
        assert await alias.can_refuse_existing() is expected

    on(disks, work, paths)


@pytest.mark.parametrize(("paths", "expected"), [("/a\n/b", True), ("/a\n/nowhere", False)])
def test_an_alias_proves_what_all_its_storages_prove(
    disks: dict[str, Path], monkeypatch: pytest.MonkeyPatch, paths: str, expected: bool
) -> None:
    async def answer(driver: Local) -> bool:
        return True

    monkeypatch.setattr(Local, "proves_writes", answer)

    async def work(alias: Any) -> None:
        assert await alias.proves_writes() is expected

    on(disks, work, paths)


@pytest.mark.parametrize("verb", ["rename", "remove"])
@pytest.mark.parametrize(("policy", "changed"), [("first", "a"), ("all", "ab"), ("deterministic_or_all", "ab")])
def test_where_a_rename_and_a_removal_go(disks: dict[str, Path], verb: str, policy: str, changed: str) -> None:
    changes: dict[str, Callable[[Any], Awaitable[None]]] = {
        "rename": lambda alias: alias.rename(P("/both"), P("/renamed")),
        "remove": lambda alias: alias.remove(P("/both")),
    }
    on(disks, changes[verb], write_conflict_policy=policy)
    assert where(disks, "both") == "".join(name for name in "ab" if name not in changed)
    assert where(disks, "renamed") == (changed if verb == "rename" else "")


def test_a_move_stays_on_each_disk_and_needs_a_task_where_it_cannot(disks: dict[str, Path]) -> None:
    for name in "ab":
        (disks[name] / "both" / "file").write_text(name)
    policies = {"put_conflict_policy": "all", "write_conflict_policy": "all"}

    async def work(alias: Any) -> None:
        with pytest.raises(NotSupported):
            await alias.move(P("/both/file"), P("/on_a/file"))
        await alias.move(P("/both/file"), P("/both/moved"))

    on(disks, work, **policies)
    assert [(disks[name] / "both" / "moved").read_text() for name in "ab"] == ["a", "b"]
    assert where(disks, "on_a/file") == ""


def test_the_earlier_line_wins_a_name(disks: dict[str, Path]) -> None:
    (disks["a"] / "both" / "x").write_text("first")
    (disks["b"] / "both" / "x").write_text("second one")
    (disks["b"] / "both" / "y").write_text("")

    async def work(alias: Any) -> None:
        sizes = {entry.name: entry.size for entry in await base.list_all(alias, P("/both"))}
        assert sizes == {"x": 5, "y": 0}
        assert b"".join([block async for block in await alias.read(P("/both/x"))]) == b"first"
        assert (await alias.stat(P("/both/y"))).size == 0
        with pytest.raises(EntryNotFound):
            await alias.stat(P("/both/z"))

    on(disks, work)


def test_several_names_are_locked_folders(disks: dict[str, Path]) -> None:
    async def work(alias: Any) -> None:
        assert sorted(entry.name for entry in await base.list_all(alias, P("/"))) == ["one", "two"]
        assert (await alias.stat(P("/two"))).is_dir
        with pytest.raises(EntryNotFound):
            await base.list_all(alias, P("/three"))
        for change in (
            alias.remove(P("/one")), alias.rename(P("/one"), P("/x")), alias.makedirs(P("/new")),
            alias.move(P("/one"), P("/two/one")), alias.remove(P("/")),
        ):  # fmt: skip
            with pytest.raises(StorageForbidden):
                await change
        await alias.makedirs(P("/two/new"))

    on(disks, work, "one:/a\ntwo:/b", write_conflict_policy="first")
    assert where(disks, "new") == "b"


def test_a_line_that_leads_nowhere_does_not_hide_the_others(disks: dict[str, Path]) -> None:
    async def work(alias: Any) -> None:
        assert {"both", "on_a"} <= {entry.name for entry in await base.list_all(alias, P("/"))}
        assert (await alias.stat(P("/on_a"))).is_dir

    on(disks, work, "/nowhere\n/a")

    async def nothing(alias: Any) -> None:
        with pytest.raises(StorageProblem, match="storage not found"):
            await base.list_all(alias, P("/"))

    on(disks, nothing, "/nowhere")


@pytest.mark.parametrize(
    ("paths", "message"),
    [("", "paths is required"), ("x:/alias", "lies in the alias itself"), ("x:/alias/y", "lies in the alias itself")],
)
def test_an_alias_of_nothing_or_of_itself_does_not_start(disks: dict[str, Path], paths: str, message: str) -> None:
    async def work(alias: Any) -> None:
        raise AssertionError("it started")

    with pytest.raises(Problem, match=message):
        on(disks, work, paths)
