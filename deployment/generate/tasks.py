"""The files derived from the declarations of machines: worker functions, and the retry rules of the definitions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from deployment.generate import ROOT, Files
from mangrove.tasks.core.registry import KINDS, MACHINES
from mangrove.tasks.core.workers import PART, SETTLE

UNREACHABLE = [
    "Unreachable", "Lambda.ClientExecutionTimeoutException", "Lambda.ServiceException", "Lambda.AWSLambdaException",
    "Lambda.SdkClientException", "Lambda.Unknown", "Runtime.ExitError", "Sandbox.Timedout",
]  # fmt: skip
Rule = dict[str, Any]
BUSY: Rule = {"ErrorEquals": ["Busy"], "IntervalSeconds": 5, "BackoffRate": 1.5, "MaxAttempts": 8}
NO_SLOT: Rule = {
    "ErrorEquals": ["NoSlot"], "IntervalSeconds": 60, "BackoffRate": 1.5, "MaxDelaySeconds": 300, "MaxAttempts": 2000,
    "JitterStrategy": "FULL",
}  # fmt: skip
"""The end of another step starts a waiting task, see `mangrove.cloud.task_stream`; these retries are for a lost one."""
THROTTLED: Rule = {
    "ErrorEquals": ["Lambda.TooManyRequestsException", "RecordsThrottled"], "IntervalSeconds": 2, "BackoffRate": 2,
    "MaxDelaySeconds": 60, "MaxAttempts": 120, "JitterStrategy": "FULL",
}  # fmt: skip
RECORDS: Rule = {"ErrorEquals": ["RecordsUnavailable"], "IntervalSeconds": 5, "BackoffRate": 1, "MaxAttempts": 24}
ANY: Rule = {"ErrorEquals": ["States.ALL"], "IntervalSeconds": 5, "BackoffRate": 2, "MaxAttempts": 5}


def generate_workers() -> Files:
    """Return the worker functions: one file for each state that has a worker."""
    return {
        f"functions/workers/{machine.name}/{step.state.lower()}.py": (
            f'"""The state {step.state} of the machine {machine.name}."""\n\n'
            "from mangrove.tasks.core.workers import make_handler\n\n"
            f'handler = make_handler("{machine.name}", "{step.state}")\n'
        )
        for machine in MACHINES.values()
        for step in machine.steps
    }


def generate_retries() -> Files:
    """Return the definitions of the state machines with the retry rules of their states."""
    paths = {name: f"state_machines/{name}.asl.json" for name in MACHINES}
    return {
        path: "\n".join(_write_rules(name, (ROOT / path).read_text().splitlines())) + "\n"
        for name, path in paths.items()
    }


def _write_rules(machine: str, lines: list[str]) -> Iterator[str]:
    """Replace the rules in each line `"Retry": [` … `],` of a definition."""
    state, skipped_to = "", ""
    for line in lines:
        if skipped_to:
            if line.rstrip(",") != skipped_to:
                continue
            skipped_to = ""
        if named := re.fullmatch(r' *"(\w+)": \{', line):
            state = named[1]
        yield line
        if begun := re.fullmatch(r'( *)"Retry": \[', line):
            rules = [json.dumps(rule) for rule in _list_rules(machine, state)]
            yield from (f"{begun[1]}  {rule}," for rule in rules[:-1])
            yield f"{begun[1]}  {rules[-1]}"
            skipped_to = f"{begun[1]}]"


def _list_rules(machine: str, state: str) -> list[Rule]:
    if state == SETTLE:
        return [THROTTLED, RECORDS, ANY]
    attempts = next(step.attempts for step in MACHINES[machine].steps if step.state == state)
    unreachable = {"ErrorEquals": UNREACHABLE, "IntervalSeconds": 2, "BackoffRate": 2, "MaxAttempts": attempts}
    if state == PART:
        return [THROTTLED, RECORDS, unreachable]
    kinds = [kind for kind in KINDS.values() if kind.machine == machine]
    has_slots = not kinds or any(kind.is_listed for kind in kinds)
    return [BUSY, *([NO_SLOT] if has_slots else ()), THROTTLED, RECORDS, unreachable]
