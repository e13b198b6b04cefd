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
from mangrove.web.address import Address
from mangrove.web.api import Api, lambda_handler
from mangrove.web.gates import Anyone
from mangrove.web.serving import picture, served, unpacked

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
UNPACKED: dict[int | str, dict[str, Any]] = {
    200: BYTES | {"description": "The file, unpacked"},
    401: SHOWN[401],
    403: PAGE | {"description": "The archive needs a (different) password"},
    404: PAGE | {"description": "No such archive, or no such file in it"},
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
    file = await authorize_download(path, sign)
    if type == "thumb":
        return await _thumb(file)
    link = None if file.must_proxy else await file.get_link()
    if link is None:
        return await _bytes(request, file)
    url = address + link.url if link.url.startswith("/") else link.url
    return RedirectResponse(_forwarded(request, file, url), 302, headers=NOT_KEPT)


async def _proxied(request: Request, path: str, sign: str, type: str) -> Response:
    file = await authorize_download(path, sign)
    if type == "thumb":
        return await _thumb(file)
    file.require_proxy()
    return await _bytes(request, file)


async def _bytes(request: Request, file: Download) -> Response:
    elsewhere = file.get_down_proxy_url()
    if elsewhere is not None and "d" not in request.query_params:
        return RedirectResponse(elsewhere, 302)
    return await served(request, file.located.driver, file.located.path, await file.stat(), file.path.name)


async def _thumb(file: Download) -> Response:
    if not isinstance(file.located.driver, MakesThumbnails):
        raise NotSupported
    return picture(*await file.located.driver.make_thumbnail(file.located.path))


async def _unpacked(request: Request, path: str, inner: str, password: str, sign: str) -> Response:
    file = await authorize_download(path, sign, make_archive_key)
    return await unpacked(request, await archives.open_member(file, inner, password), NOT_KEPT)


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


@api.get("/ae/{path:path}", response_class=Response, responses=UNPACKED)
async def archive_member(
    who: Anyone,
    request: Request,
    path: str,
    inner: str = "",
    password: Annotated[str, Query(alias="pass")] = "",
    sign: str = "",
) -> Response:
    return await _unpacked(request, path, inner, password, sign)


@api.route("HEAD", "/ae/{path:path}", response_class=Response)
async def archive_member_head(
    who: Anyone,
    request: Request,
    path: str,
    inner: str = "",
    password: Annotated[str, Query(alias="pass")] = "",
    sign: str = "",
) -> Response:
    return await _unpacked(request, path, inner, password, sign)


app = api.app
handler = lambda_handler(app)
