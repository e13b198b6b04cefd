"""A queue whose machines are started by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mangrove import runtime
from mangrove.tasks.machines import MachineStarter
from tests.task_env import RecordingStarter


@pytest.fixture
def starter(records: None) -> Iterator[RecordingStarter]:
    """What machines were started, and none runs; with empty tables."""
    before, recording = runtime.get(MachineStarter), RecordingStarter()
    runtime.put(MachineStarter, recording)
    yield recording
    runtime.put(MachineStarter, before)
