"""State machines on one machine: exactly the part of the Amazon States Language that `state_machines/` uses.

A state or field outside it is refused when the machine is loaded. An execution that was cut off is begun anew: since
facts and cursors are in the records, that goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

from mangrove.local.template import ROOT, resources
from mangrove.problems import Problem
from mangrove.records import tasks as records
from mangrove.records.tasks import Task
from mangrove.site import snapshot
from mangrove.tasks import machines, steps
from mangrove.tasks.kinds import KINDS
from mangrove.telemetry import log_exception

MACHINE = {"Comment", "StartAt", "States"}
FIELDS = {
    "Task": {"Type", "Resource", "Retry", "Catch", "Next", "End", "Comment"},
    "Choice": {"Type", "Choices", "Default", "Comment"},
    "Wait": {"Type", "SecondsPath", "Next", "Comment"},
    "Succeed": {"Type", "Comment"},
    "Fail": {"Type", "Error", "Cause", "Comment"},
}
RETRY = {"ErrorEquals", "IntervalSeconds", "BackoffRate", "MaxAttempts"}
CATCH = {"ErrorEquals", "ResultPath", "Next"}
CHOICE = {"Variable", "BooleanEquals", "Next"}
FIELD = re.compile(r"\$\.\w+")  # the paths in use: one field of the input
THREADS = 32
LOOK_SECONDS = 1.0  # how often the number of workers is compared with the settings

Worker = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class Unknown(Exception):
    """A definition uses what this runner does not know."""


class Failed(Exception):
    """An execution that ended in failure."""


class Machine:
    """A definition, checked when it is made; `workers` are the resources by the name of their substitution."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.states: dict[str, Any] = definition["States"]
        self.first: str = definition["StartAt"]
        if set(definition) - MACHINE:
            raise Unknown(f"the machine uses {', '.join(sorted(set(definition) - MACHINE))}, which is not run here")
        if self.first not in self.states:
            raise Unknown(f"the machine starts at {self.first}, which is no state")
        for name, state in self.states.items():
            _check(name, state)
            for following in _following(state):
                if following not in self.states:
                    raise Unknown(f"{name} leads to {following}, which is no state")

    async def run(self, given: dict[str, Any], work: Worker, visited: list[str] | None = None) -> dict[str, Any]:
        """Execute; the output of the last state. Failed when a state fails and nothing catches it."""
        name: str | None = self.first
        value = given
        while name is not None:
            if visited is not None:
                visited.append(name)
            name, value = await self._state(self.states[name], value, work)
        return value

    async def _state(
        self, state: dict[str, Any], value: dict[str, Any], work: Worker
    ) -> tuple[str | None, dict[str, Any]]:
        match state["Type"]:
            case "Task":
                return await _task(state, value, work)
            case "Choice":
                return _choice(state, value), value
            case "Wait":
                await asyncio.sleep(_seconds(state, value))
                return state["Next"], value
            case "Succeed":
                return None, value
        raise Failed(f"{state.get('Error', '')}: {state.get('Cause', '')}")


def _check(name: str, state: dict[str, Any]) -> None:
    kind = state.get("Type", "")
    if kind not in FIELDS:
        raise Unknown(f"the state {name} is of the type {kind}, which is not run here")
    rules = [(state, FIELDS[kind])]
    rules += [(rule, RETRY) for rule in state.get("Retry", [])] + [(rule, CATCH) for rule in state.get("Catch", [])]
    rules += [(rule, CHOICE) for rule in state.get("Choices", [])]
    for rule, known in rules:
        if set(rule) - known:
            raise Unknown(f"the state {name} uses {', '.join(sorted(set(rule) - known))}, which is not run here")
        for way in (rule[key] for key in ("Variable", "ResultPath", "SecondsPath") if key in rule):
            if not FIELD.fullmatch(way):
                raise Unknown(f"the state {name} uses the path {way}, which is not run here")


def _following(state: dict[str, Any]) -> list[str]:
    rules = [state, *state.get("Catch", []), *state.get("Choices", [])]
    return [rule[key] for rule in rules for key in ("Next", "Default") if key in rule]


def _choice(state: dict[str, Any], value: dict[str, Any]) -> str:
    for rule in state["Choices"]:
        if value.get(rule["Variable"].removeprefix("$.")) is rule["BooleanEquals"]:
            return str(rule["Next"])
    return str(state["Default"])


def _seconds(state: dict[str, Any], value: dict[str, Any]) -> int:
    seconds = value.get(state["SecondsPath"].removeprefix("$."))
    if not isinstance(seconds, int) or seconds < 0:
        raise Failed(f"{state['SecondsPath']} is no number of seconds: {seconds}")
    return seconds


