"""Who may enter by AWS Transfer Family."""

from typing import Any

from mangrove.cloud.transfer_family import identify
from mangrove.tasks.core.workers import run_in_loop


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """What the server asks for each user who wants in; an empty answer refuses."""
    return run_in_loop(identify(event))
