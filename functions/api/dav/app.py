"""WebDAV (RFC 4918, class 1 and 2): the tree for file managers, players and phones."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import aclosing
from typing import Annotated, Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response, StreamingResponse

from mangrove.configuration import snapshot
from mangrove.configuration.values import Settings
from mangrove.core.headers import LATEST, guess_mime, make_retry_after
from mangrove.core.integers import parse_integer
from mangrove.core.platform import platform
from mangrove.core.problems import BadRequest, Denied, NotAvailable, Problem, TooLarge
from mangrove.drivers.base import Entry, Upload
from mangrove.identity.rights import Caller, Right
from mangrove.protocols.webdav import bodies, headers, locking, multistatus, verbs
from mangrove.protocols.webdav.conditions import parse_if
from mangrove.protocols.webdav.errors import XML, XML_HEAD, DavProblem, PreconditionFailed, find_status, render_problem
from mangrove.protocols.webdav.locking import Conditions
from mangrove.protocols.webdav.proofs import sign_in
from mangrove.protocols.webdav.properties import FOLDER_TYPE, Renderer, Resource, ShownLock, format_lock
from mangrove.protocols.webdav.verbs import Outcome, Transfer, Visit
from mangrove.records.files.locks import Lock
from mangrove.tree.access import PathAccess, locate
from mangrove.tree.listing import entries
from mangrove.tree.operations.downloads import Download
from mangrove.web.address import find_base_url, find_client_address, is_confidential
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.dialects import OPENLIST_PREFIX, find_dialect
from mangrove.web.downloads import NO_STORE, serve_bytes
from mangrove.web.framework import Depends, Request
from mangrove.web.gates import Anyone, Gate
from mangrove.web.incoming import parse_size, read_body
from mangrove.web.parameters import BaseUrl
from mangrove.web.ranges import check_preconditions
from mangrove.web.serving import serve_file

api = Api("dav")
METHODS = "OPTIONS, PROPFIND, PROPPATCH, GET, HEAD, PUT, DELETE, MKCOL, COPY, MOVE, LOCK, UNLOCK"
CHALLENGE = {"www-authenticate": 'Basic realm="mangrove", charset="UTF-8"'}
SIZES = ("content-length", "x-expected-entity-length", "oc-total-length", "x-file-size")  # what clients say of a body


class DavGate(Gate):
    """Signs a request in by Basic, or by the permanent token, and asks for the right to use this door; the caller's own
    right is required where it is used."""

    def __init__(self, right: Right) -> None:
        super().__init__("visitor", right)

    def __str__(self) -> str:
        return f"webdav:{(self.declared_right.name or '').lower()}" if self.declared_right else "webdav"

    async def __call__(self, request: Request) -> Visit:
        settings = (await snapshot.fresh()).settings
        require_enabled(settings)
        if not settings.webdav_allow_http and not await is_confidential(request):
            raise Denied("signing in takes TLS, or the setting webdav_allow_http")
        credentials = headers.parse_authorization(request.headers.get("authorization", ""))
        session = await sign_in(credentials, await find_client_address(request))
        for name, value in session.describe().items():
            setattr(request.state, name, value)
        if self.declared_right:
            await session.make_caller(self.declared_right)  # refused before anything is read
        guest = Caller(await session.find_user()).is_guest
        lists = parse_if(request.headers.get("if", ""))
        conditions = Conditions(lists, await find_prefix(request))
        return Visit(session, credentials.password if guest else "", self.declared_right, conditions)


def require_enabled(settings: Settings) -> None:
    """NotAvailable where an administrator has closed this door."""
    if not settings.webdav_enabled:
        raise NotAvailable("WebDAV is switched off")


async def find_prefix(request: Request) -> str:
    """What stands before the caller's paths in addresses."""
    return urlsplit(await find_base_url(request, await find_dialect(request))).path + headers.ROOT


