"""The visibility of the folders of hits: a caller sees a hit if listings would lead there.

A folder is visible if every folder on the way to it, from the searched folder on, is readable for the caller and shows
the next one. Its entries are visible if its listing shows them.

Rules apply to whole subtrees, so most folders have the visibility of their neighbours. Only folders at or above the
path of a rule or a mount are evaluated separately.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from mangrove.core.paths import TreePath
from mangrove.core.problems import StorageProblem
from mangrove.core.runtime import CacheKind
from mangrove.drivers.base import ROOT, Entry
from mangrove.search.hits import HidableRows
from mangrove.search.query import EVERYTHING, NOTHING, Hit, Visibility
from mangrove.tree.access import PathAccess

MAX_KNOWN_FOLDERS = 50_000  # cached by one of them


@dataclass(slots=True, eq=False)
class _Folder:
    """A folder, or all folders with the same visibility.

    `below`: the visibility of folders in it, unless they are evaluated separately.
    """

    access: PathAccess
    visibility: Visibility
    shows: Callable[[Entry], bool] | None
    leads_elsewhere: bool  # each name in it leads to another location
    below: _Folder | None = None


class FolderVisibility:
    """The `query.Judge` of one caller who searches one folder with one password. It is made in a thread."""

    def __init__(self, access: PathAccess) -> None:
        self.access = access
        self.is_needed = _is_restricted(access)
        self._alone = frozenset(_find_special_paths(access)) if self.is_needed else frozenset[str]()
        self._known: dict[TreePath, _Folder | None] = {}
        self._root = _make_folder(access) if self.is_needed else None

    @property
    def hidable(self) -> HidableRows:
        """Return the hits that rules may hide: by name, and folders if there are lists of readers."""
        return HidableRows(self.access.tree.rules.hide_lines, self.access.tree.rules.has_reader_lists)

    def evaluate(self, parent: TreePath) -> Visibility:
        """Return the visibility of the hits in this folder."""
        if not self.is_needed:
            return EVERYTHING
        folder = self._find(parent)
        return NOTHING if folder is None else folder.visibility

    def _find(self, path: TreePath) -> _Folder | None:
        """Return the folder, None if the caller cannot reach it."""
        top, steps = self.access.path, []
        while path != top and path not in self._known:
            if path == "/":
                return None  # it is not below the searched folder
            steps.append(path)
            path = path.parent
        folder = self._root if path == top else self._known[path]
        for step in reversed(steps):
            parent, folder = folder, self._enter(folder, step)
            if parent is not None and (parent.shows is not None or folder is not parent.below):
                self._remember(step, folder)
        return folder

    def _remember(self, path: TreePath, folder: _Folder | None) -> None:
        if len(self._known) >= MAX_KNOWN_FOLDERS:
            self._known.clear()
        self._known[path] = folder

    def _enter(self, parent: _Folder | None, path: TreePath) -> _Folder | None:
        """Return the folder at `path`, which is in `parent`."""
        name = path.name
        if parent is None or (parent.shows is not None and not parent.shows(Entry(name, 0, 0.0, True))):
            return None
        if self._is_alone(parent, name):
            try:
                return _make_folder(parent.access.with_path(path))
            except StorageProblem:  # an alias that leads to too many locations
                return None
        if parent.below is None:
            below = _make_folder(parent.access.child(name))
            if below is not None:
                below.below = below
            parent.below = below
        return parent.below

    def _is_alone(self, parent: _Folder, name: str) -> bool:
        """True if no other folder is known to have the same visibility."""
        if parent.below is parent:
            return False
        paths = (_join(decision.path, name) for decision in parent.access.decisions)
        return parent.leads_elsewhere or any(path in self._alone for path in paths)


def _join(path: TreePath, name: str) -> str:
    return f"/{name}" if path == "/" else f"{path}/{name}"


def _make_folder(access: PathAccess) -> _Folder | None:
    """Return the folder, None if the caller cannot read it."""
    if not access.may_read():
        return None
    shows = access.make_visibility_filter().test
    leads_elsewhere = any(decision.path in access.tree.table.redirects for decision in access.decisions)
    return _Folder(access, EVERYTHING if shows is None else HitTest(shows), shows, leads_elsewhere)


class HitTest:
    """Test hits in a folder: True if its listing shows them."""

    def __init__(self, shows: Callable[[Entry], bool]) -> None:
        self._shows = shows

    def __call__(self, hit: Hit) -> bool:
        return self._shows(Entry(hit.name, hit.size, hit.modified, hit.is_dir))


def _is_restricted(access: PathAccess) -> bool:
    """True if a rule could hide from the caller any hit below."""
    if access.tree.rules.is_empty:
        return False
    redirects = map(TreePath, access.tree.table.redirects)
    if any(path.within(decision.path) for path in redirects for decision in access.decisions):
        access = access.with_path(ROOT)  # entries that an alias shows have the rules of their own location
    return bool(access.find_hide_rules()) or access.is_restricted_below(False)


def _find_special_paths(access: PathAccess) -> Iterator[str]:
    """Yield the paths of rules, mounts and folders of groups, and all folders above them."""
    groups = access.caller.groups
    group_folders = () if groups is None else groups.folders
    for path in (*access.tree.rules.paths, *map(TreePath, access.tree.table.by_path), *group_folders):
        yield from path.ancestors()


async def find_visibility(access: PathAccess) -> FolderVisibility:
    """Return the evaluation of folders in and below a folder that the caller can read.

    It is cached by caller, password, folder and the version of rules and mounts.
    """
    key = access.caller.rights_key, access.password, access.path
    evaluator = VISIBILITIES.open().get(key)
    if (
        evaluator is None
        or evaluator.access.tree.rules is not access.tree.rules
        or evaluator.access.tree.table is not access.tree.table
    ):
        evaluator = await asyncio.to_thread(FolderVisibility, access)
        VISIBILITIES.open().put(key, evaluator)
    return evaluator


VISIBILITIES: CacheKind[tuple[Hashable, str, TreePath], FolderVisibility] = CacheKind("judges of searches", 64)
