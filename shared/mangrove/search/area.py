"""The area of a search: a folder, or all that a share link shares, with the visibility of what is there.

A visitor of a share link searches with the rights of its listings, and learns paths of the share only.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from mangrove.core.paths import TreePath
from mangrove.core.problems import AccessDenied
from mangrove.records.index_changes import ChangeKind, IndexChange, IndexedName
from mangrove.search.hits import EVERYTHING, NOTHING, HidableRows, Hit, Visibility, VisibilityEvaluator
from mangrove.search.tables import VIRTUAL
from mangrove.search.visibility import FolderVisibility, find_visibility
from mangrove.tree.access import PathAccess
from mangrove.tree.listing.objects import find_roots
from mangrove.tree.listing.opening import check_folder
from mangrove.tree.sharing.shared_path import PREFIX, SharedPath


@dataclass(frozen=True, slots=True)
class SearchArea:
    """The folders that a search covers, each with all below it."""

    folders: Mapping[TreePath, PathAccess]
    evaluator: VisibilityEvaluator
    share: SharedPath | None = None
    """The part of a share link that contains the area, for a visitor."""
    names: tuple[IndexChange, ...] = ()
    """The names that no storage has: those of the files and folders that a share link shares."""

    def show(self, hit: Hit) -> Hit:
        """Return a hit as its caller may know it: for a visitor, with the path of its folder in the share."""
        if self.share is None or hit.parent.within(PREFIX):
            return hit
        nearest = _find_nearest(self.folders, hit.parent)
        share = None if nearest is None else self.folders[nearest].share
        assert share is not None
        return hit._replace(parent=share.find_path(hit.parent))


def _find_nearest(folders: Container[TreePath], path: TreePath) -> TreePath | None:
    """Return the innermost of the folders that contains a path, None if no folder does."""
    return next((ancestor for ancestor in path.ancestors() if ancestor in folders), None)


class _SharedVisibility:
    """The visibility of what lies in several shared folders, and of their own names."""

    def __init__(self, folders: Mapping[TreePath, FolderVisibility]) -> None:
        self._folders = folders
        self.is_needed = True
        self.hidable: HidableRows | None = None
        for visibility in folders.values():
            self.hidable = visibility.hidable  # the rules are the same for all

    def evaluate(self, parent: TreePath) -> Visibility:
        """Return the visibility of the hits in this folder."""
        if parent.within(PREFIX):
            return EVERYTHING
        nearest = _find_nearest(self._folders, parent)
        return NOTHING if nearest is None else self._folders[nearest].evaluate(parent)


async def find_area(access: PathAccess) -> SearchArea:
    """Return the area at and below a folder. Raise the problems of its listing.

    Of a share of several files and folders, those that cannot be read are left out.
    """
    share = access.share
    if share is None:
        await check_folder(access)
        return SearchArea({access.path: access}, await find_visibility(access))
    if not share.shows_content:
        raise AccessDenied
    if not share.roots:
        await check_folder(access)
        return SearchArea({access.path: access}, await find_visibility(_forget_share(access)), share)
    entries = await find_roots(share)
    folders = {root.path: root for root in (share.roots[entry.name] for entry in entries if entry.is_dir)}
    visibilities = {path: await find_visibility(_forget_share(folder)) for path, folder in folders.items()}
    names = tuple(IndexedName(entry.name, entry.is_dir, entry.size, entry.modified) for entry in entries)
    change = IndexChange(VIRTUAL, ChangeKind.NAMES, str(PREFIX / share.link.id), entries=names)
    return SearchArea(folders, _SharedVisibility(visibilities), share, (change,))


def _forget_share(access: PathAccess) -> PathAccess:
    """Return an access that is not limited to the share: rules are evaluated at the paths to which aliases lead."""
    return replace(access, share=None)
