"""UrlTree: files that are addresses of other servers, defined by an indented text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace

import httpx

from mangrove.core.chunked import in_batches
from mangrove.core.http import get_forwarded_headers, parse_integer
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryExists,
    EntryNotFound,
    NotAFile,
    NotAFolder,
    NotSupported,
    Problem,
    StorageForbidden,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import BLOCK, Capabilities, Driver, DriverContext, DriverProperties, Entry, Link
from mangrove.drivers.capabilities import NO_TRASH
from mangrove.drivers.refusals import refuse_inside_itself, refuse_root_removal
from mangrove.drivers.urltree.options import UrlTreeOptions
from mangrove.drivers.urltree.tree import ADDRESS, Node, format, format_checked, parse
from mangrove.net.addresses import AddressPolicy, ForbiddenAddress, check_policy_text
from mangrove.net.client import make_client, open_response, translate_errors

HEADS = 8  # sizes requested concurrently
SIZE_TIMEOUT_SECONDS = 15.0  # for the size of one file


@contextmanager
def explain_refusal() -> Iterator[None]:
    """Return the StorageForbidden, with the solution, for an address that the storage may not reach."""
    try:
        yield
    except ForbiddenAddress:  # its message would show a host of the administrator's network to a visitor
        raise StorageForbidden(
            "this address leads outside the public internet: an administrator can name its host in the option "
            "allowed_hosts of the storage"
        ) from None


class UrlTree(Driver):
    name = "UrlTree"
    Options = UrlTreeOptions
    config = DriverProperties(no_cache=True, only_indices=True, check_status=True, direct_lookup=True, alert=NO_TRASH)
    capabilities = Capabilities(put_url=True, makedirs=True, rename=True, move=True, copy=True, remove=True, link=True)
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
        """Return a client that connects to the public internet and to hosts that the administrator allows, at every
        redirect.
        """
        return make_client(AddressPolicy.parse(self.options.allowed_hosts))

    async def _request_sizes(self) -> None:
        limit = asyncio.Semaphore(HEADS)
        async with self._make_client() as client:

            async def request_size(node: Node) -> None:
                async with limit:
                    try:
                        node.size = await asyncio.wait_for(_fetch_size(client, node.url), SIZE_TIMEOUT_SECONDS)
                    except (Problem, TimeoutError):
                        pass  # the size stays unknown, as the option's help says

            await asyncio.gather(*(request_size(node) for node in _walk_files(self.root) if node.size is None))

    def _find(self, path: TreePath) -> Node:
        node = self.root
        for name in _split(path):
            child = node.children.get(name)
            if child is None:
                raise EntryNotFound
            node = child
        return node

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
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
        return True  # if another process has changed the tree meanwhile, this change is not stored

    async def makedirs(self, path: TreePath) -> None:
        async with self._change():
            node = self.root
            for name in _split(path):
                node = node.children.setdefault(name, Node(name))
                if not node.is_dir:
                    raise EntryExists

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
        refuse_root_removal(path)
        async with self._change():
            with suppress(EntryNotFound):
                del self._find(path.parent).children[self._find(path).name]

    async def put_url(self, path: TreePath, url: str) -> None:
        async with self._change():
            if not ADDRESS.match(url) or any(letter in url for letter in "\r\n"):
                raise NotSupported("only http and https addresses can be stored")
            self._add(path, Node(path.name, url), overwrite=True)

    def _add(self, path: TreePath, node: Node, overwrite: bool) -> None:
        """Insert a node. Raise EntryExists unless the name is free or a file replaces a file."""
        folder = self._find(path.parent)
        if not folder.is_dir:
            raise NotAFolder
        taken = folder.children.get(path.name)
        if taken is not None and (taken.is_dir or node.is_dir or not overwrite):
            raise EntryExists
        folder.children[path.name] = node

    @asynccontextmanager
    async def _change(self) -> AsyncIterator[None]:
        """Make one change of the tree. If it succeeds, its text is stored; if it fails, the tree is read again."""
        if not self.options.writable:
            raise StorageForbidden
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
    """Return the names of a path; none for the root."""
    return path.split("/")[1:] if path != "/" else ()


def _walk_files(node: Node) -> Iterator[Node]:
    for child in node.children.values():
        if child.is_dir:
            yield from _walk_files(child)
        else:
            yield child


async def _fetch_size(client: httpx.AsyncClient, url: str) -> int | None:
    """Return the size of a file that the server reports, in bytes; None if it does not."""
    with translate_errors():
        answer = await open_response(client, client.build_request("HEAD", url))
        await answer.aclose()
    return (parse_integer(answer.headers.get("content-length", "")) or None) if answer.is_success else None


async def _stream_range(
    client: httpx.AsyncClient, answer: httpx.Response, skip: int, length: int | None
) -> AsyncIterator[bytes]:
    """Yield `length` bytes of an answer, without its first `skip`; close the answer and its client."""
    left = length
    try:
        with translate_errors():
            async for block in answer.aiter_bytes(BLOCK):
                piece, skip = block[skip:], max(skip - len(block), 0)
                piece = piece if left is None else piece[:left]
                left = None if left is None else left - len(piece)
                if piece:
                    yield piece
                if left == 0:
                    return
    finally:
        await answer.aclose()
        await client.aclose()
