"""The text of a UrlTree and the tree it stands for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryExists, EntryNotFound, Problem, StorageForbidden, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import DriverContext
from mangrove.drivers.options import Options
from mangrove.drivers.urltree.driver import UrlTree
from mangrove.drivers.urltree.options import SAMPLE, UrlTreeOptions
from mangrove.drivers.urltree.tree import Node, format, parse

P = TreePath
URL = "https://example.org/file.bin"


@contextmanager
def origin(files: Mapping[str, bytes]) -> Iterator[str]:
    """A server of these files that tells the size of /known alone; its address."""

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            if self.path == "/known":
                self.send_header("Content-Length", str(len(files[self.path])))
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            self.wfile.write(files[self.path])

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def names(node: Node) -> dict[str, object]:
    return {child.name: names(child) if child.is_dir else child.url for child in node.children.values()}


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", {}), ("\n  \n", {}), (URL, {"file.bin": URL}), (f"a:{URL}", {"a": URL}),
        ("https://example.org/a%20b?x=1#y", {"a b": "https://example.org/a%20b?x=1#y"}),
        ("https://example.org", {"example.org": "https://example.org"}),
        ("http://example.org/", {"example.org": "http://example.org/"}),
        (f"one:\n  two:\n    a:{URL}\n  b:{URL}\nc:{URL}", {"one": {"two": {"a": URL}, "b": URL}, "c": URL}),
        (f"one:\ntwo:\n  a:{URL}", {"one": {}, "two": {"a": URL}}),
        (f"a b:{URL} \r\nfolder: ", {"a b": URL, "folder": {}}),
        ("a:http://x/?u=https://y", {"a": "http://x/?u=https://y"}), ("f:oo:", {"f:oo": {}}),
    ],
)  # fmt: skip
def test_a_text_is_a_tree(text: str, tree: dict[str, object]) -> None:
    assert names(parse(text)) == tree


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (URL, ("file.bin", None, 0)), (f"a:{URL}", ("a", None, 0)), (f"a:5:{URL}", ("a", 5, 0)),
        (f"a:5:1700000000:{URL}", ("a", 5, 1700000000)), (f"a::17:{URL}", ("a", None, 17)),
        (f"a:0:{URL}", ("a", None, 0)), (f"a:0:17:{URL}", ("a", None, 17)),
    ],
)  # fmt: skip
def test_name_size_and_time_stand_before_the_address(line: str, expected: tuple[str, int | None, int]) -> None:
    (node,) = parse(line).children.values()
    assert (node.name, node.size, node.modified, node.url) == (*expected, URL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f" a:{URL}", f"the line ' a:{URL}' is not a multiple of 2"),
        (f"a:\n   {URL}", f"the line '   {URL}' is not a multiple of 2"),
        ("nothing", "invalid line: nothing, because url is required for file"),
        ("a:ftp://x", "invalid line: a:ftp://x, because url is required for file"),
        (f"a{URL}", f"invalid line: a{URL}, because file info must end with ':'"),
        (":", "invalid line: :, because file name can't be empty"),
        (f":{URL}", f"invalid line: :{URL}, because file name can't be empty"),
        (f"a:x:{URL}", f"invalid line: a:x:{URL}, because file size must be an integer"),
        (f"a:٣:{URL}", f"invalid line: a:٣:{URL}, because file size must be an integer"),
        (f"a:1:x:{URL}", f"invalid line: a:1:x:{URL}, because file modified must be an unix timestamp"),
        (f"  {URL}", f"invalid line:   {URL}, because it is indented too deep"),
        (f"../x:{URL}", f"invalid line: ../x:{URL}, because '../x' is no file name"),
        ("..:", "invalid line: ..:, because '..' is no file name"),
    ],
)  # fmt: skip
def test_a_line_that_does_not_fit_is_named_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(StorageProblem) as refusal:
        parse(text)
    assert refusal.value.message == message


@pytest.mark.parametrize(
    "text", [SAMPLE, f"one:\n  two:\n    a:5:17:{URL}\n  empty:\nc::9:{URL}", "https://example.org/a:b/c:d", URL]
)
def test_what_is_written_reads_as_the_same_tree(text: str) -> None:
    tree = parse(text)
    assert parse(format(tree)) == tree
    assert format(parse(format(tree))) == format(tree)


@pytest.mark.parametrize(
    ("line", "formatted"),
    [
        (URL, URL), (f"a:{URL}", f"a:{URL}"), (f"a:0:{URL}", f"a:{URL}"), (f"a::17:{URL}", f"a::17:{URL}"),
        (f"a:0:17:{URL}", f"a::17:{URL}"), (f"a:5:{URL}", f"a:5:0:{URL}"), (f"a:5:17:{URL}", f"a:5:17:{URL}"),
    ],
)  # fmt: skip
def test_an_unknown_size_stays_out_of_the_text(line: str, formatted: str) -> None:
    assert format(parse(line)) == formatted


def test_a_folder_is_as_large_as_its_files() -> None:
    assert parse(f"one:\n  a:5:{URL}\n  two:\n    b:7:{URL}\n  d:{URL}\nc:1:{URL}").total() == 13


def test_a_size_that_is_not_given_is_unknown_and_never_zero() -> None:
    async def work(driver: UrlTree) -> None:
        assert {entry.name: entry.size for entry in await base.list_all(driver, P("/"))} == {"a": None, "b": 5, "d": 0}
        assert (await driver.stat(P("/a"))).size is None
        assert (await driver.stat(P("/d/c"))).size is None

    driven(work, f"a:{URL}\nb:5:{URL}\nd:\n  c::17:{URL}")


@pytest.mark.parametrize("head_size", [False, True])
def test_the_bytes_of_a_file_without_a_size_are_all_read(head_size: bool) -> None:
    with origin({"/known": b"known", "/silent": b"silent"}) as address:
        text = f"known:{address}/known\nsilent:{address}/silent"

        async def work(driver: UrlTree) -> None:
            sizes = {entry.name: entry.size for entry in await base.list_all(driver, P("/"))}
            assert sizes == {"known": 5 if head_size else None, "silent": None}
            for name in sizes:
                assert b"".join([block async for block in await driver.read(P(f"/{name}"))]) == name.encode()

        driven(work, text, head_size=head_size)


@pytest.mark.parametrize("hosts", ["10.0.0.0/99", "http://intranet", "a b c/d"])
def test_allowed_hosts_that_are_none_are_told_at_the_start(hosts: str) -> None:
    driver = UrlTree(UrlTreeOptions(url_structure="", allowed_hosts=hosts), DriverContext())
    with pytest.raises(StorageProblem, match=r"^allowed_hosts: "):
        asyncio.run(driver.start())


def driven(
    work: Callable[[UrlTree], Awaitable[None]], text: str = "", writable: bool = True, head_size: bool = False
) -> list[str]:
    """Run changes on a started tree; every text it wanted to be kept."""
    structures: list[str] = []

    async def save_options(options: Options) -> None:
        assert isinstance(options, UrlTreeOptions)
        structures.append(options.url_structure)

    async def go() -> None:
        options = UrlTreeOptions(url_structure=text, head_size=head_size, writable=writable, allowed_hosts="127.0.0.1")
        driver = UrlTree(options, DriverContext(save_options=save_options))
        await driver.start()
        await work(driver)

    asyncio.run(go())
    return structures


def test_changes_are_kept_as_text() -> None:
    async def work(driver: UrlTree) -> None:
        await driver.makedirs(P("/one/two"))
        await driver.put_url(P("/one/a b"), URL)
        await driver.copy(P("/one"), P("/copy"))
        await driver.rename(P("/one/a b"), P("/one/c"))
        await driver.move(P("/one/two"), P("/two"))
        await driver.remove(P("/copy/two"))
        assert (await driver.stat(P("/one/c"))).url == URL

    structures = driven(work)
    assert len(structures) == 6
    assert names(parse(structures[-1])) == {"one": {"c": URL}, "copy": {"a b": URL}, "two": {}}


@pytest.mark.parametrize("name", ["a:b", "a:5", " a", "  a", "a\u2028b", "a\x85b", "x:http"])
def test_a_name_that_the_text_cannot_hold_is_refused_and_nothing_changes(name: str) -> None:
    async def work(driver: UrlTree) -> None:
        with pytest.raises(StorageProblem, match="cannot be stored"):
            await driver.rename(P("/d/x"), P("/d") / name)
        with pytest.raises(StorageProblem, match="cannot be stored"):
            await driver.put_url(P(f"/{name}"), URL)
        assert [entry.name for entry in await base.list_all(driver, P("/"))] == ["d"]
        assert [entry.name for entry in await base.list_all(driver, P("/d"))] == ["x"]

    assert driven(work, f"d:\n  x:{URL}") == []


@pytest.mark.parametrize("url", ["ftp://x/y", "", "/etc/passwd", "https://x/\na:https://y", "https://x/\u2028y"])
def test_only_an_address_in_one_line_is_stored(url: str) -> None:
    async def work(driver: UrlTree) -> None:
        with pytest.raises(StorageProblem):
            await driver.put_url(P("/a"), url)
        assert await base.list_all(driver, P("/")) == []

    assert driven(work) == []


def test_without_writable_nothing_changes() -> None:
    async def work(driver: UrlTree) -> None:
        for change in (
            driver.makedirs(P("/x")), driver.remove(P("/d")), driver.rename(P("/d"), P("/e")),
            driver.copy(P("/d"), P("/e")), driver.put_url(P("/x"), URL),
        ):  # fmt: skip
            with pytest.raises(StorageForbidden):
                await change
        assert [entry.name for entry in await base.list_all(driver, P("/"))] == ["d"]

    assert driven(work, "d:", writable=False) == []


def test_a_change_that_fails_leaves_the_tree_as_it_was() -> None:
    async def work(driver: UrlTree) -> None:
        cases: list[tuple[type[Problem], Awaitable[None]]] = [
            (EntryNotFound, driver.move(P("/none"), P("/d/x"))), (EntryNotFound, driver.rename(P("/none"), P("/x"))),
            (EntryExists, driver.makedirs(P("/d/a/b"))), (EntryNotFound, driver.put_url(P("/none/x"), URL)),
        ]  # fmt: skip
        for kind, change in cases:
            with pytest.raises(kind):
                await change
        assert names(driver.root) == {"d": {"a": URL}}

    assert driven(work, f"d:\n  a:{URL}") == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_url_tree_taken_name_is_replaced_only_by_file_if_allowed(overwrite: bool) -> None:
    async def work(driver: UrlTree) -> None:
        assert await driver.can_refuse_existing()
        for verb in (driver.rename, driver.move, driver.copy):
            for old, new in (("/d", "/e"), ("/d", "/a"), ("/a", "/d")):
                with pytest.raises(EntryExists):
                    await verb(P(old), P(new), overwrite=overwrite)
        with pytest.raises(EntryExists):
            await driver.put_url(P("/d"), URL)
        if not overwrite:
            with pytest.raises(EntryExists):
                await driver.move(P("/a"), P("/b"), overwrite=False)
        else:
            await driver.move(P("/a"), P("/b"))
        here = {"b": URL} if overwrite else {"a": URL, "b": f"{URL}?b"}
        assert names(driver.root) == {"d": {"x": URL}, "e": {}} | here

    driven(work, f"d:\n  x:{URL}\ne:\na:{URL}\nb:{URL}?b")


def test_one_of_many_changes_at_once_gets_a_name() -> None:
    async def work(driver: UrlTree) -> None:
        moves = [driver.move(P(f"/f{index}"), P("/x"), overwrite=False) for index in range(20)]
        ends = await asyncio.gather(*moves, return_exceptions=True)
        assert sum(end is None for end in ends) == 1
        assert sum(isinstance(end, EntryExists) for end in ends) == 19
        assert len(driver.root.children) == 20

    driven(work, "\n".join(f"f{index}:{URL}" for index in range(20)))


def test_a_folder_is_not_moved_or_copied_into_itself() -> None:
    async def work(driver: UrlTree) -> None:
        for verb in (driver.move, driver.copy):
            with pytest.raises(StorageProblem):
                await verb(P("/d"), P("/d/e/d"))
        assert names(driver.root) == {"d": {"e": {}}}

    driven(work, "d:\n  e:")


def test_bytes_are_not_stored() -> None:
    assert not UrlTree.capabilities.write


def test_invalid_path_name_is_shown_and_found_by_mapping() -> None:
    saved: list[str] = []

    async def save(options: Options) -> None:
        saved.append(str(getattr(options, "url_structure", "")))

    async def go() -> None:
        text = f"a/b:\n  c\\d.txt:5:7:{URL}\nhttps://example.org/x%2Fy"
        options = replace(UrlTreeOptions.parse("{}"), url_structure=text, writable=True)
        tree = UrlTree(options, DriverContext(char_mapping={"/": "|", "\\": "-"}, save_options=save))
        await tree.start()
        assert names(tree.root) == {"a|b": {"c-d.txt": URL}, "x|y": "https://example.org/x%2Fy"}
        assert (await tree.link(P("/a|b/c-d.txt"))).url == URL
        await tree.rename(P("/a|b/c-d.txt"), P("/a|b/e.txt"))
        assert names(parse(saved[-1])) == {"a|b": {"e.txt": URL}, "x|y": "https://example.org/x%2Fy"}

    asyncio.run(go())
    with pytest.raises(StorageProblem, match="is no file name"):
        parse(f"x/x:{URL}", {"x": ".", "/": ""})
