"""State machines on one machine: the part of the Amazon States Language that `state_machines/` uses.

A machine with any other state or field is refused when it is loaded.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from mangrove.standalone.template import ROOT, import_code, read_resources
from mangrove.tasks.core.registry import MACHINES
from mangrove.tasks.core.workers import StateHandler

MACHINE = {"Comment", "StartAt", "States"}
FIELDS = {
    "Task": {"Type", "Resource", "Retry", "Catch", "Next", "End", "Comment"},
    "Choice": {"Type", "Choices", "Default", "Comment"},
    "Wait": {"Type", "SecondsPath", "Next", "Comment"},
    "Map": {"Type", "ItemsPath", "ItemProcessor", "MaxConcurrency", "ResultPath", "Catch", "Next", "End", "Comment"},
    "Succeed": {"Type", "OutputPath", "Comment"},
    "Fail": {"Type", "Error", "Cause", "Comment"},
}
RETRY = {"ErrorEquals", "IntervalSeconds", "BackoffRate", "MaxAttempts", "MaxDelaySeconds", "JitterStrategy"}
CATCH = {"ErrorEquals", "ResultPath", "Next"}
CHOICE = {"Variable", "BooleanEquals", "Next"}
PROCESSOR = {"ProcessorConfig", *MACHINE}
PATHS = ("Variable", "ResultPath", "SecondsPath", "ItemsPath", "OutputPath")
FIELD = re.compile(r"\$\.\w+")  # supported paths: one field of the input

# Limits of Step Functions
MAX_PAYLOAD_BYTES = 256 << 10  # of the input of an execution, and of the input or output of a state, as JSON
MAX_HISTORY_EVENTS = 25_000  # of an execution
EVENTS_PER_EXECUTION = 2  # started and ended
EVENTS_PER_STATE = 2  # entered and exited
EVENTS_PER_TRY = 3  # of a Task: scheduled, started and ended
EVENTS_PER_MAP = 4  # the state and its run: started and ended; each item is an execution of its own

Worker = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
Sleep = Callable[[float], Awaitable[None]]


class UnsupportedDefinition(Exception):
    """The definition uses a feature that this runner does not have."""


class ExecutionFailed(Exception):
    """The execution has failed."""


class DataLimitExceeded(ExecutionFailed):
    """The input or output of a state is too large. Nothing catches it, as at Step Functions."""


class HistoryLimitExceeded(ExecutionFailed):
    """The execution has too many events. Nothing catches it, as at Step Functions."""


class History:
    """The number of events of an execution, as Step Functions records them.

    `limit` None: any number. The service on one machine has no limit: a step takes seconds there, but minutes in a
    function.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.events = 0
        self.add(EVENTS_PER_EXECUTION)

    def add(self, count: int) -> None:
        """Count events. Raise HistoryLimitExceeded if they exceed the limit."""
        self.events += count
        if self.limit is not None and self.events > self.limit:
            raise HistoryLimitExceeded(f"States.Runtime: the execution has more than {self.limit} events")


