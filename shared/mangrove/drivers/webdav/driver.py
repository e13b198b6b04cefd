"""WebDav: a folder on a server of RFC 4918."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
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
from mangrove.drivers.base import (
    ROOT,
    Capabilities,
    Capacity,
    Driver,
    DriverContext,
    DriverProperties,
    Entry,
    Link,
    Upload,
)
from mangrove.drivers.leftovers import Leftovers
from mangrove.drivers.part_names import has_part, is_part, make_part_name, refuse_part_name
from mangrove.drivers.refusals import refuse_inside_itself, refuse_root_removal
from mangrove.drivers.webdav.auth import WebDavCredentials
from mangrove.drivers.webdav.client import ENTRY_PROPERTIES, QUOTA_PROPERTIES, WebDavClient, join
from mangrove.drivers.webdav.errors import make_problem
from mangrove.drivers.webdav.options import WebDavOptions, parse_address
from mangrove.drivers.webdav.resources import ListingInterrupted, RemoteResource, Urls
from mangrove.drivers.webdav.transfer import Uploader, open_file, strip_etag
from mangrove.drivers.whole_files import write_whole

LISTING_BATCH_ENTRIES = 1000
MAX_LISTING_ATTEMPTS, LISTING_PAUSE_SECONDS = 4, 0.2  # while entries of the folder are removed
DENIED_STATUSES = (401, 403)
ABSENT_STATUSES = (404, 409, 410)  # 409: its folder is missing
UNSAFE_LETTERS = ";?\t\r\n"  # some servers truncate the target of a move at these, or drop them
DISCARD_DELAYS_SECONDS = (0.0, 0.1, 0.3, 0.6)  # a server may store a partial body after the end of its connection


class WebDav(Driver):
    name = "WebDav"
    Options = WebDavOptions
    config = DriverProperties(default_root="/", prefer_proxy=True, direct_lookup=True)
    capabilities = Capabilities(
        write=True, makedirs=True, rename=True, move=True, copy=True, remove=True, link=True, set_aside=True,
        get_space=True,
    )  # fmt: skip
    options: WebDavOptions

    def __init__(self, options: WebDavOptions, context: DriverContext) -> None:
        super().__init__(options, context)
        address = parse_address(options.address)
        self._urls = Urls(address, TreePath(options.root_folder_path))
        credentials = WebDavCredentials(options.username, options.password)
        self._server = WebDavClient(address, credentials, verify=not options.tls_insecure_skip_verify)
        self._uploader = Uploader(self._server)
        self._keeps_unsafe_letters: bool | None = None  # not tried yet
        self._leftovers = Leftovers(context.state, self._discard)

    async def start(self) -> None:
        """Check the options; the server is not contacted."""
        if self.options.vendor == "sharepoint":
            raise NotSupported(
                "the sign-in of SharePoint is not supported; other WebDAV servers have the vendor `other`"
            )
        self._leftovers.start()

    async def stop(self) -> None:
        await self._leftovers.stop()
        await self._server.close()

    async def list(self, path: TreePath) -> AsyncIterator[Sequence[Entry]]:
        attempts, has_begun = 0, False
        while True:
            try:
                async with aclosing(self._read_listing(path)) as batches:
                    async for batch in batches:
                        has_begun = True
                        yield batch
                return
            except ListingInterrupted:
                attempts += 1
                if has_begun or attempts == MAX_LISTING_ATTEMPTS:
                    raise
            await asyncio.sleep(LISTING_PAUSE_SECONDS)

    async def _read_listing(self, path: TreePath) -> AsyncGenerator[Sequence[Entry]]:
        batch: list[Entry] = []
        has_answer = is_inside = False
        find_name = self._urls.make_finder(path)
        async with aclosing(self._server.find(self._urls.make(path, is_dir=True), 1)) as answers:
            async for resources in answers:
                for resource in resources:
                    name = find_name(resource.href)
                    has_answer, is_inside = True, is_inside or name is not None
                    if name == "" and not resource.is_dir:
                        await self._explain_no_folder(path, resource.status)
                    elif name and resource.status < 400 and not is_part(name):
                        batch.append(make_entry(name, resource))
                if len(batch) >= LISTING_BATCH_ENTRIES:
                    yield batch
                    batch = []
        if has_answer and not is_inside:
            raise StorageProblem("the WebDAV server answers with addresses outside of the folder")
        if batch:
            yield batch

    async def _explain_no_folder(self, path: TreePath, status: int) -> None:
        """Raise the reason why a path cannot be listed, after an answer with `status`."""
        if path != "/" and status not in DENIED_STATUSES and not (await self.stat(path)).is_dir:
            raise NotAFolder
        raise make_problem(status, path.name) if status >= 400 else NotAFolder

    async def stat(self, path: TreePath) -> Entry:
        if has_part(path):
            raise EntryNotFound
        return make_entry(path.name, await self._find(path))

    async def _find(self, path: TreePath, properties: bytes = ENTRY_PROPERTIES) -> RemoteResource:
        """Return the resource of a path. Raise EntryNotFound."""
        first: RemoteResource | None = None
        async with aclosing(self._server.find(self._urls.make(path), 0, properties)) as answers:
            async for resources in answers:
                first = first or next(iter(resources), None)
        if first is None or (first.status == 400 and path != "/" and not (await self._find(path.parent)).is_dir):
            raise EntryNotFound  # 400: Apache's answer for a path below a file
        if first.status >= 400:
            raise make_problem(first.status, path.name)
        return first

    async def read(
        self, path: TreePath, offset: int = 0, length: int | None = None, if_match: Entry | None = None
    ) -> AsyncIterator[bytes]:
        if has_part(path):
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
        await self._refuse_unsafe_letters(path)
        replaces = await self._check_target(path, upload.overwrite)
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
        except StorageProblem:  # the file is stored nevertheless
            return Entry(path.name, size, upload.modified, False)

    async def _check_target(self, path: TreePath, overwrite: bool, *, is_dir: bool = False) -> bool:
        """True if a file will be replaced. Raise EntryExists if not allowed, since servers also replace folders."""
        try:
            existing = await self.stat(path)
        except EntryNotFound:
            return False
        if existing.is_dir or is_dir or not overwrite:
            raise EntryExists
        return True

    async def _refuse_unsafe_letters(self, target: TreePath) -> None:
        """Raise a StorageProblem for a path with UNSAFE_LETTERS if the server changes the name of a move's target."""
        if not any(letter in target for letter in UNSAFE_LETTERS):
            return
        if self._keeps_unsafe_letters is None:
            self._keeps_unsafe_letters = await self._try_unsafe_letters()
        if not self._keeps_unsafe_letters:
            raise StorageProblem(f"{target.name!r}: the WebDAV server would store it under another name")

    async def _try_unsafe_letters(self) -> bool:
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
            # The move may be done, or only the old file removed.
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
        """Remove an unfinished file. Return True if it existed and is certainly gone."""
        existed = False
        for seconds in DISCARD_DELAYS_SECONDS:
            await asyncio.sleep(seconds)
            status = await self._server.change("DELETE", self._urls.make(part))
            if status >= 300 and status not in ABSENT_STATUSES:
                raise make_problem(status, part.name)
            if existed and status >= 300:
                return True
            existed = existed or status < 300
        return False

    async def makedirs(self, path: TreePath) -> None:
        missing: list[TreePath] = []
        for folder in path.ancestors():
            try:
                entry = await self.stat(folder)
            except EntryNotFound:
                refuse_part_name(folder)
                missing.append(folder)
                continue
            if not entry.is_dir:
                raise EntryExists
            break
        await self._refuse_unsafe_letters(path)
        for folder in reversed(missing):
            status = await self._server.change("MKCOL", self._urls.make(folder, is_dir=True))
            if status >= 300 and not (status == 405 and (await self.stat(folder)).is_dir):
                raise EntryExists if status == 405 else make_problem(status, folder.name)

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
        await self._refuse_unsafe_letters(target)
        entry = await self.stat(path)
        replaces = await self._check_target(target, overwrite, is_dir=entry.is_dir)
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
        refuse_root_removal(path)
        try:
            entry = await self.stat(path)
        except EntryNotFound:
            return
        status = await self._server.change("DELETE", self._urls.make(path, is_dir=entry.is_dir))
        if status >= 300 and status not in (404, 410):
            raise make_problem(status, path.name)

    async def get_space(self) -> Capacity:
        root = await self._find(ROOT, QUOTA_PROPERTIES)
        if root.available is None or root.used is None:
            raise NotSupported
        return Capacity(root.available + root.used, root.available)


def make_entry(name: str, resource: RemoteResource) -> Entry:
    """Return the entry of a resource; a folder has no size and no validator."""
    if resource.is_dir:
        return Entry(name, 0, resource.modified, True)
    return Entry(name, resource.size, resource.modified, False, etag=strip_etag(resource.etag))
