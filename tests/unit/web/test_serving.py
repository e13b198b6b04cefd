"""Files of a storage as HTTP answers, on a machine and in the cloud."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from mangrove.archives import Member
from mangrove.core import http
from mangrove.core.paths import TreePath
from mangrove.core.problems import TooLarge
from mangrove.drivers.base import DriverContext, Entry
from mangrove.drivers.local.driver import Local
from mangrove.tree.listing import entries
from mangrove.tree.operations.archives import MemberStream
from mangrove.web import serving
from tests.support.proc import read_links
from tests.unit.web.configs import CLOUD, LOCAL, configure

CONTENT = b"0123456789" * 1000
UNKNOWN: Any = None


@pytest.fixture(autouse=True)
def on_one_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(LOCAL)


def ask(app: Any, method: str = "GET", **headers: str) -> httpx.Response:
    async def go() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://mangrove") as client:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            return await client.request(method, "/", headers=named)

    return asyncio.run(go())


def serve(folder: Path, content: bytes, known: bool = True, name: str = "a b.txt") -> Any:
    """An application that answers with one file of a Local storage."""
    (folder / "file").write_bytes(content)
    driver = Local(Local.Options(root_folder_path=str(folder)), DriverContext())

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await driver.start()
        path = TreePath("/file")

        async def stat(anew: bool) -> Entry:
            entry = await driver.stat(path)
            return entry if known else entry._replace(size=UNKNOWN)

        await (await serving.serve_file(Request(scope, receive), driver, path, name, stat))(scope, receive, send)

    return app


def open_files(folder: Path) -> list[str]:
    return [link for link in read_links(os.getpid()) if link.startswith(f"{folder}/")]


def wait_until_closed(folder: Path) -> None:
    """Until no file of the folder is open: a storage closes them in its threads."""
    end = time.monotonic() + 30
    while open_files(folder):
        assert time.monotonic() < end, open_files(folder)
        time.sleep(0.005)


def test_a_file_has_its_size_validators_and_no_way_to_run(tmp_path: Path) -> None:
    answer = ask(serve(tmp_path, CONTENT))
    assert (answer.status_code, answer.content) == (200, CONTENT)
    headers = answer.headers
    assert (headers["content-length"], headers["accept-ranges"]) == (str(len(CONTENT)), "bytes")
    assert headers["content-type"] == "text/plain; charset=utf-8"
    assert headers["content-disposition"] == "attachment; filename=\"a%20b.txt\"; filename*=utf-8''a%20b.txt"
    assert {name: headers[name] for name in serving.SANDBOX_HEADERS} == serving.SANDBOX_HEADERS
    assert "last-modified" in headers
    wait_until_closed(tmp_path)


def test_a_head_has_the_headers_alone(tmp_path: Path) -> None:
    answer = ask(serve(tmp_path, CONTENT), "HEAD")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(CONTENT))


def test_one_range_and_many(tmp_path: Path) -> None:
    app = serve(tmp_path, CONTENT)
    partial = ask(app, range="bytes=2-4")
    assert (partial.status_code, partial.content, partial.headers["content-range"]) == (
        206,
        b"234",
        f"bytes 2-4/{len(CONTENT)}",
    )
    many = ask(app, range="bytes=0-1,5-6")
    assert many.status_code == 206
    boundary = many.headers["content-type"].removeprefix("multipart/byteranges; boundary=")
    head = f"Content-Type: text/plain; charset=utf-8\r\nContent-Range: bytes {{}}/{len(CONTENT)}\r\n\r\n"
    parts = [f"\r\n--{boundary}\r\n{head.format(part)}{text}" for part, text in (("0-1", "01"), ("5-6", "56"))]
    assert many.text == "".join(parts) + f"\r\n--{boundary}--\r\n"
    assert many.headers["content-length"] == str(len(many.content))
    assert ask(app, range="bytes=99999-").headers["content-range"] == f"bytes */{len(CONTENT)}"


@pytest.mark.parametrize("content", [CONTENT, b""])
@pytest.mark.parametrize("requested_range", ["", "bytes=2-4", "bytes=0-1,5-6", "bytes=-1", "bytes=99999-", "lines=1"])
def test_a_file_of_unknown_size_is_streamed_whole(tmp_path: Path, content: bytes, requested_range: str) -> None:
    answer = ask(serve(tmp_path, content, known=False), range=requested_range)
    assert (answer.status_code, answer.content) == (200, content)
    assert answer.headers["accept-ranges"] == "none"
    assert "content-length" not in answer.headers and "content-range" not in answer.headers
    wait_until_closed(tmp_path)


def test_a_head_of_unknown_size_has_no_length(tmp_path: Path) -> None:
    answer = ask(serve(tmp_path, CONTENT, known=False), "HEAD")
    assert (answer.status_code, answer.content, answer.headers["accept-ranges"]) == (200, b"", "none")
    assert "content-length" not in answer.headers


def test_conditions_hold_without_a_size(tmp_path: Path) -> None:
    app = serve(tmp_path, CONTENT, known=False)
    first = ask(app)
    etag, modified = first.headers["etag"], first.headers["last-modified"]
    assert ask(app, if_none_match=etag).status_code == 304
    assert ask(app, if_modified_since=modified).status_code == 304
    assert ask(app, if_match='"other"').status_code == 412
    assert ask(app, if_match=etag).content == CONTENT


def test_a_large_file_does_not_pass_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(CLOUD).max_file_bytes = 5000
    app = serve(tmp_path, CONTENT)
    with pytest.raises(TooLarge, match="gives no direct link"):
        ask(app)
    assert ask(app, range="bytes=0-4999").content == CONTENT[:5000]
    assert ask(app, "HEAD").headers["content-length"] == str(len(CONTENT))


@pytest.mark.parametrize(("size", "passes"), [(0, True), (5000, True), (5001, False)])
def test_a_function_holds_a_body_of_unknown_size_up_to_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, passes: bool
) -> None:
    configure(CLOUD).max_file_bytes = 5000
    app = serve(tmp_path, b"x" * size, known=False)
    if passes:
        answer = ask(app)
        assert (answer.status_code, answer.content) == (200, b"x" * size)
    else:
        with pytest.raises(TooLarge, match="too large to pass through the function"):
            ask(app)
    wait_until_closed(tmp_path)


class Unpacking:
    """An application that answers with a member of an archive. `closed`: whether its stream was."""

    def __init__(self, size: int, *blocks: bytes) -> None:
        self.closed = False
        self._member = Member("d/x.bin", size, 0.0, False)
        self._blocks = blocks

    async def _stream(self) -> AsyncGenerator[tuple[Member, bytes], None]:
        try:
            yield self._member, b""
            for block in self._blocks:
                yield self._member, block
        finally:
            self.closed = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream = self._stream()
        await anext(stream)
        archive = Entry("a.zip", 1, 1.0, False)
        body = MemberStream(stream, archive, self._member, b"")
        await (await serving.serve_member(Request(scope, receive), body, {"x-own": "1"}))(scope, receive, send)


@pytest.mark.parametrize("config", [LOCAL, CLOUD])
@pytest.mark.parametrize("size", [6, None])
def test_a_member_is_sent_whole_and_closed(monkeypatch: pytest.MonkeyPatch, config: Any, size: int) -> None:
    configure(config)
    app = Unpacking(size, b"abc", b"def")
    answer = ask(app, range="bytes=1-2")
    assert (answer.status_code, answer.content, answer.headers["x-own"]) == (200, b"abcdef", "1")
    assert answer.headers.get("content-length") == (None if size is None and config is LOCAL else "6")
    assert app.closed


@pytest.mark.parametrize(("size", "length"), [(6, "6"), (None, None)])
def test_a_head_of_a_member_reads_nothing(size: int, length: str | None) -> None:
    app = Unpacking(size, b"abcdef")
    answer = ask(app, "HEAD")
    assert (answer.status_code, answer.content, answer.headers.get("content-length")) == (200, b"", length)
    assert app.closed


@pytest.mark.parametrize("size", [10, None])
def test_a_member_too_large_for_a_function_is_refused_and_closed(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    configure(CLOUD).max_file_bytes = 5
    app = Unpacking(size, b"abcde", b"fghij")
    with pytest.raises(TooLarge):
        ask(app)
    assert app.closed


def test_a_stream_is_closed_when_the_client_leaves() -> None:
    closed = False

    async def body() -> AsyncIterator[bytes]:
        nonlocal closed
        try:
            while True:
                yield b"x"
        finally:
            closed = True

    async def go() -> None:
        async def send(message: Any) -> None:
            if message.get("body"):
                raise OSError

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
        with pytest.raises(ClientDisconnect):
            await serving.ClosingStream(body(), 200, {})(scope, receive, send)

    asyncio.run(go())
    assert closed


@pytest.mark.parametrize(
    ("name", "mime"),
    [
        ("a.TXT", "text/plain; charset=utf-8"), ("a.png", "image/png"), ("a.apk", http.EXTRA_TYPES["apk"]),
        ("none", "application/octet-stream"), ("a.unknown", "application/octet-stream"),
    ],
)  # fmt: skip
def test_a_name_suggests_a_type(name: str, mime: str) -> None:
    assert http.guess_mime(name) == mime


def test_an_etag_is_the_storages_own_or_made_of_what_is_known() -> None:
    entry = Entry("f", 255, 1.5, False)
    assert entries.format_etag(entry) == f'"{int(1.5e9):x}-ff"'
    assert entries.format_etag(entry._replace(size=UNKNOWN)) == f'"{int(1.5e9):x}-"'
    assert entries.format_etag(entry._replace(etag="abc")) == '"abc"'
    assert entries.format_etag(entry._replace(hashes={"md5": "0f"})) == '"0f"'


def test_an_image_is_a_download_in_a_sandbox() -> None:
    answer = serving.serve_image(b"png", "image/png")
    assert (answer.body, answer.media_type, answer.headers["content-disposition"]) == (
        b"png",
        "image/png",
        "attachment",
    )
    assert serving.SANDBOX_HEADERS.items() <= dict(answer.headers).items()
