"""UrlTree: files that are addresses of other servers, kept as an indented text."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from urllib.parse import unquote, urlsplit

import httpx

from mangrove.core.forwarding import get_forwarded_headers
from mangrove.core.integers import parse_integer
from mangrove.core.paths import TreePath, map_characters
from mangrove.core.problems import (
    Exists,
    Forbidden,
    NotAFile,
    NotAFolder,
    NotFound,
    NotSupported,
    Problem,
    StorageProblem,
    Unreachable,
)
from mangrove.core.slices import in_batches
from mangrove.drivers.base import BLOCK, Driver, DriverConfig, DriverContext, Entry, Link
from mangrove.drivers.options import Options, option
from mangrove.drivers.refusals import refuse_inside_itself
from mangrove.net.addresses import AddressPolicy, ForbiddenAddress, check_policy_text
from mangrove.net.client import make_client, open_response, translate_errors

STEP = "  "  # one level of indentation
HEADS = 8  # sizes requested at once
SECONDS = 15.0  # for the size of one file
DEEPEST = 100  # levels: trees are walked by recursion
SAMPLE = """https://www.rfc-editor.org/rfc/rfc9110.txt
https://www.rfc-editor.org/rfc/rfc9112.txt
standards:
  http-semantics.txt:https://www.rfc-editor.org/rfc/rfc9110.txt
  http-caching.txt:https://www.rfc-editor.org/rfc/rfc9111.txt"""
_ADDRESS = re.compile(r"https?://")


class UrlTreeOptions(Options):
    url_structure: str = option(
        SAMPLE, required=True, type="text", help="structure:FolderName:\n  [FileName:][FileSize:][Modified:]Url"
    )
    head_size: bool = option(False, help="Use head method to get file size, but it may be failed.")
    writable: bool = option(False)
    allowed_hosts: str = option(
        "",
        help="host names, addresses and networks outside the public internet that the addresses may lead to; "
        "separated by commas or spaces",
    )


@dataclass(slots=True)
class Node:
    """A folder (`url` empty) or a file; `size` None: unknown."""

    name: str
    url: str = ""
    size: int | None = None
    modified: int = 0
    children: dict[str, Node] = field(default_factory=dict)

    @property
    def is_dir(self) -> bool:
        return not self.url

    def total(self) -> int | None:
        """Bytes of a file, None when unknown; of a folder, the sum of what is known of its files."""
        return sum(child.total() or 0 for child in self.children.values()) if self.is_dir else self.size

    def make_entry(self) -> Entry:
        return Entry(self.name, self.total(), self.modified or 1e-9, self.is_dir, url=self.url)


def parse(text: str, char_mapping: Mapping[str, str] | None = None) -> Node:
    """The tree of `text`, its names shown by the mapping; StorageProblem names the line that does not fit."""
    root = Node("")
    ancestors = [root]
    for line in text.splitlines():
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip(" "))
        if indent % len(STEP):
            raise StorageProblem(f"the line '{line}' is not a multiple of 2")
        level = indent // len(STEP)
        if level >= DEEPEST:
            raise StorageProblem(f"invalid line: {line.strip()}, because it is more than {DEEPEST} levels deep")
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
    if not text.endswith(":") or _ADDRESS.search(text):
        return None
    return Node(text[:-1])


def _parse_file(line: str) -> Node:
    text = line.strip()
    found = _ADDRESS.search(text)
    if found is None:
        raise StorageProblem(f"invalid line: {line}, because url is required for file")
    info, url = text[: found.start()], text[found.start() :]
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
    """The name of an address that has none of its own in the text."""
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
    """The text of a tree, as `parse` reads it; a size that is unknown stays out of it."""
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
    """The text of a tree; StorageProblem when it would not be read as the same tree."""
    try:
        text = format(root)
        same = parse(text) == root
    except (StorageProblem, RecursionError):
        same = False
    if not same:
        raise StorageProblem("this name or address cannot be written down in a UrlTree")
    return text


@contextmanager
def explain_refusal() -> Iterator[None]:
    """Forbidden, with the way out, for an address that the storage may not reach."""
    try:
        yield
    except ForbiddenAddress:  # its message would name a host of the administrator's network to a visitor
        raise Forbidden(
            "this address leads outside the public internet: an administrator can name its host in the option "
            "allowed_hosts of the storage"
        ) from None


