"""The form of an Alias storage, and the folders of the tree that its paths name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, Problem
from mangrove.drivers.options import Options, option

WritePolicy = Literal["", "disabled", "first", "deterministic", "deterministic_or_all", "all", "all_strict"]
PutPolicy = Literal[
    "", "disabled", "first", "deterministic", "deterministic_or_all", "all", "all_strict", "random", "quota",
    "quota_strict",
]  # fmt: skip


def parse(text: str) -> dict[str, list[TreePath]]:
    """Return folders by name, from lines `name:/path` or `/path`. A colon counts only before the first slash."""
    sources: dict[str, list[TreePath]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, path = line.partition(":")
        if not colon or "/" in name:
            name, path = "", line
        target = TreePath(path)
        sources.setdefault(name or target.name, []).append(target)
    return sources


def index_folders(sources: Mapping[str, Sequence[TreePath]]) -> dict[TreePath, list[TreePath]]:
    """Return the paths of the alias by the folder of the tree that they show."""
    shown_paths: dict[TreePath, list[TreePath]] = {}
    for name, folders in sources.items():
        shown = TreePath() if len(sources) == 1 else TreePath(name)
        for folder in folders:
            shown_paths.setdefault(folder, []).append(shown)
    return shown_paths


def find_sources(shown: Mapping[TreePath, Sequence[TreePath]], target: TreePath, below: bool) -> list[TreePath]:
    """Return the paths at which an alias shows a folder of the tree; with `below`, also those of what is below it.

    `shown`: the result of `index_folders`.
    """
    sources = [path / target.below(folder) for folder in target.ancestors() for path in shown.get(folder, ())]
    if below:
        sources += [path for folder, paths in shown.items() if folder.within(target) for path in paths]
    return sources


def find_folders(sources: Mapping[str, Sequence[TreePath]], path: TreePath) -> Sequence[TreePath]:
    """Return the tree paths of `path`. Raise EntryNotFound for an unknown name; empty for the list of names.

    If there is only one name, its content is that of the root.
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
        """Return the tree paths of `path`; none for the list of names, or below an unknown name."""
        try:
            return find_folders(self._sources, path)
        except EntryNotFound:
            return ()

    def find_sources(self, target: TreePath, *, below: bool = False) -> Sequence[TreePath]:
        """Return the paths of the alias at which a folder of the tree is shown."""
        return find_sources(self._shown, target, below)


class AliasOptions(Options):
    paths: str = option(required=True, type="text")
    read_conflict_policy: Literal["", "first", "random", "all"] = option("first")
    write_conflict_policy: WritePolicy = option(
        "disabled", help="The folders that a rename, a removal or a new folder changes, if several have the same name."
    )
    put_conflict_policy: PutPolicy = option(
        "disabled",
        help="The folders that receive uploaded, copied, moved or unpacked files, if several have the same name.",
    )
    file_consistency_check: bool = option(False)
    download_concurrency: int = option(
        0, help="Number of concurrent ranges of a file. It applies to downloads through this service."
    )
    download_part_size: int = option(0, help="Size of a range, in KiB. It applies to downloads through this service.")
    provider_pass_through: bool = option(False)
    details_pass_through: bool = option(False)

    def read_redirects(self) -> AliasRedirects:
        return AliasRedirects(self.paths)
