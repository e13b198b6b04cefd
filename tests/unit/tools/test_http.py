"""Files fetched over HTTP from real servers, good and bad ones."""

from __future__ import annotations

import asyncio
import gzip
import os
import time
import zlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mangrove.core.problems import Problem, Unreachable
from mangrove.net import client
from mangrove.net.addresses import AddressPolicy
from mangrove.tools import http, urls
from tests.support import origin
from tests.support.origin import Origin, file

LOOPBACK_POLICY = AddressPolicy.parse("127.0.0.1")
CONTENT = os.urandom(3 << 20)
MODIFIED_DATE = origin.date(time.time() - 3600)


@pytest.fixture(scope="module")
def web() -> Iterator[Origin]:
    with origin.origin() as server:
        yield server


class FetchedFile:
    """A fetched file: the properties of its response, and the bytes up to where it broke off with `failed`."""

    def __init__(self, answer: http.FetchResponse) -> None:
        self.name, self.size, self.resumable = answer.name, answer.size, answer.resumable
        self.validator, self.offset = answer.validator, answer.offset
        self.content = b""
        self.blocks: list[int] = []
        self.failed: Problem | None = None


def fetch_file(url: str, offset: int = 0, validator: str = "") -> FetchedFile:
    async def fetch() -> FetchedFile:
        async with http.fetch(url, LOOPBACK_POLICY, offset, validator) as answer:
            fetched, blocks = FetchedFile(answer), []
            try:
                async for block in answer.iter_blocks():
                    blocks.append(block)
            except Problem as problem:
                fetched.failed = problem
            fetched.content, fetched.blocks = b"".join(blocks), [len(block) for block in blocks]
            return fetched

    return asyncio.run(fetch())


def test_a_file_comes_whole_in_blocks_of_a_measure(web: Origin) -> None:
    fetched = fetch_file(web.at("/files/a%20b.bin", file(CONTENT)))
    assert fetched.content == CONTENT
    assert (fetched.name, fetched.size, fetched.offset, fetched.resumable) == ("a b.bin", len(CONTENT), 0, True)
    assert max(fetched.blocks) <= http.BLOCK_SIZE
    assert fetched.failed is None


def test_an_empty_file_is_a_file(web: Origin) -> None:
    fetched = fetch_file(web.at("/empty", file(b"")))
    assert (fetched.content, fetched.size, fetched.failed) == (b"", 0, None)


def test_nothing_of_ours_is_sent(web: Origin) -> None:
    web.at("/landed", file(b"x"))
    fetch_file(web.at("/sends", origin.status(302, location="/landed", set_cookie="a=b; Path=/")))
    for request in web.requests[-2:]:
        assert {name.lower() for name in request.headers} <= {
            "host", "accept", "accept-encoding", "connection", "user-agent"
        }  # fmt: skip
        assert request.headers["accept-encoding"] == "identity"


def test_redirects_are_followed_and_the_last_address_names_the_file(web: Origin) -> None:
    web.at("/one", origin.redirect("two?x=1"))
    web.at("/two", origin.redirect(f"{web.address}/three/named.txt#part", 307))
    web.at("/three/named.txt", file(b"content"))
    fetched = fetch_file(f"{web.address}/one")
    assert (fetched.content, fetched.name) == (b"content", "named.txt")


def test_redirects_without_an_end_are_given_up(web: Origin) -> None:
    requests_before = len(web.requests)
    with pytest.raises(Problem, match=r"^more than 10 redirects$"):
        fetch_file(web.at("/round", origin.redirect("/round")))
    assert len(web.requests) - requests_before == http.MAX_REDIRECTS + 1


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 429, 500, 503, 204, 304, 300])
def test_an_answer_without_the_file_is_told_by_its_status(web: Origin, code: int) -> None:
    with pytest.raises(http.UnexpectedStatus, match=f"^http status code {code}$"):
        fetch_file(web.at("/status", origin.status(code)))


