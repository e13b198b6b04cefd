"""WebDAV (RFC 4918, class 1 and 2): the tree for file managers, players and phones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response, StreamingResponse

from mangrove import configuration
from mangrove.configuration.values import Settings
from mangrove.core.http import make_retry_after
from mangrove.core.problems import AccessDenied, BadRequest, FeatureNotAvailable, Problem
from mangrove.identity.rights import Right
from mangrove.protocols.webdav import bodies, handlers, headers
from mangrove.protocols.webdav.credentials import sign_in
from mangrove.protocols.webdav.errors import XML, DavProblem, find_status, render_problem
from mangrove.protocols.webdav.handlers import Answer
from mangrove.protocols.webdav.headers import parse_if
from mangrove.protocols.webdav.locking import Conditions
from mangrove.protocols.webdav.verbs import DavRequest
from mangrove.web.address import find_base_url, find_client_address, is_confidential
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.downloads import NO_STORE, serve_bytes
from mangrove.web.flavours import OPENLIST_PREFIX, find_flavour
from mangrove.web.framework import Depends, Request
from mangrove.web.gates import Anyone, BaseUrl, Gate
from mangrove.web.incoming import read_body
from mangrove.web.ranges import check_preconditions
from mangrove.web.serving import serve_file

api = Api("dav")
METHODS = "OPTIONS, PROPFIND, PROPPATCH, GET, HEAD, PUT, DELETE, MKCOL, COPY, MOVE, LOCK, UNLOCK"
CHALLENGE = {"www-authenticate": 'Basic realm="mangrove", charset="UTF-8"'}


class DavGate(Gate):
    """Sign a request in by Basic, or by the permanent token, and require the right to use WebDAV; the operations
    require the caller's other rights.
    """

    def __init__(self, right: Right) -> None:
        super().__init__("visitor", right)

    def __str__(self) -> str:
        return f"webdav:{(self.declared_right.name or '').lower()}" if self.declared_right else "webdav"

    async def __call__(self, request: Request) -> DavRequest:
        settings = (await configuration.get()).settings
        require_enabled(settings)
        if not settings.webdav_allow_http and not await is_confidential(request):
            raise AccessDenied("signing in takes TLS, or the setting webdav_allow_http")
        credentials = headers.parse_authorization(request.headers.get("authorization", ""))
        session = await sign_in(credentials, await find_client_address(request))
        for name, value in session.describe().items():
            setattr(request.state, name, value)
        caller = await session.make_caller(self.declared_right)  # refused before the body is read
        lists = parse_if(request.headers.get("if", ""))
        conditions = Conditions(lists, await find_prefix(request))
        return DavRequest(session, credentials.password if caller.is_guest else "", caller, conditions)


def require_enabled(settings: Settings) -> None:
    """Raise FeatureNotAvailable if an administrator has switched WebDAV off."""
    if not settings.webdav_enabled:
        raise FeatureNotAvailable("WebDAV is switched off")


async def find_prefix(request: Request) -> str:
    """Return the prefix of the caller's paths in addresses."""
    return urlsplit(await find_base_url(request, await find_flavour(request))).path + headers.ROOT


async def find_path(request: Request) -> str:
    """Return the path of the request below the root of WebDAV, decoded here: the server replaces bytes that are not
    UTF-8.
    """
    raw: bytes | None = request.scope.get("raw_path")
    path: str = request.scope["path"] if raw is None else headers.decode_path(raw)
    inner = headers.strip_root(path.removeprefix(OPENLIST_PREFIX), "")
    if inner is None:
        raise BadRequest("the address is not below /dav")
    return inner


Reader = Annotated[DavRequest, Depends(DavGate(Right.READ))]
Writer = Annotated[DavRequest, Depends(DavGate(Right.WRITE))]
Remover = Annotated[DavRequest, Depends(DavGate(Right.DELETE))]
Copier = Annotated[DavRequest, Depends(DavGate(Right.COPY))]
Mover = Annotated[DavRequest, Depends(DavGate(Right.MOVE))]
TreePathText = Annotated[str, Depends(find_path)]


def verb(method: str) -> Callable[[Any], Any]:
    """Register a method of WebDAV at its root and at all paths below.

    It is defined in RFC 4918, and not in the OpenAPI document.
    """

    def register(endpoint: Any) -> Any:
        for path in (headers.ROOT, headers.ROOT + "/{path:path}"):
            api.route(method, path, response_class=Response, include_in_schema=False)(endpoint)
        return endpoint

    return register


