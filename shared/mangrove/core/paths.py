"""The path type of the tree, and the check of names.

A `TreePath` is absolute, normalised and without `..`, whatever text it was made of; it need not be checked again. It is
a `str`, so that it can be a key, be sorted and be sent unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from mangrove.core.problems import BadRequest, RelativePath

MAX_PATH_BYTES = 4096  # bytes, as PATH_MAX
MAX_NAME_BYTES = 255  # bytes, as NAME_MAX
TRASH = ".mangrove-trash"  # the folder of a storage with its removed entries
MAX_PATH_DEPTH = 256  # segments: the cost of a path grows with their square, and walks of a tree are recursive


class TreePath(str):
    """An absolute path: `/`-separated, no `.`/`..`/empty segment, no trailing slash except for the root.

    Backslashes count as slashes. Raises RelativePath for a `..` segment, BadRequest for a NUL byte, for text that is
    not Unicode and for more than MAX_PATH_BYTES bytes or MAX_PATH_DEPTH segments.
    """

    __slots__ = ()

    def __new__(cls, text: str = "/") -> Self:
        if type(text) is cls:
            return text
        return super().__new__(cls, _clean(text))

    def __truediv__(self, name: str) -> TreePath:
        """Return the path of the entry `name` of this folder; `name` may have several segments and is checked."""
        tail = TreePath(name)
        if tail == "/":
            return self
        return tail if self == "/" else _from_clean(str(self) + str(tail))

    @property
    def name(self) -> str:
        """The last segment; `""` for the root."""
        return str(self).rpartition("/")[2]

    @property
    def parent(self) -> TreePath:
        """The parent folder; the root is its own parent."""
        return _from_clean(str(self).rpartition("/")[0] or "/")

    def within(self, folder: TreePath) -> bool:
        """True if this is `folder` or below it, by whole segments."""
        return folder == "/" or self == folder or self.startswith(str(folder) + "/")

    def below(self, folder: TreePath) -> TreePath:
        """Return this path relative to `folder`, in which it must be."""
        return self if folder == "/" else _from_clean(str(self)[len(folder) :] or "/")

    def ancestors(self) -> list[TreePath]:
        """Return the path itself, its parent and so on up to the root."""
        chain = [self]
        while chain[-1] != "/":
            chain.append(chain[-1].parent)
        return chain


def _from_clean(text: str) -> TreePath:
    """Return the path of a text that is known to be normalised."""
    return str.__new__(TreePath, text)


def _clean(text: str) -> str:
    if len(text) > MAX_PATH_BYTES or len(_encode(text)) > MAX_PATH_BYTES:
        raise BadRequest("path is too long")
    if "\0" in text:
        raise BadRequest("path has a NUL byte")
    segments = [part for part in text.replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in segments:
        raise RelativePath
    if len(segments) > MAX_PATH_DEPTH:
        raise BadRequest("path is too deep")
    return "/" + "/".join(segments)


def _encode(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadRequest("path is not valid Unicode") from None


def map_characters(name: str, mapping: Mapping[str, str]) -> str:
    """Return a name of a storage with each text of the mapping replaced."""
    for old, new in mapping.items():
        name = name.replace(old, new)
    return name


def is_valid_name(name: str) -> bool:
    """True if the tree can show an entry of this name."""
    return bool(name) and name not in (".", "..") and not any(letter in "/\\\x7f" or letter < " " for letter in name)


def check_name(name: str) -> str:
    """Return `name` if it is a valid name for a new entry. Raise RelativePath for `""`, `.`, `..` or a separator, or
    BadRequest."""
    if name in ("", ".", "..") or "/" in name or "\\" in name:
        raise RelativePath
    if len(_encode(name)) > MAX_NAME_BYTES:
        raise BadRequest("name is too long")
    refuse_trash_name(name)
    if min(name) < " " or "\x7f" in name:
        raise BadRequest("name has a control character")
    return name


def refuse_trash_name(name: str) -> None:
    """Raise BadRequest for the name of a new entry that is reserved for the trash."""
    if is_trash_name(name):
        raise BadRequest(f"the name {TRASH} is reserved for the trash")


def is_trash_name(name: str) -> bool:
    """True for the name of the trash folder, including spellings that a server may not distinguish from it."""
    return name.casefold().rstrip(". ") == TRASH


def check_existing_name(name: str) -> str:
    """Return `name` if it names an entry of a folder. Raise BadRequest for the folder itself, RelativePath for a path
    that leaves it."""
    if name in ("", "."):
        raise BadRequest(f"invalid file name [{name}]")
    if name == ".." or "/" in name or "\\" in name:
        raise RelativePath
    TreePath(name)
    return name
