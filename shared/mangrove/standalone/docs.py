"""`/openapi.json` of the document service and `/docs`, a page that shows it.

The page loads nothing from other hosts.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

from mangrove import __version__
from mangrove.standalone.template import ROOT, read_routes
from mangrove.web.application import Application
from mangrove.web.page import FrontEndFolder

ASSETS = ROOT / "node_modules" / "swagger-ui-dist"
FILES = {"/docs/swagger-ui.css": "text/css", "/docs/swagger-ui-bundle.js": "text/javascript"}
PAGE = """<!doctype html>
<meta charset="utf-8">
<title>Mangrove</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<div id="ui"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
"""
HEADERS = {  # the page runs own scripts, sends requests to this service only, and cannot be framed
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
START = 'SwaggerUIBundle({url: "/openapi.json", dom_id: "#ui", validatorUrl: null});\n'


INTRODUCTION = """Many storages shown as one tree of files.

**A token.** `POST /api/auth/login` with `{"username": "…", "password": "…"}` answers `{"data": {"token": "…"}}`. Send
it as it is in the header `Authorization` of every further request. It ends after 48 hours, with `GET /api/auth/logout`
and with a new password. Programs may use the permanent token instead, which an administrator finds in the settings
(`token`). Without a token one is the guest, if there is one.

**Answers.** Everything under `/api` answers with HTTP status 200 and `{"code", "message", "data"}`: `code` 200 is
success, anything else a failure, whose `problem` says in one word what is wrong. `x-gate` says who may ask: `anyone`,
a `visitor` (the guest, too), a `member` (who has signed in) or an `admin`.

**Other clients.** Below `/openlist` the same interface speaks as front ends and SDKs of the family expect it.
"""


def build_document() -> dict[str, Any]:
    """The OpenAPI documents of all groups as one. Raises ValueError when two groups give one name to two schemas."""
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Mangrove", "version": __version__, "description": INTRODUCTION},
        "paths": {},
        "components": {
            "schemas": {},
            "securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "Authorization"}},
        },
    }
    for code in dict.fromkeys(spec.code for spec in read_routes()):
        part = import_module(f"{code.replace('/', '.')}.app").api.build_document()
        for path, operations in part["paths"].items():
            document["paths"].setdefault(path, {}).update(operations)
        for name, schema in part.get("components", {}).get("schemas", {}).items():
            if document["components"]["schemas"].setdefault(name, schema) != schema:
                raise ValueError(f"two schemas are named {name}")
    return document


def render_document() -> bytes:
    """Return the document as it is committed. Building it takes a second."""
    return orjson.dumps(build_document(), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def make_app() -> Application:
    """Return the application that answers the paths of `find_page`."""
    app = Application()
    app.default = _answer
    return app


async def _answer(request: Request) -> Response:
    page = find_page(request.url.path)
    if page is None:
        raise HTTPException(404)
    return page


def find_page(path: str) -> Response | None:
    """Return the answer to a path of the documentation, None for any other path."""
    if path == "/openapi.json":
        return FileResponse(ROOT / "openapi.json", headers=HEADERS, media_type="application/json")
    if path == "/docs":
        return HTMLResponse(PAGE, headers=HEADERS)
    if path == "/docs/start.js":
        return Response(START, headers=HEADERS, media_type="text/javascript")
    if path in FILES:
        return FileResponse(ASSETS / path.rpartition("/")[2], headers=HEADERS, media_type=FILES[path])
    return None


BUILT = ROOT / "page" / "dist"
NONE = "none"


def open_page(choice: str) -> FrontEndFolder | None:
    """Return the folder of the page for the option `--page`: a folder, "none", or "" for the built page if there is
    one. Raise ValueError for a folder without a front end.
    """
    if choice == NONE or not (choice or (BUILT / "index.html").exists()):
        return None
    folder = Path(choice).resolve() if choice else BUILT
    return FrontEndFolder(folder, is_ours=folder == BUILT)
