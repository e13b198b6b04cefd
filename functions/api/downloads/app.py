"""Downloads: `/d` redirects to the storage where it can, `/p` always passes the bytes through, `/ae` unpacks."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Query, Request
from starlette.responses import RedirectResponse, Response

from mangrove.drivers.base import MakesThumbnails
from mangrove.problems import NotSupported
from mangrove.tree import archives
from mangrove.tree.downloads import Download, authorize_download
from mangrove.tree.links import make_archive_key
from mangrove.web.address import BaseUrl
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.gates import Anyone
from mangrove.web.serving import serve_file, serve_image, serve_member

api = Api("downloads")
PAGE: dict[str, Any] = {"content": {"text/html": {"schema": {"type": "string"}}}}
BYTES: dict[str, Any] = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
FILE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: BYTES | {"description": "The file"},
    206: BYTES | {"description": "The wanted ranges of it"},
    302: {"description": "Where the file is"},
    304: {"description": "Not modified"},
    401: PAGE | {"description": "The signature is missing, wrong or expired"},
    404: PAGE | {"description": "No such file"},
    412: {"description": "A condition does not hold"},
    416: {"description": "No wanted byte is there"},
}
MEMBER_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: BYTES | {"description": "The file, unpacked"},
    401: FILE_RESPONSES[401],
    403: PAGE | {"description": "The archive needs a (different) password"},
    404: PAGE | {"description": "No such archive, or no such file in it"},
}
NO_STORE = {"referrer-policy": "no-referrer", "cache-control": "max-age=0, no-cache, no-store, must-revalidate"}


def _forward_parameters(request: Request, file: Download, url: str) -> str:
    """The link with the request's own parameters, when the settings say so."""
    if not file.settings.forward_direct_link_params:
        return url
    ignored = file.settings.ignore_direct_link_params
    forwarded = [(name, value) for name, value in request.query_params.multi_items() if name not in ignored]
    return f"{url}{'&' if '?' in url else '?'}{urlencode(forwarded)}" if forwarded else url


async def _serve_bytes(request: Request, file: Download) -> Response:
    proxy_url = file.get_down_proxy_url()
    if proxy_url is not None and "d" not in request.query_params:
        return RedirectResponse(proxy_url, 302)
    return await serve_file(request, file.located.driver, file.located.path, await file.stat(), file.path.name)


async def _serve_thumbnail(file: Download) -> Response:
    if not isinstance(file.located.driver, MakesThumbnails):
        raise NotSupported
    return serve_image(*await file.located.driver.make_thumbnail(file.located.path))


@api.get("/d/{path:path}", response_class=Response, responses=FILE_RESPONSES)
@api.route("HEAD", "/d/{path:path}", response_class=Response, summary="Download Head")
async def download(
    who: Anyone, request: Request, path: str, base_url: BaseUrl, sign: str = "", type: str = ""
) -> Response:
    file = await authorize_download(path, sign)
    if type == "thumb":
        return await _serve_thumbnail(file)
    link = None if file.must_proxy else await file.get_link()
    if link is None:
        return await _serve_bytes(request, file)
    url = base_url + link.url if link.url.startswith("/") else link.url
    return RedirectResponse(_forward_parameters(request, file, url), 302, headers=NO_STORE)


@api.get("/p/{path:path}", response_class=Response, responses=FILE_RESPONSES)
@api.route("HEAD", "/p/{path:path}", response_class=Response, summary="Proxy Head")
async def proxy(who: Anyone, request: Request, path: str, sign: str = "", type: str = "") -> Response:
    file = await authorize_download(path, sign)
    if type == "thumb":
        return await _serve_thumbnail(file)
    file.require_proxy()
    return await _serve_bytes(request, file)


@api.get("/ae/{path:path}", response_class=Response, responses=MEMBER_RESPONSES)
@api.route("HEAD", "/ae/{path:path}", response_class=Response, summary="Archive Member Head")
async def archive_member(
    who: Anyone,
    request: Request,
    path: str,
    inner: str = "",
    password: Annotated[str, Query(alias="pass")] = "",
    sign: str = "",
) -> Response:
    file = await authorize_download(path, sign, make_archive_key)
    return await serve_member(request, await archives.open_member(file, inner, password), NO_STORE)


app = api.app
handler = make_lambda_handler(app)
