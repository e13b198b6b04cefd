"""What is derived from the code and committed, so that a change of it is seen: `python -m tests.contract.generated`."""

from __future__ import annotations

from pathlib import Path

from mangrove.local import docs, gateway, template

ROOT = Path(__file__).resolve().parents[2]
GATES = ROOT / "tests" / "contract" / "gates.txt"
OPENAPI = ROOT / "openapi.json"


def load() -> None:
    """Import every function, so that its routes are known."""
    for code in {spec.code for spec in template.routes()}:
        gateway.module_of(code)


def gates() -> str:
    """`METHOD path gate` for every route, sorted by path."""
    load()
    lines = [
        f"{method.upper()} {path} {operation['x-gate']}"
        for path, operations in sorted(docs.document()["paths"].items())
        for method, operation in sorted(operations.items())
    ]
    return "\n".join(lines) + "\n"


def openapi() -> bytes:
    load()
    return docs.text()


if __name__ == "__main__":
    GATES.write_text(gates())
    OPENAPI.write_bytes(openapi())
