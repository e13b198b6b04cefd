"""The differences of the two flavours."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fastapi import Request

from mangrove.records.credentials import SshKey
from mangrove.records.tasks.model import Task, TaskView
from mangrove.records.users import User
from mangrove.tasks.core.model import State
from mangrove.web import flavours
from mangrove.web.flavours import ApiFlavour

WORDS = {
    0: "pending", 1: "running", 2: "succeeded", 3: "canceling", 4: "canceled", 5: "errored", 6: "failing",
    7: "failed", 8: "waiting_retry", 9: "before_retry",
}  # fmt: skip
TASK_VIEW = TaskView("i", "n", "ann", 0, State.RUNNING, "s", 0.5, None, None, 7, "")
VIEW = TASK_VIEW.to_wire()
DETAILS = TASK_VIEW.get_details()
TASK = Task("i", "copy", 1, TASK_VIEW, {}, {}, False, False, False, 0, 0.0, 0.0)


def test_a_request_has_the_flavour_that_the_middleware_noted() -> None:
    scope = {"type": "http", "headers": []}
    assert asyncio.run(flavours.find_flavour(Request({**scope}))) is ApiFlavour.NATIVE
    noted = {**scope, "state": {"flavour": ApiFlavour.OPENLIST}}
    assert asyncio.run(flavours.find_flavour(Request(noted))) is ApiFlavour.OPENLIST


@pytest.mark.parametrize("number", WORDS)
def test_state_is_number_for_existing_clients_and_word_natively(number: int) -> None:
    view = replace(TASK_VIEW, state=number)
    assert flavours.format_task(view, ApiFlavour.OPENLIST) == view.to_wire()
    assert flavours.format_task(view, ApiFlavour.NATIVE) == view.to_wire() | {"state": WORDS[number]} | DETAILS
    assert State(number).name.lower() == WORDS[number]


def test_info_is_array_natively_and_object_for_existing_clients() -> None:
    assert flavours.format_task_info(TASK_VIEW, ApiFlavour.OPENLIST) == VIEW
    assert flavours.format_task_info(TASK_VIEW, ApiFlavour.NATIVE) == [VIEW | {"state": "running"} | DETAILS]


def test_a_created_task_has_six_fields_by_the_document() -> None:
    assert flavours.format_created_task(TASK, ApiFlavour.OPENLIST) == VIEW
    short = flavours.format_created_task(TASK, ApiFlavour.NATIVE)
    assert short == {key: VIEW[key] for key in ("id", "name", "state", "status", "error")} | {"progress": 0}


@pytest.mark.parametrize(("progress", "shown"), [(0.0, "0"), (100.0, "100"), (12.5, "12.5"), (7, "7")])
def test_progress_is_integer_if_whole_and_in_created_tasks(progress: float, shown: str) -> None:
    task = replace(TASK, view=replace(TASK_VIEW, progress=progress))
    for flavour in ApiFlavour:
        assert json.dumps(flavours.format_task(task.view, flavour)["progress"]) == shown
    created = flavours.format_created_task(task, ApiFlavour.NATIVE)["progress"]
    assert (type(created), created) == (int, int(progress))


def test_a_transfer_says_something_to_existing_clients_only() -> None:
    assert flavours.format_transfer("Move", [TASK], ApiFlavour.NATIVE) is None
    assert flavours.format_transfer("Move", [], ApiFlavour.OPENLIST) == {
        "message": "Move operations completed immediately"
    }
    assert flavours.format_transfer("Copy", [TASK], ApiFlavour.OPENLIST) == {
        "message": "Successfully created 1 copy task(s)",
        "tasks": [VIEW],
    }


@pytest.mark.parametrize(("count", "message"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_a_recursive_move_counts_files_for_existing_clients(count: int, message: str) -> None:
    assert flavours.format_recursive_move(count, [], ApiFlavour.OPENLIST) == f"Successfully moved {message}"
    assert flavours.format_recursive_move(count, [], ApiFlavour.NATIVE) == "success"


def test_what_tasks_go_on_with_is_told_to_existing_clients() -> None:
    moved = flavours.format_recursive_move(1, [TASK], ApiFlavour.OPENLIST)
    assert moved == "Successfully moved 1 file, tasks move the others"
    left = flavours.format_remaining([TASK], ApiFlavour.OPENLIST)
    assert left is not None and left["tasks"] == [VIEW]
    assert flavours.format_remaining([TASK], ApiFlavour.NATIVE) is None
    assert flavours.format_remaining([], ApiFlavour.OPENLIST) is None


def test_a_deleted_setting_is_an_object_by_the_document() -> None:
    assert flavours.format_setting_delete(ApiFlavour.NATIVE) == {}
    assert flavours.format_setting_delete(ApiFlavour.OPENLIST) is None


@pytest.mark.parametrize(
    ("text", "masked"),
    [("SHA256:abcdefghijklmnop", "SHA256:abcde*******mnop"), ("short", "shorthort"), ("", "")],
)
def test_a_fingerprint_is_masked_by_the_document(text: str, masked: str) -> None:
    assert flavours.format_fingerprint(text, ApiFlavour.NATIVE) == masked
    assert flavours.format_fingerprint(text, ApiFlavour.OPENLIST) == text


def test_an_ssh_key_shows_neither_its_text_nor_its_owner() -> None:
    now = datetime.now(UTC)
    key = SshKey(3, 1, "laptop", "1#laptop", "ssh-ed25519 AAAA", "SHA256:0123456789abcdef", now, now)
    shown = flavours.format_sshkey(key, ApiFlavour.OPENLIST)
    assert shown == {
        "id": 3,
        "title": "laptop",
        "fingerprint": "SHA256:0123456789abcdef",
        "added_time": now,
        "last_used_time": now,
    }


def test_a_user_shows_no_secret() -> None:
    user = User(1, "ann", "hash", "/", 0, 8, False, "sso", True, "otp", 5)
    shown = flavours.format_user(user)
    assert shown["password"] == ""
    assert not {"hash", "otp", 5} & set(shown.values())
    assert (shown["username"], shown["permission"], shown["sso_id"]) == ("ann", 8, "sso")
