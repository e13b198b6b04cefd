"""The identity provider for AWS Transfer Family."""

from typing import Any

from mangrove.cloud.transfer_family import identify
from mangrove.tasks.core.worker_loop import run_in_loop


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer the server's request about a user; an empty answer refuses the sign-in."""
    return run_in_loop(identify(event))