async def find_path(request: Request) -> str:
    """The path of the request below our root, decoded by us: the server hides what is no UTF-8."""
    raw: bytes | None = request.scope.get("raw_path")
    path: str = request.scope["path"] if raw is None else headers.decode_path(raw)
    found = headers.strip_root(path.removeprefix(OPENLIST_PREFIX), "")
    if found is None:
        raise BadRequest("the address is not below /dav")
    return found


Reader = Annotated[Visit, Depends(DavGate(Right.READ))]
Writer = Annotated[Visit, Depends(DavGate(Right.WRITE))]
Remover = Annotated[Visit, Depends(DavGate(Right.DELETE))]
Copier = Annotated[Visit, Depends(DavGate(Right.COPY))]
Mover = Annotated[Visit, Depends(DavGate(Right.MOVE))]
TreePathText = Annotated[str, Depends(find_path)]


def verb(method: str) -> Callable[[Any], Any]:
    """Register a verb of WebDAV at our root and at all below it. It stands in RFC 4918, not in the OpenAPI document."""

    def register(endpoint: Any) -> Any:
        for path in (headers.ROOT, headers.ROOT + "/{path:path}"):
            api.route(method, path, response_class=Response, include_in_schema=False)(endpoint)
        return endpoint

    return register


async def read_xml(request: Request) -> bytes:
    """A small body; TooLarge."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        bodies.check_body_size(len(body))
    return bytes(body)


@verb("OPTIONS")
async def options(who: Anyone) -> Response:
    """What can be done here."""
    require_enabled((await snapshot.fresh()).settings)
    return Response(headers={"dav": "1, 2", "ms-author-via": "DAV", "allow": METHODS, "accept-ranges": "bytes"})


@verb("PROPFIND")
async def propfind(who: Reader, request: Request, path: TreePathText) -> Response:
    """What is there, and its properties."""
    depth = headers.parse_depth(request.headers.get("depth"), ("0", "1", headers.INFINITY), headers.INFINITY)
    properties = bodies.parse_propfind(await read_xml(request))
    access = await who.at(path)
    await who.conditions.require(access)
    pieces = await multistatus.propfind(access, who.conditions.prefix, depth, Renderer(properties))
    return await answer_multistatus(pieces)


async def answer_multistatus(pieces: AsyncIterator[bytes]) -> Response:
    """The pieces as they are made; a function collects them first."""
    limit = platform().max_answer_bytes
    if limit is None:
        return StreamingResponse(pieces, 207, {"content-type": XML})
    body = bytearray()
    source: Any = pieces
    async with aclosing(source):
        async for piece in source:
            body += piece
            if len(body) > limit:
                raise DavProblem(507, "this folder is too large to be listed through the function")
    return Response(bytes(body), 207, {"content-type": XML})


@verb("PROPPATCH")
async def proppatch(who: Writer, request: Request, path: TreePathText) -> Response:
    """Keep properties beside an entry."""
    steps = bodies.parse_proppatch(await read_xml(request))
    access = await who.at(path)
    outcome = await verbs.proppatch(who, access, steps)
    href = headers.make_href(who.conditions.prefix, str(access.path.below(access.base)), False)
    body = f"<D:response><D:href>{href}</D:href>{outcome}</D:response>\n".encode()
    return Response(multistatus.HEAD + body + multistatus.TAIL, 207, {"content-type": XML})


@verb("GET")
@verb("HEAD")
async def get(who: Reader, request: Request, path: TreePathText, base_url: BaseUrl) -> Response:
    """The bytes of a file, or where its storage has them, as the storage's `webdav_policy` says."""
    access = await who.at(path)
    await who.conditions.require(access)
    if (await entries.stat(access)).is_dir:
        if request.method == "HEAD":
            return Response(headers={"content-type": FOLDER_TYPE})
        raise DavProblem(405, "a folder has no bytes: PROPFIND lists it")
    file = Download(access.path, await locate(access), access.settings)
    policy = file.located.mount.storage.webdav_policy
    link = await file.get_link() if policy == "302_redirect" else None
    if link is not None:
        if request.method == "HEAD" and link.lifetime is not None:  # its signature is for GET alone
            return await serve_file(request, file.located.driver, file.located.path, file.path.name, file.stat)
        return RedirectResponse(base_url + link.url if link.url.startswith("/") else link.url, 302, headers=NO_STORE)
    proxy_url = file.get_down_proxy_url() if policy == "use_proxy_url" else None
    return RedirectResponse(proxy_url, 302) if proxy_url is not None else await serve_bytes(request, file)


