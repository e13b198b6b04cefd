"""Names that are shown as others: found by what is shown, none hidden by another one, none overwritten."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, EntryExists, EntryNotFound
from mangrove.drivers import shown_names
from mangrove.drivers.base import Driver, DriverContext, Upload
from mangrove.drivers.local.driver import Local
from mangrove.drivers.local.options import LocalOptions
from mangrove.drivers.s3.driver import S3
from mangrove.drivers.shown_names import NameMapping, show_names
from tests.contract.drivers.actions import body, content, names, put

P = TreePath
MAPPING = {":": "_", "?": ""}


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Callable[[Any], Awaitable[None]]], None]:
    """Run work on a Local storage in `tmp_path` whose names are shown by MAPPING."""

    async def start(work: Callable[[Any], Awaitable[None]]) -> None:
        options = replace(LocalOptions.parse("{}"), root_folder_path=str(tmp_path), show_hidden=True)
        driver = show_names(Local(options, DriverContext()), MAPPING)
        await driver.start()
        try:
            await work(driver)
        finally:
            await driver.stop()

    return lambda work: asyncio.run(start(work))


def fill(folder: Path, *file_names: str) -> None:
    """Make files that hold their own names."""
    folder.mkdir(exist_ok=True)
    for name in file_names:
        (folder / name).write_text(name)


def test_entries_of_a_folder_have_and_are_found_by_shown_names(run: Any, tmp_path: Path) -> None:
    fill(tmp_path / "d:e", "a:b", "plain", "why?")

    async def work(driver: Any) -> None:
        assert await names(driver, "/") == ["d_e"]
        assert await names(driver, "/d_e") == ["a_b", "plain", "why"]
        for shown, name in (("a_b", b"a:b"), ("plain", b"plain"), ("why", b"why?")):
            assert (await driver.stat(P("/d_e") / shown)).name == shown
            assert await content(driver, f"/d_e/{shown}") == name
        for hidden in ("/d:e", "/d:e/a:b", "/d_e/a:b", "/d_e/why?", "/d_e/none", "/d_e/no_ne"):
            with pytest.raises(EntryNotFound):
                await driver.stat(P(hidden))

    run(work)


def test_changes_under_shown_names_concern_the_entries_shown(run: Any, tmp_path: Path) -> None:
    fill(tmp_path, "a:b", "c:d", "e:f", "g:h")

    async def work(driver: Any) -> None:
        await put(driver, "/a_b", b"new")
        with pytest.raises(EntryExists):
            await put(driver, "/c_d", b"new", overwrite=False)
        await driver.rename(P("/c_d"), P("/renamed"))
        await driver.copy(P("/e_f"), P("/copy_of"))
        await driver.remove(P("/g_h"))
        await driver.remove(P("/none:here"))
        await driver.makedirs(P("/x_y/z"))
        assert await names(driver, "/") == ["a_b", "copy_of", "e_f", "renamed", "x_y"]

    run(work)
    assert sorted(os.listdir(tmp_path)) == ["a:b", "copy_of", "e:f", "renamed", "x_y"]
    assert (tmp_path / "a:b").read_text() == "new" and (tmp_path / "renamed").read_text() == "c:d"


def test_names_that_would_be_shown_alike_stay_apart(run: Any, tmp_path: Path) -> None:
    """A name that the mapping leaves alone keeps it; others that would clash are shown as they are."""
    fill(tmp_path, "a_b", "a:b", "x:y?", "x:y", "z:z")

    async def work(driver: Any) -> None:
        assert await names(driver, "/") == ["a:b", "a_b", "x:y", "x:y?", "z_z"]
        for name in ("a_b", "a:b", "x:y?", "x:y"):
            assert await content(driver, f"/{name}") == name.encode()
        await put(driver, "/a_b", b"new")
        await driver.remove(P("/x:y?"))
        await driver.write(P("/x_y"), body(b"new"), Upload(3, 1.0, overwrite=True))  # `x:y` has no rival any more

    run(work)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "a_b": "new", "a:b": "a:b", "x:y": "new", "z:z": "z:z",
    }  # fmt: skip


def test_new_name_that_would_be_shown_as_another_is_refused(run: Any, tmp_path: Path) -> None:
    fill(tmp_path, "file")

    async def work(driver: Any) -> None:
        for change in (
            put(driver, "/a:b"), driver.makedirs(P("/d/e?f")), driver.copy(P("/file"), P("/x:y")),
            driver.rename(P("/file"), P("/x:y")),
        ):  # fmt: skip
            with pytest.raises(BadRequest, match="filename_char_mapping"):
                await change

    run(work)
    assert os.listdir(tmp_path) == ["file"]


def test_entry_that_appears_behind_known_names_is_not_overwritten(run: Any, tmp_path: Path) -> None:
    """The changed names of a folder are known for some seconds: another program may be quicker."""
    fill(tmp_path, "a:b")

    async def work(driver: Any) -> None:
        assert await names(driver, "/") == ["a_b"]
        fill(tmp_path, "a_b")
        await put(driver, "/a_b", b"new")

    run(work)
    assert ((tmp_path / "a:b").read_text(), (tmp_path / "a_b").read_text()) == ("a:b", "new")


@pytest.mark.parametrize(
    ("mapping", "all_names", "shown"),
    [
        ({"a": "b", "b": "c"}, "a b c d", {"a": "a", "b": "b", "c": "c", "d": "d"}),
        ({"a": "aa"}, "a aa", {"aa": "a", "aaaa": "aa"}),
        ({"x": ".", "y": "/", "z": ""}, "x xx y z", {"x": "x", "xx": "xx", "y": "y", "z": "z"}),
        ({":": "é" * 200}, ":", {":": ":"}),
    ],
)
def test_shown_names_are_names_and_differ(mapping: dict[str, str], all_names: str, shown: dict[str, str]) -> None:
    names_of = NameMapping(mapping)
    changed = [name for name in all_names.split() if names_of.apply(name) != name]
    plain = set(all_names.split()) - {*changed}
    assert names_of.show(changed, plain) | {name: name for name in plain} == shown


def test_mapping_of_what_no_name_has_costs_nothing(tmp_path: Path) -> None:
    driver = Local(replace(LocalOptions.parse("{}"), root_folder_path=str(tmp_path)), DriverContext())
    assert show_names(driver, {"/": "|", "a\\b": "x", "same": "same"}) is driver


def test_driver_under_shown_names_claims_what_it_can_do_by_name() -> None:
    local, bucket = (shown_names._make_class(kind) for kind in (Local, S3))
    assert local.capabilities.write and local.capabilities.get_change_token
    assert bucket.capabilities.link and not local.capabilities.link
    assert S3.capabilities.list_page and not bucket.capabilities.list_page
    assert issubclass(bucket, Driver)
