"""Changes of folders as all processes of one machine see them: what was read of a folder before one is not kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mangrove.core.shared_memory import Topic, change_counters

Key = tuple[int, str]
"""A storage's id, and a path inside it."""


class Stamp:
    """A moment in the life of a folder; made before the folder is read."""

    __slots__ = ("_count", "_key", "_total")

    def __init__(self, key: Key) -> None:
        self._key = key
        self._total = read_total()
        self._count = _read_count(key)

    def is_current(self) -> bool:
        """Whether nothing in the folder changed since, nor any folder above it as a whole."""
        total = read_total()
        if total == self._total:
            return True
        if _read_count(self._key) != self._count:
            return False
        self._total = total
        return True


def read_total() -> int:
    """A number that is another one after each change of any folder."""
    return change_counters().read(Topic.ANY_FOLDER)


def _read_count(key: Key) -> int:
    own = change_counters().read(Topic.FOLDER, key) + change_counters().read(Topic.EVERY_FOLDER)
    return own + sum(change_counters().read(Topic.TREE, above) for above in _list_trees(key))


def _list_trees(key: Key) -> Iterator[Key]:
    """The folder and all above it."""
    storage_id, path = key
    yield storage_id, "/"
    end = path.find("/", 1)
    while end > 0:
        yield storage_id, path[:end]
        end = path.find("/", end + 1)
    if path != "/":
        yield key


def note_folders(keys: Iterable[Key]) -> None:
    """Entries of these folders change, or have changed."""
    for key in keys:
        change_counters().bump(Topic.FOLDER, key)
    change_counters().bump(Topic.ANY_FOLDER)


def note_trees(keys: Iterable[Key]) -> None:
    """These folders change with all that is below them."""
    for key in keys:
        change_counters().bump(Topic.TREE, key)
    change_counters().bump(Topic.ANY_FOLDER)


def note_every_folder() -> None:
    """Whatever is known of folders is not to be trusted any more."""
    change_counters().bump(Topic.EVERY_FOLDER)
    change_counters().bump(Topic.ANY_FOLDER)
