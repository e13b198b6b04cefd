"""The runner of one machine does what Step Functions does, as moto's interpreter tells it."""

from __future__ import annotations

import asyncio
import copy
import importlib
import inspect
import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from mangrove.local import machines
from mangrove.local.machines import Failed, Machine, Unknown, load
from mangrove.local.template import ROOT, resources
from mangrove.problems import Denied, StorageProblem, Unreachable
from mangrove.tasks.steps import Busy, Cancelled, Superseded

TRANSFER: dict[str, Any] = json.loads((ROOT / "state_machines" / "transfer.asl.json").read_text())
GIVEN = {"tid": "t", "seconds": 0}
DONE: dict[str, Any] = {"tid": "t", "more": False}
MORE: dict[str, Any] = {"tid": "t", "more": True}
Step = dict[str, Any] | Exception
Script = dict[str, list[Step]]


@dataclass
class Told:
    """What an execution did."""

    visited: list[str] = field(default_factory=list)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    output: dict[str, Any] | None = None  # None: it failed


class Workers:
    """Each call of a worker takes the next step of its script; the last one stands for all that follow."""

    def __init__(self, script: Script, told: Told) -> None:
        self.script = {name: list(steps) for name, steps in script.items()}
        self.told = told

    def work(self, name: str, value: dict[str, Any]) -> dict[str, Any]:
        self.told.calls.append((name, copy.deepcopy(value)))
        steps = self.script[name]
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        if isinstance(step, Exception):
            raise step
        return step


