"""The runner of one machine does what Step Functions does, as moto's interpreter tells it."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from mangrove.core.problems import AccessDenied, StorageProblem, Unreachable
from mangrove.standalone.machines import ExecutionFailed, MachineDefinition
from mangrove.standalone.template import ROOT
from mangrove.tasks.core.leases import Busy, Superseded
from mangrove.tasks.core.steps import Cancelled
from tests.support.interpreters import Execution, Interpreter, run_here, start_moto

TASK_INPUT = {"tid": "t"}
DONE: dict[str, Any] = {"tid": "t", "more": False, "seconds": 0}
NEXT_STEP: dict[str, Any] = {"tid": "t", "more": True, "seconds": 0}
PART_DONE: dict[str, Any] = {"tid": "t", "round": 0, "part": 0, "more": False}
DELAYED_STEP: dict[str, Any] = {"tid": "t", "more": True, "seconds": 7}
DEFINITIONS: dict[str, dict[str, Any]] = {
    path.name.removesuffix(".asl.json"): json.loads(path.read_text())
    for path in sorted((ROOT / "state_machines").iterdir())
}
TRANSFER = DEFINITIONS["transfer"]
Step = dict[str, Any] | Exception
Script = dict[str, list[Step]]


class Workers:
    """Each call of a worker takes the next step of its script; the last one stands for all that follow."""

    def __init__(self, script: Script) -> None:
        self._script = {name: list(steps) for name, steps in script.items()}

    def __call__(self, name: str, value: dict[str, Any]) -> dict[str, Any]:
        steps = self._script[name]
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        if isinstance(step, Exception):
            raise step
        return step


@pytest.fixture(autouse=True)
def longest_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both interpreters wait as long as they may."""
    monkeypatch.setattr(random, "uniform", lambda least, most: most)


@pytest.fixture(scope="module")
def there() -> Iterator[Interpreter]:
    with start_moto() as run:
        yield run


def both(
    there: Interpreter, definition: dict[str, Any], script: Script, input: dict[str, Any] = TASK_INPUT
) -> tuple[Execution, Execution]:
    """Run the two interpreters on the same definition and workers."""
    return run_here(definition, input, Workers(script)), there(definition, input, Workers(script))


@dataclass(frozen=True, slots=True)
class Shape:
    """A machine as its scenes see it: what is passed for one slice of its first and of its second worker.

    `loops`: whether the first worker, too, may have more to do.
    """

    first: Sequence[str]
    second: Sequence[str]
    loops: bool

    @property
    def workers(self) -> tuple[str, str]:
        """The states that work, before Settle."""
        return self.first[0], next(name for name in self.second if name != "Wait")

    def list_states(self, first: int, second: int, fails: int = 0) -> list[str]:
        """The states passed by so many slices; the last slice of the first (1) or second (2) worker may fail."""
        passed = list(self.first) * first + list(self.second) * second
        if fails:
            last = self.workers[fails - 1]
            passed = passed[: len(passed) - passed[::-1].index(last)]
        return [*passed, "Settle"]

    def script(self, first: Sequence[Step], second: Sequence[Step], settle: Sequence[Step]) -> Script:
        """Return the answers of the workers, call by call."""
        worker, other = self.workers
        return {worker: list(first), other: list(second), "Settle": list(settle)}


SHAPES = {
    "transfer": Shape(("Plan", "Planned"), ("Move", "Moved"), True),
    "decompress": Shape(("Plan", "Planned"), ("Extract", "Extracted"), True),
    "compress": Shape(("Plan", "Planned"), ("Pack", "Packed"), True),
    "download": Shape(("Begin",), ("Wait", "Poll", "Polled"), False),
    "index": Shape(("Plan",), ("Walk", "Walked"), False),
}


@dataclass(frozen=True, slots=True)
class Scene:
    """The work of each worker, its slices, the worker that fails (0: none), and if the execution ends."""

    first: Sequence[Step] = (DONE,)
    second: Sequence[Step] = (DONE,)
    settle: Sequence[Step] = (DONE,)
    slices: tuple[int, int] = (1, 1)
    fails: int = 0
    ends: bool = True


def make_death(name: str) -> Exception:
    """A function that ended without an answer, by the name that Step Functions gives to that."""
    error: Exception = type(name, (Exception,), {})("the function died")
    return error


