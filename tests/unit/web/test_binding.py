"""What a body or a query is taken for."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from fastapi import Request
from starlette.exceptions import HTTPException

from mangrove.core.problems import AccessDenied, BadRequest, Problem, TooLarge
from mangrove.web.binding import (
    LARGEST_ID,
    LARGEST_JSON,
    LARGEST_UNGATED_JSON,
    Body,
    EmptyBody,
    UnreadableBody,
    parse_id,
    read_json,
    require_fields,
)


async def admit_all() -> None:
    """A gate that everybody may pass."""


def bind(*chunks: bytes, kind: bytes = b"application/json", admit: Any = admit_all) -> Any:
    """What a body of this type is taken for."""
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    headers = [(b"content-type", kind)]
    return asyncio.run(read_json(Request({"type": "http", "method": "POST", "headers": headers}, receive), admit))


@pytest.mark.parametrize("kind", [b"text/plain", b"application/x-www-form-urlencoded", b"", b"application/json"])
def test_any_content_type_is_taken_for_json(kind: bytes) -> None:
    assert bind(b'{"a": ', b"1}", kind=kind) == {"a": 1}


def test_a_client_that_leaves_has_no_body() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(HTTPException, match="parsing the body"):
        asyncio.run(read_json(Request({"type": "http", "method": "POST", "headers": []}, receive)))


def test_null_is_an_empty_object() -> None:
    assert bind(b" null ") == {}


@pytest.mark.parametrize("chunks", [[], [b""], [b" \r\n", b"\t"]])
def test_an_empty_body_says_so(chunks: list[bytes]) -> None:
    value = bind(*chunks)
    assert isinstance(value, EmptyBody)
    assert (type(value.problem), value.problem.message) == (BadRequest, "the body is empty")


@pytest.mark.parametrize("text", [b"{", b"\xff", b"{'a': 1}", b"[1,]", b'{"a": NaN}'])
def test_what_is_no_json_is_kept_with_its_reason(text: bytes) -> None:
    value = bind(text)
    assert isinstance(value, UnreadableBody) and not isinstance(value, EmptyBody)
    assert value.problem.message.startswith("invalid JSON: ")


async def refuse_all() -> None:
    raise AccessDenied("not you")


@pytest.mark.parametrize(
    ("admit", "most", "problem"),
    [(admit_all, LARGEST_JSON, TooLarge), (refuse_all, LARGEST_UNGATED_JSON, AccessDenied),
     (None, LARGEST_UNGATED_JSON, TooLarge)],
)  # fmt: skip
def test_too_many_bytes_are_not_read_and_few_before_the_gate(admit: Any, most: int, problem: type[Problem]) -> None:
    read = 0

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += 1 << 14
        return {"type": "http.request", "body": b" " * (1 << 14), "more_body": True}

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    value = asyncio.run(read_json(request, admit))
    assert isinstance(value, UnreadableBody) and isinstance(value.problem, problem)
    assert most < read <= most + (1 << 14)


def test_ten_thousand_pairs_of_the_longest_names_are_read() -> None:
    body = orjson.dumps([dict.fromkeys(("src_name", "new_name"), "n" * 255)] * 10_000)
    assert len(bind(*(body[at : at + 65_536] for at in range(0, len(body), 65_536)))) == 10_000


@pytest.mark.parametrize("value", [b"[],", b"{},", b"1,", b'{"a":1},', b'"",'])
def test_a_body_of_very_many_values_is_not_parsed(value: bytes) -> None:
    body = b"[" + value * 120_000 + b"1]"
    taken = bind(*(body[at : at + 65_536] for at in range(0, len(body), 65_536)))
    assert isinstance(taken, UnreadableBody) and "values" in taken.problem.message


class Example(Body):
    path: str = "/"
    page: int = 1


def test_null_counts_as_absent_and_unknown_keys_are_ignored() -> None:
    assert Example.model_validate({"path": None, "page": 2, "more": {}}) == Example(page=2)


@pytest.mark.parametrize("value", [UnreadableBody(BadRequest()), EmptyBody(BadRequest()), {"page": "2"}, [], "text"])
def test_no_body_takes_what_is_no_object(value: Any) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Example.model_validate(value, from_attributes=True)  # as FastAPI does


def test_empty_fields_are_named_line_by_line() -> None:
    require_fields(username="ann")
    with pytest.raises(BadRequest) as caught:
        require_fields(username="", code="1", secret="")
    assert caught.value.message.splitlines() == ["username is required", "secret is required"]


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("-1", -1), ("007", 7), (str(LARGEST_ID), LARGEST_ID)])
def test_an_id_is_a_whole_number(text: str, number: int) -> None:
    assert parse_id(text) == number


@pytest.mark.parametrize("text", ["", "x", "1.0", "+1", " 1", "٣", str(LARGEST_ID + 1), "9" * 60, "--1"])
def test_what_is_no_id_is_refused_in_known_words(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_id(text)
    assert caught.value.message == f'"{text[:40]}" is no integer'
    with pytest.raises(BadRequest, match="id format invalid"):
        parse_id(text, "id format invalid")