async def _task(state: dict[str, Any], value: dict[str, Any], work: Worker) -> tuple[str | None, dict[str, Any]]:
    tries = [0] * len(state.get("Retry", []))
    while True:
        try:
            return state.get("Next"), await work(state["Resource"].strip("${}"), value)
        except Exception as error:
            rule = _matching(state.get("Retry", []), error)
            if rule is not None and tries[rule] < state["Retry"][rule].get("MaxAttempts", 3):
                spec = state["Retry"][rule]
                await asyncio.sleep(spec.get("IntervalSeconds", 1) * spec.get("BackoffRate", 2.0) ** tries[rule])
                tries[rule] += 1
                continue
            rule = _matching(state.get("Catch", []), error)
            if rule is None:
                raise Failed(f"{type(error).__name__}: {error}") from error
            spec = state["Catch"][rule]
            failure = {"Error": type(error).__name__, "Cause": json.dumps({"errorMessage": str(error)})}
            return spec["Next"], value | {spec["ResultPath"].removeprefix("$."): failure}


def _matching(rules: list[dict[str, Any]], error: Exception) -> int | None:
    names = {type(error).__name__, "States.ALL", "States.TaskFailed"}
    return next((index for index, rule in enumerate(rules) if names & set(rule["ErrorEquals"])), None)


def load(kind: str) -> tuple[Machine, dict[str, Callable[..., Any]]]:
    """A machine of the template by its name in `state_machines/`, and the handlers of its states."""
    functions = dict(resources("AWS::Serverless::Function"))
    for _, resource in resources("AWS::Serverless::StateMachine"):
        properties = resource["Properties"]
        if properties["DefinitionUri"] == f"state_machines/{kind}.asl.json":
            handlers = {}
            for name, value in properties["DefinitionSubstitutions"].items():
                function = functions[value["Fn::GetAtt"].removesuffix(".Arn")]["Properties"]
                module, attribute = function["Handler"].split(".")
                code = function["CodeUri"].rstrip("/").replace("/", ".")
                handlers[name] = getattr(import_module(f"{code}.{module}"), attribute)
            return Machine(json.loads((ROOT / properties["DefinitionUri"]).read_text())), handlers
    raise Unknown(f"there is no machine {kind} in the template")


class Runner:
    """Runs tasks in this process: so many of a kind at once as the settings say, the oldest first."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, "task")
        self._machines = {name: load(name) for name in {kind.machine for kind in KINDS.values()}}
        self._waiting: dict[str, OrderedDict[str, None]] = {name: OrderedDict() for name in KINDS}
        self._running: dict[str, dict[str, asyncio.Task[None]]] = {name: {} for name in KINDS}
        self._again: set[str] = set()  # started while they still ran: their end may have been decided before
        self._begun: set[str] | None = set()  # what came while it is looked for what was left undone
        steps.live_in(self._loop)
        machines.use(self.start, self.expedite)

    def start(self, task: Task) -> None:
        """Queue a task; from any thread."""
        self._loop.call_soon_threadsafe(self._queue, task.kind, task.id)

    def expedite(self, task: Task) -> None:
        """Begin a task now if it waits for a worker; from any thread."""
        self._loop.call_soon_threadsafe(self._jump, task.kind, task.id)

    def _jump(self, kind: str, id: str) -> None:
        if id in self._waiting[kind]:
            del self._waiting[kind][id]
            self._begin(kind, id)

    def _queue(self, kind: str, id: str) -> None:
        if self._begun is not None:
            self._begun.add(id)
        if id in self._running[kind]:
            self._again.add(id)
        elif id not in self._waiting[kind]:
            self._waiting[kind][id] = None
            self._pump(kind)

    def _pump(self, kind: str) -> None:
        most = snapshot.current().settings.number(KINDS[kind].workers)
        while self._waiting[kind] and len(self._running[kind]) < most:
            self._begin(kind, self._waiting[kind].popitem(last=False)[0])

    def _begin(self, kind: str, id: str) -> None:
        running = asyncio.create_task(self._run(kind, id))
        self._running[kind][id] = running
        running.add_done_callback(lambda _: self._ended(kind, id))

    def _ended(self, kind: str, id: str) -> None:
        del self._running[kind][id]
        if self._loop.is_closed():
            return
        if id in self._again:
            self._again.discard(id)
            self._queue(kind, id)
        self._pump(kind)

    async def _run(self, kind: str, id: str) -> None:
        machine, handlers = self._machines[KINDS[kind].machine]

        async def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
            answer: dict[str, Any] = await self._loop.run_in_executor(self._threads, handlers[name], value, None)
            return answer

        try:
            await machine.run({"tid": id}, work)
        except Failed:
            log_exception("a task could not be settled", tid=id)

    async def live(self) -> None:
        """Take up what was left undone, then follow the settings, until cancelled."""
        begun = set() if self._begun is None else self._begun
        for kind in KINDS:
            for row in await asyncio.to_thread(records.release_all, kind):
                if row.id not in begun:
                    self._queue(kind, row.id)
        self._begun = None
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                try:
                    await snapshot.fresh()
                except Problem:
                    pass  # the records do not answer: the settings stay as they are until the next look
                for kind in KINDS:
                    self._pump(kind)
        finally:
            for running in [one for ones in self._running.values() for one in ones.values()]:
                running.cancel()
            self._threads.shutdown(wait=False, cancel_futures=True)
