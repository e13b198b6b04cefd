"""The methods of WebDAV, from headers and body to an answer, without objects of HTTP."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult

from mangrove.core.http import MAX_HTTP_DATE, guess_mime, parse_integer
from mangrove.core.platform import platform
from mangrove.core.problems import BadRequest, TooLarge
from mangrove.drivers.base import Entry, Upload
from mangrove.protocols.webdav import bodies, headers, locking, multistatus, verbs
from mangrove.protocols.webdav.bodies import RepeatableBody
from mangrove.protocols.webdav.errors import XML, XML_HEAD, DavProblem, PreconditionFailed
from mangrove.protocols.webdav.properties import FOLDER_TYPE, Renderer, Resource, ShownLock, format_lock
from mangrove.protocols.webdav.verbs import CopyOutcome, DavRequest, Transfer
from mangrove.records.webdav_locks import Lock
from mangrove.tree.access import PathAccess
from mangrove.tree.listing import entries
from mangrove.tree.operations.downloads import Download

SIZE_HEADERS = ("content-length", "x-expected-entity-length", "oc-total-length", "x-file-size")
Headers = Mapping[str, str]  # by lower-case names
Preconditions = Callable[[Headers, str, float, str], int | None]  # the status that If-Match and similar headers require


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a client."""

    status: int
    body: bytes | AsyncIterator[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class File:
    """A file that a client requested."""

    download: Download
    link: str = ""  # the link of its storage or of a proxy, if the client is redirected
    is_private: bool = False  # caches must not store the link
    needs_stat: bool = False  # the link is signed for GET only, so HEAD is answered from the entry


async def propfind(dav: DavRequest, path: str, sent: Headers, body: bytes) -> Answer:
    """Answer with the properties of an entry and of the entries in it."""
    depth = headers.parse_depth(sent.get("depth"), ("0", "1", headers.INFINITY), headers.INFINITY)
    query = bodies.parse_propfind(body)
    access = await dav.at(path)
    await dav.conditions.require(access)
    answer = await multistatus.propfind(access, dav.conditions.prefix, depth, Renderer(query))
    return (
        Answer(207, answer, {"content-type": XML}) if isinstance(answer, bytes) else await _answer_multistatus(answer)
    )


async def _answer_multistatus(pieces: AsyncIterator[bytes]) -> Answer:
    """Answer with pieces as they are made. If answers have a size limit, the pieces are collected first."""
    limit = platform().max_answer_bytes
    if limit is None:
        return Answer(207, pieces, {"content-type": XML})
    body = bytearray()
    source: Any = pieces
    async with aclosing(source):
        async for piece in source:
            body += piece
            if len(body) > limit:
                raise DavProblem(507, "this folder is too large to be listed through the function")
    return Answer(207, bytes(body), {"content-type": XML})


async def proppatch(dav: DavRequest, path: str, body: bytes) -> Answer:
    """Store properties of an entry."""
    steps = bodies.parse_proppatch(body)
    access = await dav.at(path)
    outcome = await verbs.proppatch(dav, access, steps)
    href = headers.make_href(dav.conditions.prefix, str(access.path.below(access.base)), False)
    response = f"<D:response><D:href>{href}</D:href>{outcome}</D:response>\n".encode()
    return Answer(207, multistatus.HEAD + response + multistatus.TAIL, {"content-type": XML})


async def find_file(dav: DavRequest, path: str, method: str) -> File | Answer:
    """Return the file that GET or HEAD requests, or its link, as the `webdav_policy` of its storage says."""
    access = await dav.at(path)
    await dav.conditions.require(access)
    if (await entries.stat(access)).is_dir:
        if method == "HEAD":
            return Answer(200, headers={"content-type": FOLDER_TYPE})
        raise DavProblem(405, "a folder cannot be downloaded; list it with PROPFIND")
    download = Download(access.path, await access.locate(""), access.tree.settings)
    policy = download.storage_path.mount.storage.webdav_policy
    link = await download.get_link() if policy == "302_redirect" else None
    if link is not None:
        needs_stat = method == "HEAD" and link.lifetime is not None
        return File(download, link.url, is_private=True, needs_stat=needs_stat)
    proxy_url = download.get_down_proxy_url() if policy == "use_proxy_url" else None
    return File(download, proxy_url or "")


async def put(dav: DavRequest, path: str, sent: Headers, body: AsyncIterator[bytes], check: Preconditions) -> Answer:
    """Store the body as a file."""
    if "content-range" in sent:
        raise BadRequest("a part of a file cannot be stored")
    access = await dav.at(path)
    upload = _read_upload(sent, access.path.name)
    old, stored = None, None
    if "if-match" not in sent:
        body = RepeatableBody(body)
        stored = await verbs.put_new(dav, access, body, upload)
    if stored is None:
        old = await entries.find_known(access)
        _check_preconditions(sent, old, check)
        stored = await verbs.put(dav, access, old, body, upload)
    accepted = {"x-oc-mtime": "accepted"} if "x-oc-mtime" in sent else {}
    return Answer(201 if old is None else 204, headers=await _make_validator(access, stored) | accepted)


def _check_preconditions(sent: Headers, old: Entry | None, check: Preconditions) -> None:
    """Raise PreconditionFailed unless If-Match and similar headers are true for the entry."""
    if old is None:
        if "if-match" in sent:
            raise PreconditionFailed
    elif check(sent, entries.format_etag(old), old.modified, "PUT") is not None:
        raise PreconditionFailed


def _read_upload(sent: Headers, name: str) -> Upload:
    """Return the upload that the headers describe."""
    size = next((_parse_size(text, header) for header in SIZE_HEADERS if (text := sent.get(header, ""))), None)
    limit = platform().max_file_bytes
    if limit is not None and (size or 0) > limit:
        raise TooLarge(f"more than {limit} bytes cannot be uploaded through the function")
    text = sent.get("x-oc-mtime", "").partition(".")[0]
    seconds = parse_integer(text)
    if text and (seconds is None or seconds > MAX_HTTP_DATE):
        raise BadRequest("X-OC-Mtime is not a number of seconds since 1970")
    is_new = sent.get("if-none-match", "").strip() == "*"
    modified = time.time() if seconds is None else float(seconds)
    return Upload(size, modified, sent.get("content-type", "") or guess_mime(name), overwrite=not is_new)


def _parse_size(text: str, header: str) -> int:
    size = parse_integer(text)
    if size is None:
        raise BadRequest(f"{header} is not a number of bytes")
    return size


async def _make_validator(access: PathAccess, stored: Entry) -> dict[str, str]:
    """Return the header ETag of the stored file, if the storage knows it for single files."""
    if not access.may_read() or not (await access.locate("")).driver.config.direct_lookup:
        return {}
    shown = stored if stored.etag and stored.name == access.path.name else await entries.find_known(access)
    return {"etag": entries.format_etag(shown)} if shown is not None else {}


async def mkcol(dav: DavRequest, path: str, body: bytes) -> Answer:
    """Make a folder."""
    if body:
        raise DavProblem(415, "a folder is made without a body")
    await verbs.mkcol(dav, await dav.at(path))
    return Answer(201)


async def delete(dav: DavRequest, path: str, sent: Headers, check: Preconditions) -> Answer:
    """Remove a file, or a folder with all its content."""
    headers.parse_depth(sent.get("depth"), (headers.INFINITY,), headers.INFINITY)
    access = await dav.at(path)
    if "if-match" in sent:
        _check_preconditions(sent, await entries.find_known(access), check)
    await verbs.delete(dav, access)
    return Answer(204)


async def copy(dav: DavRequest, path: str, sent: Headers, base: SplitResult) -> Answer:
    """Copy a file or folder. `base`: the address of this service."""
    transfer = _read_transfer(path, sent, base, ("0", headers.INFINITY))
    return _answer_outcome(await verbs.copy(dav, transfer))


async def move(dav: DavRequest, path: str, sent: Headers, base: SplitResult) -> Answer:
    """Move or rename a file or folder. `base`: the address of this service."""
    transfer = _read_transfer(path, sent, base, (headers.INFINITY,))
    return _answer_outcome(await verbs.move(dav, transfer))


def _read_transfer(path: str, sent: Headers, base: SplitResult, depths: tuple[str, ...]) -> Transfer:
    """Return the request of COPY or MOVE.

    With `Prefer: respond-async` (RFC 7240), the answer does not wait for a task.
    """
    depth = headers.parse_depth(sent.get("depth"), depths, headers.INFINITY)
    overwrite = headers.parse_overwrite(sent.get("overwrite"))
    seconds = 0.0 if "respond-async" in sent.get("prefer", "") else verbs.WAIT_SECONDS
    destination = sent.get("destination")
    if not destination:
        raise BadRequest("the header Destination is missing")
    target = headers.parse_destination(destination, [base.netloc, sent.get("host", "")], base.path)
    return Transfer(path, target, overwrite, depth == "0", seconds)


def _answer_outcome(outcome: CopyOutcome) -> Answer:
    """Answer 201 for a new entry, 204 for a replaced one, 202 for a task that continues."""
    return Answer(202 if not outcome.is_done else 201 if outcome.is_new else 204)


async def lock(dav: DavRequest, path: str, sent: Headers, body: bytes) -> Answer:
    """Lock a file or folder, or refresh a lock. If nothing is at the path, an empty file is made."""
    seconds = headers.parse_timeout(sent.get("timeout"))
    access = await dav.at(path)
    if not body.strip():
        refreshed = await locking.refresh(access, dav.conditions, seconds)
        return await _answer_lock(dav, access, refreshed, 200)
    depth = headers.parse_depth(sent.get("depth"), ("0", headers.INFINITY), headers.INFINITY)
    lock_request = bodies.parse_lockinfo(body)
    taken, is_new = await verbs.lock(dav, access, lock_request, depth == headers.INFINITY, seconds)
    return await _answer_lock(dav, access, taken, 201 if is_new else 200, {"lock-token": f"<{taken.token}>"})


async def _answer_lock(
    dav: DavRequest, access: PathAccess, taken: Lock, status: int, more: Mapping[str, str] | None = None
) -> Answer:
    """Answer with a lock as a property. `more`: headers."""
    entry = await entries.find_known(access) or Entry(access.path.name, 0, 0.0, False)
    href = headers.make_href(dav.conditions.prefix, str(access.path.below(access.base)), entry.is_dir)
    shown = format_lock(ShownLock(taken, 0), Resource(href, entry, 0))
    body = f'<D:prop xmlns:D="DAV:"><D:lockdiscovery>{shown}</D:lockdiscovery></D:prop>'
    return Answer(status, XML_HEAD + body.encode(), {"content-type": XML, **(more or {})})


async def unlock(dav: DavRequest, path: str, sent: Headers) -> Answer:
    """Release a lock."""
    token = headers.parse_lock_token(sent.get("lock-token", ""))
    await locking.release(await dav.at(path), token)
    return Answer(204)
