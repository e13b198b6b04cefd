"""Failed sign-ins, counted in a table with expiry: restarts and other instances see the same numbers.

A pair of account and source is locked after PAIR failures. The wider counts stop floods: of one source over many
accounts, and of many sources over one account, which then nobody can open until SECONDS after the last of them.
"""

from __future__ import annotations

from mangrove.problems import TooMany
from mangrove.records import counters

SECONDS = 300
PAIR = 5
SOURCE = 50
ACCOUNT = 500
LONGEST = 256  # characters of a name that are counted; no account has so many, and a key may have 2,048 bytes


def _keys(username: str, source: str) -> dict[str, int]:
    username = username[:LONGEST]
    return {f"pair#{username}#{source}": PAIR, f"source#{source}": SOURCE, f"account#{username}": ACCOUNT}


def check(username: str, source: str) -> None:
    """TooMany while locked; asking while locked starts the time anew for this pair."""
    for key, most in _keys(username, source).items():
        if counters.failures(key) >= most:
            if most == PAIR:
                counters.add_failure(key, SECONDS)
            raise TooMany


def failed(username: str, source: str) -> None:
    """Count one failure; TooMany when attempts at the same time had used up the pair's tries."""
    counts = {most: counters.add_failure(key, SECONDS) for key, most in _keys(username, source).items()}
    if counts[PAIR] > PAIR:
        raise TooMany


def succeeded(username: str, source: str) -> None:
    """Forget the pair's failures; TooMany when attempts at the same time had used up its tries."""
    check(username, source)
    counters.clear_failures(f"pair#{username}#{source}")
