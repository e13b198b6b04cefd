"""The envelope as bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from starlette.responses import Response, StreamingResponse

from mangrove.core.chunked import PendingRows
from mangrove.core.problems import AccessDenied, TooMany
from mangrove.web.envelope import make_failure, ok, stream
from mangrove.web.flavours import ApiFlavour


def read(reply: Response) -> dict[str, Any]:
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json; charset=utf-8")
    envelope: dict[str, Any] = json.loads(bytes(reply.body))
    assert list(envelope)[:3] == ["code", "message", "data"]
    return envelope


@pytest.mark.parametrize(
    ("data", "shown"),
    [(None, None), ([1], [1]), ({"a": "é"}, {"a": "é"}), (orjson.Fragment(b'{"a":1}'), {"a": 1}),
     (datetime(2020, 1, 2, tzinfo=UTC), "2020-01-02T00:00:00Z"), (datetime(2020, 1, 2), "2020-01-02T00:00:00Z")],
)  # fmt: skip
def test_success_carries_the_data(data: Any, shown: Any) -> None:
    assert read(ok(data)) == {"code": 200, "message": "success", "data": shown}


def test_a_failure_carries_code_message_and_data() -> None:
    assert read(make_failure(AccessDenied())) == {
        "code": 403,
        "message": "permission denied",
        "data": None,
        "problem": "Denied",
    }
    too_many = make_failure(TooMany("wait", data={"id": 1}), flavour=ApiFlavour.OPENLIST)
    assert read(too_many) == {"code": 429, "message": "wait", "data": {"id": 1}}
    assert read(make_failure(AccessDenied("secret"), "******"))["message"] == "******"


def test_failure_has_retry_time_if_known() -> None:
    assert make_failure(TooMany(retry_after=300)).headers["retry-after"] == "300"
    assert make_failure(TooMany("wait", retry_after=7).with_prefix("a name")).headers["retry-after"] == "7"
    assert "retry-after" not in make_failure(AccessDenied()).headers


async def iterate(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def collect(reply: Response) -> bytes:
    assert isinstance(reply, StreamingResponse)
    return b"".join([bytes(chunk) async for chunk in reply.body_iterator])  # type: ignore[arg-type]


@pytest.mark.parametrize("pieces", [[], [b'{"a":1}'], [b'{"a":"\\u0000"},{"b":2}', b'{"c":3}', b'{"d":4}']])
def test_rows_are_put_into_the_answer_while_it_is_sent(pieces: list[bytes]) -> None:
    async def go() -> None:
        for data in (
            {"before": "\0", "content": PendingRows(iterate(*pieces)), "after": None},
            PendingRows(iterate(*pieces)),
        ):
            reply = stream(data)
            assert reply.headers["content-type"] == "application/json; charset=utf-8"
            envelope = json.loads(await collect(reply))
            rows = json.loads(b"[" + b",".join(pieces) + b"]")
            shown = {"before": "\0", "content": rows, "after": None} if isinstance(data, dict) else rows
            assert envelope == {"code": 200, "message": "success", "data": shown}

    asyncio.run(go())


def test_data_without_rows_is_answered_at_once() -> None:
    assert read(stream({"content": orjson.Fragment(b"[1]")}))["data"] == {"content": [1]}
    with pytest.raises(TypeError):
        stream(object())
