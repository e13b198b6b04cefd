"""Failed sign-ins, counted in a table with expiry: restarts and other instances see the same numbers.

A pair of account and source is locked after MAX_OF_PAIR failures. The wider counts stop floods: of one source over many
accounts, and of many sources over one account, which is then closed until SECONDS after the last of them.
"""

from __future__ import annotations

from mangrove.problems import TooMany
from mangrove.records import counters

SECONDS = 300
MAX_OF_PAIR = 5
MAX_OF_SOURCE = 50
MAX_OF_ACCOUNT = 500
MAX_LENGTH = 256  # characters of a name that are counted; no account has so many, and a key may have 2,048 bytes


def _make_keys(username: str, source: str) -> dict[str, int]:
    username = username[:MAX_LENGTH]
    return {
        f"pair#{username}#{source}": MAX_OF_PAIR,
        f"source#{source}": MAX_OF_SOURCE,
        f"account#{username}": MAX_OF_ACCOUNT,
    }


def check(username: str, source: str) -> None:
    """TooMany while locked; asking while locked starts the time anew for this pair."""
    for key, most in _make_keys(username, source).items():
        if counters.count_failures(key) >= most:
            if most == MAX_OF_PAIR:
                counters.add_failure(key, SECONDS)
            raise TooMany


def record_failure(username: str, source: str) -> None:
    """Count one failure; TooMany when attempts at the same time had used up the pair's tries."""
    counts = {most: counters.add_failure(key, SECONDS) for key, most in _make_keys(username, source).items()}
    if counts[MAX_OF_PAIR] > MAX_OF_PAIR:
        raise TooMany


def record_success(username: str, source: str) -> None:
    """Forget the pair's failures; TooMany when attempts at the same time had used up its tries."""
    check(username, source)
    counters.clear_failures(f"pair#{username}#{source}")
