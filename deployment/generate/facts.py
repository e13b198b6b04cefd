"""`template-facts.json`: what a service on one machine reads of the template, which is ten times as large and YAML."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from deployment.generate import Files
from mangrove.standalone import template

PROPERTIES = {
    "AWS::Serverless::Function": ("CodeUri", "Handler", "Events"),
    "AWS::Serverless::StateMachine": ("DefinitionUri", "DefinitionSubstitutions"),
    "AWS::DynamoDB::Table": ("BillingMode", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes"),
}
"""The properties that a service reads, by type of resource."""

EVENTS = frozenset({"HttpApi", "ScheduleV2"})
"""The types of a function's events that a service serves."""


def generate_facts() -> Files:
    """Return the file."""
    variables = template.load_template()["Globals"]["Function"]["Environment"]["Variables"]
    resources = {
        kind: {name: _select(resource["Properties"], names) for name, resource in template.iter_resources(kind)}
        for kind, names in PROPERTIES.items()
    }
    tables = json.dumps(variables["MANGROVE_TABLES"]["Fn::Sub"])
    return {template.FACTS.name: f'{{"tables": {tables},\n"resources": {_format(resources, _format)}}}\n'}


def _format(values: dict[str, Any], format_value: Callable[[Any], str] = json.dumps) -> str:
    """Return an object as JSON with a value per line, so that a change of the template changes few lines."""
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {format_value(value)}" for key, value in values.items()) + "}"


def _select(properties: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    selected = {name: properties[name] for name in names if name in properties}
    if "Events" in selected:
        selected["Events"] = {name: event for name, event in selected["Events"].items() if event["Type"] in EVENTS}
    return selected
