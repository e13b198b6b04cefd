"""A queue whose machines are started by hand; storages, and files of several parts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mangrove.core.platform import platform
from mangrove.tasks.core import file_copy, files
from tests.support.platforms import use_dispatcher
from tests.support.task_env import RecordingDispatcher, TaskEnv
from tests.unit.tasks.copying import PART, Side


@pytest.fixture
def starter(records: None) -> Iterator[RecordingDispatcher]:
    """The machines that were started; none runs; with empty tables."""
    before, recording = platform().dispatcher, RecordingDispatcher()
    use_dispatcher(recording)
    yield recording
    use_dispatcher(before)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large files have parts of PART bytes, which are stored one after the other."""
    monkeypatch.setattr(file_copy, "IN_FLIGHT_BYTES", PART)
    monkeypatch.setattr(file_copy, "PART_CONCURRENCY", 1)
    monkeypatch.setattr(files, "COMPARED_BYTES", PART)


@pytest.fixture(params=["disk", "bucket"])
def target(request: pytest.FixtureRequest, task_env: TaskEnv) -> Side:
    """A storage of each sort."""
    side: Side = getattr(task_env, request.param)()
    return side