def here(definition: dict[str, Any], script: Script, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Run it in the runner of one machine."""
    told = Told()
    workers = Workers(script, told)

    async def sleep(seconds: float) -> None:
        told.waits.append(float(seconds))

    async def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
        return workers.work(name, value)

    monkeypatch.setattr(machines, "asyncio", SimpleNamespace(sleep=sleep))
    try:
        told.output = asyncio.run(Machine(definition).run(GIVEN, work, told.visited))
    except Failed:
        pass
    return told


Interpreter = Callable[[dict[str, Any], Script], Told]


@pytest.fixture(scope="module")
def there() -> Iterator[Interpreter]:
    """Run it in moto's interpreter."""
    from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
    from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
    from moto.stepfunctions.parser.models import stepfunctions_parser_backends

    backend = stepfunctions_parser_backends["123456789012"]["us-east-1"]
    current: list[Workers] = []

    class Lambda:
        def invoke(self, FunctionName: str, Payload: bytes, **_: Any) -> dict[str, Any]:
            name = FunctionName.rsplit(":", 1)[-1]
            try:
                answer: Any = current[-1].work(name, json.loads(Payload))
            except Exception as error:
                failure = {"errorMessage": str(error), "errorType": type(error).__name__}
                return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": _stream(failure)}
            return {"StatusCode": 200, "Payload": _stream(answer)}

    def run(definition: dict[str, Any], script: Script) -> Told:
        told = Told()
        current.append(Workers(script, told))
        arn = "arn:aws:lambda:us-east-1:123456789012:function:"
        text = json.dumps(definition).replace("${", arn).replace('}"', '"')
        role = "arn:aws:iam::123456789012:role/any"
        machine = backend.create_state_machine(f"m{uuid4().hex}", text, role)
        execution = backend.start_execution(machine.arn, uuid4().hex, json.dumps(GIVEN))
        end = time.monotonic() + 20
        while execution.exec_status == "RUNNING":
            assert time.monotonic() < end, "moto did not end"
            time.sleep(0.002)
        history = execution.to_history_output()["events"]
        told.visited = [
            event["stateEnteredEventDetails"]["name"] for event in history if "stateEnteredEventDetails" in event
        ]
        if execution.exec_status == "SUCCEEDED":
            told.output = execution.output
        return told

    patched = pytest.MonkeyPatch()
    patched.setattr(lambda_eval_utils, "boto_client_for", lambda **_: Lambda())
    waiting = SimpleNamespace(sleep=lambda seconds: current[-1].told.waits.append(float(seconds)))
    patched.setattr(retrier_decl, "time", waiting)
    try:
        yield run
    finally:
        patched.undo()


def _stream(value: Any) -> io.BytesIO:
    return io.BytesIO(json.dumps(value).encode())


def script(plan: list[Step] | None = None, move: list[Step] | None = None, settle: list[Step] | None = None) -> Script:
    return {"Plan": plan or [DONE], "Move": move or [DONE], "Settle": settle or [DONE]}


STRAIGHT = ["Plan", "Planned", "Move", "Moved", "Settle"]
EARLY = ["Plan", "Settle"]
LATE = ["Plan", "Planned", "Move", "Settle"]
SCENES: dict[str, tuple[Script, list[str], bool]] = {
    "success in one slice": (script(), STRAIGHT, True),
    "several slices": (
        script([MORE, MORE, DONE], [MORE, DONE]),
        ["Plan", "Planned"] * 3 + ["Move", "Moved"] * 2 + ["Settle"],
        True,
    ),
    "busy, then success": (script([Busy(), Busy(), DONE], [Busy(), DONE]), STRAIGHT, True),
    "busy for ever": (script([Busy()]), EARLY, True),
    "unreachable, then success": (script(move=[Unreachable(), Unreachable("gone"), DONE]), STRAIGHT, True),
    "unreachable for ever": (script(move=[Unreachable("gone")]), LATE, True),
    "busy and unreachable in turn": (
        script(move=[Busy(), Unreachable(), Busy(), Unreachable(), DONE]),
        STRAIGHT,
        True,
    ),
    "retries begin anew with every slice": (
        script(move=[*[Unreachable()] * 4, MORE, *[Unreachable()] * 4, DONE]),
        ["Plan", "Planned", "Move", "Moved", "Move", "Moved", "Settle"],
        True,
    ),
    "a failure of the plan": (script([StorageProblem("no «such» thing")]), EARLY, True),
    "a failure of the move": (script(move=[MORE, Denied()]), ["Plan", "Planned", "Move", "Moved", *LATE[2:]], True),
    "a mistake in the worker": (script(move=[KeyError("x")]), LATE, True),
    "cancelled": (script(move=[MORE, Cancelled()]), ["Plan", "Planned", "Move", "Moved", *LATE[2:]], True),
    "superseded": (script([Superseded()]), EARLY, True),
    "settle retried": (script(settle=[Busy(), StorageProblem(), ValueError("x"), DONE]), STRAIGHT, True),
    "settle fails for ever": (script(settle=[Busy()]), STRAIGHT, False),
    "a failure, then settle retried": (script([Denied()], settle=[Busy(), DONE]), EARLY, True),
}


@pytest.mark.parametrize("scene", SCENES)
def test_the_transfer_machine_runs_here_as_it_does_in_step_functions(
    there: Interpreter, monkeypatch: pytest.MonkeyPatch, scene: str
) -> None:
    steps, visited, succeeds = SCENES[scene]
    ours, theirs = here(TRANSFER, steps, monkeypatch), there(TRANSFER, steps)
    assert ours.visited == theirs.visited == visited
    assert (ours.output is not None) == (theirs.output is not None) == succeeds
    assert ours.output == theirs.output
    assert [name for name, _ in ours.calls] == [name for name, _ in theirs.calls]
    assert [plain(value) for _, value in ours.calls] == [plain(value) for _, value in theirs.calls]
    assert ours.waits == pytest.approx(theirs.waits)


def plain(value: dict[str, Any]) -> dict[str, Any]:
    """A state's input, of a failure's cause only what workers may rely on."""
    failure = value.get("failure")
    if failure is None:
        return value
    cause = json.loads(failure["Cause"])
    return value | {"failure": {"Error": failure["Error"], "errorMessage": cause["errorMessage"]}}


CHOICE = {
    "StartAt": "A",
    "States": {
        "A": {"Type": "Task", "Resource": "${Plan}", "Next": "B"},
        "B": {
            "Type": "Choice",
            "Choices": [{"Variable": "$.more", "BooleanEquals": False, "Next": "W"}],
            "Default": "F",
        },
        "W": {"Type": "Wait", "SecondsPath": "$.seconds", "Next": "S"},
        "S": {"Type": "Succeed"},
        "F": {"Type": "Fail", "Error": "Nothing", "Cause": "at all"},
    },
}


@pytest.mark.parametrize(("answer", "visited"), [(DONE, ["A", "B", "W", "S"]), (MORE, ["A", "B", "F"])])
def test_the_other_states_that_the_runner_knows_run_as_in_step_functions(
    there: Interpreter, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], visited: list[str]
) -> None:
    ours, theirs = here(CHOICE, script([answer]), monkeypatch), there(CHOICE, script([answer]))
    assert ours.visited == theirs.visited == visited
    assert ours.output == theirs.output == (DONE if answer is DONE else None)


