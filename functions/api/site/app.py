"""Routes that are open to everyone: the page, the health check, public settings, files for browsers and robots."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from mangrove import archives, configuration
from mangrove.configuration import health
from mangrove.core.problems import ResourceNotFound
from mangrove.tools import registry
from mangrove.web.envelope import Reply, ok
from mangrove.web.lambda_handler import make_lambda_handler
from mangrove.web.page import show
from mangrove.web.public_api import PublicApi

NO_PAGE: dict[int | str, dict[str, Any]] = {404: {"description": "There is no page, or it has no such file"}}

UNHEALTHY: dict[int | str, dict[str, Any]] = {503: {"description": "The service has faults; the answer names them"}}
ASSET: dict[str, Any] = {
    "gate": "anyone",
    "path_description": "Name of a file of the page.",
    "response_class": Response,
    "responses": NO_PAGE,
}

api = PublicApi("site")


@api.get("/", gate="anyone", response_class=HTMLResponse, responses=NO_PAGE)
@api.route("HEAD", "/", gate="anyone", response_class=HTMLResponse, summary="Show Page Head", responses=NO_PAGE)
async def show_page(request: Request) -> Response:
    """Return the page for browsers."""
    return await show(request.scope)


api.app.default = show_page


@api.get("/@assets/{path:path}", **ASSET)
@api.route("HEAD", "/@assets/{path:path}", summary="Serve Asset Head", **ASSET)
async def serve_asset(request: Request) -> Response:
    """Return a file of the page, compressed if the client accepts that; its name changes with its content."""
    return await show(request.scope)


@api.get("/ping", gate="anyone", response_class=PlainTextResponse)
@api.route("HEAD", "/ping", gate="anyone", response_class=PlainTextResponse, summary="Ping Head")
async def ping(request: Request) -> Response:
    """Answer `pong`: the service is running."""
    return PlainTextResponse("pong")


@api.get(
    "/health",
    gate="anyone",
    response_class=JSONResponse,
    responses=UNHEALTHY,
)
@api.route("HEAD", "/health", gate="anyone", response_class=JSONResponse, summary="Health Head")
async def show_health(request: Request) -> Response:
    """Return the health of the service, with the reasons if it has faults."""
    faults = await health.find_faults()
    body = {"status": "failing", "reasons": faults} if faults else {"status": "ok"}
    return JSONResponse(body, 503 if faults else 200, headers={"cache-control": "no-store"})


@api.get("/api/public/settings", gate="anyone", data_model=dict[str, str])
async def settings(request: Request) -> Reply:
    """Return all public settings by name."""
    return ok((await configuration.get()).settings.get_public())


@api.get("/api/public/archive_extensions", gate="anyone", data_model=list[str])
async def archive_extensions(request: Request) -> Reply:
    """List the extensions of archives that can be read."""
    return ok(archives.EXTENSIONS)


@api.get("/api/public/offline_download_tools", gate="anyone", data_model=list[str])
async def offline_download_tools(request: Request) -> Reply:
    """List the download tools that are available now."""
    return ok(registry.list_available_tools((await configuration.get()).settings))


@api.get(
    "/favicon.ico", gate="anyone", response_class=Response, responses={302: {"description": "The address of the image"}}
)
async def favicon(request: Request) -> Response:
    """Return the icon of the site."""
    address = (await configuration.get()).settings.favicon
    if not address.startswith("data:"):
        return RedirectResponse(address, 302)
    from mangrove.web.serving import serve_image  # which imports the reading of files

    return serve_image(*_parse_data_url(address))  # no browser follows a redirect to a data URL


def _parse_data_url(address: str) -> tuple[bytes, str]:
    """Return the bytes and the type of a data URL (RFC 2397)."""
    kind, _, text = address.removeprefix("data:").partition(",")
    content = unquote_to_bytes(text)
    if kind.endswith(";base64"):
        try:
            content = base64.b64decode(content)
        except ValueError:
            raise ResourceNotFound("the favicon cannot be read") from None
    return content, kind.partition(";")[0] or "text/plain"


@api.get("/robots.txt", gate="anyone", response_class=PlainTextResponse)
async def robots(request: Request) -> Response:
    """Return the rules for robots."""
    return PlainTextResponse((await configuration.get()).settings.robots_txt)


@api.get("/manifest.json", gate="anyone", response_class=JSONResponse)
async def manifest(request: Request) -> Response:
    """Return the manifest with which a phone installs the site as an app."""
    site = (await configuration.get()).settings
    icon = {"src": site.logo.partition("\n")[0], "sizes": "512x512", "type": "image/png"}
    body = {"display": "standalone", "scope": "/", "start_url": "/", "name": site.site_title, "icons": [icon]}
    return JSONResponse(body, headers={"cache-control": "public, max-age=3600"})


app = api.app
handler = make_lambda_handler(app)
