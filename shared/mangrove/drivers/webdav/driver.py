"""WebDav: a folder on a server of RFC 4918."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

from mangrove.core.chunked import stream
from mangrove.core.paths import TreePath
from mangrove.core.problems import (
    EntryExists,
    EntryNotFound,
    NotAFile,
    NotAFolder,
    NotSupported,
    StorageForbidden,
    StorageProblem,
    Unreachable,
)
from mangrove.drivers.base import ROOT, Capabilities, Capacity, Driver, DriverConfig, DriverContext, Entry, Link, Upload
from mangrove.drivers.leftovers import Leftovers
from mangrove.drivers.part_names import is_part, make_part_name, refuse_part_name
from mangrove.drivers.refusals import refuse_inside_itself
from mangrove.drivers.webdav.auth import Credentials
from mangrove.drivers.webdav.errors import make_problem
from mangrove.drivers.webdav.multistatus import Resource
from mangrove.drivers.webdav.options import WebDavOptions, parse_address
from mangrove.drivers.webdav.reading import open_file, strip_etag
from mangrove.drivers.webdav.server import ENTRY, QUOTA, Server, join
from mangrove.drivers.webdav.urls import Urls
from mangrove.drivers.webdav.writing import Uploader
from mangrove.drivers.whole_files import write_whole

BATCH = 1000  # entries
DENIED = (401, 403)
ABSENT = (404, 409, 410)  # 409: the folder above is missing, too
MARKS = ";?\t\r\n"  # some servers cut the path there that they are to move something to, or leave them out
AGAIN_SECONDS = (0.0, 0.1, 0.3, 0.6)  # a server may store what it has of a body some time after the connection ended


class WebDav(Driver):
    name = "WebDav"
    Options = WebDavOptions
    config = DriverConfig(default_root="/", prefer_proxy=True, direct_lookup=True)
    capabilities = Capabilities(
        write=True, makedirs=True, rename=True, move=True, copy=True, remove=True, link=True, get_space=True,
    )  # fmt: skip
    options: WebDavOptions

    def __init__(self, options: WebDavOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        address = parse_address(options.address)
        self._urls = Urls(address, TreePath(options.root_folder_path))
        credentials = Credentials(options.username, options.password)
        self._server = Server(address, credentials, verify=not options.tls_insecure_skip_verify)
        self._uploader = Uploader(self._server)
        self._keeps_marks: bool | None = None  # not tried yet
        self._leftovers = Leftovers(context.state, self._discard)

    async def start(self) -> None:
        """Contact nothing."""
        if self.options.vendor == "sharepoint":
            raise NotSupported(
                "the sign-in of SharePoint is not supported; other WebDAV servers have the vendor `other`"
            )
        self._leftovers.start()

    async def stop(self) -> None:
        await self._leftovers.stop()
        await self._server.close()

    def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        return self._list(path)

    async def _list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        batch: list[Entry] = []
        seen = is_inside = False
        find_name = self._urls.make_finder(path)
        async with aclosing(self._server.find(self._urls.make(path, is_dir=True), 1)) as found:
            async for resources in found:
                for one in resources:
                    name = find_name(one.href)
                    seen, is_inside = True, is_inside or name is not None
                    if name == "" and not one.is_dir:
                        await self._explain_no_folder(path, one.status)
                    elif name and one.status < 400 and not is_part(name):
                        batch.append(make_entry(name, one))
                if len(batch) >= BATCH:
                    yield batch
                    batch = []
        if seen and not is_inside:
            raise StorageProblem("the WebDAV server answers with addresses outside of the folder")
        if batch:
            yield batch

    async def _explain_no_folder(self, path: TreePath, status: int) -> None:
        """Raise why a path cannot be listed, whose listing the server answered with `status`."""
        if path != "/" and status not in DENIED and not (await self.stat(path)).is_dir:
            raise NotAFolder
        raise make_problem(status, path.name) if status >= 400 else NotAFolder

    async def stat(self, path: TreePath) -> Entry:
        if is_part(path.name):
            raise EntryNotFound
        return make_entry(path.name, await self._find(path))

    async def _find(self, path: TreePath, asked: bytes = ENTRY) -> Resource:
        """What the server says of one path; EntryNotFound."""
        first: Resource | None = None
        async with aclosing(self._server.find(self._urls.make(path), 0, asked)) as found:
            async for resources in found:
                first = first or next(iter(resources), None)
        if first is None or (first.status == 400 and path != "/" and not (await self._find(path.parent)).is_dir):
            raise EntryNotFound  # 400: what Apache says of a path below a file
        if first.status >= 400:
            raise make_problem(first.status, path.name)
        return first

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        if is_part(path.name):
            raise EntryNotFound
        if length == 0 or path == "/":
            if (await self.stat(path)).is_dir:
                raise NotAFile
            return stream(b"")
        return await open_file(self._server, self._urls.make(path), offset, length, if_match)

    async def link(self, path: TreePath) -> Link:
        url = self._urls.make(path)
        response = await self._server.open("GET", url, follow=False)
        location = response.headers.get("location", "")
        await response.aclose()
        if response.status_code not in (302, 307, 308) or not location:
            raise StorageProblem(f"redirect failed, status: {response.status_code}")
        return Link(str(join(response.request.url, location)))

    async def write(self, path: TreePath, body: AsyncIterator[bytes], upload: Upload) -> Entry:
        await self._refuse_marks(path)
        replaces = await self._look_at_target(path, upload.overwrite)
        size = await write_whole(
            path,
            body,
            upload,
            store=lambda part, counted: self._uploader.put(self._urls.make(part), counted, upload),
            publish=lambda part: self._publish(part, path, replaces),
            discard=self._leftovers.discard,
        )
        try:
            return await self.stat(path)
        except StorageProblem:  # it is stored
            return Entry(path.name, size, upload.modified, False)

    async def _look_at_target(self, path: TreePath, overwrite: bool, *, is_dir: bool = False) -> bool:
        """Whether a file is to be replaced; EntryExists for what may not be. A server would replace a folder as
        well."""
        try:
            found = await self.stat(path)
        except EntryNotFound:
            return False
        if found.is_dir or is_dir or not overwrite:
            raise EntryExists
        return True

    async def _refuse_marks(self, target: TreePath) -> None:
        """StorageProblem for a path with MARKS where the server would give what is moved there another name."""
        if not any(mark in target for mark in MARKS):
            return
        if self._keeps_marks is None:
            self._keeps_marks = await self._try_marks()
        if not self._keeps_marks:
            raise StorageProblem(f"{target.name!r}: the WebDAV server would store it under another name")

    async def _try_marks(self) -> bool:
        part, plain = ROOT / make_part_name(), ROOT / make_part_name()
        named = ROOT / f"{plain.name};?"
        await self._uploader.put(self._urls.make(part), stream(b""), Upload(0, 0.0))
        try:
            await self._transfer("MOVE", part, named, replaces=False)
            return await self._is_there(named)
        finally:
            for path in (part, plain, named):
                await self._leftovers.discard(path)

    async def _publish(self, part: TreePath, path: TreePath, replaces: bool) -> None:
        try:
            await self._transfer("MOVE", part, path, replaces=replaces)
        except Unreachable:
            # it may be done, or half of it: a server may remove the old file before it moves the new one
            if await self._is_there(part):
                await self._transfer("MOVE", part, path, replaces=replaces)
            elif not await self._is_there(path):
                raise

    async def _is_there(self, path: TreePath) -> bool:
        try:
            await self._find(path)
        except EntryNotFound:
            return False
        return True

    async def _discard(self, part: TreePath) -> bool:
        """Remove an unfinished file; True if it was there and is no more."""
        was_there = False
        for seconds in AGAIN_SECONDS:
            await asyncio.sleep(seconds)
            status = await self._server.change("DELETE", self._urls.make(part))
            if status >= 300 and status not in ABSENT:
                raise make_problem(status, part.name)
            if was_there and status >= 300:
                return True
            was_there = was_there or status < 300
        return False

    async def makedirs(self, path: TreePath) -> None:
        missing: list[TreePath] = []
        for step in path.ancestors():
            try:
                found = await self.stat(step)
            except EntryNotFound:
                refuse_part_name(step)
                missing.append(step)
                continue
            if not found.is_dir:
                raise EntryExists
            break
        await self._refuse_marks(path)
        for step in reversed(missing):
            status = await self._server.change("MKCOL", self._urls.make(step, is_dir=True))
            if status >= 300 and not (status == 405 and (await self.stat(step)).is_dir):
                raise EntryExists if status == 405 else make_problem(status, step.name)

    async def rename(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        await self.move(path, target, overwrite=overwrite)

    async def move(self, path: TreePath, target: TreePath, *, overwrite: bool = True) -> None:
        if path == target:
            return
        await self._transfer_checked("MOVE", path, target, overwrite)

    async def copy(self, path: TreePath, target: TreePath, *, overwrite: bool = True, durable: bool = False) -> None:
        await self._transfer_checked("COPY", path, target, overwrite)

    async def _transfer_checked(self, method: str, path: TreePath, target: TreePath, overwrite: bool) -> None:
        if "/" in (path, target):
            raise StorageForbidden("the root folder of a storage is not moved")
        refuse_part_name(target)
        refuse_inside_itself(path, target)
        await self._refuse_marks(target)
        entry = await self.stat(path)
        replaces = await self._look_at_target(target, overwrite, is_dir=entry.is_dir)
        await self._transfer(method, path, target, replaces=replaces, is_dir=entry.is_dir)

    async def _transfer(
        self, method: str, path: TreePath, target: TreePath, *, replaces: bool, is_dir: bool = False
    ) -> None:
        headers = {
            "destination": self._urls.make(target, is_dir=is_dir),
            "overwrite": "T" if replaces else "F",
            "depth": "infinity",
        }
        status = await self._server.change(method, self._urls.make(path, is_dir=is_dir), headers)
        if status >= 300:
            raise make_problem(status, target.name)

    async def remove(self, path: TreePath) -> None:
        if path == "/":
            raise StorageForbidden("delete root folder is not allowed")
        try:
            entry = await self.stat(path)
        except EntryNotFound:
            return
        status = await self._server.change("DELETE", self._urls.make(path, is_dir=entry.is_dir))
        if status >= 300 and status not in (404, 410):
            raise make_problem(status, path.name)

    async def get_space(self) -> Capacity:
        found = await self._find(TreePath("/"), QUOTA)
        if found.available is None or found.used is None:
            raise NotSupported
        return Capacity(found.available + found.used, found.available)


def make_entry(name: str, found: Resource) -> Entry:
    """An entry of a listing; a folder has no size and no validator."""
    if found.is_dir:
        return Entry(name, 0, found.modified, True)
    return Entry(name, found.size, found.modified, False, etag=strip_etag(found.etag))
