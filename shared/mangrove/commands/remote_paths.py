"""Paths in the tree as arguments of commands, with patterns."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate

from mangrove.client import Client, ClientError
from mangrove.client.models import FileObject, SingleObject

WILDCARDS = frozenset("*?[")
MAX_PATTERN_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class RemoteEntry:
    """An entry of the tree."""

    path: str
    is_dir: bool
    size: int
    modified: str

    @property
    def name(self) -> str:
        return posixpath.basename(self.path)

    @property
    def folder(self) -> str:
        return posixpath.dirname(self.path)


def make_entry(path: str, row: FileObject | SingleObject) -> RemoteEntry:
    """Return the entry of an answer."""
    return RemoteEntry(path, row["is_dir"], row["size"], row["modified"])


def normalize(path: str) -> str:
    """Return an absolute path. Raise ClientError for one with `..`."""
    if ".." in path.split("/"):
        raise ClientError(f"{path}: a path of the tree has no ..")
    return posixpath.normpath(f"/{path.strip('/')}")


def find_entry(client: Client, path: str) -> RemoteEntry | None:
    """Return the entry at a path, None if there is none."""
    try:
        return make_entry(path, client.info(path))
    except ClientError as error:
        if error.is_missing:
            return None
        raise


def expand(client: Client, arguments: Sequence[str], *, is_literal: bool = False) -> Iterator[RemoteEntry]:
    """Yield the entries of arguments, in which `*`, `?` and `[…]` match within a name.

    Raise ClientError for an argument without an entry.
    """
    for argument in arguments:
        path = normalize(argument)
        if is_literal or not WILDCARDS & set(path):
            yield make_entry(path, client.info(path))
            continue
        if len(path) > MAX_PATTERN_CHARACTERS:
            raise ClientError(f"a pattern has at most {MAX_PATTERN_CHARACTERS} characters")
        matches = _match(client, path.strip("/").split("/"))
        first = next(matches, None)
        if first is None:
            raise ClientError(f"{argument} matches nothing", problem="NotFound")
        yield first
        yield from matches


def _match(client: Client, parts: Sequence[str], folder: str = "") -> Iterator[RemoteEntry]:
    part, *rest = parts
    if not WILDCARDS & set(part):
        path = f"{folder}/{part}"
        if rest:
            yield from _match(client, rest, path)
        elif entry := find_entry(client, path):
            yield entry
        return
    pattern = re.compile(translate(part))
    for row in _list_if_present(client, folder or "/"):
        if pattern.match(row["name"]) and (not row["name"].startswith(".") or part.startswith(".")):
            entry = make_entry(f"{folder}/{row['name']}", row)
            if not rest:
                yield entry
            elif entry.is_dir:
                yield from _match(client, rest, entry.path)


def _list_if_present(client: Client, folder: str) -> Iterable[FileObject]:
    try:
        yield from client.iter_folder(folder)
    except ClientError as error:
        if not error.is_missing:
            raise
