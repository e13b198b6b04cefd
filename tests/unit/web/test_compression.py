"""Answers that are compressed, and those that no function can carry."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import Request

from mangrove.cloud.platform import MAX_ANSWER_BYTES
from mangrove.core import runtime
from mangrove.core.chunked import PendingRows
from mangrove.core.config import Config
from mangrove.core.problems import TooLarge
from mangrove.core.runtime import CacheKind
from mangrove.tree.listing.listing import MAX_SORTED_ENTRIES
from mangrove.web import envelope
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.envelope import accepts_gzip, ok, stream
from mangrove.web.gates import Anyone
from tests.support.awkward_names import make_event
from tests.unit.web.configs import CLOUD, LOCAL, configure

MAX_NAME_BYTES = 255  # bytes
ROW = {"name": "a name that is no longer than most", "sign": "c2lnbmF0dXJl"}


def build(kind: str, rows: int, noise: int = 0) -> Any:
    """An answer of so many rows, each with so much in it that cannot be compressed."""

    def make_row(number: int) -> dict[str, Any]:
        return ROW | {"number": number, "noise": base64.b64encode(os.urandom(noise)).decode()}

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, rows, 500):
            yield json.dumps(list(map(make_row, range(start, min(start + 500, rows)))))[1:-1].encode()

    if kind == "streamed":
        return stream({"content": PendingRows(pieces())})
    return ok({"content": list(map(make_row, range(rows)))})


async def send(reply: Any, accept: str = "gzip") -> tuple[dict[str, str], bytes]:
    """Headers and body as an ASGI server gets them."""
    headers: dict[str, str] = {}
    body = b""

    async def note(message: Any) -> None:
        nonlocal body
        headers.update({name.decode(): value.decode() for name, value in message.get("headers", ())})
        body += message.get("body", b"")

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "headers": [(b"accept-encoding", accept.encode())], "state": {}, "method": "GET"}
    await reply(scope, receive, note)
    return headers, body


@pytest.mark.parametrize(
    ("accept", "taken"),
    [("gzip, deflate, br", True), ("br;q=1.0, gzip;q=0.8", True), ("*", True), ("GZIP", True), ("", False),
     ("gzip;q=0", False), ("gzip; q=0.0, br", False), ("br", False), ("identity", False)],
)  # fmt: skip
def test_who_accepts_gzip(accept: str, taken: bool) -> None:
    assert accepts_gzip({"type": "http", "headers": [(b"accept-encoding", accept.encode())]}) is taken


@pytest.mark.parametrize("home", [LOCAL, CLOUD])
@pytest.mark.parametrize("kind", ["whole", "streamed"])
@pytest.mark.parametrize("rows", [100, 5000])
def test_a_long_answer_is_compressed_for_who_takes_it(
    monkeypatch: pytest.MonkeyPatch, home: Any, kind: str, rows: int
) -> None:
    configure(home)
    with runtime.use(runtime.current().keep(Config)):
        headers, body = asyncio.run(send(build(kind, rows)))
        assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
        assert headers.get("content-length", str(len(body))) == str(len(body))
        plain_headers, plain = asyncio.run(send(build(kind, rows), "identity"))
        assert "content-encoding" not in plain_headers
        assert json.loads(gzip.decompress(body)) == json.loads(plain)
        assert len(json.loads(plain)["data"]["content"]) == rows
        assert len(body) < len(plain) / 4


def test_a_short_answer_is_sent_as_it_is() -> None:
    headers, body = asyncio.run(send(ok({"a": 1})))
    assert "content-encoding" not in headers
    assert json.loads(body)["data"] == {"a": 1}


def test_an_answer_is_compressed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelope, "COMPRESSED_ANSWERS", CacheKind("few compressed answers", 30_000, len))

    async def go() -> None:
        bodies = [os.urandom(12_000) * 5 for _ in range(3)]
        first, *others = [await envelope.compress(body) for body in bodies]
        assert gzip.decompress(first) == bodies[0]
        assert await envelope.compress(bodies[2]) is others[1]
        assert await envelope.compress(bodies[0]) is not first, "it was dropped for others"

    asyncio.run(go())


@pytest.mark.parametrize("kind", ["whole", "streamed"])
@pytest.mark.parametrize("accept", ["gzip", "identity"])
def test_what_no_function_can_carry_is_refused_and_says_what_helps(
    monkeypatch: pytest.MonkeyPatch, kind: str, accept: str
) -> None:
    configure(CLOUD)
    with runtime.use(runtime.current().keep(Config)):
        _, body = asyncio.run(send(build(kind, 1000, 6000), accept))
        envelope = json.loads(body)
        assert (envelope["code"], envelope["problem"], envelope["data"]) == (413, TooLarge.__name__, None)
        assert "per_page" in envelope["message"]
        configure(LOCAL)
        _, body = asyncio.run(send(build(kind, 1000, 6000), accept))
        assert json.loads(gzip.decompress(body) if accept == "gzip" else body)["code"] == 200


@pytest.mark.parametrize("accept", ["gzip", "identity"])
@pytest.mark.parametrize(("noise", "code"), [(0, 200), (MAX_NAME_BYTES, 413)])
def test_largest_function_listing_is_answered_or_refused(
    monkeypatch: pytest.MonkeyPatch, accept: str, noise: int, code: int
) -> None:
    """In pieces, so that neither needs more memory than the answer may have."""
    configure(CLOUD)
    with runtime.use(runtime.current().keep(Config)):
        headers, body = asyncio.run(send(build("streamed", MAX_SORTED_ENTRIES, noise), accept))
    envelope = json.loads(gzip.decompress(body) if "content-encoding" in headers else body)
    assert envelope["code"] == (code if accept == "gzip" else 413)
    assert "per_page" in envelope["message"] or len(envelope["data"]["content"]) == MAX_SORTED_ENTRIES


@pytest.mark.parametrize("kind", ["whole", "streamed"])
@pytest.mark.parametrize("more", [0, 1])
def test_a_function_answers_up_to_the_last_byte_that_it_may(
    monkeypatch: pytest.MonkeyPatch, kind: str, more: int
) -> None:
    configure(CLOUD)
    envelope_size = envelope.measure(b'{"code":200,"message":"success","data":{"content":[""]}}', False)
    text = json.dumps("x" * (MAX_ANSWER_BYTES - envelope_size + more)).encode()

    async def pieces() -> AsyncIterator[bytes]:
        yield text

    reply = stream({"content": PendingRows(pieces())}) if kind == "streamed" else ok({"content": [json.loads(text)]})
    with runtime.use(runtime.current().keep(Config)):
        _, body = asyncio.run(send(reply, "identity"))
    assert json.loads(body)["code"] == (413 if more else 200)


def test_a_function_answers_compressed_bytes_and_never_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(CLOUD)
    api = Api("test")

    @api.get("/api/rows")
    async def rows(who: Anyone, request: Request) -> Any:
        return build(request.query_params["kind"], int(request.query_params["rows"]))

    handler = make_lambda_handler(api.app)
    asyncio.set_event_loop(loop := asyncio.new_event_loop())
    try:
        for kind in ("whole", "streamed"):
            for accept in ("gzip", "identity"):
                for row_count in (21_904, 65_000):
                    url = f"https://here/api/rows?kind={kind}&rows={row_count}"
                    answer = handler(make_event("GET", url, {"accept-encoding": accept}), None)
                    assert len(json.dumps(answer, ensure_ascii=False).encode()) < 5_600_000
                    body = gzip.decompress(base64.b64decode(answer["body"])) if accept == "gzip" else answer["body"]
                    expected = 413 if (accept, row_count) == ("identity", 65_000) else 200
                    assert json.loads(body)["code"] == expected
    finally:
        asyncio.set_event_loop(None)
        loop.close()
