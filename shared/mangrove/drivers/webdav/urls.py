"""Where a path of the storage lies on the server, and what an address that the server names stands for."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, unquote

import httpx

from mangrove.core.paths import TreePath

MAX_NAME_BYTES = 1024  # bytes of a name that is shown
_UNFIT = re.compile(r"[/\\\0]")


class Urls:
    """The addresses below one root: the address of the server, then the storage's root folder."""

    def __init__(self, address: httpx.URL, root: TreePath) -> None:
        self._origin = f"{address.scheme}://{address.netloc.decode('ascii')}"
        self._root = (address.path.rstrip("/") + root).rstrip("/")  # not encoded

    def make(self, path: TreePath, *, is_dir: bool = False) -> str:
        """The address of a file, or of a folder, which ends with a slash."""
        end = "/" if is_dir or path == "/" else ""
        return self._origin + quote((self._root + path).rstrip("/") + end, safe="/~")

    def make_finder(self, folder: TreePath) -> Callable[[str], str | None]:
        """What tells the name of what lies right in `folder` at an address, "" for the folder itself.

        None for what lies elsewhere, and for a name that no path can hold. The host is not looked at, which may have
        other names on the way to it: nothing but the name is used.
        """
        inside = (self._root + folder).rstrip("/") + "/"
        start = len(inside)

        def find_name(href: str) -> str | None:
            found = _decode(href)
            if found is None:
                return None
            if not found.startswith("/"):
                found = inside + found
            elif not found.startswith(inside):
                return "" if found.rstrip("/") + "/" == inside else None
            name = found[start:].removesuffix("/")
            if not name.strip("/"):
                return ""
            return None if name in (".", "..") or _UNFIT.search(name) or _is_too_long(name) else name

        return find_name


def _is_too_long(name: str) -> bool:
    return len(name) > MAX_NAME_BYTES // 4 and len(name.encode()) > MAX_NAME_BYTES


def _decode(href: str) -> str | None:
    """The path of an address, decoded; None for what is no text."""
    if href.startswith(("http://", "https://")):
        href = "/" + href.partition("://")[2].partition("/")[2]
    if "%" not in href:
        return href
    try:
        return unquote(href, errors="strict")
    except UnicodeDecodeError:
        return None
