"""Share links: their modes, and their paths `/@s/<id>[/…]` with the corresponding paths in the tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from mangrove.core.paths import TreePath
from mangrove.core.problems import BadRequest, EntryNotFound
from mangrove.records.share_links import ShareLink
from mangrove.tree.operations import links

if TYPE_CHECKING:
    from mangrove.tree.access import PathAccess

PREFIX = TreePath("/@s")
ROOT_NAME = "root"  # of a shared root of the tree
READ, DROP, BOTH = MODES = ("read", "drop", "both")  # visitors read, upload without seeing the content, or do both


def takes_uploads(mode: str) -> bool:
    """True if visitors upload files."""
    return mode in (DROP, BOTH)


def shows_content(mode: str) -> bool:
    """True if visitors see the content."""
    return mode in (READ, BOTH)


@dataclass(frozen=True, slots=True)
class SharedPath:
    """The part of a share link that contains a path."""

    link: ShareLink
    root: TreePath
    """The shared file or folder, in the tree."""
    prefix: TreePath
    """Its path in the share: the root if nothing else is shared, else the name of the file or folder."""
    creator: str
    """Name of the owner."""
    roots: Mapping[str, PathAccess] = field(default_factory=dict, hash=False, compare=False)
    """For the root of a share of several files and folders: the access to each of them, by name in the share."""

    @property
    def name(self) -> str:
        """The name of the shared file or folder."""
        return self.prefix.name or self.root.name or ROOT_NAME

    @property
    def key(self) -> tuple[str, ...]:
        """The values from which addresses of its files are made."""
        return self.link.id, self.link.password, self.root, self.prefix

    @property
    def shows_content(self) -> bool:
        """True if visitors see the content."""
        return shows_content(self.link.mode)

    @property
    def takes_uploads(self) -> bool:
        """True if visitors upload files."""
        return takes_uploads(self.link.mode)

    def find_inner(self, path: TreePath) -> TreePath:
        """Return the path in the share for a path of the tree. Raise EntryNotFound if it is outside of the share."""
        if self.roots:
            return TreePath("/")
        if not path.within(self.root):
            raise EntryNotFound
        return self.prefix / path.below(self.root)

    def find_path(self, path: TreePath) -> TreePath:
        """Return the path in the share for a path of the tree, with the id of the share link."""
        return PREFIX / self.link.id / self.find_inner(path)

    def make_url(self, base: str, route: str, path: TreePath, query: str = "") -> str:
        """Return the address of a file of the tree in the share, under a route of the service; `query` is encoded."""
        return self.make_inner_url(base, route, self.find_inner(path), query)

    def make_inner_url(self, base: str, route: str, inner: TreePath, query: str = "") -> str:
        """Return the address of a path of the share, under a route of the service."""
        password = f"pwd={quote(self.link.password, safe='')}" if self.link.password else ""
        text = "&".join(filter(None, (query, password)))
        return links.make_file_url(base, route, f"/{self.link.id}{inner}", text)


def is_shared(path: TreePath) -> bool:
    """True if a path is one of a share link."""
    return path.within(PREFIX)


def split(path: TreePath) -> tuple[str, TreePath]:
    """Return the id and the inner path of a path of a share link. Raise BadRequest without an id."""
    id, _, inner = path.below(PREFIX)[1:].partition("/")
    if not id:
        raise BadRequest("invalid share id")
    return id, TreePath(inner)


def name_roots(paths: Iterable[TreePath]) -> dict[str, TreePath]:
    """Return shared files and folders by their names; a taken name gets a number."""
    named: dict[str, TreePath] = {}
    for path in paths:
        name, number = path.name or ROOT_NAME, 1
        stem, dot, extension = name.rpartition(".")
        if not stem:
            stem, dot, extension = name, "", ""
        while name in named:
            number += 1
            name = f"{stem} ({number}){dot}{extension}"
        named[name] = path
    return named
