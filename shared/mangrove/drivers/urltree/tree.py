"""The text of a UrlTree: folders and addresses, one per line, indented by their depth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from mangrove.core.http import parse_integer
from mangrove.core.paths import map_characters
from mangrove.core.problems import StorageProblem
from mangrove.drivers.base import Entry

STEP = "  "  # one level of indentation
MAX_PATH_DEPTH = 100  # levels: trees are walked by recursion
ADDRESS = re.compile(r"https?://")


@dataclass(slots=True)
class Node:
    """A folder (empty `url`) or a file; `size` None: unknown."""

    name: str
    url: str = ""
    size: int | None = None
    modified: int = 0
    children: dict[str, Node] = field(default_factory=dict)

    @property
    def is_dir(self) -> bool:
        return not self.url

    def total(self) -> int | None:
        """Return the bytes of a file, None if unknown; for a folder the sum of the known sizes."""
        return sum(child.total() or 0 for child in self.children.values()) if self.is_dir else self.size

    def make_entry(self) -> Entry:
        return Entry(self.name, self.total(), self.modified or 1e-9, self.is_dir, url=self.url)


def parse(text: str, char_mapping: Mapping[str, str] | None = None) -> Node:
    """Return the tree of `text`, with names converted by the mapping. Raise StorageProblem with the invalid line."""
    root = Node("")
    ancestors = [root]
    for line in text.splitlines():
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip(" "))
        if indent % len(STEP):
            raise StorageProblem(f"the line '{line}' is not a multiple of 2")
        level = indent // len(STEP)
        if level >= MAX_PATH_DEPTH:
            raise StorageProblem(f"invalid line: {line.strip()}, because it is more than {MAX_PATH_DEPTH} levels deep")
        if level >= len(ancestors):
            raise StorageProblem(f"invalid line: {line}, because it is indented too deep")
        del ancestors[level + 1 :]
        node = _parse_folder(line) or _parse_file(line)
        node.name = _check_name(map_characters(node.name, char_mapping or {}), line)
        ancestors[-1].children[node.name] = node
        if node.is_dir:
            ancestors.append(node)
    return root


def _parse_folder(line: str) -> Node | None:
    text = line.strip()
    if not text.endswith(":") or ADDRESS.search(text):
        return None
    return Node(text[:-1])


def _parse_file(line: str) -> Node:
    text = line.strip()
    match = ADDRESS.search(text)
    if match is None:
        raise StorageProblem(f"invalid line: {line}, because url is required for file")
    info, url = text[: match.start()], text[match.start() :]
    if not info:
        return Node(_get_last_segment(url), url)
    if not info.endswith(":"):
        raise StorageProblem(f"invalid line: {line}, because file info must end with ':'")
    name, size, modified = [*info[:-1].split(":"), "", ""][:3]
    return Node(
        name,
        url,
        _parse_number(size, line, "file size must be an integer") or None,
        _parse_number(modified, line, "file modified must be an unix timestamp"),
    )


def _get_last_segment(url: str) -> str:
    """Return the name of an address without a name in the text."""
    parts = urlsplit(url)
    return unquote(parts.path.rpartition("/")[2]) or parts.netloc


def _check_name(name: str, line: str) -> str:
    if not name:
        raise StorageProblem(f"invalid line: {line}, because file name can't be empty")
    if name in (".", "..") or "/" in name or "\\" in name:
        raise StorageProblem(f"invalid line: {line}, because '{name}' is no file name")
    return name


def _parse_number(text: str, line: str, complaint: str) -> int:
    number = parse_integer(text or "0")
    if number is None:
        raise StorageProblem(f"invalid line: {line}, because {complaint}")
    return number


def format(root: Node, level: int = 0) -> str:
    """Return the text of a tree, as `parse` reads it, without unknown sizes."""
    lines: list[str] = []
    for node in root.children.values():
        indent = STEP * level
        if node.is_dir:
            lines += [f"{indent}{node.name}:", *filter(None, [format(node, level + 1)])]
        elif node.size or node.modified:
            lines.append(f"{indent}{node.name}:{node.size or ''}:{node.modified}:{node.url}")
        elif node.name == _get_last_segment(node.url):
            lines.append(f"{indent}{node.url}")
        else:
            lines.append(f"{indent}{node.name}:{node.url}")
    return "\n".join(lines)


def format_checked(root: Node) -> str:
    """Return the text of a tree. Raise StorageProblem if it would not be read as the same tree."""
    try:
        text = format(root)
        same = parse(text) == root
    except (StorageProblem, RecursionError):
        same = False
    if not same:
        raise StorageProblem("this name or address cannot be stored in a UrlTree")
    return text
