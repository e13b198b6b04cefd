"""Hooks of SnapStart: AWS stores the memory of an initialised function, and starts many processes from it.

No process may continue a connection of another one, or repeat its random numbers.
"""

from __future__ import annotations

import os
import random
import ssl

from mangrove.core import runtime
from mangrove.core.aws import AwsSession

SEED_BYTES = 64


def register_hooks() -> None:
    """Register the hooks if the function is initialised for a snapshot. Call it at the end of the initialisation."""
    if os.environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") != "snap-start":
        return
    # of Lambda's own Python
    from snapshot_restore_py import register_after_restore, register_before_snapshot

    register_before_snapshot(close_connections)
    register_after_restore(seed)


def close_connections() -> None:
    """Close the connections to AWS. The clients open others when they are used."""
    runtime.get(AwsSession).close_connections()


def seed() -> None:
    """Seed the random numbers of this process anew. `secrets` and `os.urandom` need no seed."""
    random.seed(os.urandom(SEED_BYTES))
    ssl.RAND_add(os.urandom(SEED_BYTES), SEED_BYTES)
