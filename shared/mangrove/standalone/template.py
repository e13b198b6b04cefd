"""`template.yaml` as the standalone service and the tests read it: routes, tables, functions."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

try:
    from yaml import CSafeLoader as SafeLoader  # reads the template in a tenth of the time
except (
    ImportError
):  # PyYAML without libyaml; both classes construct the same values, but have no common base of their own
    from yaml import SafeLoader  # type: ignore[assignment]

BUNDLE = Path(__file__).resolve().parents[1] / "bundle"  # of an installed package, see deployment/package.py
ROOT = BUNDLE if BUNDLE.is_dir() else Path(__file__).resolve().parents[3]
"""The folder that contains template.yaml and functions/: the checkout, or a part of the installed package."""

GREEDY = "{proxy+}"
DEFAULT = "$default"


class TemplateLoader(SafeLoader):
    """A loader that reads CloudFormation's short tags: `!Ref x` as `{"Ref": "x"}`, `!Sub x` as `{"Fn::Sub": "x"}`."""


def _construct_short_tag(loader: SafeConstructor, tag: str, node: yaml.Node) -> dict[str, Any]:
    key = tag if tag in ("Ref", "Condition") else f"Fn::{tag}"
    if isinstance(node, yaml.ScalarNode):
        return {key: loader.construct_scalar(node)}
    if isinstance(node, yaml.SequenceNode):
        return {key: loader.construct_sequence(node, deep=True)}
    if isinstance(node, yaml.MappingNode):
        return {key: loader.construct_mapping(node, deep=True)}
    raise ConstructorError(None, None, f"the tag !{tag} has a value of an unknown kind", node.start_mark)


TemplateLoader.add_multi_constructor("!", _construct_short_tag)


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """A route of the HTTP API. `method` may be ANY, `path` may end in GREEDY or be DEFAULT; `code` is a folder."""

    method: str
    path: str
    code: str


@cache
def load_template() -> dict[str, Any]:
    """Return the whole template. It is a part of the code and read once."""
    return dict(yaml.load((ROOT / "template.yaml").read_text(), TemplateLoader))  # noqa: S506 - a SafeLoader


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
    """Yield every route of the HTTP API, in the order of the template."""
    specs: list[RouteSpec] = []
    for _, function in iter_resources("AWS::Serverless::Function"):
        code = function["Properties"]["CodeUri"].rstrip("/")
        for event in function["Properties"].get("Events", {}).values():
            if event["Type"] == "HttpApi":
                properties = event.get("Properties", {})
                specs.append(RouteSpec(properties.get("Method", "ANY"), properties.get("Path", DEFAULT), code))
    return specs


def read_kinds() -> dict[str, str]:
    """Return the kind of record of each table by its resource, as the functions get it."""
    pairs = load_template()["Globals"]["Function"]["Environment"]["Variables"]["MANGROVE_TABLES"]["Fn::Sub"].split(",")
    return {name.removeprefix("${").removesuffix("}"): kind for kind, name in (pair.split("=") for pair in pairs)}


def read_tables(prefix: str, kinds: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return the arguments of CreateTable for every table that has a kind, named by `prefix` and its kind.

    `kinds`: those of `read_kinds` by default; the tests add a table that only an upgrade reads.
    """
    kinds = read_kinds() if kinds is None else kinds
    keys = ("BillingMode", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
    tables = []
    for name, table in iter_resources("AWS::DynamoDB::Table"):
        properties = table["Properties"]
        arguments = {key: properties[key] for key in keys if key in properties}
        if name in kinds:
            tables.append(arguments | {"TableName": f"{prefix}-{kinds[name]}"})
    return tables
