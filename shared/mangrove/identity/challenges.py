"""Challenges of sign-ins. The number of challenges that one client can create is bounded."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from mangrove.core.http import find_client
from mangrove.core.problems import TooMany
from mangrove.records import login_challenges
from mangrove.records.store import counters

CHALLENGE_WINDOW_SECONDS = 600
MAX_CHALLENGES_PER_CLIENT = 300  # in a time window; the users of an office may share an address


def issue(purpose: str, data: Mapping[str, Any], seconds: int, source: str) -> str:
    """Store a challenge for `seconds` and return its id. Raise TooMany if the client asks for too many."""
    window = int(time.time()) // CHALLENGE_WINDOW_SECONDS
    count = counters.add_failure(f"challenges#{find_client(source)}#{window}", CHALLENGE_WINDOW_SECONDS)
    if count > MAX_CHALLENGES_PER_CLIENT:
        raise TooMany("too many sign-ins were begun, try again later", retry_after=CHALLENGE_WINDOW_SECONDS)
    return login_challenges.create(purpose, data, seconds)
