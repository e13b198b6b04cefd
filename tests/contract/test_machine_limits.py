"""The limits of Step Functions: the payload of a state, and the history of an execution."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any

import pytest

from mangrove.standalone.machines import (
    EVENTS_PER_STATE,
    EVENTS_PER_TRY,
    MAX_HISTORY_EVENTS,
    MAX_PAYLOAD_BYTES,
    DataLimitExceeded,
    HistoryLimitExceeded,
    MachineDefinition,
)
from tests.contract.test_machines import DEFINITIONS, DONE, NEXT_STEP, SHARED, TASK_INPUT, TRANSFER, Workers
from tests.support.interpreters import start_moto

PART_COUNT = 2000


def test_lost_parts_do_not_exceed_the_payload_of_a_map() -> None:
    """Their failures have 2 KB each; a part returns its number alone."""
    parts = [{"tid": "t", "round": 0, "part": number} for number in range(PART_COUNT)]
    traceback = KeyError("a line of a traceback " * 100)
    workers = {"Part": [traceback], "Walk": [DONE], "Settle": [DONE]}

    def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
        step = workers[name][0]
        if isinstance(step, Exception):
            raise step
        return step

    async def work_async(name: str, value: dict[str, Any]) -> dict[str, Any]:
        return work(name, value)

    machine = MachineDefinition(SHARED)
    assert asyncio.run(machine.run(TASK_INPUT | {"parts": parts}, work_async)) == DONE
    whole = copy.deepcopy(SHARED)
    whole["States"]["Share"]["ItemProcessor"]["States"]["Lost"] = {"Type": "Succeed"}
    with pytest.raises(DataLimitExceeded, match="the results of a Map"):
        asyncio.run(MachineDefinition(whole).run(TASK_INPUT | {"parts": parts}, work_async))


@pytest.mark.parametrize("name", ["transfer", "index"])
def test_parts_of_a_definition_return_their_number_alone(name: str) -> None:
    (shared_state,) = (state for state in DEFINITIONS[name]["States"].values() if state["Type"] == "Map")
    states = shared_state["ItemProcessor"]["States"]
    ends = [state for state in states.values() if state["Type"] == "Succeed"]
    assert [state["OutputPath"] for state in ends] == ["$.part"] * 2
    assert not any(state.get("End") for state in states.values())


def fill(value: dict[str, Any], size: int) -> dict[str, Any]:
    """Return a value with a text that makes it `size` bytes of JSON. The text has letters of two bytes."""
    letters, odd = divmod(size - len(json.dumps(value | {"text": ""}, separators=(",", ":")).encode()), 2)
    return value | {"text": "é" * letters + "x" * odd}


def run_transfer(input: dict[str, Any], output: dict[str, Any]) -> dict[str, Any]:
    async def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
        return output if name == "Plan" else DONE

    return asyncio.run(MachineDefinition(TRANSFER).run(input, work))


def test_input_of_an_execution_has_at_most_its_limit() -> None:
    assert run_transfer(fill(TASK_INPUT, MAX_PAYLOAD_BYTES), DONE) == DONE
    with pytest.raises(DataLimitExceeded, match=f"the input of the execution has {MAX_PAYLOAD_BYTES + 1} bytes"):
        run_transfer(fill(TASK_INPUT, MAX_PAYLOAD_BYTES + 1), DONE)


def test_output_of_a_state_has_at_most_its_limit_and_no_catch() -> None:
    assert run_transfer(TASK_INPUT, fill(DONE, MAX_PAYLOAD_BYTES)) == DONE
    with pytest.raises(DataLimitExceeded, match=f"the output of Plan has {MAX_PAYLOAD_BYTES + 1} bytes"):
        run_transfer(TASK_INPUT, fill(DONE, MAX_PAYLOAD_BYTES + 1))


LOOP: dict[str, Any] = {
    "StartAt": "Work",
    "States": {
        "Work": {
            "Type": "Task", "Resource": "${Work}", "Next": "Worked",
            "Retry": [{"ErrorEquals": ["KeyError"], "MaxAttempts": 9}],
            "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.failure", "Next": "Done"}],
        },
        "Worked": {
            "Type": "Choice", "Choices": [{"Variable": "$.more", "BooleanEquals": True, "Next": "Work"}],
            "Default": "Done",
        },
        "Done": {"Type": "Succeed"},
    },
}  # fmt: skip
"""A machine with 4 events, 7 for each round, and 3 for each retry."""


def run_rounds(rounds: int, retries: int) -> dict[str, Any]:
    workers = Workers({"Work": [KeyError()] * retries + [NEXT_STEP] * (rounds - 1) + [DONE]})

    async def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
        return workers(name, value)

    async def do_not_wait(seconds: float) -> None:
        pass

    machine = MachineDefinition(LOOP)
    return asyncio.run(machine.run(TASK_INPUT, work, sleep=do_not_wait, max_events=MAX_HISTORY_EVENTS))


def test_history_of_an_execution_has_at_most_its_limit_and_no_catch() -> None:
    rounds = 3570
    assert 4 + 7 * rounds + 3 * 2 == MAX_HISTORY_EVENTS
    assert run_rounds(rounds, retries=2) == DONE
    with pytest.raises(HistoryLimitExceeded, match="more than 25000 events"):
        run_rounds(rounds, retries=3)


def test_events_counted_are_those_that_step_functions_records() -> None:
    script = {"Plan": [NEXT_STEP, DONE], "Move": [NEXT_STEP, KeyError(), DONE], "Settle": [DONE]}
    with start_moto() as run:
        events = run(TRANSFER, TASK_INPUT, Workers(script)).events

    def run_here(max_events: int) -> dict[str, Any]:
        workers = Workers(script)

        async def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
            return workers(name, value)

        return asyncio.run(MachineDefinition(TRANSFER).run(TASK_INPUT, work, max_events=max_events))

    assert run_here(events) == DONE
    with pytest.raises(HistoryLimitExceeded):
        run_here(events - 1)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_retries_of_a_state_fit_into_the_history_of_an_execution(name: str) -> None:
    for state in DEFINITIONS[name]["States"].values():
        tries = 1 + sum(rule["MaxAttempts"] for rule in state.get("Retry", ()))
        assert tries * EVENTS_PER_TRY + EVENTS_PER_STATE < MAX_HISTORY_EVENTS
