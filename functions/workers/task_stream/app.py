"""The follower of the stream of the task records."""

from typing import Any

from mangrove.cloud.task_stream import follow
from mangrove.tasks.core.worker_loop import run_in_loop


def handler(event: dict[str, Any], context: Any) -> None:
    """Follow a batch of the stream. After an error it is delivered again."""
    run_in_loop(follow(event))
