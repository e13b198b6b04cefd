"""The template as one machine reads it."""

from __future__ import annotations

import pytest
import yaml

from deployment.generate import facts
from mangrove.standalone import template, template_source
from mangrove.standalone.template import DEFAULT, GREEDY, RouteSpec


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!Ref Files", {"Ref": "Files"}), ("!Sub '${A}-b'", {"Fn::Sub": "${A}-b"}),
        ("!Condition C", {"Condition": "C"}),
        ("!GetAtt A.Arn", {"Fn::GetAtt": "A.Arn"}), ("!If [C, !Ref A, b]", {"Fn::If": ["C", {"Ref": "A"}, "b"]}),
        ("!Transform {Name: x, Parameters: {y: !Ref z}}",
         {"Fn::Transform": {"Name": "x", "Parameters": {"y": {"Ref": "z"}}}}),
    ],
)  # fmt: skip
def test_short_tags_are_read_as_their_long_forms(text: str, value: object) -> None:
    assert yaml.load(text, template_source.TemplateLoader) == value


def test_routes_have_a_method_a_path_and_the_folder_of_their_function() -> None:
    routes = template.read_routes()
    assert RouteSpec("POST", "/api/fs/list", "functions/api/files") in routes
    assert RouteSpec("GET", f"/d/{GREEDY}", "functions/api/downloads") in routes
    assert [spec.code for spec in routes if spec.path == DEFAULT] == ["functions/api/site"]
    assert all((template.ROOT / spec.code / "app.py").is_file() for spec in routes)


def test_tables_are_arguments_of_create_table_under_a_prefix() -> None:
    tables = template.read_tables("mine")
    assert {table["TableName"].partition("-")[0] for table in tables} == {"mine"}
    assert len({table["TableName"] for table in tables}) == len(tables)
    assert all({"KeySchema", "AttributeDefinitions", "BillingMode"} <= set(table) for table in tables)
    assert not any("PointInTimeRecoverySpecification" in table for table in tables)


def test_resources_are_found_by_their_type() -> None:
    functions = dict(template.iter_resources("AWS::Serverless::Function"))
    assert {"SiteFunction", "TransferMove"} <= set(functions)
    assert {resource["Type"] for resource in functions.values()} == {"AWS::Serverless::Function"}
    assert list(template.iter_resources("AWS::None")) == []


@pytest.mark.parametrize("kind", sorted(facts.PROPERTIES))
def test_facts_of_a_service_are_those_of_the_template(kind: str) -> None:
    resources = template.read_resources(kind)
    source = {name: resource["Properties"] for name, resource in template.iter_resources(kind)}
    assert list(resources) == list(source)
    for name, properties in resources.items():
        events = properties.pop("Events", {})
        assert events.items() <= source[name].get("Events", {}).items()
        assert properties.items() <= source[name].items()
