"""Lists of any length that a task keeps in staging: appended to, read from any place, never held as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson

from mangrove.checkpoints import reached
from mangrove.drivers.base import Upload
from mangrove.tasks import staging

CHUNK = 1000  # rows in one file


class Manifest:
    """Rows (anything JSON can hold) of one list. `count` says how many of what is stored belong to it: rows that a
    worker stored and did not live to count are written over."""

    def __init__(self, task_id: str, name: str, count: int) -> None:
        self._task_id = task_id
        self._name = name
        self._waiting: list[Any] = []
        self._stored = count
        self._loaded = count % CHUNK == 0

    @property
    def count(self) -> int:
        return self._stored + len(self._waiting)

    async def append(self, row: Any) -> None:
        """Add a row; full chunks are stored at once, the rest with `flush`."""
        if not self._loaded:
            await self._load()
        self._waiting.append(row)
        if self.count % CHUNK == 0:
            await self.flush()

    async def _load(self) -> None:
        """Take the rows of the chunk that is not full back into memory."""
        begin = self._stored - self._stored % CHUNK
        self._waiting = (await self._chunk(begin // CHUNK))[: self._stored - begin]
        self._stored = begin
        self._loaded = True

    async def flush(self) -> None:
        """Store what waits; the last chunk stays open."""
        if not self._waiting:
            return
        content = b"\n".join(map(orjson.dumps, self._waiting))
        name = f"{self._name}-{self._stored // CHUNK:06}"
        await staging.keep(self._task_id, name, _once(content), Upload(len(content), 0.0))
        reached("manifest.stored")
        if len(self._waiting) == CHUNK:
            self._stored += CHUNK
            self._waiting = []

    async def _chunk(self, number: int) -> list[Any]:
        store = await staging.driver()
        path = staging.place(self._task_id, f"{self._name}-{number:06}")
        content = b"".join([block async for block in await store.read(path)])
        return [orjson.loads(line) for line in content.split(b"\n")]

    async def rows(self, start: int) -> list[Any]:
        """The rows from `start` to the end of its chunk; empty at the end."""
        if start >= self.count:
            return []
        if start >= self._stored and self._waiting:
            return self._waiting[start - self._stored :]
        begin = start - start % CHUNK
        return (await self._chunk(start // CHUNK))[start - begin : self.count - begin]


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