@verb("PUT")
async def put(who: Writer, request: Request, path: TreePathText) -> Response:
    """Store the body as a file."""
    if "content-range" in request.headers:
        raise BadRequest("a part of a file cannot be stored")
    access = await who.at(path)
    old = await entries.find_known(access)
    check_conditions(request, old)
    upload = read_upload(request, access.path.name)
    await verbs.put(who, access, old, read_body(request), upload)
    answer = Response(status_code=201 if old is None else 204, headers=await make_validator(access))
    if "x-oc-mtime" in request.headers:
        answer.headers["x-oc-mtime"] = "accepted"
    return answer


def check_conditions(request: Request, old: Entry | None) -> None:
    """PreconditionFailed unless If-Match and its like hold for what is there."""
    if old is None:
        if "if-match" in request.headers:
            raise PreconditionFailed
    elif check_preconditions(request.headers, entries.format_etag(old), old.modified, "PUT") is not None:
        raise PreconditionFailed


def read_upload(request: Request, name: str) -> Upload:
    """What the headers say of the body."""
    size = next((parse_size(text, one) for one in SIZES if (text := request.headers.get(one, ""))), None)
    limit = platform().max_file_bytes
    if limit is not None and (size or 0) > limit:
        raise TooLarge(f"more than {limit} bytes cannot be uploaded through the function")
    text = request.headers.get("x-oc-mtime", "").partition(".")[0]
    seconds = parse_integer(text)
    if text and (seconds is None or seconds > LATEST):
        raise BadRequest("X-OC-Mtime is not a number of seconds since 1970")
    is_new = request.headers.get("if-none-match", "").strip() == "*"
    modified = time.time() if seconds is None else float(seconds)
    return Upload(size, modified, request.headers.get("content-type", "") or guess_mime(name), overwrite=not is_new)


async def make_validator(access: PathAccess) -> dict[str, str]:
    """The header ETag of what was stored, where the storage tells that of a single file."""
    if not access.may_read() or not (await locate(access)).driver.config.direct_lookup:
        return {}
    stored = await entries.find_known(access)
    return {"etag": entries.format_etag(stored)} if stored is not None else {}


@verb("MKCOL")
async def mkcol(who: Writer, request: Request, path: TreePathText) -> Response:
    """Make a folder."""
    if await read_xml(request):
        raise DavProblem(415, "a folder is made without a body")
    await verbs.mkcol(who, await who.at(path))
    return Response(status_code=201)


@verb("DELETE")
async def delete(who: Remover, request: Request, path: TreePathText) -> Response:
    """Remove a file, or a folder with all it holds."""
    headers.parse_depth(request.headers.get("depth"), (headers.INFINITY,), headers.INFINITY)
    access = await who.at(path)
    if "if-match" in request.headers:
        check_conditions(request, await entries.find_known(access))
    await verbs.delete(who, access)
    return Response(status_code=204)


async def read_destination(request: Request) -> str:
    """Where to; BadRequest, or 502 for another server."""
    text = request.headers.get("destination")
    if not text:
        raise BadRequest("the header Destination is missing")
    base = urlsplit(await find_base_url(request, await find_dialect(request)))
    hosts: Collection[str] = [base.netloc, request.headers.get("host", "")]
    return headers.parse_destination(text, hosts, base.path)


def answer_outcome(outcome: Outcome) -> Response:
    """201 for what is new, 204 for what was replaced; 202 for what goes on."""
    return Response(status_code=202 if not outcome.is_done else 201 if outcome.is_new else 204)


