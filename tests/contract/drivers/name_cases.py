"""Cases of the driver suite: a name comes back as it was given, or is refused; it is never changed silently."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, StorageForbidden, StorageProblem
from mangrove.drivers import base
from mangrove.drivers.base import Upload
from mangrove.drivers.part_names import make_part_name
from tests.contract.drivers.actions import SENT_AT, check_file, exists, fails, make_tree, names, put
from tests.contract.drivers.cases import FILES, Server, needs

P = TreePath
NFC, NFD = "caf\u00e9", "cafe\u0301"
PLAIN = ["a.txt", "with space", "two  spaces", "äöü-日本-🌳", "UPPER.TXT", "no_extension", "a.tar.gz", "x" * 100]
QUOTED = ["per%cent", "%41", "%2F", "%2f..", "%", "%%", "plus+plus", "a&b=c", "#hash", "semi;colon", "~tilde", "[b]{c}"]
DOTTED = [".hidden", "..two", "...", "dot.", "dots..", ".a.b."]
SPACED = [" leading", "trailing ", "  both  ", " ", "tab\there"]
RESERVED = ["what?", "a:b", "a*b", 'a"b', "a<b>c", "a|b", "'quote'", "a,b", "$HOME", "`x`", "!bang", "-dash", "@at"]
CONTROLS = ["line\nfeed", "return\r", "bell\x07", "escape\x1b[0m", "delete\x7f", "\x01", "\u2028", "\ufeff", "\u202e"]
DEVICES = ["CON", "nul", "com1.txt", "desktop.ini", "a.lnk", "web.config", ".htaccess", ".DS_Store", ".mangrove"]


async def try_names(driver: Any, candidates: Sequence[str], make: Callable[[str], Awaitable[Any]]) -> list[str]:
    """Make something of each name below /d; the names that survived. Each of the others was refused, the problem
    names it, and nothing came of it."""
    stored_names: list[str] = []
    for name in candidates:
        try:
            await make(name)
        except StorageProblem as problem:
            assert name.strip() in str(problem) or not name.strip().isprintable(), f"{problem} does not name {name!r}"
            assert await names(driver, "/d") == sorted(stored_names), name
        else:
            stored_names.append(name)
    assert await names(driver, "/d") == sorted(stored_names)
    return stored_names


async def try_files(driver: Any, candidates: Sequence[str]) -> None:
    """Files of these names, found again by list, stat and read, and removed."""
    await driver.makedirs(P("/d"))
    stored_names = await try_names(driver, candidates, lambda name: put(driver, f"/d/{name}", name.encode()))
    for name in stored_names:
        await check_file(driver, f"/d/{name}", name.encode())
    if driver.capabilities.remove:
        for removed, left in ((stored_names[::2], stored_names[1::2]), (stored_names[1::2], [])):
            for name in removed:
                await driver.remove(P(f"/d/{name}"))
            assert await names(driver, "/d") == sorted(left)
    assert await names(driver, "/") == ["d"]


@needs(FILES, "makedirs")
async def plain_names_survive(driver: Any) -> None:
    await driver.makedirs(P("/d"))
    assert await try_names(driver, PLAIN, lambda name: put(driver, f"/d/{name}", name.encode())) == PLAIN
    for name in PLAIN:
        await check_file(driver, f"/d/{name}", name.encode())


@needs(FILES, "makedirs")
async def names_that_look_like_escapes_are_taken_as_they_are(driver: Any) -> None:
    await try_files(driver, QUOTED)


@needs(FILES, "makedirs")
async def names_with_dots_are_taken_as_they_are(driver: Any) -> None:
    await try_files(driver, DOTTED)


@needs(FILES, "makedirs")
async def spaces_at_the_ends_of_names_are_kept_or_refused(driver: Any) -> None:
    await try_files(driver, SPACED)


@needs(FILES, "makedirs")
async def names_that_some_systems_reserve_are_kept_or_refused(driver: Any) -> None:
    await try_files(driver, RESERVED)


@needs(FILES, "makedirs")
async def control_characters_in_names_are_kept_or_refused(driver: Any) -> None:
    await try_files(driver, CONTROLS)


@needs(FILES, "makedirs")
async def names_of_devices_and_settings_are_kept_or_refused(driver: Any) -> None:
    await try_files(driver, DEVICES)


@needs(FILES, "makedirs")
async def names_of_255_bytes_are_kept_or_refused(driver: Any) -> None:
    await try_files(driver, ["n" * 255, "日" * 85, "🌳" * 63 + "abc", "é" * 127 + "x"])


@needs(FILES, "makedirs")
async def names_that_are_too_long_are_kept_or_refused(driver: Any) -> None:
    await driver.makedirs(P("/d"))
    for name in ("n" * 256, "日" * 86, "n" * 1100):
        try:
            await put(driver, f"/d/{name}")
        except StorageProblem:
            assert await names(driver, "/d") == [], len(name)
        else:
            assert await names(driver, "/d") == [name]
            await driver.remove(P(f"/d/{name}"))


async def check_pair(driver: Any, first: str, second: str) -> None:
    """Two names that a storage may take for one: two files, or the second one is refused and the first one stays."""
    await put(driver, f"/{first}", b"first")
    try:
        if driver.capabilities.write:
            await put(driver, f"/{second}", b"second one", overwrite=False)
        else:
            await put(driver, f"/{second}", b"second one")
    except StorageProblem:
        assert await names(driver, "/") == [first]
    else:
        assert await names(driver, "/") == sorted([first, second])
        await check_file(driver, f"/{second}", b"second one")
    await check_file(driver, f"/{first}", b"first")


@needs(FILES)
async def composed_and_decomposed_letters_are_kept_apart_or_refused(driver: Any) -> None:
    await check_pair(driver, NFC, NFD)


@needs(FILES)
async def a_decomposed_name_comes_back_decomposed(driver: Any) -> None:
    await check_pair(driver, NFD, NFC)


@needs(FILES, "makedirs")
async def folders_with_composed_and_decomposed_names_are_kept_apart_or_refused(driver: Any) -> None:
    await make_tree(driver, [f"/{NFC}"], [f"/{NFC}/f"])
    try:
        await driver.makedirs(P(f"/{NFD}"))
    except StorageProblem:
        assert await names(driver, "/") == [NFC]
    else:
        await put(driver, f"/{NFD}/g")
        assert await names(driver, "/") == sorted([NFC, NFD])
        assert await names(driver, f"/{NFD}") == ["g"]
    assert await names(driver, f"/{NFC}") == ["f"]


@needs(FILES)
async def upper_and_lower_case_are_kept_apart_or_refused(driver: Any) -> None:
    await check_pair(driver, "Name.txt", "name.TXT")


@needs("rename", "write")
async def the_case_of_a_name_can_be_changed(driver: Any) -> None:
    await put(driver, "/name", b"content")
    await driver.rename(P("/name"), P("/NAME"))
    assert await names(driver, "/") == ["NAME"]
    await check_file(driver, "/NAME", b"content")


@needs(FILES, "makedirs")
async def folders_take_the_names_that_files_take(driver: Any) -> None:
    candidates = ["with space", "äöü-日本", "per%41cent", "%2F", "plus+", "#hash?", ".hidden", "a&b=c;", NFC]
    await driver.makedirs(P("/d"))

    async def make(name: str) -> None:
        await driver.makedirs(P(f"/d/{name}"))
        await put(driver, f"/d/{name}/{name}", name.encode())

    for name in await try_names(driver, candidates, make):
        entry = await driver.stat(P(f"/d/{name}"))
        assert (entry.name, entry.is_dir) == (name, True)
        assert await names(driver, f"/d/{name}") == [name]
        await check_file(driver, f"/d/{name}/{name}", name.encode())


@needs(FILES, "rename", "makedirs")
async def a_rename_takes_the_names_that_a_write_takes(driver: Any) -> None:
    await driver.makedirs(P("/d"))
    await put(driver, "/d/0", b"content")
    last = "0"
    for name in [*QUOTED[::3], *SPACED[::2], *RESERVED[::3], "n" * 255, NFD]:
        try:
            await driver.rename(P(f"/d/{last}"), P(f"/d/{name}"))
            last = name
        except StorageProblem:
            pass
        assert await names(driver, "/d") == [last], name
    await check_file(driver, f"/d/{last}", b"content")


@needs(FILES, "move", "copy", "makedirs")
async def moves_and_copies_take_unusual_names_of_files_and_folders(driver: Any) -> None:
    folder, name = "/from #1 50% ä+", "f;%41 日"
    await make_tree(driver, [folder, "/to & fro"], [f"{folder}/{name}"])
    await driver.copy(P(f"{folder}/{name}"), P(f"/to & fro/{name} 2"))
    await driver.move(P(f"{folder}/{name}"), P(f"/to & fro/{name}"))
    await driver.move(P(folder), P("/to & fro") / folder)
    assert await names(driver, "/to & fro") == sorted([folder[1:], name, f"{name} 2"])
    await check_file(driver, f"/to & fro/{name} 2", f"{folder}/{name}".encode())


@needs(FILES, "makedirs")
async def a_name_of_unfinished_files_is_refused_or_an_ordinary_one(driver: Any) -> None:
    """Never stored and left out of listings."""
    name = make_part_name()
    await driver.makedirs(P("/d"))
    try:
        await put(driver, f"/d/{name}", b"content")
    except StorageForbidden:
        await fails(driver.makedirs(P(f"/d/{name}")), StorageForbidden)
        await fails(driver.makedirs(P(f"/d/{name}/below")), StorageForbidden)
        assert await names(driver, "/d") == []
        assert not await exists(driver, f"/d/{name}")
    else:
        assert await names(driver, "/d") == [name]
        await check_file(driver, f"/d/{name}", b"content")


@needs("write", "rename", "move", "copy")
async def nothing_gets_a_name_of_unfinished_files(driver: Any) -> None:
    """By no verb, where a write does not get it."""
    name = make_part_name()
    await put(driver, "/f", b"f")
    try:
        await put(driver, f"/{name}")
    except StorageForbidden:
        for verb in (driver.rename, driver.move, driver.copy):
            await fails(verb(P("/f"), P(f"/{name}")), (StorageForbidden, StorageProblem))
        if driver.capabilities.parts:
            upload = Upload(1, SENT_AT)
            await fails(driver.begin(P(f"/{name}"), upload, base.make_parts_key()), StorageForbidden)
        assert await names(driver, "/") == ["f"]
        await check_file(driver, "/f", b"f")
    else:
        assert await names(driver, "/") == sorted([name, "f"])


@needs("write", "makedirs", hooks=["fill"])
async def unfinished_files_of_others_are_not_shown(driver: Any, server: Server) -> None:
    """The driver keeps the names for them; also in a folder that holds nothing else."""
    name = make_part_name()
    for folder in ("/d", "/e"):
        assert server.fill is not None
        await server.fill(driver, folder, [name])
    await put(driver, "/d/f")
    if await exists(driver, f"/d/{name}"):
        assert await names(driver, "/d") == sorted([name, "f"])
        return
    assert (await names(driver, "/d"), await names(driver, "/e")) == (["f"], [])
    await fails(driver.read(P(f"/d/{name}")), (EntryNotFound, StorageForbidden))
