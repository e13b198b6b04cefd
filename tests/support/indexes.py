"""The content of a storage's index, and the expected content."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from mangrove.core import runtime
from mangrove.search.index import search_index
from mangrove.search.names import decode_name
from mangrove.search.segments import SegmentStore

Names = dict[str, "int | None"]  # paths inside the storage to sizes, None for folders

_ROWS = (
    "select path, coalesce(name, folded), is_dir, size from read_parquet(?) as names"
    " join read_parquet(?) as folders on names.folder = folders.id"
)


async def read_index(storage_id: int) -> Names | None:
    """Every name in the index of a storage; None when there is none. Each is there once."""
    segments = await runtime.get(SegmentStore).open(storage_id)
    if segments is None:
        return None
    files = [list(map(str, segments.names)), list(map(str, segments.folders))]
    rows = await search_index().database.run(_ROWS, files, seconds=60)
    paths = [f"{decode_name(path).rstrip('/')}/{decode_name(name)}" for path, name, _, _ in rows]
    assert not [path for path, count in Counter(paths).items() if count > 1]
    assert segments.manifest.count == len(rows)
    return {path: None if is_dir else size for path, (_, _, is_dir, size) in zip(paths, rows, strict=True)}


def read_disk(root: Path) -> Names:
    """Every name below a folder."""
    return {
        f"/{path.relative_to(root)}": None if path.is_dir() else path.stat().st_size
        for path in root.rglob("*")
        if not path.name.startswith(".mangrove-")
    }
