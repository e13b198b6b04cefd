"""Alarms and the dashboard use the metrics that the functions write, and every metric is used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from mangrove.core.telemetry import METRICS, NAMESPACE
from mangrove.standalone import template

Series = tuple[str, frozenset[str]]
"""A metric's name and the names of its dimensions."""

SEARCH_EXPRESSION = re.compile(rf"\{{{NAMESPACE},([\w,]+)}} .*MetricName=\"(\w+)\"")


def read_alarms() -> Iterator[Series]:
    for _, alarm in template.iter_resources("AWS::CloudWatch::Alarm"):
        properties = alarm["Properties"]
        if properties.get("Namespace") == NAMESPACE:
            yield properties["MetricName"], frozenset(dimension["Name"] for dimension in properties["Dimensions"])


def read_dashboards() -> Iterator[Series]:
    for _, dashboard in template.iter_resources("AWS::CloudWatch::Dashboard"):
        for widget in json.loads(dashboard["Properties"]["DashboardBody"]["Fn::Sub"])["widgets"]:
            for row in widget["properties"].get("metrics", ()):
                yield from read_row(row)


def read_row(row: list[Any]) -> Iterator[Series]:
    if isinstance(row[0], dict):
        for dimensions, name in SEARCH_EXPRESSION.findall(row[0]["expression"]):
            yield name, frozenset(dimensions.split(","))
    elif row[0] == NAMESPACE:
        dimensions = [part for part in row[2:] if isinstance(part, str)]
        yield row[1], frozenset(dimensions[::2])


def test_what_is_looked_at_is_written_and_the_other_way_round() -> None:
    written = {
        (metric.name, frozenset({"service", metric.dimension} if metric.dimension else {"service"}))
        for metric in METRICS
    }
    service = frozenset({"service"})
    assert set(read_alarms()) == {("OldestTaskAge", service), ("NewerRecords", service)}
    assert set(read_dashboards()) == written - {("NewerRecords", service)}, "an alarm is enough"


def test_functions_know_the_stack_by_which_metrics_are_told_apart() -> None:
    variables = template.load_template()["Globals"]["Function"]["Environment"]["Variables"]
    assert variables["POWERTOOLS_SERVICE_NAME"] == {"Ref": "AWS::StackName"}