DEATHS = [
    "Lambda.ServiceException", "Lambda.AWSLambdaException", "Lambda.SdkClientException", "Lambda.Unknown",
    "Lambda.ClientExecutionTimeoutException", "Runtime.ExitError",
    "Sandbox.Timedout",
]  # fmt: skip
FIRST_WORKER_FAILURE, SECOND_WORKER_FAILURE = {"slices": (1, 0), "fails": 1}, {"fails": 2}
SCENES = {
    "success in one slice": Scene(),
    "several slices": Scene(second=[NEXT_STEP, NEXT_STEP, DONE], slices=(1, 3)),
    "slices with pauses": Scene(
        first=[DELAYED_STEP | {"more": False}], second=[DELAYED_STEP, DELAYED_STEP, DONE], slices=(1, 3)
    ),
    "busy, then success": Scene([Busy(), Busy(), DONE], [Busy(), DONE]),
    "busy for ever": Scene([Busy()], **FIRST_WORKER_FAILURE),
    "unreachable, then success": Scene(second=[Unreachable(), Unreachable("gone"), DONE]),
    "unreachable for ever": Scene(second=[Unreachable("gone")], **SECOND_WORKER_FAILURE),
    "busy and unreachable in turn": Scene(second=[Busy(), Unreachable(), Busy(), Unreachable(), DONE]),
    "retries begin anew with every slice": Scene(
        second=[*[Unreachable()] * 4, NEXT_STEP, *[Unreachable()] * 4, DONE], slices=(1, 2)
    ),
    **{
        f"died of {name}": Scene([make_death(name), DONE], [make_death(name), Busy(), NEXT_STEP, DONE], slices=(1, 2))
        for name in DEATHS
    },
    **{
        f"no room: {name}": Scene(
            [make_death(name)] * 9 + [DONE], [make_death(name), NEXT_STEP, Busy(), DONE], slices=(1, 2)
        )
        for name in ("Lambda.TooManyRequestsException", "RecordsThrottled")
    },
    "no room for an hour": Scene([make_death("Lambda.TooManyRequestsException")], **FIRST_WORKER_FAILURE),
    "died for ever": Scene(second=[make_death("Sandbox.Timedout")], **SECOND_WORKER_FAILURE),
    "a failure of the first worker": Scene([StorageProblem("no «such» thing")], **FIRST_WORKER_FAILURE),
    "a failure of the second worker": Scene(second=[NEXT_STEP, AccessDenied()], slices=(1, 2), fails=2),
    "a mistake in the worker": Scene(second=[KeyError("x")], **SECOND_WORKER_FAILURE),
    "cancelled": Scene(second=[NEXT_STEP, Cancelled()], slices=(1, 2), fails=2),
    "superseded": Scene([Superseded()], **FIRST_WORKER_FAILURE),
    "settle retried": Scene(settle=[Busy(), StorageProblem(), ValueError("x"), DONE]),
    "settle fails for ever": Scene(settle=[Busy()], ends=False),
    "a failure, then settle retried": Scene([AccessDenied()], settle=[Busy(), DONE], **FIRST_WORKER_FAILURE),
}
LOOPS = {
    "several slices of both workers": Scene([NEXT_STEP, NEXT_STEP, DONE], [NEXT_STEP, DONE], slices=(3, 2)),
    "the second slice of the first worker fails": Scene([NEXT_STEP, AccessDenied()], slices=(2, 0), fails=1),
}


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("name", [*SCENES, *LOOPS])
def test_a_machine_runs_here_as_it_does_in_step_functions(there: Interpreter, kind: str, name: str) -> None:
    shape = SHAPES[kind]
    if name in LOOPS and not shape.loops:
        assert "more" not in json.dumps(DEFINITIONS[kind]["States"][shape.first[0]])
        return
    scene = (SCENES | LOOPS)[name]
    script = shape.script(scene.first, scene.second, scene.settle)
    ours, theirs = both(there, DEFINITIONS[kind], script)
    assert ours.visited == theirs.visited == shape.list_states(*scene.slices, scene.fails)
    assert (ours.output is not None) == (theirs.output is not None) == scene.ends
    assert ours.output == theirs.output
    assert [state for state, _ in ours.calls] == [state for state, _ in theirs.calls]
    assert [plain(value) for _, value in ours.calls] == [plain(value) for _, value in theirs.calls]
    assert ours.waits == pytest.approx(theirs.waits)


def test_a_worker_that_died_is_waited_for_until_its_lease_is_over() -> None:
    from mangrove.tasks.core.leases import LEASE_SECONDS

    for definition in DEFINITIONS.values():
        for state in definition["States"].values():
            for rule in state.get("Retry", []):
                if set(rule["ErrorEquals"]) & {"Busy", "States.ALL"}:
                    waits = [rule["IntervalSeconds"] * rule["BackoffRate"] ** n for n in range(rule["MaxAttempts"])]
                    assert sum(waits) > LEASE_SECONDS


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


ALL_STATES, WRONG = ["A", "B", "W", "S"], ["A", "B", "W"]


@pytest.mark.parametrize(
    ("answer", "visited", "waits"),
    [
        (DONE, ALL_STATES, [0]),
        (DONE | {"seconds": 9}, ALL_STATES, [9]),
        (NEXT_STEP, ["A", "B", "F"], []),
        ({"more": False}, WRONG, []),
        ({"more": False, "seconds": -1}, WRONG, []),
        ({"more": False, "seconds": "1"}, WRONG, []),
    ],
)
def test_the_other_states_that_the_runner_knows_run_as_in_step_functions(
    there: Interpreter, answer: dict[str, Any], visited: list[str], waits: list[int]
) -> None:
    ours, theirs = both(there, CHOICE, {"Plan": [answer]})
    assert ours.visited == theirs.visited == visited
    assert ours.output == theirs.output == (answer if visited == ALL_STATES else None)
    assert ours.waits == theirs.waits == waits


