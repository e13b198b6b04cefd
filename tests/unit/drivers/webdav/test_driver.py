"""The driver with canned answers: entries, ranges, bodies, and failures within answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    BadRequest,
    EntryChanged,
    EntryExists,
    EntryNotFound,
    InUse,
    NotSupported,
    StorageForbidden,
    StorageFull,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import ROOT, Entry, Upload, list_all
from tests.contract.drivers.actions import body, content, fails, put
from tests.unit.drivers.webdav.canned import (
    FILE,
    FOLDER,
    Request,
    canned,
    entry,
    failure,
    in_loop,
    multistatus,
    reply,
    storage,
)

P = TreePath
DATED = (
    "<D:resourcetype/><D:getcontentlength>3</D:getcontentlength><D:getetag>{}</D:getetag>"
    "<D:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</D:getlastmodified>"
)


@in_loop
async def test_entries_of_a_folder() -> None:
    answer = multistatus(
        entry("http://inner:80/base/root/", FOLDER),
        entry("/base/root/a%20b", DATED.format('"tag"')),
        entry("/base/root/weak", DATED.format('W/"tag"')),
        entry("/base/root/sub/", FOLDER),
        entry("/base/root/sub/deeper", FILE),
        entry("/base/root/unsized", "<D:resourcetype/>"),
        entry("/base/root/.mangrove-00.part", FILE),
        entry("/elsewhere", FILE),
        failure("/base/root/secret", 403),
    )
    async with canned(lambda _: answer) as server:
        async with storage(f"{server.address}/base", root_folder_path="/root") as driver:
            entries = await list_all(driver, ROOT)
        assert entries == [
            Entry("a b", 3, 784111777.0, False, etag="tag"),
            Entry("weak", 3, 784111777.0, False),
            Entry("sub", 0, 0.0, True),
            Entry("unsized", None, 0.0, False),
        ]
        (request,) = server.requests
        assert (request.target, request.headers["depth"]) == ("/base/root/", "1")
        assert request.headers["accept-encoding"] == "identity"


@in_loop
async def test_a_folder_whose_answer_is_about_another_is_no_empty_folder() -> None:
    answer = multistatus(entry("/other/", FOLDER), entry("/other/f", FILE))
    async with canned(lambda _: answer) as server, storage(server.address, root_folder_path="/d") as driver:
        with pytest.raises(StorageProblem, match="addresses outside of the folder"):
            await list_all(driver, ROOT)


def give_file(request: Request, *, ranges: bool) -> bytes:
    content = b"0123456789"
    headers = {"ETag": '"tag"', "Last_Modified": "Sun, 06 Nov 1994 08:49:37 GMT"}
    range_header = request.headers.get("range", "")
    if not ranges or not range_header:
        return reply(200, content, **headers)
    first, _, last = range_header.removeprefix("bytes=").partition("-")
    end = min(int(last or 9), 9)
    if int(first) > 9:
        return reply(416)
    return reply(206, content[int(first) : end + 1], Content_Range=f"bytes {first}-{end}/10", **headers)


@pytest.mark.parametrize("ranges", [True, False])
@in_loop
async def test_ranges_are_read_whether_or_not_the_server_knows_them(ranges: bool) -> None:
    shown = Entry("f", 10, 784111777.0, False, etag="tag")
    async with canned(lambda request: give_file(request, ranges=ranges)) as server:
        async with storage(server.address) as driver:
            assert await content(driver, "/f", 3, 4) == b"3456"
            assert await content(driver, "/f", 8, 9) == b"89"
            assert await content(driver, "/f", 3) == b"3456789"
            assert await content(driver, "/f", 20, 5) == b""
            assert b"".join([block async for block in await driver.read(P("/f"), 1, 2, shown)]) == b"12"
            for other in (shown._replace(etag="new"), shown._replace(etag="", size=9)):
                await fails(driver.read(P("/f"), 1, 2, other), EntryChanged)


@pytest.mark.parametrize(
    "answer",
    [
        reply(206, b"0123", Content_Range="bytes 0-3/10"),
        reply(206, b"0123"),
        reply(200, b"\x1f\x8b", Content_Encoding="gzip"),
    ],
)
@in_loop
async def test_bytes_that_were_not_asked_for_are_refused(answer: bytes) -> None:
    async with canned(lambda _: answer) as server, storage(server.address) as driver:
        await fails(driver.read(P("/f"), 3, 4), StorageProblem)


@in_loop
async def test_a_file_that_breaks_off_is_no_short_file() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply(200, b"x" * 10, 20))
        writer.close()

    server = await asyncio.start_server(cut, "127.0.0.1", 0)
    async with storage(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as driver:
        await fails(content(driver, "/f"), Unreachable)
    server.close()


class Store:
    """A server that keeps files; `refuse` answers instead where it returns something."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def refuse(self, request: Request) -> bytes | None:
        return None

    def __call__(self, request: Request) -> bytes:
        return self.refuse(request) or self.answer(request)

    def answer(self, request: Request) -> bytes:
        target = request.target
        if request.method == "PUT":
            self.files[target] = request.body
        elif request.method == "MOVE":
            self.files["/" + request.headers["destination"].split("/", 3)[3]] = self.files.pop(target)
        elif request.method == "DELETE":
            return reply(204 if self.files.pop(target, None) is not None else 404)
        elif target not in self.files:
            return reply(404)
        else:
            size = f"<D:getcontentlength>{len(self.files[target])}</D:getcontentlength>"
            return multistatus(entry(target, f"<D:resourcetype/>{size}"))
        return reply(201)


