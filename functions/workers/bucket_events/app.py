"""The follower of the changes of the files bucket."""

from typing import Any

from mangrove.cloud.bucket_events import follow
from mangrove.tasks.core.worker_loop import run_in_loop


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Follow a batch of the queue. After an error it is delivered again."""
    return run_in_loop(follow(event))
