"""Requests that become tasks, and those that are refused before anything is done."""

from __future__ import annotations

import pytest

from mangrove.problems import BadRequest
from mangrove.records import tasks as records
from mangrove.tasks import submit
from tests.task_env import TaskEnv

pytestmark = pytest.mark.usefixtures("small_parts")


def test_too_many_names_are_refused_before_anything_is_done(task_env: TaskEnv) -> None:
    source, target = task_env.disk(), task_env.disk()
    source.put("f0", b"f")
    names = [f"f{number}" for number in range(submit.MOST_TASKS + 1)]
    for verb in ("copy", "move"):
        with pytest.raises(BadRequest, match="10001 tasks in one request, at most 10000 are opened"):
            task_env.carry(verb, source.mount, target.mount, *names)
    assert (task_env.started, target.files(), source.files()) == ([], {}, {"f0": b"f"})
    assert list(records.list_rows("copy", False)) == []
