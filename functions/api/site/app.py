"""Open to everyone: the health check, public settings, what browsers and robots look for."""

from __future__ import annotations

import base64
from urllib.parse import unquote_to_bytes

from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from mangrove import archives
from mangrove.problems import Missing
from mangrove.site import snapshot
from mangrove.tools import registry
from mangrove.web.api import Api, make_lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Anyone
from mangrove.web.serving import serve_image

api = Api("site")


@api.get("/ping", response_class=PlainTextResponse)
@api.route("HEAD", "/ping", response_class=PlainTextResponse, summary="Ping Head")
async def ping(who: Anyone) -> Response:
    return PlainTextResponse("pong")


@api.get("/api/public/settings", data_model=dict[str, str])
async def settings(who: Anyone) -> Reply:
    return ok((await snapshot.fresh()).settings.get_public())


@api.get("/api/public/archive_extensions", data_model=list[str])
async def archive_extensions(who: Anyone) -> Reply:
    return ok(archives.EXTENSIONS)


@api.get("/api/public/offline_download_tools", data_model=list[str])
async def offline_download_tools(who: Anyone) -> Reply:
    return ok(registry.list_available_tools((await snapshot.fresh()).settings))


@api.get("/favicon.ico", response_class=Response, responses={302: {"description": "Where the picture is"}})
async def favicon(who: Anyone) -> Response:
    address = (await snapshot.fresh()).settings.favicon
    if not address.startswith("data:"):
        return RedirectResponse(address, 302)
    return serve_image(*_parse_data_url(address))  # no browser follows a redirect to a data address


def _parse_data_url(address: str) -> tuple[bytes, str]:
    """The bytes and the type in a data URL (RFC 2397)."""
    kind, _, text = address.removeprefix("data:").partition(",")
    content = unquote_to_bytes(text)
    if kind.endswith(";base64"):
        try:
            content = base64.b64decode(content)
        except ValueError:
            raise Missing("the favicon cannot be read") from None
    return content, kind.partition(";")[0] or "text/plain"


@api.get("/robots.txt", response_class=PlainTextResponse)
async def robots(who: Anyone) -> Response:
    return PlainTextResponse((await snapshot.fresh()).settings.robots_txt)


@api.get("/manifest.json", response_class=JSONResponse)
async def manifest(who: Anyone) -> Response:
    site = (await snapshot.fresh()).settings
    icon = {"src": site.logo.partition("\n")[0], "sizes": "512x512", "type": "image/png"}
    body = {"display": "standalone", "scope": "/", "start_url": "/", "name": site.site_title, "icons": [icon]}
    return JSONResponse(body, headers={"cache-control": "public, max-age=3600"})


app = api.app
handler = make_lambda_handler(app)
