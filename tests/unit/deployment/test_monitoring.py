"""The dashboard and the alert rules name metrics and labels that the service has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from mangrove.core.metrics import SERIES
from mangrove.core.platform import MachineFigures, ProcessMemory
from mangrove.standalone.metrics import render
from mangrove.tasks.overview import FailedTask, IndexState, KindState, Overview, StorageState

PACKAGING = Path(__file__).resolve().parents[3] / "packaging"
DASHBOARD = PACKAGING / "grafana" / "mangrove.json"
ALERTS = PACKAGING / "prometheus" / "alerts.yml"
SELECTOR = re.compile(r"(mangrove_\w+)(?:\{([^}]*)\})?")
FIGURES = MachineFigures(1, 2, 3, 4, 5, [ProcessMemory("server-0", 6)], 7, 8, 9, 10)
OVERVIEW = Overview(
    [StorageState('/a "b"\\c\nd', "Local", "work", True), StorageState("/off", "Local", "disabled", False)],
    [KindState("copy", 1, 2, 3.5)],
    IndexState(True, 4, 5.5),
    [FailedTask("copy", "id", "name", "error", None)],
)


def list_metrics() -> dict[str, set[str]]:
    """The names of all samples, with their labels."""
    names = {"up": {"instance", "job"}}
    for series in SERIES:
        labels = {label.name for label in series.labels}
        if series.buckets:
            names |= {f"{series.name}_bucket": labels | {"le"}, f"{series.name}_count": labels}
        names[series.name] = labels
    for family in text_string_to_metric_families(render(FIGURES, OVERVIEW)):
        for sample in family.samples:
            names.setdefault(sample.name, set()).update(sample.labels)
    return names


def list_expressions() -> Iterator[str]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def test_expressions_name_metrics_and_labels_that_exist() -> None:
    metrics = list_metrics()
    expressions = list(list_expressions())
    assert len(expressions) > 20
    for expression in expressions:
        names = set()
        for name, selector in SELECTOR.findall(expression):
            assert name in metrics, expression
            names.add(name)
            for label in re.findall(r"(\w+)\s*[=!]~?", selector):
                assert label in metrics[name] | {"instance", "job"}, expression
        for labels in re.findall(r"by \(([^)]*)\)", expression):
            known = {"instance", "le"}.union(*(metrics[name] for name in names))
            assert set(labels.split(", ")) <= known, expression
        assert expression.count("(") == expression.count(")")


def test_dashboard_has_no_two_panels_at_one_place() -> None:
    board = json.loads(DASHBOARD.read_text())
    cells = [
        (x, y)
        for panel in board["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert all(x < 24 for x, _ in cells)


def test_alert_rules_have_what_prometheus_requires() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_alert_rules() -> None:
    subprocess.run(["promtool", "check", "rules", str(ALERTS)], check=True)


def test_awkward_mount_path_is_escaped() -> None:
    families = {family.name: family for family in text_string_to_metric_families(render(FIGURES, OVERVIEW))}
    (sample,) = families["mangrove_storage_up"].samples
    assert sample.labels == {"mount_path": '/a "b"\\c\nd', "driver": "Local"}


def test_metrics_without_records_say_so() -> None:
    families = {family.name: family for family in text_string_to_metric_families(render(FIGURES, None))}
    assert families["mangrove_records_up"].samples[0].value == 0
    assert "mangrove_tasks" not in families
