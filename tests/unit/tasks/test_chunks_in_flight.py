"""Chunks that are being stored, in several processes."""

from __future__ import annotations

from itertools import count

import pytest

from mangrove.core import runtime
from mangrove.core.limits import ChunksInFlight
from mangrove.core.problems import ChunkInFlight
from mangrove.core.shared_memory import Region
from tests.support.sharing import share_runtimes


def share() -> list[ChunksInFlight]:
    chunks = []
    for process in share_runtimes(2):
        with runtime.use(process):
            chunks.append(ChunksInFlight())
    return chunks


def test_chunk_stored_by_another_process_is_refused_until_its_end() -> None:
    here, there = share()
    with there.hold("id", 1):
        assert here.has("id")
        with pytest.raises(ChunkInFlight), here.hold("id", 1):
            raise AssertionError
        with here.hold("id", 2):
            pass
    with here.hold("id", 1):
        pass


def test_chunk_that_shares_a_place_with_another_one_is_not_refused() -> None:
    """Keys share places of the shared memory by their hash."""

    def find_place(id: str) -> int:
        return hash((id, 1)) % (Region.CHUNKS.value - 1)

    other = next(text for text in map(str, count()) if find_place(text) == find_place("id"))
    here, there = share()
    with there.hold("id", 1), here.hold(other, 1):
        pass
