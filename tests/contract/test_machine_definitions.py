"""Definitions of state machines are checked when they are loaded, and fit the template."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

from mangrove.standalone.machines import MachineDefinition, UnsupportedDefinition, load_machine
from mangrove.standalone.template import ROOT, iter_resources
from tests.contract.test_machines import change, shared


@pytest.mark.parametrize(
    ("definition", "named"),
    [
        (shared(Share__ResultPath="$.found"), "Share.*results"),
        (shared(Share__ItemReader={}), "Share.*ItemReader"),
        (shared(Share__ItemsPath="$.a.b"), r"Share.*\$\.a\.b"),
        (shared(Share__ItemProcessor__StartAt="Nowhere"), "Nowhere"),
        (shared(Share__ItemProcessor__States__Part__TimeoutSeconds=1), "Part.*TimeoutSeconds"),
        (change(Plan__Type="Parallel"), "Plan.*Parallel"),
        (change(Move__TimeoutSeconds=5), "Move.*TimeoutSeconds"),
        (change(Move__ResultSelector={}), "Move.*ResultSelector"),
        (change(Settle__OutputPath="$"), "Settle.*OutputPath"),
        (change(Planned__InputPath="$"), "Planned.*InputPath"),
        (change(Plan__Retry__0__JitterStrategy="SOME"), "Plan.*SOME"),
        (change(Plan__Retry__0__Comment="x"), "Plan.*Comment"),
        (change(Plan__Catch__0__Comment="x"), "Plan.*Comment"),
        (change(Moved__Choices__0__StringEquals="x"), "Moved.*StringEquals"),
        (change(Moved__Choices__0__Variable="$.a.b"), r"Moved.*\$\.a\.b"),
        (change(Plan__Catch__0__ResultPath="$"), r"Plan.*\$"),
        (change(Plan__Next="Nowhere"), "Plan.*Nowhere"),
        (change(Moved__Default="Nowhere"), "Moved.*Nowhere"),
        (change(Move__Catch__0__Next="Nowhere"), "Move.*Nowhere"),
        (change(TimeoutSeconds=60), "TimeoutSeconds"),
        (change(QueryLanguage="JSONata"), "QueryLanguage"),
        (change(StartAt="Nowhere"), "Nowhere"),
    ],
)
def test_unsupported_definition_is_refused_when_loaded(definition: dict[str, Any], named: str) -> None:
    with pytest.raises(UnsupportedDefinition, match=named):
        MachineDefinition(definition)


def test_every_machine_loads_with_its_workers() -> None:
    resources = [resource["Properties"] for _, resource in iter_resources("AWS::Serverless::StateMachine")]
    assert resources
    functions = dict(iter_resources("AWS::Serverless::Function"))
    for properties in resources:
        kind = Path(properties["DefinitionUri"]).name.removesuffix(".asl.json")
        machine, handlers = load_machine(kind)
        inner = [state["ItemProcessor"]["States"] for state in machine.states.values() if state["Type"] == "Map"]
        states = [state for level in (machine.states, *inner) for state in level.values()]
        used = {state["Resource"].strip("${}") for state in states if state["Type"] == "Task"}
        assert used == set(handlers) == set(properties["DefinitionSubstitutions"])
        for name, value in properties["DefinitionSubstitutions"].items():
            function = functions[value["Fn::GetAtt"].removesuffix(".Arn")]["Properties"]
            module, attribute = function["Handler"].split(".")
            file = ROOT / function["CodeUri"] / f"{module}.py"
            assert file.is_file(), file
            code = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
            assert handlers[name] is getattr(code, attribute)
            assert list(inspect.signature(handlers[name]).parameters) == ["event", "context"]


def test_machine_files_and_task_kinds_match_template() -> None:
    from mangrove.tasks.core.registry import KINDS

    disk = {path.name.removesuffix(".asl.json") for path in (ROOT / "state_machines").iterdir()}
    named = {
        Path(resource["Properties"]["DefinitionUri"]).name.removesuffix(".asl.json")
        for _, resource in iter_resources("AWS::Serverless::StateMachine")
    }
    assert disk == named
    assert {kind.machine for kind in KINDS.values()} <= disk
    with pytest.raises(UnsupportedDefinition, match="nothing"):
        load_machine("nothing")
