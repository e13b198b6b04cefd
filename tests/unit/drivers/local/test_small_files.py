"""Small bodies are stored in one call: what is announced and what arrives."""

from __future__ import annotations

import asyncio

import pytest

from mangrove.core.chunked import stream
from mangrove.core.problems import BadRequest
from mangrove.drivers.base import Upload
from mangrove.drivers.local import small_files
from mangrove.drivers.local.small_files import MAX_SMALL_BODY_BYTES, is_small, read_small


@pytest.mark.parametrize(
    ("size", "expected"),
    [(0, True), (MAX_SMALL_BODY_BYTES, True), (MAX_SMALL_BODY_BYTES + 1, False), (None, False)],
)
def test_only_a_body_of_a_small_known_size_is_small(size: int | None, expected: bool) -> None:
    assert is_small(Upload(size, 0.0)) is expected


def test_body_of_the_announced_size_is_returned() -> None:
    assert asyncio.run(read_small(stream(b"ab"), Upload(2, 0.0))) == b"ab"


@pytest.mark.parametrize("size", [1, 3])
def test_body_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(BadRequest, match=f"has 2 bytes instead of the announced {size}"):
        asyncio.run(read_small(stream(b"ab"), Upload(size, 0.0)))


def test_long_body_is_read_to_its_end_without_being_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "MAX_SMALL_BODY_BYTES", 4)
    with pytest.raises(BadRequest, match="has 10 bytes"):
        asyncio.run(read_small(stream(b"0123456789"), Upload(4, 0.0)))
