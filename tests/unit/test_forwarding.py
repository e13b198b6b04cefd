"""Which headers of a request an upstream server is sent."""

from __future__ import annotations

import asyncio

import pytest

from mangrove.core.forwarding import forward_headers, get_forwarded_headers, select_headers


@pytest.mark.parametrize(
    "name",
    [
        "authorization", "cookie", "host", "range", "if-none-match", "x-forwarded-for", "x-real-ip", "otp-code",
        "content-length", "proxy-authorization", "transfer-encoding", "accept-encoding", "ignored",
    ],
)  # fmt: skip
def test_what_is_the_clients_own_or_is_ignored_is_kept_back(name: str) -> None:
    headers = [(name, "x"), ("user-agent", "a player"), ("accept-language", "de")]
    assert select_headers(headers, {"ignored"}) == {"user-agent": "a player", "accept-language": "de"}


def test_a_value_that_cannot_be_sent_is_kept_back() -> None:
    assert select_headers([("x-a", "\N{SNOWMAN}"), ("x-b", "b")], ()) == {"x-b": "b"}


def test_one_request_knows_nothing_of_another() -> None:
    async def request(text: str) -> dict[str, str]:
        forward_headers([("x-a", text)], ())
        await asyncio.sleep(0)
        return get_forwarded_headers()

    async def both() -> None:
        found = await asyncio.gather(*(asyncio.create_task(request(text)) for text in "ab"))
        assert found == [{"x-a": "a"}, {"x-a": "b"}]

    asyncio.run(both())
    assert get_forwarded_headers() == {}