async def read_xml(request: Request) -> bytes:
    """Return a small body. Raise TooLarge."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        bodies.check_body_size(len(body))
    return bytes(body)


@verb("OPTIONS")
async def options(who: Anyone) -> Response:
    """Answer OPTIONS with the allowed methods."""
    require_enabled((await configuration.get()).settings)
    return Response(headers={"dav": "1, 2", "ms-author-via": "DAV", "allow": METHODS, "accept-ranges": "bytes"})


def respond(answer: Answer) -> Response:
    """Return what a handler answers as a response."""
    if isinstance(answer.body, bytes):
        return Response(answer.body, answer.status, dict(answer.headers))
    return StreamingResponse(answer.body, answer.status, dict(answer.headers))


@verb("PROPFIND")
async def propfind(who: Reader, request: Request, path: TreePathText) -> Response:
    """Answer PROPFIND with the entries and their properties."""
    return respond(await handlers.propfind(who, path, request.headers, await read_xml(request)))


@verb("PROPPATCH")
async def proppatch(who: Writer, request: Request, path: TreePathText) -> Response:
    """Store properties of an entry."""
    return respond(await handlers.proppatch(who, path, await read_xml(request)))


@verb("GET")
@verb("HEAD")
async def get(who: Reader, request: Request, path: TreePathText, base_url: BaseUrl) -> Response:
    """Return the bytes of a file, or a redirect to its storage."""
    file = await handlers.find_file(who, path, request.method)
    if isinstance(file, Answer):
        return respond(file)
    download = file.download
    if file.needs_stat:
        return await serve_file(
            request, download.storage_path.driver, download.storage_path.path, download.path.name, download.stat
        )
    if file.link:
        address = base_url + file.link if file.link.startswith("/") else file.link
        return RedirectResponse(address, 302, headers=NO_STORE if file.is_private else None)
    return await serve_bytes(request, download)


@verb("PUT")
async def put(who: Writer, request: Request, path: TreePathText) -> Response:
    """Store the body as a file."""
    return respond(await handlers.put(who, path, request.headers, read_body(request), check_preconditions))


@verb("MKCOL")
async def mkcol(who: Writer, request: Request, path: TreePathText) -> Response:
    """Make a folder."""
    return respond(await handlers.mkcol(who, path, await read_xml(request)))


@verb("DELETE")
async def delete(who: Remover, request: Request, path: TreePathText) -> Response:
    """Remove a file, or a folder with all its content."""
    return respond(await handlers.delete(who, path, request.headers, check_preconditions))


@verb("COPY")
async def copy(who: Copier, request: Request, path: TreePathText, base_url: BaseUrl) -> Response:
    """Copy a file or folder."""
    return respond(await handlers.copy(who, path, request.headers, urlsplit(base_url)))


@verb("MOVE")
async def move(who: Mover, request: Request, path: TreePathText, base_url: BaseUrl) -> Response:
    """Move or rename a file or folder."""
    return respond(await handlers.move(who, path, request.headers, urlsplit(base_url)))


@verb("LOCK")
async def lock(who: Writer, request: Request, path: TreePathText) -> Response:
    """Lock a file or folder, or refresh a lock. If nothing is at the path, an empty file is made."""
    return respond(await handlers.lock(who, path, request.headers, await read_xml(request)))


@verb("UNLOCK")
async def unlock(who: Reader, request: Request, path: TreePathText) -> Response:
    """Release a lock."""
    return respond(await handlers.unlock(who, path, request.headers))


async def answer_problem(request: Request, problem: Problem) -> Response:
    """Answer a problem in the form of WebDAV."""
    status = find_status(problem)
    more = CHALLENGE if status == 401 else {"allow": METHODS} if status == 405 else {}
    body = b"" if request.method == "HEAD" else render_problem(problem)
    return Response(body, status, {"content-type": XML, **more, **make_retry_after(problem.retry_after)})


async def answer_http_error(request: Request, error: HTTPException) -> Response:
    """Answer a request that the router refuses: an unknown method, or a body that ends too early."""
    if error.status_code in (404, 405):
        return await answer_problem(request, DavProblem(405, f"{request.method} is no verb of WebDAV"))
    return await answer_problem(request, BadRequest(str(error.detail)))


api.app.set_handler(Problem, answer_problem)
api.app.set_handler(HTTPException, answer_http_error)
app = api.app
handler = make_lambda_handler(app)
