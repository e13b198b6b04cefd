"""`/openapi.json` of the document service and `/docs`, a page that shows it; nothing is fetched from elsewhere."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import orjson
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.types import ASGIApp

from mangrove import __version__
from mangrove.local.template import ROOT, read_routes

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
START = 'SwaggerUIBundle({url: "/openapi.json", dom_id: "#ui", validatorUrl: null});\n'


def build_document() -> dict[str, Any]:
    """The OpenAPI documents of all groups as one. Raises ValueError when two groups give one name to two schemas."""
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Mangrove", "version": __version__},
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
    """The document as it is committed."""
    return orjson.dumps(build_document(), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def find_page(path: str) -> ASGIApp | None:
    """The answer to a path of the documentation; None for any other."""
    if path == "/openapi.json":
        return Response(render_document(), media_type="application/json")
    if path == "/docs":
        return HTMLResponse(PAGE)
    if path == "/docs/start.js":
        return Response(START, media_type="text/javascript")
    if path in FILES:
        return FileResponse(ASSETS / path.rpartition("/")[2], media_type=FILES[path])
    return None
