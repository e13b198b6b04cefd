"""The hourly clean-up."""

from typing import Any

from mangrove.tasks.steps import run_in_loop
from mangrove.tasks.sweep import sweep


def handler(event: dict[str, Any], context: Any) -> None:
    """Sweep; the answer is not read."""
    run_in_loop(sweep())
