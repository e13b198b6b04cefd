"""Downloads through the service, for every protocol over HTTP.

A file that is too large for the answer of a function, and whose storage has no links, is copied into staging once, and
clients fetch it from there. A lifecycle rule of the bucket removes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mangrove.core.http import forward_headers, guess_mime
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryNotFound, NotSupported, TooLarge
from mangrove.drivers.base import Entry, Upload
from mangrove.tasks.core import staging
from mangrove.tree.mounts import StoragePath
from mangrove.tree.operations import archives
from mangrove.tree.operations.archives import MemberStream
from mangrove.tree.operations.downloads import Download
from mangrove.web.serving import serve_file, serve_member

NO_STORE = {"referrer-policy": "no-referrer", "cache-control": "max-age=0, no-cache, no-store, must-revalidate"}
STAGED_FOLDER = "served"
STAGE_SECONDS = 20.0  # a function has 29 for its whole answer


async def serve_download(request: Request, file: Download) -> Response:
    """Answer GET or HEAD with the file, or with its address at its storage's download proxy."""
    proxy_url = file.get_down_proxy_url()
    if proxy_url is not None and not {"d", "version"} & {*request.query_params}:
        return RedirectResponse(proxy_url, 302)
    return await serve_bytes(request, file)


async def serve_bytes(request: Request, file: Download) -> Response:
    """Answer GET or HEAD with the file; if it is too large for a function, with the address at which it is staged."""
    forward_headers(request.headers.items(), file.settings.proxy_ignore_headers)
    try:
        return await serve_file(request, file.storage_path.driver, file.storage_path.path, file.path.name, file.stat)
    except TooLarge:
        url = await _stage_file(file.storage_path, await file.stat(anew=True), guess_mime(file.path.name))
        return RedirectResponse(url, 302, headers=NO_STORE)


async def serve_archive_member(request: Request, file: Download, inside: str, password: str, caller: str) -> Response:
    """Answer GET or HEAD with a file of an archive, as `serve_bytes`. The concurrency limit counts `caller`."""
    try:
        return await serve_member(request, await archives.open_member(file, inside, password, caller), NO_STORE)
    except TooLarge:
        member = await archives.open_member(file, inside, password, caller)
        url = await _stage_member(file.storage_path, member, guess_mime(member.member.path))
        return RedirectResponse(url, 302, headers=NO_STORE)


async def _stage_file(storage_path: StoragePath, entry: Entry, mime: str) -> str:
    """Return a URL of the file that `entry` describes. Raise TooLarge if it cannot be copied in time."""

    async def read() -> AsyncIterator[bytes]:
        return await storage_path.driver.read(storage_path.path, if_match=entry)

    upload = Upload(entry.size, entry.modified, mime)
    return await _stage_version(_describe(storage_path, entry), storage_path.path.name, upload, read)


async def _stage_member(storage_path: StoragePath, body: MemberStream, mime: str) -> str:
    """Return a URL of a file in the archive at `storage_path`, and close the archive."""

    async def read() -> AsyncIterator[bytes]:
        return body

    member = body.member
    upload = Upload(member.size, member.modified or body.archive.modified, mime)
    version = f"{_describe(storage_path, body.archive)}\n{member.path}"
    async with aclosing(body):
        return await _stage_version(version, member.path.rpartition("/")[2], upload, read)


def _describe(storage_path: StoragePath, entry: Entry) -> str:
    """Return a text that is unique to a version of a file."""
    return f"{storage_path.mount.storage.id}\n{storage_path.path}\n{entry.size}\n{entry.modified}\n{entry.etag}"


async def _stage_version(
    version: str, name: str, upload: Upload, read: Callable[[], Awaitable[AsyncIterator[bytes]]]
) -> str:
    storage = await staging.driver()
    if not storage.capabilities.link or not storage.capabilities.write:
        raise NotSupported
    path = TreePath(f"/{STAGED_FOLDER}/{sha256(version.encode()).hexdigest()}") / name
    try:
        await storage.stat(path)
    except EntryNotFound:
        body = await read()
        try:
            async with asyncio.timeout(STAGE_SECONDS):
                await storage.write(path, body, upload)
        except TimeoutError:
            raise TooLarge("this file is too large to be downloaded here: its storage is too slow") from None
    return (await storage.link(path)).url
