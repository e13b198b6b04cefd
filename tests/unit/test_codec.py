"""Values stored as JSON are read back unchanged, and values that do not fit are refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import pytest

from mangrove.core.codec import DecodeError, dump, parse, structure, unstructure


class Place(NamedTuple):
    row: int | None
    time: float


@dataclass(kw_only=True)
class Inner:
    name: str
    places: list[Place] = field(default_factory=list)


@dataclass(kw_only=True)
class Base:
    kind: ClassVar[str] = "x"
    version: Literal[1] = 1


@dataclass(kw_only=True)
class Whole(Base):
    inner: Inner | None = None
    sums: dict[str, int] = field(default_factory=dict)
    flag: bool = False
    share: float = 0.0
    must: str


SAMPLE = Whole(
    must="m", inner=Inner(name="n", places=[Place(1, 2.5), Place(None, 0.0)]), sums={"a": 1}, flag=True, share=0.5
)


def test_what_is_stored_is_read_back() -> None:
    assert parse(Whole, dump(SAMPLE)) == SAMPLE
    assert unstructure(SAMPLE) == {
        "version": 1, "inner": {"name": "n", "places": [[1, 2.5], [None, 0.0]]}, "sums": {"a": 1}, "flag": True,
        "share": 0.5, "must": "m",
    }  # fmt: skip


def test_what_is_missing_has_its_default_and_what_is_not_known_is_ignored() -> None:
    whole = structure(Whole, {"must": "m", "share": 2, "kind": "other", "new": [1]})
    assert whole == Whole(must="m", share=2.0) and type(whole.share) is float
    assert whole.sums is not structure(Whole, {"must": "m"}).sums


@pytest.mark.parametrize(
    "stored",
    [
        {}, {"must": 1}, {"must": None}, {"must": "m", "version": 2}, {"must": "m", "version": True},
        {"must": "m", "version": "1"}, {"must": "m", "flag": 1}, {"must": "m", "sums": {"a": "1"}},
        {"must": "m", "sums": []}, {"must": "m", "inner": "n"}, {"must": "m", "inner": {}},
        {"must": "m", "inner": {"name": "n", "places": {}}}, {"must": "m", "inner": {"name": "n", "places": [[1]]}},
        {"must": "m", "inner": {"name": "n", "places": [[1, 2.5, 3]]}},
        {"must": "m", "inner": {"name": "n", "places": [[True, 2.5]]}}, {"must": "m", "share": "0.5"}, [], "m", None,
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(stored: Any) -> None:
    with pytest.raises(DecodeError):
        structure(Whole, stored)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", "{'must': 1}"])
def test_what_is_no_json_is_refused(content: bytes | str) -> None:
    with pytest.raises(DecodeError):
        parse(Whole, content)
