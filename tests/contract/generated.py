"""Files derived from the code and committed, so that a change of them is seen: `python -m tests.contract.generated`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mangrove.standalone import docs, gateway, template
from mangrove.web.api import GatedRoute
from mangrove.web.plain import PlainRoute

ROOT = Path(__file__).resolve().parents[2]
GATES = ROOT / "tests" / "contract" / "gates.txt"
OPENAPI = ROOT / "openapi.json"


def import_functions() -> None:
    """Import every function, so that its routes are known."""
    for code in {spec.code for spec in template.read_routes()}:
        gateway.import_app(code)


def iter_routes() -> Iterator[tuple[str, str, GatedRoute | PlainRoute]]:
    """The group, the method and the route of everything that the functions answer."""
    for code in dict.fromkeys(spec.code for spec in template.read_routes()):
        for route in gateway.import_app(code).app.routes:
            assert isinstance(route, GatedRoute | PlainRoute)
            for method in sorted(route.methods or ()):
                yield code.rpartition("/")[2], method, route


def list_gates() -> str:
    """`METHOD path gate` for every route, sorted by path."""
    found = sorted((route.path_format, method, str(route.gate)) for _, method, route in iter_routes())
    return "".join(f"{method} {path} {gate}\n" for path, method, gate in found)


def render_openapi() -> bytes:
    import_functions()
    return docs.render_document()


if __name__ == "__main__":
    GATES.write_text(list_gates())
    OPENAPI.write_bytes(render_openapi())
