"""Downloads: `/d` redirects to the storage where it can, `/p` always passes the bytes through."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from mangrove.drivers.base import Thumbs
from mangrove.problems import NotSupported
from mangrove.tree.downloads import Download, admitted
from mangrove.web.address import Address
from mangrove.web.api import Api, lambda_handler
from mangrove.web.gates import Anyone
from mangrove.web.serving import picture, served

api = Api("downloads")
PAGE: dict[str, Any] = {"content": {"text/html": {"schema": {"type": "string"}}}}
BYTES: dict[str, Any] = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
SHOWN: dict[int | str, dict[str, Any]] = {
    200: BYTES | {"description": "The file"},
    206: BYTES | {"description": "The wanted ranges of it"},
    302: {"description": "Where the file is"},
    304: {"description": "Not modified"},
    401: PAGE | {"description": "The signature is missing, wrong or expired"},
    404: PAGE | {"description": "No such file"},
    412: {"description": "A condition does not hold"},
    416: {"description": "No wanted byte is there"},
}
NOT_KEPT = {"referrer-policy": "no-referrer", "cache-control": "max-age=0, no-cache, no-store, must-revalidate"}


def _forwarded(request: Request, file: Download, url: str) -> str:
    """The link with the request's own parameters, when the settings want them handed on."""
    if not file.settings.on("forward_direct_link_params"):
        return url
    left_out = {name.strip() for name in file.settings["ignore_direct_link_params"].split(",")}
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in left_out]
    return f"{url}{'&' if '?' in url else '?'}{urlencode(kept)}" if kept else url


async def _direct(request: Request, path: str, sign: str, type: str, address: str) -> Response:
    file = await admitted(path, sign)
    if type == "thumb":
        return await _thumb(file)
    link = None if file.must_proxy else await file.link()
    if link is None:
        return await _bytes(request, file)
    url = address + link.url if link.url.startswith("/") else link.url
    return RedirectResponse(_forwarded(request, file, url), 302, headers=NOT_KEPT)


async def _proxied(request: Request, path: str, sign: str, type: str) -> Response:
    file = await admitted(path, sign)
    if type == "thumb":
        return await _thumb(file)
    file.may_proxy()
    return await _bytes(request, file)


async def _bytes(request: Request, file: Download) -> Response:
    elsewhere = file.proxied_elsewhere()
    if elsewhere is not None and "d" not in request.query_params:
        return RedirectResponse(elsewhere, 302)
    return await served(request, file.driver, file.inner, await file.entry(), file.path.name)


async def _thumb(file: Download) -> Response:
    if not isinstance(file.driver, Thumbs):
        raise NotSupported
    return picture(*await file.driver.thumb(file.inner))


@api.get("/d/{path:path}", response_class=Response, responses=SHOWN)
async def download(
    who: Anyone, request: Request, path: str, address: Address, sign: str = "", type: str = ""
) -> Response:
    return await _direct(request, path, sign, type, address)


@api.route("HEAD", "/d/{path:path}", response_class=Response)
async def download_head(
    who: Anyone, request: Request, path: str, address: Address, sign: str = "", type: str = ""
) -> Response:
    return await _direct(request, path, sign, type, address)


@api.get("/p/{path:path}", response_class=Response, responses=SHOWN)
async def proxy(who: Anyone, request: Request, path: str, sign: str = "", type: str = "") -> Response:
    return await _proxied(request, path, sign, type)


@api.route("HEAD", "/p/{path:path}", response_class=Response)
async def proxy_head(who: Anyone, request: Request, path: str, sign: str = "", type: str = "") -> Response:
    return await _proxied(request, path, sign, type)


app = api.app
handler = lambda_handler(app)