@in_loop
async def test_a_file_is_put_under_another_name_and_moved() -> None:
    async with canned(Store()) as server, storage(server.address, username="") as driver:
        entry = await put(driver, "/a b", b"abc")
        assert (entry.name, entry.size) == ("a b", 3)
        look, sent, moved, _ = server.requests
        assert (look.method, sent.method, moved.method) == ("PROPFIND", "PUT", "MOVE")
        assert sent.target.startswith("/.mangrove-") and "content-range" not in sent.headers
        assert (sent.headers["content-length"], sent.headers["x-oc-mtime"]) == ("3", "1700000000")
        assert (moved.target, moved.headers["overwrite"]) == (sent.target, "F")
        assert moved.headers["destination"] == f"{server.address}/a%20b"


class Wary(Store):
    """It wants to know the size of a body before it takes it."""

    def refuse(self, request: Request) -> bytes | None:
        return reply(411) if "transfer-encoding" in request.headers else None


@pytest.mark.parametrize("kind", [Store, Wary])
@in_loop
async def test_a_body_of_unknown_size_is_sent_as_the_server_takes_it(kind: type[Store]) -> None:
    store = kind()
    async with canned(store) as server, storage(server.address, username="") as driver:
        for size in (0, 5, 3_000_000, 3_000_000):
            await driver.write(P("/f"), body(b"x" * size), Upload(None, 0.0))
            assert store.files == {"/f": b"x" * size}
        chunked = ["transfer-encoding" in request.headers for request in server.requests if request.method == "PUT"]
        assert chunked == [False, False, True, kind is Store, kind is Store]


@in_loop
async def test_a_body_of_another_size_is_refused_and_leaves_nothing() -> None:
    store = Store()
    async with canned(store) as server, storage(server.address, username="") as driver:
        for size in (2, 4):
            await fails(driver.write(P("/f"), body(b"abc"), Upload(size, 0.0)), BadRequest)
        assert store.files == {}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, StorageForbidden), (403, StorageForbidden), (404, EntryNotFound), (409, EntryNotFound), (412,
        EntryExists), (413, StorageProblem),
        (423, InUse), (500, StorageProblem), (502, Unreachable), (503, Unreachable), (507, StorageFull),
    ],
)  # fmt: skip
@in_loop
async def test_a_write_that_is_refused_says_why_and_leaves_nothing(status: int, kind: type[Exception]) -> None:
    for method in ("PUT", "MOVE"):
        store = Store()
        store.refuse = lambda request, method=method: reply(status) if request.method == method else None  # type: ignore[method-assign, misc]
        async with canned(store) as server, storage(server.address, username="") as driver:
            await fails(put(driver, "/f"), kind)
            assert store.files == {}


@pytest.mark.parametrize("is_done", [True, False])
@in_loop
async def test_a_move_whose_answer_was_lost_is_looked_at(is_done: bool) -> None:
    class Deaf(Store):
        """It answers the first MOVE as a proxy does that waited too long."""

        is_deaf = True

        def refuse(self, request: Request) -> bytes | None:
            if request.method != "MOVE" or not self.is_deaf:
                return None
            self.is_deaf = False
            if is_done:
                self.answer(request)
            return reply(502)

    store = Deaf()
    async with canned(store) as server, storage(server.address, username="") as driver:
        assert (await put(driver, "/f", b"abc")).size == 3
        assert store.files == {"/f": b"abc"}


