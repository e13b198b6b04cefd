"""One suite for every driver: what the contract in `mangrove.drivers.base` promises, chosen by the powers it claims."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from mangrove.drivers import base
from mangrove.drivers.base import Driver, Entry, Upload
from mangrove.paths import TreePath
from mangrove.problems import BadRequest, Exists, NotFound, NotSupported, Problem, StorageProblem

Case = Callable[[Any], Awaitable[None]]
CASES: dict[str, tuple[Case, tuple[type, ...]]] = {}
NAMES = [
    "a.txt",
    "with space",
    "per%cent+plus&and=",
    "äöü-日本",
    "'quotes\"",
    "#hash?",
    "semi;colon",
    "~tilde",
    "dot..",
]
P = TreePath


def needs(*powers: type) -> Callable[[Case], Case]:
    def keep(case: Case) -> Case:
        CASES[case.__name__] = (case, powers)
        return case

    return keep


def run(start: Callable[[], Awaitable[Driver]], name: str) -> None:
    """Run one case on a fresh driver; skipped when it does not claim the powers."""
    case, powers = CASES[name]

    async def whole() -> None:
        driver = await start()
        try:
            if not all(isinstance(driver, power) for power in powers):
                pytest.skip(f"{driver.name} does not claim {', '.join(power.__name__ for power in powers)}")
            await case(driver)
        finally:
            await driver.stop()

    asyncio.run(whole())


async def body(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def cut(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    raise ConnectionResetError("the client went away")


async def put(driver: Any, path: str, content: bytes = b"x") -> Entry:
    entry: Entry = await driver.write(P(path), body(content), Upload(len(content), 1_700_000_000.0))
    return entry


async def content(driver: Driver, path: str, offset: int = 0, length: int | None = None) -> bytes:
    return b"".join([block async for block in await driver.read(P(path), offset, length)])


async def names(driver: Driver, path: str) -> list[str]:
    return sorted(entry.name for entry in await base.list_all(driver, P(path)))


async def there(driver: Driver, path: str) -> bool:
    try:
        await driver.stat(P(path))
    except NotFound:
        return False
    return True


async def fails(work: Awaitable[Any], kinds: type[Exception] | tuple[type[Exception], ...]) -> None:
    with pytest.raises(kinds):
        await work


@needs()
async def the_root_is_a_folder_without_a_name(driver: Driver) -> None:
    root = await driver.stat(P("/"))
    assert (root.name, root.is_dir) == ("", True)


@needs()
async def what_is_missing_is_not_found(driver: Driver) -> None:
    await fails(driver.stat(P("/no/such")), NotFound)
    await fails(driver.read(P("/nosuch")), NotFound)
    await fails(base.list_all(driver, P("/nosuch")), NotFound)


@needs(base.Writes, base.MakesDirectories)
async def a_file_comes_back_as_it_was_written(driver: Any) -> None:
    written = os.urandom(3_000_000)
    await driver.makedirs(P("/d"))
    entry = await driver.write(
        P("/d/f.bin"), body(written[:5], written[5:2_000_000], written[2_000_000:]), _of(written)
    )
    assert (entry.name, entry.size, entry.is_dir) == ("f.bin", len(written), False)
    assert (await driver.stat(P("/d/f.bin"))).size == len(written)
    assert await content(driver, "/d/f.bin") == written
    for offset, length in ((0, 1), (1, 10), (1_048_570, 20), (2_999_999, None), (2_999_990, 10), (0, 0)):
        stop = None if length is None else offset + length
        assert await content(driver, "/d/f.bin", offset, length) == written[offset:stop]


def _of(written: bytes) -> Upload:
    return Upload(len(written), 1_700_000_000.0)


@needs(base.Writes)
async def an_empty_file_and_an_unknown_size_are_fine(driver: Any) -> None:
    await driver.write(P("/empty"), body(), Upload(0, 1.7e9))
    assert await content(driver, "/empty") == b""
    await driver.write(P("/open"), body(b"ab", b"c"), Upload(None, 1.7e9))
    assert await content(driver, "/open") == b"abc"
    assert {entry.name: entry.size for entry in await base.list_all(driver, P("/"))} == {"empty": 0, "open": 3}


@needs(base.Writes)
async def names_of_all_kinds_survive(driver: Any) -> None:
    for name in NAMES:
        await put(driver, f"/{name}", name.encode())
    assert await names(driver, "/") == sorted(NAMES)
    for name in NAMES:
        assert await content(driver, f"/{name}") == name.encode()
        assert (await driver.stat(P(f"/{name}"))).name == name


@needs(base.Writes)
async def a_body_that_ends_early_leaves_the_old_file(driver: Any) -> None:
    await put(driver, "/f", b"old")
    await fails(driver.write(P("/f"), cut(b"n" * 3_000_000), Upload(9_000_000, 1.7e9)), ConnectionResetError)
    assert await content(driver, "/f") == b"old"
    await fails(driver.write(P("/g"), cut(b"n" * 20_000_000), Upload(None, 1.7e9)), ConnectionResetError)
    assert await names(driver, "/") == ["f"]


@needs(base.Writes)
async def a_body_of_another_size_is_refused(driver: Any) -> None:
    await put(driver, "/f", b"old")
    for size in (2, 4, 20_000_000):
        await fails(driver.write(P("/f"), body(b"abc"), Upload(size, 1.7e9)), BadRequest)
    await fails(driver.write(P("/g"), body(b"x" * 20_000_000), Upload(19_000_000, 1.7e9)), BadRequest)
    assert await names(driver, "/") == ["f"]
    assert await content(driver, "/f") == b"old"


@needs(base.Writes)
async def a_cancelled_write_leaves_nothing(driver: Any) -> None:
    reached = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"z" * 5_000_000
            reached.set()
            await asyncio.sleep(0.01)

    writing = asyncio.create_task(driver.write(P("/f"), endless(), Upload(None, 1.7e9)))
    await reached.wait()
    await asyncio.sleep(0.05)
    writing.cancel()
    await asyncio.wait([writing])
    assert writing.cancelled()
    assert await names(driver, "/") == []


@needs(base.Writes)
async def a_file_is_replaced_and_never_over_a_folder(driver: Any) -> None:
    await put(driver, "/f", b"a longer old content")
    await put(driver, "/f", b"new")
    assert await content(driver, "/f") == b"new"


PIECE = 5 << 20  # bytes; the least that S3 takes for a part that is not the last


def _pieces(written: bytes) -> list[tuple[int, int, bytes]]:
    """Number, offset and content of each part."""
    offsets = range(0, len(written), PIECE)
    return [(number, offset, written[offset : offset + PIECE]) for number, offset in enumerate(offsets, 1)]


@needs(base.Parts, base.Writes, base.MakesDirectories)
async def a_file_is_made_of_parts_in_any_order_and_repeated(driver: Any) -> None:
    written = os.urandom(2 * PIECE + 12_345)
    await driver.makedirs(P("/d"))
    token = await driver.begin(P("/d/f"), _of(written), base.make_parts_key())
    pieces = _pieces(written)
    number, offset, torn = pieces[1]
    await driver.write_part(P("/d/f"), token, number, offset, b"\0" * len(torn))
    receipts: dict[int, str] = {}
    for number, offset, piece in [pieces[2], pieces[0], pieces[1], pieces[0]]:
        receipts[number] = await driver.write_part(P("/d/f"), token, number, offset, piece)
    assert await names(driver, "/d") == []
    assert not await there(driver, "/d/f")
    entry = await driver.finish(P("/d/f"), token, [receipts[number] for number in sorted(receipts)], _of(written))
    assert (entry.name, entry.size, entry.is_dir) == ("f", len(written), False)
    assert await content(driver, "/d/f") == written
    assert await names(driver, "/d") == ["f"]


@needs(base.Parts, base.Writes)
async def parts_are_stored_at_once_and_by_another_process(driver: Any) -> None:
    written = os.urandom(3 * PIECE)
    token = str(await driver.begin(P("/f"), _of(written), base.make_parts_key()))
    stored = await asyncio.gather(*(driver.write_part(P("/f"), token, *piece) for piece in _pieces(written)))
    receipts = json.loads(json.dumps(stored))
    await driver.finish(P("/f"), token, receipts, _of(written))
    assert await content(driver, "/f") == written


@needs(base.Parts, base.Writes)
async def a_file_of_parts_replaces_the_old_one_only_at_its_end(driver: Any) -> None:
    written = os.urandom(PIECE + 1)
    await put(driver, "/f", b"old")
    token = await driver.begin(P("/f"), _of(written), base.make_parts_key())
    receipts = [await driver.write_part(P("/f"), token, *piece) for piece in _pieces(written)]
    assert await content(driver, "/f") == b"old"
    await driver.finish(P("/f"), token, receipts, _of(written))
    assert await content(driver, "/f") == written


@needs(base.Parts, base.Writes)
async def parts_of_another_size_than_announced_are_refused(driver: Any) -> None:
    written = os.urandom(PIECE + 10)
    await put(driver, "/f", b"old")
    token = await driver.begin(P("/f"), Upload(len(written) + 1, 1.7e9), base.make_parts_key())
    receipts = [await driver.write_part(P("/f"), token, *piece) for piece in _pieces(written)]
    await fails(driver.finish(P("/f"), token, receipts, Upload(len(written) + 1, 1.7e9)), StorageProblem)
    await fails(driver.finish(P("/f"), token, receipts[:1], _of(written)), StorageProblem)
    assert await content(driver, "/f") == b"old"
    await driver.finish(P("/f"), token, receipts, _of(written))
    assert await content(driver, "/f") == written


@needs(base.Parts, base.Writes, base.MakesDirectories)
async def dropped_parts_leave_nothing(driver: Any) -> None:
    written = os.urandom(PIECE + 1)
    await driver.makedirs(P("/d"))
    token = await driver.begin(P("/d/f"), _of(written), base.make_parts_key())
    for piece in _pieces(written):
        await driver.write_part(P("/d/f"), token, *piece)
    await driver.abort(P("/d/f"), token)
    await driver.abort(P("/d/f"), token)
    await fails(driver.write_part(P("/d/f"), token, 1, 0, b"x"), StorageProblem)
    assert await names(driver, "/d") == []
    await left_over(driver, "/d")


@needs(base.Parts, base.Writes, base.MakesDirectories)
async def what_was_begun_and_is_known_by_its_key_alone_is_forgotten(driver: Any) -> None:
    key, other = base.make_parts_key(), base.make_parts_key()
    await driver.makedirs(P("/d"))
    await driver.abort_by_key(P("/d/f"), key)
    await driver.begin(P("/d/f"), Upload(3, 1.7e9), key)
    await driver.abort_by_key(P("/d/f"), key)
    await driver.abort_by_key(P("/d/f"), key)
    await left_over(driver, "/d")
    token = await driver.begin(P("/d/f"), Upload(3, 1.7e9), other)
    receipts = [await driver.write_part(P("/d/f"), token, 1, 0, b"abc")]
    await driver.finish(P("/d/f"), token, receipts, Upload(3, 1.7e9))
    assert await content(driver, "/d/f") == b"abc"


@needs(base.Parts, base.Writes)
async def a_token_serves_once(driver: Any) -> None:
    token = await driver.begin(P("/f"), Upload(3, 1.7e9), base.make_parts_key())
    receipts = [await driver.write_part(P("/f"), token, 1, 0, b"abc")]
    await driver.finish(P("/f"), token, receipts, Upload(3, 1.7e9))
    await put(driver, "/f", b"later")
    await driver.abort(P("/f"), token)
    assert await content(driver, "/f") == b"later"
    await left_over(driver, "/")


@needs(base.Parts, base.Writes)
async def parts_that_are_not_known_are_not_found(driver: Any) -> None:
    token = await driver.begin(P("/f"), Upload(3, 1.7e9), base.make_parts_key())
    receipts = [await driver.write_part(P("/f"), token, 1, 0, b"abc")]
    await driver.abort(P("/f"), token)
    await fails(driver.finish(P("/f"), token, receipts, Upload(3, 1.7e9)), NotFound)
    token = await driver.begin(P("/f"), Upload(3, 1.7e9), base.make_parts_key())
    receipts = [await driver.write_part(P("/f"), token, 1, 0, b"abc")]
    await driver.finish(P("/f"), token, receipts, Upload(3, 1.7e9))
    await put(driver, "/f", b"later")
    await fails(driver.finish(P("/f"), token, receipts, Upload(3, 1.7e9)), NotFound)
    assert await content(driver, "/f") == b"later"


async def left_over(driver: Any, path: str) -> None:
    """Nothing unfinished lies about: no file beside the ones that are listed, no upload that S3 still keeps."""
    if driver.name == "S3":
        assert not (await driver.call("list_multipart_uploads")).get("Uploads")
    if driver.name == "Local":
        assert sorted(os.listdir(driver.root.real + path)) == await names(driver, path)


@needs(base.MakesDirectories)
async def folders_are_made_with_their_parents(driver: Any) -> None:
    await driver.makedirs(P("/a/b/c"))
    await driver.makedirs(P("/a/b/c"))
    assert await names(driver, "/") == ["a"]
    assert await names(driver, "/a/b") == ["c"]
    assert await names(driver, "/a/b/c") == []
    assert (await driver.stat(P("/a/b"))).is_dir


@needs(base.MakesDirectories, base.Writes)
async def a_folder_does_not_replace_a_file(driver: Any) -> None:
    await put(driver, "/f")
    await fails(driver.makedirs(P("/f")), Exists)
    await fails(driver.makedirs(P("/f/below")), (Exists, NotFound))
    assert await content(driver, "/f") == b"x"


@needs(base.Renames, base.Writes, base.MakesDirectories)
async def files_and_folders_are_renamed(driver: Any) -> None:
    await driver.makedirs(P("/d/sub"))
    await put(driver, "/d/f", b"1")
    await put(driver, "/d/sub/g", b"2")
    await driver.rename(P("/d/f"), P("/d/h"))
    await driver.rename(P("/d"), P("/e"))
    assert await names(driver, "/") == ["e"]
    assert await names(driver, "/e") == ["h", "sub"]
    assert await content(driver, "/e/sub/g") == b"2"
    await fails(driver.rename(P("/nosuch"), P("/other")), NotFound)


@needs(base.Moves, base.Writes, base.MakesDirectories)
async def files_and_folders_are_moved(driver: Any) -> None:
    for folder in ("/from/deep", "/to"):
        await driver.makedirs(P(folder))
    await put(driver, "/from/f", b"1")
    await put(driver, "/from/deep/g", b"2")
    await driver.move(P("/from/f"), P("/to/f"))
    await driver.move(P("/from/deep"), P("/to/deep"))
    assert await names(driver, "/to") == ["deep", "f"]
    assert await names(driver, "/from") == []
    assert await content(driver, "/to/deep/g") == b"2"
    await fails(driver.move(P("/to"), P("/to/deep/to")), StorageProblem)
    assert await content(driver, "/to/deep/g") == b"2"


@needs(base.Copies, base.Writes, base.MakesDirectories)
async def files_are_copied(driver: Any) -> None:
    await driver.makedirs(P("/to"))
    await put(driver, "/f", b"1")
    await driver.copy(P("/f"), P("/to/f"))
    await put(driver, "/f", b"2")
    assert await content(driver, "/to/f") == b"1"
    await fails(driver.copy(P("/nosuch"), P("/to/x")), NotFound)


@needs(base.Removes, base.Writes, base.MakesDirectories)
async def removing_takes_all_below_and_nothing_else(driver: Any) -> None:
    await driver.makedirs(P("/d/sub"))
    for path in ("/d/f", "/d/sub/g", "/dd", "/keep"):
        await put(driver, path)
    await driver.remove(P("/d"))
    assert await names(driver, "/") == ["dd", "keep"]
    await driver.remove(P("/dd"))
    assert not await there(driver, "/dd")
    assert await content(driver, "/keep") == b"x"


@needs(base.Writes, base.MakesDirectories, base.Removes)
async def a_folder_stays_when_its_last_file_goes(driver: Any) -> None:
    await driver.makedirs(P("/d"))
    await put(driver, "/d/f")
    await driver.remove(P("/d/f"))
    assert await names(driver, "/d") == []
    assert (await driver.stat(P("/d"))).is_dir


@needs(base.Writes, base.MakesDirectories)
async def a_file_is_no_folder_and_a_folder_no_file(driver: Any) -> None:
    await put(driver, "/f")
    await driver.makedirs(P("/d"))
    await fails(base.list_all(driver, P("/f")), (NotSupported, NotFound))
    await fails(driver.read(P("/d")), (NotSupported, NotFound))


@needs(base.Writes)
async def a_reader_may_leave_early(driver: Any) -> None:
    await put(driver, "/f", b"y" * 5_000_000)
    for _ in range(40):  # more than any pool of connections or handles would forgive
        stream: Any = await driver.read(P("/f"))
        async for _block in stream:
            break
        await stream.aclose()
    assert len(await content(driver, "/f")) == 5_000_000


@needs(base.Space)
async def space_is_plausible(driver: Any) -> None:
    try:
        space = await driver.get_space()
    except NotSupported:
        return
    assert 0 <= space.free <= space.total


def problem_of(work: Callable[[], Awaitable[Any]]) -> Problem:
    """The Problem that `work` ends with."""
    with pytest.raises(Problem) as caught:
        asyncio.run(_whole(work))
    return caught.value


async def _whole(work: Callable[[], Awaitable[Any]]) -> Any:
    return await work()


def sizes(entries: Sequence[Entry]) -> dict[str, int]:
    return {entry.name: entry.size for entry in entries}
