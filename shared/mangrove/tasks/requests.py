"""What callers ask for that may take long: done at once where a storage can, else put on the board."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial

from mangrove.drivers.base import Upload
from mangrove.records.tasks import Task
from mangrove.tasks import board, kinds, staging
from mangrove.tree import transfers, uploads
from mangrove.tree.spot import Spot
from mangrove.tree.transfers import Item, OnConflict

STAGED = "body"  # the name under which an upload waits


async def move(source_dir: Spot, target_dir: Spot, names: Sequence[str], conflict: OnConflict) -> list[Task]:
    """Move entries; the tasks for what could not be done at once."""
    left = await transfers.move(source_dir, target_dir, names, conflict)
    return [await _opened("move", "move", source_dir, target_dir, item, conflict) for item in left]


async def copy(source_dir: Spot, target_dir: Spot, names: Sequence[str], conflict: OnConflict) -> list[Task]:
    """Copy entries; the tasks for what could not be done at once."""
    left = await transfers.copy(source_dir, target_dir, names, conflict)
    word = "merge" if conflict.merge else "copy"
    return [await _opened("copy", word, source_dir, target_dir, item, conflict) for item in left]


async def _opened(kind: str, word: str, source_dir: Spot, target_dir: Spot, item: Item, conflict: OnConflict) -> Task:
    place, into = source_dir.within(item.name), target_dir.within(item.name)
    name = kinds.transfer_name(
        word, source_dir.mount()[0].path, item.path, target_dir.mount()[0].path, item.target.parent
    )
    facts = {
        "verb": kind,
        "source": place.path,
        "password": source_dir.password,
        "staged": "",
        "target": into.path.parent,
        "name": into.path.name,
        "overwrite": conflict.overwrite,
        "leave": conflict.merge or conflict.skip,
    }
    return await asyncio.to_thread(board.open, kind, source_dir.caller.user, name, facts)


async def upload(
    spot: Spot, body: AsyncIterator[bytes], sent: Upload, overwrite: bool, hashes: Mapping[str, str]
) -> Task:
    """Receive a body whole, then store it in the background. What can be refused is refused before it is read."""
    _, inner, mount = await uploads.admitted(spot, overwrite)
    id = board.new_id()
    try:
        size = await staging.keep(id, STAGED, uploads.checked(body, hashes), sent)
    except BaseException:
        await asyncio.shield(staging.clear(id))
        raise
    facts = {
        "verb": "upload",
        "source": "",
        "password": "",
        "staged": STAGED,
        "target": spot.path.parent,
        "name": spot.path.name,
        "overwrite": overwrite,
        "leave": False,
    }
    name = kinds.upload_name(spot.path.name, mount.path, inner.parent)
    opened = partial(board.open, "upload", spot.caller.user, name, facts, size, "uploading", id)
    return await asyncio.to_thread(opened)
