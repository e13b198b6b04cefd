"""UrlTree: files that are addresses elsewhere, written down as an indented text."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import httpx

from mangrove.drivers.base import BLOCK, Driver, DriverConfig, DriverContext, Entry, Link, Options, option
from mangrove.integers import parse_integer
from mangrove.paths import TreePath
from mangrove.problems import Exists, Forbidden, NotFound, NotSupported, StorageProblem, Unreachable

STEP = "  "  # one level of indentation
HEADS = 8  # sizes asked for at once
SECONDS = 15.0
DEEPEST = 100  # levels: what walks a tree does so by recursion
SAMPLE = """https://www.rfc-editor.org/rfc/rfc9110.txt
https://www.rfc-editor.org/rfc/rfc9112.txt
standards:
  http-semantics.txt:https://www.rfc-editor.org/rfc/rfc9110.txt
  http-caching.txt:https://www.rfc-editor.org/rfc/rfc9111.txt"""
_address = re.compile(r"https?://")


class UrlTreeOptions(Options):
    url_structure: str = option(
        SAMPLE, required=True, type="text", help="structure:FolderName:\n  [FileName:][FileSize:][Modified:]Url"
    )
    head_size: bool = option(False, help="Use head method to get file size, but it may be failed.")
    writable: bool = option(False)


@dataclass(slots=True)
class Node:
    """A folder (`url` empty) or a file."""

    name: str
    url: str = ""
    size: int = 0
    modified: int = 0
    children: dict[str, Node] = field(default_factory=dict)

    @property
    def is_dir(self) -> bool:
        return not self.url

    def total(self) -> int:
        return sum(child.total() for child in self.children.values()) if self.is_dir else self.size

    def entry(self) -> Entry:
        return Entry(self.name, self.total(), self.modified or 1e-9, self.is_dir, url=self.url)


def parse(text: str) -> Node:
    """The tree that `text` describes; StorageProblem names the line that does not fit."""
    root = Node("")
    way = [root]
    for line in text.splitlines():
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip(" "))
        if indent % len(STEP):
            raise StorageProblem(f"the line '{line}' is not a multiple of 2")
        level = indent // len(STEP)
        if level >= DEEPEST:
            raise StorageProblem(f"invalid line: {line.strip()}, because it is more than {DEEPEST} levels deep")
        if level >= len(way):
            raise StorageProblem(f"invalid line: {line}, because it is indented too deep")
        del way[level + 1 :]
        node = _folder(line) or _file(line)
        way[-1].children[node.name] = node
        if node.is_dir:
            way.append(node)
    return root


def _folder(line: str) -> Node | None:
    text = line.strip()
    if not text.endswith(":") or _address.search(text):
        return None
    return Node(_named(text[:-1], line))


def _file(line: str) -> Node:
    text = line.strip()
    found = _address.search(text)
    if found is None:
        raise StorageProblem(f"invalid line: {line}, because url is required for file")
    info, url = text[: found.start()], text[found.start() :]
    if not info:
        return Node(_named(_last(url), line), url)
    if not info.endswith(":"):
        raise StorageProblem(f"invalid line: {line}, because file info must end with ':'")
    name, size, modified = [*info[:-1].split(":"), "", ""][:3]
    return Node(
        _named(name, line), url, _number(size, line, "file size must be an integer"),
        _number(modified, line, "file modified must be an unix timestamp"),
    )  # fmt: skip


def _last(url: str) -> str:
    """The name of an address that was given none."""
    parts = urlsplit(url)
    return unquote(parts.path.rpartition("/")[2]) or parts.netloc


def _named(name: str, line: str) -> str:
    if not name:
        raise StorageProblem(f"invalid line: {line}, because file name can't be empty")
    if name in (".", "..") or "/" in name or "\\" in name:
        raise StorageProblem(f"invalid line: {line}, because '{name}' is no file name")
    return name


def _number(text: str, line: str, complaint: str) -> int:
    number = parse_integer(text or "0")
    if number is None:
        raise StorageProblem(f"invalid line: {line}, because {complaint}")
    return number


def written(root: Node, level: int = 0) -> str:
    """The text of a tree, as `parse` reads it."""
    lines: list[str] = []
    for node in root.children.values():
        if node.is_dir:
            lines += [f"{STEP * level}{node.name}:", *filter(None, [written(node, level + 1)])]
        elif (node.name, node.size, node.modified) == (_last(node.url), 0, 0):
            lines.append(f"{STEP * level}{node.url}")
        else:
            lines.append(f"{STEP * level}{node.name}:{node.size}:{node.modified}:{node.url}")
    return "\n".join(lines)


def _kept(root: Node) -> str:
    """The text of a tree; StorageProblem when it would not be read as the same tree."""
    try:
        text = written(root)
        same = parse(text) == root
    except (StorageProblem, RecursionError):
        same = False
    if not same:
        raise StorageProblem("this name or address cannot be written down in a UrlTree")
    return text


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unreachable(f"the address does not answer: {type(error).__name__}") from error


