"""The limits of Step Functions: the payload of a state, and the history of an execution."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import pytest

from mangrove.standalone.machines import MAX_PAYLOAD_BYTES, DataLimitExceeded, MachineDefinition
from tests.contract.test_machines import DEFINITIONS, DONE, SHARED, TASK_INPUT, TRANSFER

MAX_HISTORY_EVENTS = 25_000  # of an execution
EVENTS_PER_TRY = 3  # scheduled, started, and its end
EVENTS_PER_STATE = 2  # entered and exited
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


def test_payload_over_the_limit_fails_and_is_not_caught() -> None:
    large = "x" * MAX_PAYLOAD_BYTES

    async def work(name: str, value: dict[str, Any]) -> dict[str, Any]:
        return DONE | {"text": large}

    with pytest.raises(DataLimitExceeded, match="the output of Plan"):
        asyncio.run(MachineDefinition(TRANSFER).run(TASK_INPUT, work))
    with pytest.raises(DataLimitExceeded, match="the input of the execution"):
        asyncio.run(MachineDefinition(TRANSFER).run(TASK_INPUT | {"text": large}, work))


@pytest.mark.parametrize("name", DEFINITIONS)
def test_retries_of_a_state_fit_into_the_history_of_an_execution(name: str) -> None:
    for state in DEFINITIONS[name]["States"].values():
        tries = 1 + sum(rule["MaxAttempts"] for rule in state.get("Retry", ()))
        assert tries * EVENTS_PER_TRY + EVENTS_PER_STATE < MAX_HISTORY_EVENTS