def test_a_failure_that_nothing_catches_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
        raise Denied("not for you")

    with pytest.raises(Failed, match="Denied: not for you"):
        asyncio.run(Machine(CHOICE).run(GIVEN, work))


def changed(**of: Any) -> dict[str, Any]:
    """The transfer machine with other fields, e.g. Plan__Type="Map" for the field Type of the state Plan."""
    made = copy.deepcopy(TRANSFER)
    for name, value in of.items():
        place: Any = made["States"] if "__" in name else made
        *way, last = name.split("__")
        for one in way:
            place = place[int(one)] if isinstance(place, list) else place[one]
        place[last] = value
    return made


@pytest.mark.parametrize(
    ("definition", "named"),
    [
        (changed(Plan__Type="Map"), "Plan.*Map"),
        (changed(Plan__Type="Parallel"), "Plan.*Parallel"),
        (changed(Move__TimeoutSeconds=5), "Move.*TimeoutSeconds"),
        (changed(Move__ResultSelector={}), "Move.*ResultSelector"),
        (changed(Settle__OutputPath="$"), "Settle.*OutputPath"),
        (changed(Planned__InputPath="$"), "Planned.*InputPath"),
        (changed(Plan__Retry__0__JitterStrategy="FULL"), "Plan.*JitterStrategy"),
        (changed(Plan__Retry__1__MaxDelaySeconds=5), "Plan.*MaxDelaySeconds"),
        (changed(Plan__Catch__0__Comment="x"), "Plan.*Comment"),
        (changed(Moved__Choices__0__StringEquals="x"), "Moved.*StringEquals"),
        (changed(Moved__Choices__0__Variable="$.a.b"), r"Moved.*\$\.a\.b"),
        (changed(Plan__Catch__0__ResultPath="$"), r"Plan.*\$"),
        (changed(Plan__Next="Nowhere"), "Plan.*Nowhere"),
        (changed(Moved__Default="Nowhere"), "Moved.*Nowhere"),
        (changed(Move__Catch__0__Next="Nowhere"), "Move.*Nowhere"),
        (changed(TimeoutSeconds=60), "TimeoutSeconds"),
        (changed(QueryLanguage="JSONata"), "QueryLanguage"),
        (changed(StartAt="Nowhere"), "Nowhere"),
    ],
)
def test_what_the_runner_does_not_know_is_refused_by_name_when_it_is_loaded(
    definition: dict[str, Any], named: str
) -> None:
    with pytest.raises(Unknown, match=named):
        Machine(definition)


def test_every_machine_of_the_template_loads_with_the_workers_that_it_names() -> None:
    found = [resource["Properties"] for _, resource in resources("AWS::Serverless::StateMachine")]
    assert found
    functions = dict(resources("AWS::Serverless::Function"))
    for properties in found:
        kind = Path(properties["DefinitionUri"]).name.removesuffix(".asl.json")
        machine, handlers = load(kind)
        used = {state["Resource"].strip("${}") for state in machine.states.values() if state["Type"] == "Task"}
        assert used == set(handlers) == set(properties["DefinitionSubstitutions"])
        for name, value in properties["DefinitionSubstitutions"].items():
            function = functions[value["Fn::GetAtt"].removesuffix(".Arn")]["Properties"]
            module, attribute = function["Handler"].split(".")
            file = ROOT / function["CodeUri"] / f"{module}.py"
            assert file.is_file(), file
            code = importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
            assert handlers[name] is getattr(code, attribute)
            assert list(inspect.signature(handlers[name]).parameters) == ["event", "context"]


def test_every_machine_on_disk_is_in_the_template_and_every_kind_of_task_has_its_machine() -> None:
    from mangrove.tasks.kinds import KINDS

    disk = {path.name.removesuffix(".asl.json") for path in (ROOT / "state_machines").iterdir()}
    named = {
        Path(resource["Properties"]["DefinitionUri"]).name.removesuffix(".asl.json")
        for _, resource in resources("AWS::Serverless::StateMachine")
    }
    assert disk == named
    assert {kind.machine for kind in KINDS.values()} <= disk
    with pytest.raises(Unknown, match="nothing"):
        load("nothing")