class UrlTree(Driver):
    name = "UrlTree"
    Options = UrlTreeOptions
    config = DriverConfig(no_cache=True, only_indices=True, check_status=True, direct_lookup=True)
    options: UrlTreeOptions

    def __init__(self, options: UrlTreeOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        self._root = Node("")
        self._changing = asyncio.Lock()

    async def start(self) -> None:
        self._root = parse(self.options.url_structure)
        if self.options.head_size:
            await self._ask_sizes()

    async def _ask_sizes(self) -> None:
        unknown = [node for node in _files(self._root) if not node.size]
        turn = asyncio.Semaphore(HEADS)
        async with httpx.AsyncClient(timeout=SECONDS, follow_redirects=True) as client:

            async def ask(node: Node) -> None:
                async with turn:
                    try:
                        answer = await client.head(node.url)
                        node.size = int(answer.headers.get("content-length", 0)) if answer.is_success else 0
                    except (httpx.HTTPError, ValueError):
                        pass  # the size stays unknown, as the option's help says

            await asyncio.gather(*(ask(node) for node in unknown))

    def _node(self, path: TreePath) -> Node:
        node = self._root
        for name in path.split("/")[1:] if path != "/" else []:
            found = node.children.get(name)
            if found is None:
                raise NotFound
            node = found
        return node

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        node = self._node(path)
        if not node.is_dir:
            raise NotSupported("not a folder")
        yield [child.entry() for child in node.children.values()]

    async def stat(self, path: TreePath) -> Entry:
        return self._node(path).entry()

    def _file(self, path: TreePath) -> Node:
        node = self._node(path)
        if node.is_dir:
            raise NotSupported("not a file")
        return node

    async def link(self, path: TreePath) -> Link:
        return Link(self._file(path).url)

    async def read(self, path: TreePath, offset: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        url = self._file(path).url
        last = "" if length is None else str(offset + length - 1)
        headers = {"range": f"bytes={offset}-{last}"} if offset or length is not None else {}
        client = httpx.AsyncClient(timeout=SECONDS, follow_redirects=True)
        with _told():
            try:
                answer = await client.send(client.build_request("GET", url, headers=headers), stream=True)
                if not answer.is_success:
                    raise Unreachable(f"the address answers {answer.status_code}")
            except BaseException:
                await client.aclose()
                raise
        return _streamed(client, answer, 0 if answer.status_code == 206 else offset, length)

    async def makedirs(self, path: TreePath) -> None:
        async with self._changes():
            node = self._root
            for name in path.split("/")[1:]:
                node = node.children.setdefault(name, Node(name))
                if not node.is_dir:
                    raise Exists

    async def rename(self, path: TreePath, target: TreePath) -> None:
        await self.move(path, target)

    async def move(self, path: TreePath, target: TreePath) -> None:
        if target.within(path) and target != path:
            raise StorageProblem("the destination folder is a subfolder of the source folder")
        async with self._changes():
            node, folder = self._node(path), self._folder(target.parent)
            del self._node(path.parent).children[path.name]
            node.name = target.name
            folder.children[target.name] = node

    async def copy(self, path: TreePath, target: TreePath) -> None:
        async with self._changes():
            copied = parse(written(Node("", children={path.name: self._node(path)}))).children[path.name]
            copied.name = target.name
            self._folder(target.parent).children[target.name] = copied

    async def remove(self, path: TreePath) -> None:
        async with self._changes():
            self._node(path.parent).children.pop(path.name, None)

    async def put_url(self, path: TreePath, url: str) -> None:
        async with self._changes():
            if not _address.match(url) or any(letter in url for letter in "\r\n"):
                raise NotSupported("only http and https addresses can be stored")
            self._folder(path.parent).children[path.name] = Node(path.name, url)

    def _folder(self, path: TreePath) -> Node:
        node = self._node(path)
        if not node.is_dir:
            raise NotSupported("not a folder")
        return node

    def _changes(self) -> _Change:
        return _Change(self)


class _Change:
    """One change at a time; the text is stored when it went well, the tree read anew when it did not."""

    def __init__(self, driver: UrlTree) -> None:
        self._driver = driver

    async def __aenter__(self) -> None:
        if not self._driver.options.writable:
            raise Forbidden
        await self._driver._changing.acquire()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        driver, stored = self._driver, False
        try:
            if kind is None:
                options = driver.options.model_copy(update={"url_structure": _kept(driver._root)})
                if driver.context.save_options is not None:
                    await driver.context.save_options(options)
                driver.options, stored = options, True
        finally:
            if not stored:
                driver._root = parse(driver.options.url_structure)
            driver._changing.release()


def _files(node: Node) -> Iterator[Node]:
    for child in node.children.values():
        if child.is_dir:
            yield from _files(child)
        else:
            yield child


async def _streamed(
    client: httpx.AsyncClient, answer: httpx.Response, skip: int, length: int | None
) -> AsyncIterator[bytes]:
    """The wanted bytes of an answer, its first `skip` passed over."""
    left = length
    try:
        with _told():
            async for block in answer.aiter_bytes(BLOCK):
                kept, skip = block[skip:], max(skip - len(block), 0)
                kept = kept if left is None else kept[:left]
                left = None if left is None else left - len(kept)
                if kept:
                    yield kept
                if left == 0:
                    return
    finally:
        await answer.aclose()
        await client.aclose()
