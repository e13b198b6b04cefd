"""The facts of `template.yaml` that the standalone service reads, and the whole template for tests and deployment."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

BUNDLE = Path(__file__).resolve().parents[1] / "bundle"  # of an installed package, see deployment/package.py
ROOT = BUNDLE if BUNDLE.is_dir() else Path(__file__).resolve().parents[3]
"""The folder that contains template.yaml, what is derived from it and functions/: the checkout, or a part of the
installed package.
"""

FACTS = ROOT / "template-facts.json"  # derived from template.yaml
GREEDY = "{proxy+}"
DEFAULT = "$default"


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """A route of the HTTP API. `method` may be ANY, `path` may end in GREEDY or be DEFAULT; `code` is a folder."""

    method: str
    path: str
    code: str


@cache
def load_template() -> dict[str, Any]:
    """Return the whole template. It is a part of the code and read once, by the tests and the deployment."""
    from mangrove.standalone.template_source import parse  # imported here, because a service does not need YAML

    return parse((ROOT / "template.yaml").read_text())


def read_facts() -> dict[str, Any]:
    """Return what a service reads of the template, from a file that `deployment.generate` derives. Reading it takes a
    millisecond, and it is not kept in memory.
    """
    facts: dict[str, Any] = orjson.loads(FACTS.read_bytes())
    return facts


def read_resources(kind: str) -> dict[str, dict[str, Any]]:
    """Return the properties of every resource of a type by its name, as far as a service reads them."""
    resources: dict[str, dict[str, Any]] = read_facts()["resources"][kind]
    return resources


def import_code(folder: str, module: str) -> Any:
    """Import a module in the folder of a function, such as `functions/api/site`."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return import_module(f"{folder.rstrip('/').replace('/', '.')}.{module}")


def iter_resources(kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and body of every resource of a type."""
    for name, resource in load_template()["Resources"].items():
        if resource["Type"] == kind:
            yield name, resource


def read_routes() -> list[RouteSpec]:
    """Return every route of the HTTP API, in the order of the template."""
    specs: list[RouteSpec] = []
    for properties in read_resources("AWS::Serverless::Function").values():
        code = properties["CodeUri"].rstrip("/")
        for event in properties.get("Events", {}).values():
            if event["Type"] == "HttpApi":
                route = event.get("Properties", {})
                specs.append(RouteSpec(route.get("Method", "ANY"), route.get("Path", DEFAULT), code))
    return specs


def read_kinds() -> dict[str, str]:
    """Return the kind of record of each table by its resource, as the functions get it."""
    pairs = read_facts()["tables"].split(",")
    return {name.removeprefix("${").removesuffix("}"): kind for kind, name in (pair.split("=") for pair in pairs)}


def read_tables(prefix: str, kinds: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the arguments of CreateTable for every table that has a kind, named by `prefix` and its kind.

    `kinds`: those of `read_kinds` by default; the tests add a table that only an upgrade reads.
    """
    kinds = read_kinds() if kinds is None else kinds
    return [
        properties | {"TableName": f"{prefix}-{kinds[name]}"}
        for name, properties in read_resources("AWS::DynamoDB::Table").items()
        if name in kinds
    ]
