"""Downloads: `/d` redirects to the storage where it can, `/p` always passes the bytes through, `/ae` unpacks."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from mangrove.core.http import find_client
from mangrove.core.limits import limits
from mangrove.core.problems import NotSupported
from mangrove.drivers.base import MakesThumbnails
from mangrove.tree.operations.downloads import Download, authorize_download
from mangrove.tree.operations.links import Purpose
from mangrove.web.address import find_base_url, find_client_address
from mangrove.web.application import make_lambda_handler
from mangrove.web.dialects import find_dialect
from mangrove.web.downloads import NO_STORE, serve_archive_member, serve_download
from mangrove.web.plain import PlainApi, Query
from mangrove.web.serving import serve_file, serve_image

api = PlainApi("downloads")
PAGE: dict[str, Any] = {"content": {"text/html": {"schema": {"type": "string"}}}}
BYTES: dict[str, Any] = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
FILE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: BYTES | {"description": "The file"},
    206: BYTES | {"description": "The wanted ranges of it"},
    302: {"description": "Where the file is"},
    304: {"description": "Not modified"},
    401: PAGE | {"description": "The signature is missing, wrong or expired"},
    403: PAGE | {"description": "It may not be read here, or not in this way"},
    404: PAGE | {"description": "No such file"},
    412: {"description": "A condition does not hold"},
    416: {"description": "No wanted byte is there"},
    429: PAGE | {"description": "Too many requests like this one are under way"},
    500: PAGE | {"description": "The storage does not answer, or not with the file"},
}
MEMBER_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: BYTES | {"description": "The file, unpacked"},
    302: FILE_RESPONSES[302],
    401: FILE_RESPONSES[401],
    403: PAGE | {"description": "The archive needs a (different) password"},
    404: PAGE | {"description": "No such archive, or no such file in it"},
    429: FILE_RESPONSES[429],
    500: PAGE | {"description": "The archive cannot be read"},
}


def _forward_parameters(request: Request, file: Download, url: str) -> str:
    """The link with the request's own parameters, when the settings say so."""
    if not file.settings.forward_direct_link_params:
        return url
    ignored = file.settings.ignore_direct_link_params
    forwarded = [
        (name, value) for name, value in request.query_params.multi_items() if name not in ignored and name != "path"
    ]
    return f"{url}{'&' if '?' in url else '?'}{urlencode(forwarded)}" if forwarded else url


async def _serve_thumbnail(request: Request, file: Download) -> Response:
    driver = file.storage_path.driver
    if not isinstance(driver, MakesThumbnails):
        raise NotSupported
    async with limits().thumbnails.hold(find_client(await find_client_address(request))):
        return serve_image(*await driver.make_thumbnail(file.storage_path.path))


FULL_PATH = Query("path", "The path, where that of the address cannot hold it: it has a question mark.")
SIGN = Query("sign")
FILE: dict[str, Any] = {
    "gate": "anyone",
    "query": (FULL_PATH, SIGN, Query("type")),
    "response_class": Response,
}
MEMBER: dict[str, Any] = {
    "gate": "anyone",
    "query": (FULL_PATH, Query("inner"), Query("pass"), SIGN),
    "response_class": Response,
}


async def _authorize(request: Request, purpose: Purpose = Purpose.FILE) -> Download:
    path = request.query_params.get(FULL_PATH.name) or request.path_params["path"]
    return await authorize_download(path, request.query_params.get(SIGN.name, ""), purpose)


@api.get("/d/{path:path}", responses=FILE_RESPONSES, **FILE)
@api.route("HEAD", "/d/{path:path}", summary="Download Head", **FILE)
async def download(request: Request) -> Response:
    """The bytes of a file, or a redirect to where the storage hands them out.

    HEAD answers itself where that address ends some time: it is signed, and for GET alone.
    """
    file = await _authorize(request)
    if request.query_params.get("type") == "thumb":
        return await _serve_thumbnail(request, file)
    link = None if file.must_proxy else await file.get_link()
    if link is None:
        return await serve_download(request, file)
    if request.method == "HEAD" and link.lifetime is not None:
        return await serve_file(request, file.storage_path.driver, file.storage_path.path, file.path.name, file.stat)
    base_url = await find_base_url(request, await find_dialect(request))
    url = base_url + link.url if link.url.startswith("/") else link.url
    return RedirectResponse(_forward_parameters(request, file, url), 302, headers=NO_STORE)


@api.get("/p/{path:path}", responses=FILE_RESPONSES, **FILE)
@api.route("HEAD", "/p/{path:path}", summary="Proxy Head", **FILE)
async def proxy(request: Request) -> Response:
    """The bytes of a file through this service, where the storage allows that."""
    file = await _authorize(request)
    if request.query_params.get("type") == "thumb":
        return await _serve_thumbnail(request, file)
    await file.require_proxy()
    return await serve_download(request, file)


@api.get("/ae/{path:path}", responses=MEMBER_RESPONSES, **MEMBER)
@api.route("HEAD", "/ae/{path:path}", summary="Archive Member Head", **MEMBER)
async def archive_member(request: Request) -> Response:
    """The bytes of one file in an archive."""
    asked = request.query_params
    file = await _authorize(request, Purpose.ARCHIVE)
    source = find_client(await find_client_address(request))
    return await serve_archive_member(request, file, asked.get("inner", ""), asked.get("pass", ""), source)


app = api.app
handler = make_lambda_handler(app)