class MachineDefinition:
    """A definition, checked when it is constructed. `workers` are the resources by the name of their substitution."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.states: dict[str, Any] = definition["States"]
        self.first: str = definition["StartAt"]
        if unknown := sorted(set(definition) - MACHINE):
            raise UnsupportedDefinition(f"the machine uses {', '.join(unknown)}, which is not run here")
        if self.first not in self.states:
            raise UnsupportedDefinition(f"the machine starts at {self.first}, which is not a state")
        for name, state in self.states.items():
            _check_state(name, state)
            for target in _find_targets(state):
                if target not in self.states:
                    raise UnsupportedDefinition(f"{name} leads to {target}, which is not a state")
        self._processors = {
            name: MachineDefinition({key: state["ItemProcessor"][key] for key in MACHINE & set(state["ItemProcessor"])})
            for name, state in self.states.items()
            if state["Type"] == "Map"
        }

    async def run(
        self,
        input: dict[str, Any],
        work: Worker,
        visited: list[str] | None = None,
        sleep: Sleep | None = None,
        max_events: int | None = None,
    ) -> dict[str, Any]:
        """Execute the machine and return the output of the last state. Raise ExecutionFailed if a state fails and
        nothing catches it.

        `visited` collects the names of the states. `sleep` waits; the default is asyncio's. `max_events`: see History.
        """
        name: str | None = self.first
        value = input
        history = History(max_events)
        _check_payload("the input of the execution", value)
        while name is not None:
            if visited is not None:
                visited.append(name)
            state = name
            history.add(EVENTS_PER_STATE)
            name, value = await self._run_state(name, value, work, sleep or asyncio.sleep, history)
            _check_payload(f"the output of {state}", value)
        return value

    async def _run_state(
        self, name: str, value: dict[str, Any], work: Worker, sleep: Sleep, history: History
    ) -> tuple[str | None, Any]:
        state = self.states[name]
        match state["Type"]:
            case "Task":
                return await _run_task(state, value, work, sleep, history)
            case "Map":
                return await _run_map(state, self._processors[name], value, work, sleep, history)
            case "Choice":
                return _choose(state, value), value
            case "Wait":
                await sleep(_get_wait_seconds(state, value))
                return state["Next"], value
            case "Succeed":
                return None, _select_output(state, value)
        raise ExecutionFailed(f"{state.get('Error', '')}: {state.get('Cause', '')}")


def _check_payload(name: str, value: Any) -> None:
    """Raise DataLimitExceeded for more than MAX_PAYLOAD_BYTES."""
    size = len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
    if size > MAX_PAYLOAD_BYTES:
        raise DataLimitExceeded(f"States.DataLimitExceeded: {name} has {size} bytes")


def _check_state(name: str, state: dict[str, Any]) -> None:
    kind = state.get("Type", "")
    if kind not in FIELDS:
        raise UnsupportedDefinition(f"the state {name} is of the type {kind}, which is not run here")
    rules = [(state, FIELDS[kind])]
    rules += [(rule, RETRY) for rule in state.get("Retry", [])] + [(rule, CATCH) for rule in state.get("Catch", [])]
    rules += [(rule, CHOICE) for rule in state.get("Choices", [])]
    rules += [(state["ItemProcessor"], PROCESSOR)] if kind == "Map" else []
    if kind == "Map" and state.get("ResultPath", "$") is not None:
        raise UnsupportedDefinition(f"the state {name} keeps its results, which is not done here")
    for rule in state.get("Retry", []):
        if rule.get("JitterStrategy", "NONE") not in ("FULL", "NONE"):
            raise UnsupportedDefinition(f"the state {name} has jitter {rule['JitterStrategy']}, which is not run here")
    for rule, known in rules:
        if unknown := sorted(set(rule) - known):
            raise UnsupportedDefinition(f"the state {name} uses {', '.join(unknown)}, which is not run here")
        for path in (rule[key] for key in PATHS if rule.get(key) is not None):
            if not FIELD.fullmatch(path):
                raise UnsupportedDefinition(f"the state {name} uses the path {path}, which is not run here")


def _find_targets(state: dict[str, Any]) -> list[str]:
    rules = [state, *state.get("Catch", []), *state.get("Choices", [])]
    return [rule[key] for rule in rules for key in ("Next", "Default") if key in rule]


def _choose(state: dict[str, Any], value: dict[str, Any]) -> str:
    for rule in state["Choices"]:
        if value.get(rule["Variable"].removeprefix("$.")) is rule["BooleanEquals"]:
            return str(rule["Next"])
    return str(state["Default"])


def _select_output(state: dict[str, Any], value: dict[str, Any]) -> Any:
    """Return the field of the input that `OutputPath` names, or the whole input. Raise ExecutionFailed without it."""
    path = state.get("OutputPath")
    if path is None:
        return value
    try:
        return value[path.removeprefix("$.")]
    except KeyError:
        raise ExecutionFailed(f"States.Runtime: the input has no {path}") from None


def _get_wait_seconds(state: dict[str, Any], value: dict[str, Any]) -> int:
    seconds = value.get(state["SecondsPath"].removeprefix("$."))
    if not isinstance(seconds, int) or seconds < 0:
        raise ExecutionFailed(f"{state['SecondsPath']} is no number of seconds: {seconds}")
    return seconds


async def _run_task(
    state: dict[str, Any], value: dict[str, Any], work: Worker, sleep: Sleep, history: History
) -> tuple[str | None, dict[str, Any]]:
    tries = [0] * len(state.get("Retry", []))
    while True:
        history.add(EVENTS_PER_TRY)
        try:
            return state.get("Next"), await work(state["Resource"].strip("${}"), value)
        except Exception as error:
            rule = _find_rule(state.get("Retry", []), type(error).__name__)
            if rule is not None and tries[rule] < state["Retry"][rule].get("MaxAttempts", 3):
                spec = state["Retry"][rule]
                await sleep(_get_delay(spec, tries[rule]))
                tries[rule] += 1
                continue
            return _catch(state, value, error, type(error).__name__)


def _get_delay(spec: dict[str, Any], tries: int) -> float:
    """Return the seconds until the next attempt."""
    delay = float(spec.get("MaxDelaySeconds", math.inf))
    with suppress(OverflowError):
        delay = min(delay, spec.get("IntervalSeconds", 1) * float(spec.get("BackoffRate", 2.0)) ** tries)
    return random.uniform(0, delay) if spec.get("JitterStrategy") == "FULL" else delay


def _catch(
    state: dict[str, Any], value: dict[str, Any], error: Exception, name: str
) -> tuple[str | None, dict[str, Any]]:
    rule = _find_rule(state.get("Catch", []), name)
    if rule is None:
        raise ExecutionFailed(f"{name}: {error}") from error
    spec = state["Catch"][rule]
    failure = {"Error": name, "Cause": json.dumps({"errorMessage": str(error)})}
    return spec["Next"], value | {spec["ResultPath"].removeprefix("$."): failure}


async def _run_map(
    state: dict[str, Any],
    processor: MachineDefinition,
    value: dict[str, Any],
    work: Worker,
    sleep: Sleep,
    history: History,
) -> tuple[str | None, dict[str, Any]]:
    """Execute the processor for every item, several concurrently.

    An item that fails fails the state: there is no tolerance.
    """
    history.add(EVENTS_PER_MAP)
    limit = asyncio.Semaphore(state["MaxConcurrency"])

    async def run(item: dict[str, Any]) -> Any:
        async with limit:
            return await processor.run(item, work, sleep=sleep, max_events=history.limit)

    try:
        async with asyncio.TaskGroup() as group:
            runs = [group.create_task(run(item)) for item in value[state["ItemsPath"].removeprefix("$.")]]
    except ExceptionGroup as errors:  # in which a TaskGroup wraps the failure of an item; the other items are cancelled
        return _catch(state, value, errors.exceptions[0], "States.ExceedToleratedFailureThreshold")
    _check_payload("the results of a Map", [run.result() for run in runs])
    return state.get("Next"), value


def _find_rule(rules: list[dict[str, Any]], error: str) -> int | None:
    names = {error, "States.ALL", "States.TaskFailed"}
    return next((index for index, rule in enumerate(rules) if names & set(rule["ErrorEquals"])), None)


LoadedMachine = tuple[MachineDefinition, dict[str, StateHandler]]
"""A machine, and the handlers of its states by the names of their substitutions."""


def load_machine(kind: str) -> LoadedMachine:
    """Return a machine of the template by its name in `state_machines/`."""
    functions = read_resources("AWS::Serverless::Function")
    for properties in read_resources("AWS::Serverless::StateMachine").values():
        if properties["DefinitionUri"] == f"state_machines/{kind}.asl.json":
            handlers = {}
            for name, value in properties["DefinitionSubstitutions"].items():
                function = functions[value["Fn::GetAtt"].removesuffix(".Arn")]
                module, attribute = function["Handler"].split(".")
                handlers[name] = getattr(import_code(function["CodeUri"], module), attribute)
            return MachineDefinition(json.loads((ROOT / properties["DefinitionUri"]).read_text())), handlers
    raise UnsupportedDefinition(f"there is no machine {kind} in the template")


def load_machines() -> dict[str, LoadedMachine]:
    """Return all machines that run tasks, by name."""
    return {name: load_machine(name) for name in MACHINES}
