"""State machines on one machine: exactly the part of the Amazon States Language that `state_machines/` uses.

A state or field outside it is refused when the machine is loaded. An execution that was cut off is started again: since
spec and cursor of a task are in the records, it goes on where it stopped.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

from mangrove import runtime
from mangrove.local.template import ROOT, iter_resources
from mangrove.problems import Problem
from mangrove.records import tasks as records
from mangrove.records.tasks import Task
from mangrove.site import snapshot
from mangrove.tasks import steps
from mangrove.tasks.kinds import KINDS
from mangrove.tasks.machines import MachineStarter
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
POLL_SECONDS = 1.0  # how often the number of workers is compared with the settings

Worker = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
Sleep = Callable[[float], Awaitable[None]]


class UnsupportedDefinition(Exception):
    """A definition uses what this runner does not have."""


class ExecutionFailed(Exception):
    """An execution that ended in failure."""


class Machine:
    """A definition, checked when it is made; `workers` are the resources by the name of their substitution."""

    def __init__(self, definition: dict[str, Any]) -> None:
        self.states: dict[str, Any] = definition["States"]
        self.first: str = definition["StartAt"]
        if unknown := sorted(set(definition) - MACHINE):
            raise UnsupportedDefinition(f"the machine uses {', '.join(unknown)}, which is not run here")
        if self.first not in self.states:
            raise UnsupportedDefinition(f"the machine starts at {self.first}, which is no state")
        for name, state in self.states.items():
            _check_state(name, state)
            for target in _find_targets(state):
                if target not in self.states:
                    raise UnsupportedDefinition(f"{name} leads to {target}, which is no state")

    async def run(
        self, given: dict[str, Any], work: Worker, visited: list[str] | None = None, sleep: Sleep | None = None
    ) -> dict[str, Any]:
        """Execute; the output of the last state. ExecutionFailed when a state fails and nothing catches it.

        `visited` collects the names of the states; `sleep` waits, asyncio's when not given.
        """
        name: str | None = self.first
        value = given
        while name is not None:
            if visited is not None:
                visited.append(name)
            name, value = await self._run_state(self.states[name], value, work, sleep or asyncio.sleep)
        return value

    async def _run_state(
        self, state: dict[str, Any], value: dict[str, Any], work: Worker, sleep: Sleep
    ) -> tuple[str | None, dict[str, Any]]:
        match state["Type"]:
            case "Task":
                return await _run_task(state, value, work, sleep)
            case "Choice":
                return _choose(state, value), value
            case "Wait":
                await sleep(_get_wait_seconds(state, value))
                return state["Next"], value
            case "Succeed":
                return None, value
        raise ExecutionFailed(f"{state.get('Error', '')}: {state.get('Cause', '')}")


def _check_state(name: str, state: dict[str, Any]) -> None:
    kind = state.get("Type", "")
    if kind not in FIELDS:
        raise UnsupportedDefinition(f"the state {name} is of the type {kind}, which is not run here")
    rules = [(state, FIELDS[kind])]
    rules += [(rule, RETRY) for rule in state.get("Retry", [])] + [(rule, CATCH) for rule in state.get("Catch", [])]
    rules += [(rule, CHOICE) for rule in state.get("Choices", [])]
    for rule, known in rules:
        if unknown := sorted(set(rule) - known):
            raise UnsupportedDefinition(f"the state {name} uses {', '.join(unknown)}, which is not run here")
        for path in (rule[key] for key in ("Variable", "ResultPath", "SecondsPath") if key in rule):
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


def _get_wait_seconds(state: dict[str, Any], value: dict[str, Any]) -> int:
    seconds = value.get(state["SecondsPath"].removeprefix("$."))
    if not isinstance(seconds, int) or seconds < 0:
        raise ExecutionFailed(f"{state['SecondsPath']} is no number of seconds: {seconds}")
    return seconds


async def _run_task(
    state: dict[str, Any], value: dict[str, Any], work: Worker, sleep: Sleep
) -> tuple[str | None, dict[str, Any]]:
    tries = [0] * len(state.get("Retry", []))
    while True:
        try:
            return state.get("Next"), await work(state["Resource"].strip("${}"), value)
        except Exception as error:
            rule = _find_rule(state.get("Retry", []), error)
            if rule is not None and tries[rule] < state["Retry"][rule].get("MaxAttempts", 3):
                spec = state["Retry"][rule]
                await sleep(spec.get("IntervalSeconds", 1) * spec.get("BackoffRate", 2.0) ** tries[rule])
                tries[rule] += 1
                continue
            rule = _find_rule(state.get("Catch", []), error)
            if rule is None:
                raise ExecutionFailed(f"{type(error).__name__}: {error}") from error
            spec = state["Catch"][rule]
            failure = {"Error": type(error).__name__, "Cause": json.dumps({"errorMessage": str(error)})}
            return spec["Next"], value | {spec["ResultPath"].removeprefix("$."): failure}


def _find_rule(rules: list[dict[str, Any]], error: Exception) -> int | None:
    names = {type(error).__name__, "States.ALL", "States.TaskFailed"}
    return next((index for index, rule in enumerate(rules) if names & set(rule["ErrorEquals"])), None)


LoadedMachine = tuple[Machine, dict[str, Callable[..., Any]]]
"""A machine, and the handlers of its states by the names of their substitutions."""


def load_machine(kind: str) -> LoadedMachine:
    """A machine of the template by its name in `state_machines/`."""
    functions = dict(iter_resources("AWS::Serverless::Function"))
    for _, resource in iter_resources("AWS::Serverless::StateMachine"):
        properties = resource["Properties"]
        if properties["DefinitionUri"] == f"state_machines/{kind}.asl.json":
            handlers = {}
            for name, value in properties["DefinitionSubstitutions"].items():
                function = functions[value["Fn::GetAtt"].removesuffix(".Arn")]["Properties"]
                module, attribute = function["Handler"].split(".")
                code = function["CodeUri"].rstrip("/").replace("/", ".")
                handlers[name] = getattr(import_module(f"{code}.{module}"), attribute)
            return Machine(json.loads((ROOT / properties["DefinitionUri"]).read_text())), handlers
    raise UnsupportedDefinition(f"there is no machine {kind} in the template")


def load_machines() -> dict[str, LoadedMachine]:
    """All machines that tasks run on, by name."""
    return {name: load_machine(name) for name in {kind.machine for kind in KINDS.values()}}


class Runner(MachineStarter):
    """Runs tasks in this process: as many of a kind at once as the settings say, the oldest first.

    `loaded`: machines and the handlers of their states by the machines' names, of the template when not given.
    """

    def __init__(self, loaded: Mapping[str, LoadedMachine] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS, "task")
        self._machines = load_machines() if loaded is None else loaded
        self._waiting: dict[str, OrderedDict[str, None]] = {name: OrderedDict() for name in KINDS}
        self._running: dict[str, dict[str, asyncio.Task[None]]] = {name: {} for name in KINDS}
        self._restart: set[str] = set()  # started while they still ran: their end may have been decided before
        self._early: set[str] | None = set()  # started while the unfinished tasks are read from the records
        steps.use_loop(self._loop)
        runtime.put(MachineStarter, self)

    def start(self, task: Task, suffix: str = "") -> None:
        """Queue a task; from any thread. Starting one twice is one run, whatever the `suffix`."""
        self._loop.call_soon_threadsafe(self._enqueue, task.kind, task.id)

    def expedite(self, task: Task) -> None:
        """Run a task now if it waits for a worker; from any thread."""
        self._loop.call_soon_threadsafe(self._run_now, task.kind, task.id)

    async def run(self) -> None:
        """Take up the unfinished tasks, then follow the settings, until cancelled."""
        early = set() if self._early is None else self._early
        for kind in KINDS:
            for row in await asyncio.to_thread(records.release_leases, kind):
                if row.id not in early:
                    self._enqueue(kind, row.id)
        self._early = None
        try:
            while True:
                await asyncio.sleep(POLL_SECONDS)
                try:
                    await snapshot.fresh()
                except Problem:
                    pass  # the records do not answer: the settings stay as they are until the next look
                for kind in KINDS:
                    self._run_waiting(kind)
        finally:
            for execution in [one for by_id in self._running.values() for one in by_id.values()]:
                execution.cancel()
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _enqueue(self, kind: str, id: str) -> None:
        if self._early is not None:
            self._early.add(id)
        if id in self._running[kind]:
            self._restart.add(id)
        elif id not in self._waiting[kind]:
            self._waiting[kind][id] = None
            self._run_waiting(kind)

    def _run_now(self, kind: str, id: str) -> None:
        if id in self._waiting[kind]:
            del self._waiting[kind][id]
            self._create_execution(kind, id)

    def _run_waiting(self, kind: str) -> None:
        """Run the tasks that wait, as long as the settings allow one more."""
        workers = snapshot.current().settings.task_workers(KINDS[kind].workers)
        while self._waiting[kind] and len(self._running[kind]) < workers:
            self._create_execution(kind, self._waiting[kind].popitem(last=False)[0])

    def _create_execution(self, kind: str, id: str) -> None:
        execution = asyncio.create_task(self._execute(kind, id))
        self._running[kind][id] = execution
        execution.add_done_callback(lambda _: self._on_end(kind, id))

    def _on_end(self, kind: str, id: str) -> None:
        del self._running[kind][id]
        if self._loop.is_closed():
            return
        if id in self._restart:
            self._restart.discard(id)
            self._enqueue(kind, id)
        self._run_waiting(kind)

    async def _execute(self, kind: str, id: str) -> None:
        machine, handlers = self._machines[KINDS[kind].machine]

        async def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
            answer: dict[str, Any] = await self._loop.run_in_executor(self._threads, handlers[name], value, None)
            return answer

        try:
            await machine.run({"tid": id}, work)
        except ExecutionFailed:
            log_exception("a task could not be settled", tid=id)