async def read_transfer(request: Request, path: str) -> Transfer:
    """What a COPY or MOVE is to do. With `Prefer: respond-async` (RFC 7240) what takes a task is not waited for."""
    allowed = ("0", headers.INFINITY) if request.method == "COPY" else (headers.INFINITY,)
    depth = headers.parse_depth(request.headers.get("depth"), allowed, headers.INFINITY)
    overwrite = headers.parse_overwrite(request.headers.get("overwrite"))
    seconds = 0.0 if "respond-async" in request.headers.get("prefer", "") else verbs.WAIT_SECONDS
    return Transfer(path, await read_destination(request), overwrite, depth == "0", seconds)


@verb("COPY")
async def copy(who: Copier, request: Request, path: TreePathText) -> Response:
    """Copy a file or folder."""
    return answer_outcome(await verbs.copy(who, await read_transfer(request, path)))


@verb("MOVE")
async def move(who: Mover, request: Request, path: TreePathText) -> Response:
    """Move a file or folder, or give it another name."""
    return answer_outcome(await verbs.move(who, await read_transfer(request, path)))


@verb("LOCK")
async def lock(who: Writer, request: Request, path: TreePathText) -> Response:
    """Lock a file or folder, or let a lock last longer. What is not there becomes an empty file."""
    body = await read_xml(request)
    seconds = headers.parse_timeout(request.headers.get("timeout"))
    access = await who.at(path)
    if not body.strip():
        found = await locking.refresh(access, who.conditions, seconds)
        return await answer_lock(who, access, found, 200)
    depth = headers.parse_depth(request.headers.get("depth"), ("0", headers.INFINITY), headers.INFINITY)
    wish = bodies.parse_lockinfo(body)
    taken, is_new = await verbs.lock(who, access, wish, depth == headers.INFINITY, seconds)
    answer = await answer_lock(who, access, taken, 201 if is_new else 200)
    answer.headers["lock-token"] = f"<{taken.token}>"
    return answer


async def answer_lock(who: Visit, access: PathAccess, taken: Lock, status: int) -> Response:
    """The lock as a property."""
    entry = await entries.find_known(access) or Entry(access.path.name, 0, 0.0, False)
    href = headers.make_href(who.conditions.prefix, str(access.path.below(access.base)), entry.is_dir)
    shown = format_lock(ShownLock(taken, 0), Resource(href, entry, 0))
    body = f'<D:prop xmlns:D="DAV:"><D:lockdiscovery>{shown}</D:lockdiscovery></D:prop>'
    return Response(XML_HEAD + body.encode(), status, {"content-type": XML})


@verb("UNLOCK")
async def unlock(who: Reader, request: Request, path: TreePathText) -> Response:
    """Give a lock up."""
    token = headers.parse_lock_token(request.headers.get("lock-token", ""))
    await locking.release(await who.at(path), token)
    return Response(status_code=204)


async def answer_problem(request: Request, problem: Exception) -> Response:
    """A problem as WebDAV has it."""
    assert isinstance(problem, Problem)
    status = find_status(problem)
    more = CHALLENGE if status == 401 else {"allow": METHODS} if status == 405 else {}
    body = b"" if request.method == "HEAD" else render_problem(problem)
    return Response(body, status, {"content-type": XML, **more, **make_retry_after(problem.retry_after)})


async def answer_http_error(request: Request, error: Exception) -> Response:
    """What the router refuses: a method that is none of WebDAV's, a body that broke off."""
    assert isinstance(error, HTTPException)
    if error.status_code in (404, 405):
        return await answer_problem(request, DavProblem(405, f"{request.method} is no verb of WebDAV"))
    return await answer_problem(request, BadRequest(str(error.detail)))


api.app.set_handler(Problem, answer_problem)
api.app.set_handler(HTTPException, answer_http_error)
app = api.app
handler = make_lambda_handler(app)
