"""A file that appears completely or not at all, on a storage that stores bytes as they arrive: it has another name
until it is complete.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from mangrove.core.concurrency import finish_despite_cancel
from mangrove.core.paths import TreePath
from mangrove.core.problems import Problem
from mangrove.drivers.base import Upload
from mangrove.drivers.part_names import make_part_name, refuse_part_name
from mangrove.drivers.refusals import refuse_other_size


class CountedBody:
    """A body whose bytes are counted in transit. It raises BadRequest as soon as there are more than announced."""

    def __init__(self, body: AsyncIterator[bytes], announced: int | None) -> None:
        self._body = body
        self._announced = announced
        self.size = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for block in self._body:
            self.size += len(block)
            if self._announced is not None and self.size > self._announced:
                refuse_other_size(self.size, self._announced)
            yield block

    def refuse_shorter(self) -> None:
        """Raise BadRequest if fewer bytes have passed than announced."""
        refuse_other_size(self.size, self._announced)


async def write_whole(
    path: TreePath,
    body: AsyncIterator[bytes],
    upload: Upload,
    *,
    store: Callable[[TreePath, AsyncIterator[bytes]], Awaitable[object]],
    publish: Callable[[TreePath], Awaitable[object]],
    discard: Callable[[TreePath], Awaitable[None]],
) -> int:
    """Store a body at `path` and return its size.

    `store` writes a new file of another name in the same folder, `publish` gives it the name of `path`, `discard`
    removes it if it exists. After any failure or cancellation, the file is discarded. A cancellation during `publish`
    waits for its end, so that the answer matches the result.
    """
    refuse_part_name(path)
    part, counted = path.parent / make_part_name(), CountedBody(body, upload.size)
    try:
        await store(part, aiter(counted))
        counted.refuse_shorter()
        await finish_despite_cancel(publish(part))
    except BaseException:
        with suppress(Problem):  # the reason of the end is raised
            await finish_despite_cancel(discard(part))
        raise
    return counted.size
