"""The hourly clean-up."""

from typing import Any

from mangrove.tasks.steps import here
from mangrove.tasks.sweep import sweep


def handler(event: dict[str, Any], context: Any) -> None:
    here(sweep())