class UrlTree(Driver):
    name = "UrlTree"
    Options = UrlTreeOptions
    config = DriverConfig(no_cache=True, only_indices=True, check_status=True, direct_lookup=True)
    options: UrlTreeOptions
    maps_names = True

    def __init__(self, options: UrlTreeOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        self.root = Node("")
        self.lock = asyncio.Lock()  # held while the tree changes

    async def start(self) -> None:
        try:
            check_policy_text(self.options.allowed_hosts)
        except ValueError as error:
            raise StorageProblem(f"allowed_hosts: {error}") from None
        parsed = asyncio.to_thread(parse, self.options.url_structure, self.context.char_mapping)  # it may be very long
        self.root = await parsed
        if self.options.head_size:
            await self._request_sizes()

    def _make_client(self) -> httpx.AsyncClient:
        """A client that connects to the public internet and to what the administrator allows, at every redirect."""
        return make_client(AddressPolicy.parse(self.options.allowed_hosts))

    async def _request_sizes(self) -> None:
        limit = asyncio.Semaphore(HEADS)
        async with self._make_client() as client:

            async def request_size(node: Node) -> None:
                async with limit:
                    try:
                        node.size = await asyncio.wait_for(_fetch_size(client, node.url), SECONDS)
                    except (Problem, TimeoutError):
                        pass  # the size stays unknown, as the option's help says

            await asyncio.gather(*(request_size(node) for node in _walk_files(self.root) if node.size is None))

    def _find(self, path: TreePath) -> Node:
        node = self.root
        for name in _split(path):
            found = node.children.get(name)
            if found is None:
                raise NotFound
            node = found
        return node

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        node = self._find(path)
        if not node.is_dir:
            raise NotAFolder
        async for batch in in_batches([*node.children.values()]):
            yield [child.make_entry() for child in batch]

    async def stat(self, path: TreePath) -> Entry:
        return self._find(path).make_entry()

    def _find_file(self, path: TreePath) -> Node:
        node = self._find(path)
        if node.is_dir:
            raise NotAFile
        return node

    async def link(self, path: TreePath) -> Link:
        return Link(self._find_file(path).url)

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        url = self._find_file(path).url
        last = "" if length is None else str(offset + length - 1)
        headers = get_forwarded_headers()
        if offset or length is not None:
            headers["range"] = f"bytes={offset}-{last}"
        client = self._make_client()
        try:
            with explain_refusal(), translate_errors():
                answer = await open_response(client, client.build_request("GET", url, headers=headers))
            if not answer.is_success:
                await answer.aclose()
                raise Unreachable(f"the address answers {answer.status_code}")
        except BaseException:
            await client.aclose()
            raise
        return _stream_range(client, answer, 0 if answer.status_code == 206 else offset, length)

    async def can_refuse_existing(self) -> bool:
        return True  # a change that another process made meanwhile keeps this one from being stored

    async def makedirs(self, path: TreePath) -> None:
        async with self._change():
            node = self.root
            for name in _split(path):
                node = node.children.setdefault(name, Node(name))
                if not node.is_dir:
                    raise Exists

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        await self.move(path, target, overwrite=overwrite)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        if target != path:
            refuse_inside_itself(path, target)
        async with self._change():
            node = self._find(path)
            del self._find(path.parent).children[path.name]
            node.name = target.name
            self._add(target, node, overwrite)

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        refuse_inside_itself(path, target)
        async with self._change():
            copied = parse(format(Node("", children={path.name: self._find(path)}))).children[path.name]
            copied.name = target.name
            self._add(target, copied, overwrite)

    async def remove(self, path: TreePath) -> None:
        if path == "/":
            raise Forbidden("delete root folder is not allowed")
        async with self._change():
            with suppress(NotFound):
                del self._find(path.parent).children[self._find(path).name]

    async def put_url(self, path: TreePath, url: str) -> None:
        async with self._change():
            if not _ADDRESS.match(url) or any(letter in url for letter in "\r\n"):
                raise NotSupported("only http and https addresses can be stored")
            self._add(path, Node(path.name, url), overwrite=True)

    def _add(self, path: TreePath, node: Node, overwrite: bool) -> None:
        """Give a node its place; Exists unless that is free or a file replaces a file."""
        folder = self._find(path.parent)
        if not folder.is_dir:
            raise NotAFolder
        taken = folder.children.get(path.name)
        if taken is not None and (taken.is_dir or node.is_dir or not overwrite):
            raise Exists
        folder.children[path.name] = node

    @asynccontextmanager
    async def _change(self) -> AsyncIterator[None]:
        """One change of the tree: its text is stored when it succeeds, the tree read anew when it fails."""
        if not self.options.writable:
            raise Forbidden
        async with self.lock:
            try:
                yield
                options = replace(self.options, url_structure=format_checked(self.root))
                if self.context.save_options is not None:
                    await self.context.save_options(options)
                self.options = options
            except BaseException:
                self.root = parse(self.options.url_structure, self.context.char_mapping)
                raise


def _split(path: TreePath) -> Sequence[str]:
    """The names of a path; none of the root."""
    return path.split("/")[1:] if path != "/" else ()


def _walk_files(node: Node) -> Iterator[Node]:
    for child in node.children.values():
        if child.is_dir:
            yield from _walk_files(child)
        else:
            yield child


async def _fetch_size(client: httpx.AsyncClient, url: str) -> int | None:
    """The size that the server tells of a file, in bytes; None when it does not."""
    with translate_errors():
        answer = await open_response(client, client.build_request("HEAD", url))
        await answer.aclose()
    return (parse_integer(answer.headers.get("content-length", "")) or None) if answer.is_success else None


async def _stream_range(
    client: httpx.AsyncClient, answer: httpx.Response, skip: int, length: int | None
) -> AsyncIterator[bytes]:
    """`length` bytes of an answer, without its first `skip`; closes the answer and its client."""
    left = length
    try:
        with translate_errors():
            async for block in answer.aiter_bytes(BLOCK):
                wanted, skip = block[skip:], max(skip - len(block), 0)
                wanted = wanted if left is None else wanted[:left]
                left = None if left is None else left - len(wanted)
                if wanted:
                    yield wanted
                if left == 0:
                    return
    finally:
        await answer.aclose()
        await client.aclose()