def test_a_server_that_is_not_there_is_unreachable(web: Origin) -> None:
    with pytest.raises(Unreachable, match=r"^127\.0\.0\.1: no connection$"):
        fetch_file("http://127.0.0.1:1/x")


# Continuing


@pytest.mark.parametrize("headers", [{}, {"etag": "", "last_modified": MODIFIED_DATE}])
def test_a_file_is_continued_where_it_was_cut_off(web: Origin, headers: dict[str, str]) -> None:
    url = web.at("/cut", file(CONTENT, cut=1_000_000, **headers))
    first = fetch_file(url)
    assert len(first.content) == 1_000_000
    assert isinstance(first.failed, Unreachable)
    assert first.resumable and first.validator
    web.at("/cut", file(CONTENT, **headers))
    second = fetch_file(url, len(first.content), first.validator)
    assert (second.offset, second.size, second.resumable) == (1_000_000, len(CONTENT), True)
    assert first.content + second.content == CONTENT
    assert (second.name, second.validator) == (first.name, first.validator)


def test_a_server_that_cannot_continue_starts_over(web: Origin) -> None:
    url = web.at("/plain", file(CONTENT, ranges=False))
    assert not fetch_file(url).resumable
    fetched = fetch_file(url, 1000, '"tag"')
    assert (fetched.offset, fetched.content, fetched.resumable) == (0, CONTENT, False)


def test_a_file_that_changed_meanwhile_starts_over(web: Origin) -> None:
    url = web.at("/changed", file(CONTENT))
    before = fetch_file(url)
    web.at("/changed", file(CONTENT[::-1]))
    fetched = fetch_file(url, 1000, before.validator)
    assert (fetched.offset, fetched.content) == (0, CONTENT[::-1])
    assert fetched.validator != before.validator


def test_a_changed_file_whose_server_minds_no_condition_starts_over(web: Origin) -> None:
    def careless(request: origin.Request) -> None:
        start = int(request.headers.get("range", "bytes=0-")[6:-1])
        headers = {"content-length": len(CONTENT) - start, "etag": '"new"', "accept-ranges": "bytes"}
        if start:
            headers["content-range"] = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
        request.head(206 if start else 200, headers)
        request.wfile.write(CONTENT[start:])

    fetched = fetch_file(web.at("/careless", careless), 1000, '"old"')
    assert (fetched.offset, fetched.content) == (0, CONTENT)
    fetched = fetch_file(web.at("/careless", careless), 1000, '"new"')
    assert (fetched.offset, fetched.content) == (1000, CONTENT[1000:])


@pytest.mark.parametrize(
    "headers",
    ["bytes 0-999/1000", "bytes 101-999/1000", "bytes 100-998/1000", "bytes 100-50/1000", "bytes */1000", "x", ""],
)
def test_a_part_that_is_not_the_one_asked_for_is_not_taken(web: Origin, headers: str) -> None:
    def answer(request: origin.Request) -> None:
        if "range" not in request.headers:
            return file(b"a" * 1000)(request)
        request.head(206, {"content-length": 900, "etag": '"a"', "content-range": headers})
        request.wfile.write(b"b" * 900)

    fetched = fetch_file(web.at("/parts", answer), 100, '"a"')
    assert (fetched.offset, fetched.content) == (0, b"a" * 1000)


