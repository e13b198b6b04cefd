"""The committed gates and OpenAPI document are those of the code."""

from __future__ import annotations

from tests.contract import generated

AGAIN = "changed: run `.venv/bin/python -m tests.contract.generated` and look at the difference"


def test_gates_are_as_committed() -> None:
    assert generated.list_gates() == generated.GATES.read_text(), AGAIN


def test_the_openapi_document_is_as_committed() -> None:
    assert generated.render_openapi() == generated.OPENAPI.read_bytes(), AGAIN
