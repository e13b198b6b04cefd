"""The OpenAPI document and the list of permissions, from the routes of all functions."""

from __future__ import annotations

from collections.abc import Iterator

from deployment.generate import Files
from mangrove.standalone import docs, gateway, template
from mangrove.web.api import GatedRoute
from mangrove.web.public_api import PublicRoute

PERMISSIONS = "tests/contract/gates.txt"


def import_functions() -> None:
    """Import all functions, so that their routes are known."""
    for spec in template.read_routes():
        gateway.import_app(spec.code)


def iter_routes() -> Iterator[tuple[str, str, GatedRoute | PublicRoute]]:
    """Yield the group, the method and the route of each route of the functions."""
    for code in dict.fromkeys(spec.code for spec in template.read_routes()):
        for route in gateway.import_app(code).app.routes:
            if not isinstance(route, GatedRoute | PublicRoute):
                raise TypeError(f"{code} has a route without a gate: {route}")
            for method in sorted(route.methods or ()):
                yield code.rpartition("/")[2], method, route


def generate_document() -> Files:
    """Derive `openapi.json`."""
    import_functions()
    return {"openapi.json": docs.render_document().decode()}


def generate_permissions() -> Files:
    """Derive `METHOD path gate` for every route, sorted by path."""
    rows = sorted((route.path_format, method, str(route.gate)) for _, method, route in iter_routes())
    return {PERMISSIONS: "".join(f"{method} {path} {gate}\n" for path, method, gate in rows)}
