"""Files derived from the code and committed, so that a change of them is seen: `python -m tests.contract.generated`."""

from __future__ import annotations

from pathlib import Path

from mangrove.local import docs, gateway, template

ROOT = Path(__file__).resolve().parents[2]
GATES = ROOT / "tests" / "contract" / "gates.txt"
OPENAPI = ROOT / "openapi.json"


def import_functions() -> None:
    """Import every function, so that its routes are known."""
    for code in {spec.code for spec in template.read_routes()}:
        gateway.import_app(code)


def list_gates() -> str:
    """`METHOD path gate` for every route, sorted by path."""
    import_functions()
    lines = [
        f"{method.upper()} {path} {operation['x-gate']}"
        for path, operations in sorted(docs.build_document()["paths"].items())
        for method, operation in sorted(operations.items())
    ]
    return "\n".join(lines) + "\n"


def render_openapi() -> bytes:
    import_functions()
    return docs.render_document()


if __name__ == "__main__":
    GATES.write_text(list_gates())
    OPENAPI.write_bytes(render_openapi())