@pytest.mark.parametrize("verb", ["remove", "move", "copy"])
@in_loop
async def test_a_change_that_failed_inside_is_a_failure_that_names_what(verb: str) -> None:
    def answer(request: Request) -> bytes:
        if request.method == "PROPFIND":
            return multistatus(entry("/d/", FOLDER)) if request.target == "/d" else reply(404)
        return multistatus(failure("/d/in%20use", 423))

    async with canned(answer) as server, storage(server.address) as driver:
        targets = [P("/d")] if verb == "remove" else [P("/d"), P("/e")]
        with pytest.raises(InUse, match=r"^in use: "):
            await getattr(driver, verb)(*targets)
        changed = server.requests[-1]
        assert changed.target == "/d/"
        assert changed.headers.get("destination", "/").endswith("/")


@in_loop
async def test_space_is_what_the_server_tells_of_its_quota() -> None:
    quota = "<D:quota-available-bytes>70</D:quota-available-bytes>"
    for props, expected in ((f"{quota}<D:quota-used-bytes>30</D:quota-used-bytes>", (100, 70)), (quota, None)):
        async with canned(lambda _, props=props: multistatus(entry("/", props))) as server:  # type: ignore[misc]
            async with storage(server.address) as driver:
                if expected is None:
                    await fails(driver.get_space(), NotSupported)
                else:
                    space = await driver.get_space()
                    assert (space.total, space.free) == expected


@pytest.mark.parametrize("status", [302, 307, 308])
@in_loop
async def test_a_link_is_where_the_server_redirects_to(status: int) -> None:
    async with canned(lambda _: reply(status, Location="/files/f?key=1")) as server:
        async with storage(server.address) as driver:
            assert (await driver.link(P("/f"))).url == f"{server.address}/files/f?key=1"
        assert [request.method for request in server.requests] == ["GET"]


@pytest.mark.parametrize("answer", [reply(200, b"x"), reply(301, Location="/x"), reply(404), reply(302)])
@in_loop
async def test_a_server_that_does_not_redirect_has_no_link(answer: bytes) -> None:
    status = int(answer.split()[1])
    async with canned(lambda _: answer) as server, storage(server.address) as driver:
        with pytest.raises(StorageProblem, match=f"^redirect failed, status: {status}$"):
            await driver.link(P("/f"))


@in_loop
async def test_the_root_and_unfinished_files_are_not_touched() -> None:
    async with canned(Store()) as server, storage(server.address) as driver:
        for work in (
            driver.remove(ROOT),
            driver.move(ROOT, P("/x")),
            driver.rename(P("/x"), ROOT),
            driver.copy(P("/x"), P("/.mangrove-x")),
            driver.makedirs(P("/.mangrove-x")),
            put(driver, "/.mangrove-x"),
        ):
            await fails(work, StorageForbidden)
        await fails(driver.stat(P("/.mangrove-x")), EntryNotFound)
        assert server.requests == []


@in_loop
async def test_a_long_listing_comes_in_batches_and_lets_others_work() -> None:
    answer = multistatus(entry("/", FOLDER), *(entry(f"/file%20{number}", FILE) for number in range(20_000)))
    async with canned(lambda _: answer) as server, storage(server.address) as driver:
        turns = 0

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count_turns())
        batches = [len(batch) async for batch in driver.list(ROOT)]
        counting.cancel()
        assert (sum(batches), max(batches) < 3000, turns > 20) == (20_000, True, True)


async def unended() -> AsyncIterator[bytes]:
    while True:
        yield b"x" * 100_000


@in_loop
async def test_a_write_that_is_cancelled_is_removed() -> None:
    store = Store()
    async with canned(store) as server, storage(server.address, username="") as driver:
        writing = asyncio.create_task(driver.write(P("/f"), unended(), Upload(1 << 40, 0.0)))
        async with asyncio.timeout(30):
            while server.heads < 2:  # noqa: ASYNC110 - the PUT follows a PROPFIND
                await asyncio.sleep(0.01)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert server.list_methods()[-1] == "DELETE"
        assert store.files == {}


@in_loop
async def test_unfinished_file_of_an_overloaded_server_is_removed_later() -> None:
    """D3: a DELETE that was answered 503 counted as done."""
    stored: set[str] = set()
    is_overloaded = False

    def answer(request: Request) -> bytes:
        nonlocal is_overloaded
        if request.method == "PUT":
            stored.add(request.target)
            is_overloaded = True
        if is_overloaded:
            return reply(503)
        if request.method == "DELETE" and request.target in stored:
            stored.discard(request.target)
            return reply(204)
        return reply(404)

    async with canned(answer) as server, storage(server.address) as driver:
        with pytest.raises(Unreachable):
            await put(driver, "/f")
        assert len(stored) == 1
        is_overloaded = False
        async with asyncio.timeout(30):
            while stored:  # noqa: ASYNC110  # nothing says when
                await asyncio.sleep(0.05)