def test_a_failure_that_nothing_catches_names_itself() -> None:
    async def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
        raise AccessDenied("not for you")

    with pytest.raises(ExecutionFailed, match="Denied: not for you"):
        asyncio.run(MachineDefinition(CHOICE).run(TASK_INPUT, work))


SHARED = {
    "StartAt": "Share",
    "States": {
        "Share": {
            "Type": "Map",
            "ItemsPath": "$.parts",
            "MaxConcurrency": 1,
            "ItemProcessor": {
                "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
                "StartAt": "Part",
                "States": {
                    "Part": {
                        "Type": "Task",
                        "Resource": "${Part}",
                        "Retry": [{"ErrorEquals": ["Unreachable"], "IntervalSeconds": 2, "MaxAttempts": 1}],
                        "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.failure", "Next": "Lost"}],
                        "Next": "Done",
                    },
                    "Done": {"Type": "Succeed", "OutputPath": "$.part"},
                    "Lost": {"Type": "Succeed", "OutputPath": "$.part"},
                },
            },
            "ResultPath": None,
            "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.failure", "Next": "Settle"}],
            "Next": "Walk",
        },
        "Walk": {"Type": "Task", "Resource": "${Walk}", "Next": "Settle"},
        "Settle": {"Type": "Task", "Resource": "${Settle}", "End": True},
    },
}


@pytest.mark.parametrize(
    ("answers", "visited"),
    [
        ([PART_DONE], ["Share", "Walk", "Settle"]),
        ([Unreachable(), PART_DONE], ["Share", "Walk", "Settle"]),
        ([PART_DONE, Unreachable("gone"), Unreachable("gone")], ["Share", "Walk", "Settle"]),
        ([AccessDenied()], ["Share", "Walk", "Settle"]),
    ],
)
def test_a_map_runs_here_as_in_step_functions(there: Interpreter, answers: list[Step], visited: list[str]) -> None:
    input = TASK_INPUT | {"parts": [{"tid": "t", "part": number} for number in range(3)]}
    ours, theirs = both(there, SHARED, {"Part": answers, "Walk": [DONE], "Settle": [DONE]}, input)
    assert ours.visited == theirs.visited == visited
    assert ours.output == theirs.output == DONE
    assert [call for call in ours.calls if call[0] == "Part"] == [call for call in theirs.calls if call[0] == "Part"]
    assert ours.calls[-2:] == theirs.calls[-2:] == [("Walk", input), ("Settle", DONE)]


def test_a_large_transfer_runs_here_as_in_step_functions(there: Interpreter) -> None:
    """Each part as long as it has more to do, beside others; one that is lost is done again by the next round."""
    inputs = [{"tid": "t", "round": 0, "part": number} for number in range(3)]
    handed = [NEXT_STEP | {"shared": True, "parts": inputs}, NEXT_STEP | {"shared": True, "parts": inputs[1:]}]
    more = {**inputs[0], "more": True}
    parts: list[Step] = [more, PART_DONE, Unreachable(), PART_DONE, KeyError("lost"), PART_DONE]
    script = {"Plan": [DONE], "Move": [*handed, DONE | {"shared": False}], "Part": parts, "Settle": [DONE]}
    ours, theirs = both(there, change(Share__MaxConcurrency=1), script)
    shared = ["Move", "Moved", "Share"]
    assert ours.visited == theirs.visited == ["Plan", "Planned", *shared, *shared, "Move", "Moved", "Settle"]
    assert ours.output == theirs.output == DONE
    assert ours.calls == theirs.calls
    assert [value["part"] for name, value in ours.calls if name == "Part"] == [0, 0, 1, 1, 2, 1, 2]


def test_a_map_of_which_an_item_fails_has_failed() -> None:
    """As the documentation of Step Functions says; moto lets it pass."""
    definition = shared(Share__ItemProcessor__States__Part__Catch=[])
    input = TASK_INPUT | {"parts": [TASK_INPUT, TASK_INPUT]}
    done = run_here(definition, input, Workers({"Part": [PART_DONE, AccessDenied("no")], "Settle": [DONE]}))
    assert done.visited == ["Share", "Settle"]
    assert done.calls[-1][1]["failure"]["Error"] == "States.ExceedToleratedFailureThreshold"


def shared(**of: Any) -> dict[str, Any]:
    """The machine with a Map, with other fields."""
    return change(SHARED, **of)


def change(machine: dict[str, Any] | None = None, **of: Any) -> dict[str, Any]:
    """The transfer machine, or another one, with other fields, e.g. Plan__Next="X" for Next of the state Plan."""
    made = copy.deepcopy(machine or TRANSFER)
    for name, value in of.items():
        node: Any = made["States"] if "__" in name else made
        *path, last = name.split("__")
        for key in path:
            node = node[int(key)] if isinstance(node, list) else node[key]
        node[last] = value
    return made
