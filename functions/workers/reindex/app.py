"""The regular look at the indexes: which are missing, and what changed so long ago that it is to be folded in."""

from typing import Any

from mangrove.tasks.indexing import refresh
from mangrove.tasks.steps import run_in_loop


def handler(event: dict[str, Any], context: Any) -> None:
    """Open the runs that are due; the answer is not read."""
    run_in_loop(refresh())
