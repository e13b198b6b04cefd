"""What anybody may ask: is it alive, its public settings, what browsers and robots look for."""

from __future__ import annotations

from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from mangrove.site import snapshot
from mangrove.web.api import Api, lambda_handler
from mangrove.web.envelope import Reply, ok
from mangrove.web.gates import Anyone

api = Api("site")


@api.get("/ping")
async def ping(who: Anyone) -> Response:
    return PlainTextResponse("pong")


@api.get("/api/public/settings", gives=dict[str, str])
async def settings(who: Anyone) -> Reply:
    return ok((await snapshot.fresh()).settings.public())


@api.get("/api/public/archive_extensions", gives=list[str])
async def archive_extensions(who: Anyone) -> Reply:
    return ok([])


@api.get("/api/public/offline_download_tools", gives=list[str])
async def offline_download_tools(who: Anyone) -> Reply:
    return ok([])


@api.get("/favicon.ico")
async def favicon(who: Anyone) -> Response:
    return RedirectResponse((await snapshot.fresh()).settings["favicon"], 302)


@api.get("/robots.txt")
async def robots(who: Anyone) -> Response:
    return PlainTextResponse((await snapshot.fresh()).settings["robots_txt"])


@api.get("/manifest.json")
async def manifest(who: Anyone) -> Response:
    values = (await snapshot.fresh()).settings
    icon = {"src": values["logo"].partition("\n")[0], "sizes": "512x512", "type": "image/png"}
    body = {"display": "standalone", "scope": "/", "start_url": "/", "name": values["site_title"], "icons": [icon]}
    return JSONResponse(body, headers={"cache-control": "public, max-age=3600"})


app = api.app
handler = lambda_handler(app)
