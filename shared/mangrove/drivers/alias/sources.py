"""The folders of the tree that an alias shows, and their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, Problem


def parse(text: str) -> dict[str, list[TreePath]]:
    """Name → folders, of lines `name:/path` or `/path`; a colon counts only before the first slash."""
    sources: dict[str, list[TreePath]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, path = line.partition(":")
        if not colon or "/" in name:
            name, path = "", line
        target = TreePath(path)
        sources.setdefault(name or target.name, []).append(target)
    return sources


def index_folders(sources: Mapping[str, Sequence[TreePath]]) -> dict[TreePath, list[TreePath]]:
    """Folder of the tree → the paths of the alias that it is shown at."""
    shown_paths: dict[TreePath, list[TreePath]] = {}
    for name, folders in sources.items():
        shown = TreePath() if len(sources) == 1 else TreePath(name)
        for folder in folders:
            shown_paths.setdefault(folder, []).append(shown)
    return shown_paths


def find_sources(shown: Mapping[TreePath, Sequence[TreePath]], target: TreePath, below: bool) -> list[TreePath]:
    """Return the paths at which an alias shows a folder of the tree, by what `index_folders` says; `below`: or
    something below it."""
    sources = [path / target.below(folder) for folder in target.ancestors() for path in shown.get(folder, ())]
    if below:
        sources += [path for folder, paths in shown.items() if folder.within(target) for path in paths]
    return sources


def find_folders(sources: Mapping[str, Sequence[TreePath]], path: TreePath) -> Sequence[TreePath]:
    """The tree paths that `path` stands for; EntryNotFound for an unknown name, empty for the list of names.

    Where there is one name only, its content is the root's.
    """
    if len(sources) == 1:
        return [source / path for source in next(iter(sources.values()))]
    if path == "/":
        return ()
    first, _, rest = path[1:].partition("/")
    if first not in sources:
        raise EntryNotFound
    return [source / rest for source in sources[first]]


class AliasRedirects:
    """The targets of the paths of an alias."""

    def __init__(self, text: str) -> None:
        try:
            self._sources = parse(text)
        except Problem:
            self._sources = {}  # it does not start either
        self._shown = index_folders(self._sources)

    def find_targets(self, path: TreePath) -> Sequence[TreePath]:
        """The tree paths that `path` stands for; none for the list of names, or below a name that is none."""
        try:
            return find_folders(self._sources, path)
        except EntryNotFound:
            return ()

    def find_sources(self, target: TreePath, *, below: bool = False) -> Sequence[TreePath]:
        """The paths of the alias at which a folder of the tree is shown."""
        return find_sources(self._shown, target, below)
