"""The OpenAPI document of the whole service, and its page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mangrove.standalone import docs, gateway
from mangrove.standalone.template import read_routes
from tests.support.document import get_document


@pytest.fixture(autouse=True, scope="module")
def apps() -> None:
    for code in {spec.code for spec in read_routes()}:
        gateway.import_app(code)


def get(path: str) -> httpx.Response:
    app = docs.find_page(path)
    assert app is not None

    async def go() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://mangrove") as client:
            return await client.get(path)

    return asyncio.run(go())


def test_the_document_has_the_routes_of_all_groups() -> None:
    document = get_document()
    groups = {operation["tags"][0] for methods in document["paths"].values() for operation in methods.values()}
    assert groups == {spec.code.rpartition("/")[2] for spec in read_routes()} - {
        "dav",
        "mcp",
    }  # RFC 4918 and the protocol describe these
    assert document["components"]["securitySchemes"]["token"]["name"] == "Authorization"
    ids = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


def iter_described() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the items that need a sentence: the most exact name, the shorter one, and the shown text."""
    document = get_document()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", "", operation
            for parameter in operation.get("parameters", ()):
                yield f"{path} {parameter['name']}", parameter["name"], parameter
    for model, schema in document["components"]["schemas"].items():
        for name, field in schema.get("properties", {}).items():
            yield f"{model}.{name}", name, field


def test_every_operation_parameter_and_field_has_a_sentence() -> None:
    described = list(iter_described())
    assert [exact for exact, _, shown in described if not shown.get("description", "").endswith((".", ")"))] == []


def test_the_introduction_says_how_to_get_a_token() -> None:
    assert "/api/auth/login" in get_document()["info"]["description"]


def test_what_fails_has_no_data_and_a_word() -> None:
    failure = get_document()["components"]["schemas"]["Failure"]["properties"]
    assert "type" not in failure["data"]
    assert {"Denied", "NotFound", "NotReadable", "Problem"} <= set(failure["problem"]["enum"])


def test_every_schema_that_is_named_is_there() -> None:
    text = docs.render_document().decode()
    schemas = get_document()["components"]["schemas"]
    named = {part.partition('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert named <= set(schemas)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/docs", "text/html"), ("/docs/start.js", "text/javascript"), ("/docs/swagger-ui.css", "text/css"),
     ("/docs/swagger-ui-bundle.js", "text/javascript"), ("/openapi.json", "application/json")],
)  # fmt: skip
def test_the_page_and_its_parts_are_served(path: str, kind: str) -> None:
    answer = get(path)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, kind)
    assert answer.content


@pytest.mark.parametrize("path", ["/docs", "/docs/start.js", "/docs/swagger-ui.css", "/openapi.json"])
def test_documentation_is_not_framed_and_runs_own_scripts_only(path: str) -> None:
    headers = get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"


def test_the_document_is_served_as_it_is_committed() -> None:
    assert json.loads(get("/openapi.json").content) == get_document()


@pytest.mark.parametrize("path", ["/", "/docs/", "/docs/../key", "/docs/swagger-ui.js", "/openapi"])
def test_other_paths_are_not_ours(path: str) -> None:
    assert docs.find_page(path) is None


def test_the_page_fetches_nothing_from_elsewhere() -> None:
    assert "//" not in docs.PAGE.replace("<!doctype", "")