def test_a_part_that_nobody_asked_for_is_not_taken(web: Origin) -> None:
    page = origin.raw(b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 5-9/10\r\nContent-Length: 5\r\n\r\nhello")
    with pytest.raises(http.UnexpectedStatus, match=r"^http status code 206$"):
        fetch_file(web.at("/unasked", page))


def test_when_nothing_is_left_to_fetch_the_rest_is_empty(web: Origin) -> None:
    url = web.at("/done", file(CONTENT))
    fetched = fetch_file(url, len(CONTENT), fetch_file(url).validator)
    assert (fetched.offset, fetched.size, fetched.content, fetched.failed) == (len(CONTENT), len(CONTENT), b"", None)
    fetched = fetch_file(url, len(CONTENT) + 5, fetched.validator)
    assert (fetched.offset, fetched.content) == (0, CONTENT)


@pytest.mark.parametrize("headers", [{"etag": 'W/"weak"'}, {"etag": ""}, {"etag": "naked"}, {"accept_ranges": "none"}])
def test_without_a_promise_nothing_is_said_to_resume(web: Origin, headers: dict[str, str]) -> None:
    assert not fetch_file(web.at("/weak", file(b"x" * 10, **headers))).resumable


def test_a_date_of_this_very_second_does_not_tell_files_apart(web: Origin) -> None:
    now = origin.date(time.time() + 5)
    assert fetch_file(web.at("/now", file(b"x", etag="", last_modified=now))).validator == ""
    assert fetch_file(web.at("/now", file(b"x", etag="", last_modified="yesterday"))).validator == ""


def test_without_a_validator_a_fetch_begins_at_the_beginning(web: Origin) -> None:
    fetched = fetch_file(web.at("/unsure", file(CONTENT)), 1000)
    assert (fetched.offset, fetched.content) == (0, CONTENT)
    assert "range" not in web.requests[-1].headers


# Bad bodies


def test_a_body_that_is_shorter_than_announced_fails_at_its_end(web: Origin) -> None:
    fetched = fetch_file(web.at("/short", origin.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")))
    assert fetched.content == b"hello"
    assert isinstance(fetched.failed, Unreachable)
    page = b'HTTP/1.1 206 P\r\nETag: "a"\r\nContent-Range: bytes 5-14/15\r\nContent-Length: 5\r\n\r\nhello'
    fetched = fetch_file(web.at("/short", origin.raw(page)), 5, '"a"')
    assert (fetched.offset, fetched.content, str(fetched.failed)) == (5, b"hello", "the server sent 5 of 10 bytes")


def test_a_body_that_is_longer_than_announced_fails(web: Origin) -> None:
    page = b'HTTP/1.1 206 P\r\nETag: "a"\r\nContent-Range: bytes 5-9/10\r\nTransfer-Encoding: chunked\r\n\r\n'
    page += b"5\r\nhello\r\n5\r\nagain\r\n0\r\n\r\n"
    fetched = fetch_file(web.at("/long", origin.raw(page)), 5, '"a"')
    assert str(fetched.failed) == "the server sends more than the 5 bytes it announced"
    fetched = fetch_file(web.at("/long", origin.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello again")))
    assert (fetched.content, fetched.failed) == (b"hello", None)


def test_a_body_in_chunks_that_breaks_off_fails(web: Origin) -> None:
    page = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    fetched = fetch_file(web.at("/chunks", origin.raw(page)))
    assert (fetched.content, fetched.size) == (b"hello", None)
    assert isinstance(fetched.failed, Unreachable)


@pytest.mark.parametrize(
    "page",
    [
        b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 99999,
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    ],
)  # fmt: skip
def test_what_is_no_http_is_unreachable(web: Origin, page: bytes) -> None:
    with pytest.raises(Unreachable):
        fetch_file(web.at("/noise", origin.raw(page)))


def test_an_endless_body_is_left_as_soon_as_nobody_wants_more(web: Origin) -> None:
    async def some() -> int:
        async with http.fetch(web.at("/endless", origin.endless()), LOOPBACK_POLICY) as answer:
            assert (answer.size, answer.resumable) == (None, False)
            taken = 0
            async for block in answer.iter_blocks():
                taken += len(block)
                if taken > 20 << 20:
                    break
        return taken

    assert asyncio.run(some()) < 30 << 20


def test_a_silent_server_is_given_up(web: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "READ_TIMEOUT", 0.2)
    fetched = fetch_file(web.at("/silent", origin.endless(b"x" * 10, pause=2)))
    assert isinstance(fetched.failed, Unreachable)
    assert str(fetched.failed) == "127.0.0.1: no answer within the time allowed"


def test_a_server_that_drips_is_given_up(web: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "RATE_WINDOW", 0.2)
    fetched = fetch_file(web.at("/drips", origin.endless(b"x", pause=0.02)))
    assert str(fetched.failed) == "127.0.0.1: sends less than 1024 bytes per second"


def test_the_time_a_slow_reader_takes_is_not_the_servers(web: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still while the server is waited for, however long that takes on a loaded computer."""
    monkeypatch.setattr(http, "RATE_WINDOW", 0.1)
    now = 0.0
    monkeypatch.setattr(http, "time", SimpleNamespace(monotonic=lambda: now))

    async def slowly() -> int:
        nonlocal now
        taken = 0
        async with http.fetch(web.at("/patient", file(CONTENT)), LOOPBACK_POLICY) as answer:
            async for block in answer.iter_blocks():
                taken += len(block)
                now += 0.1
        return taken

    assert asyncio.run(slowly()) == len(CONTENT)


# Encodings


@pytest.mark.parametrize(
    ("coding", "packed"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("X-Gzip", gzip.compress)]
)
def test_a_body_sent_compressed_is_unpacked(web: Origin, coding: str, packed: Any) -> None:
    text = b"hello again " * 500_000
    fetched = fetch_file(web.at("/page.html", file(packed(text), content_encoding=coding)))
    assert (fetched.content == text, fetched.size, fetched.resumable) == (True, None, False)
    assert max(fetched.blocks) <= http.BLOCK_SIZE


def test_an_archive_that_is_labelled_as_encoded_stays_an_archive(web: Origin) -> None:
    packed = gzip.compress(CONTENT)
    fetched = fetch_file(web.at("/a.tar.gz", file(packed, content_encoding="x-gzip")))
    assert (fetched.content, fetched.size, fetched.resumable) == (packed, len(packed), True)


def test_a_bomb_is_refused(web: Origin) -> None:
    bomb = gzip.compress(bytes(200 << 20), 9)
    fetched = fetch_file(web.at("/bomb", file(bomb, content_encoding="gzip")))
    assert str(fetched.failed) == "the file unpacks to far more than is sent"
    assert len(fetched.content) <= http.RATIO_EXEMPT
    assert max(fetched.blocks) <= http.BLOCK_SIZE


@pytest.mark.parametrize("content", [gzip.compress(CONTENT)[:-9], b"nonsense", gzip.compress(CONTENT)[:1000], b""])
def test_a_broken_encoding_is_told(web: Origin, content: bytes) -> None:
    fetched = fetch_file(web.at("/broken", file(content, content_encoding="gzip")))
    assert str(fetched.failed) in ("the file is sent in a broken encoding", "the file was cut off on its way")


def test_an_encoding_that_nobody_asked_for_is_refused(web: Origin) -> None:
    with pytest.raises(Problem, match="encoding that nobody asked for"):
        fetch_file(web.at("/brotli", file(b"x", content_encoding="br")))


def test_a_part_sent_compressed_starts_over(web: Origin) -> None:
    def answer(request: origin.Request) -> None:
        if "range" not in request.headers:
            return file(b"plain")(request)
        request.head(206, {"content-range": "bytes 2-4/5", "content-length": 3, "content-encoding": "gzip"})

    assert fetch_file(web.at("/mixed", answer), 2, '"a"').content == b"plain"


@pytest.mark.parametrize("url", ["ftp://h/x", "file:///etc/passwd", "magnet:?xt=urn:btih:" + "a" * 40, "nonsense", ""])
def test_what_is_no_web_address_is_not_opened(url: str) -> None:
    with pytest.raises(urls.InvalidUrl, match=r"^SimpleHttp tool does not support this URL scheme"):
        fetch_file(url)
