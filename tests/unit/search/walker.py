"""The entries that a caller finds who lists a folder, and every folder that the listing shows, as deep as it goes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import orjson

from mangrove.core.problems import Problem
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import browse
from mangrove.tree.listing.browse import PageRequest


@dataclass(frozen=True, slots=True, order=True)
class Shown:
    """One row of a listing."""

    parent: str
    name: str
    is_dir: bool


async def walk(access: PathAccess) -> set[Shown]:
    """All rows of all listings; a folder that cannot be listed has none."""
    try:
        listing = await browse.list_folder(access, PageRequest(), False, "")
    except Problem:
        return set()
    rows = orjson.loads(orjson.dumps(listing["content"]))
    shown = {Shown(str(access.path), row["name"], row["is_dir"]) for row in rows}
    below = [access.with_path(access.path / row["name"]) for row in rows if row["is_dir"]]
    return shown.union(*await asyncio.gather(*map(walk, below)))
