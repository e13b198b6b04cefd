"""Failed sign-ins, counted in a table with expiry: restarts and other instances see the same numbers.

A pair of account and source is locked after MAX_OF_PAIR failures. The wider counts bound what an attacker may try: of
one source over many accounts, and of many sources over one account. They close the door for strangers alone: a source
that has signed in to the account before is judged by its own pair, so that nobody is locked out of where they work.
"""

from __future__ import annotations

from mangrove.core.problems import TooMany
from mangrove.core.sources import find_source
from mangrove.records.store import counters

SECONDS = 300
MAX_OF_PAIR = 5
MAX_OF_SOURCE = 50
MAX_OF_ACCOUNT = 500
KNOWN_SECONDS = 90 * 86_400  # for which a source is remembered that signed in
MAX_LENGTH = 256  # characters of a name that are counted; no account has so many, and a key may have 2,048 bytes


def _make_keys(username: str, place: str) -> dict[str, int]:
    """The counts of an attempt, and how many failures lock each; that of the pair is the first."""
    return {
        f"pair#{username}#{place}": MAX_OF_PAIR,
        f"source#{place}": MAX_OF_SOURCE,
        f"account#{username}": MAX_OF_ACCOUNT,
    }


def _make_known_key(username: str, place: str) -> str:
    return f"known#{username}#{place}"


def _read(username: str, place: str) -> dict[str, tuple[int, int]]:
    """The keys by which an attempt is judged, each with its failures and how many lock it."""
    keys = _make_keys(username, place)
    counts, is_known = counters.read(keys, _make_known_key(username, place), SECONDS)
    judged = list(keys)[:1] if is_known else keys
    return {key: (counts[key], keys[key]) for key in judged}


def check(username: str, source: str) -> None:
    """TooMany while locked; asking while locked starts the time anew for this pair."""
    for key, (count, most) in _read(username[:MAX_LENGTH], find_source(source)).items():
        if count >= most:
            if most == MAX_OF_PAIR:
                counters.add_failure(key, SECONDS)
            raise TooMany(retry_after=SECONDS)


def record_failure(username: str, source: str) -> None:
    """Count one failure; TooMany when attempts at the same time had used up the pair's tries."""
    judged = _read(username[:MAX_LENGTH], find_source(source))
    counts = {most: counters.add_failure(key, SECONDS) for key, (_, most) in judged.items()}
    if counts[MAX_OF_PAIR] > MAX_OF_PAIR:
        raise TooMany(retry_after=SECONDS)


def record_success(username: str, source: str) -> None:
    """Forget the pair's failures and know the source from now on; TooMany when attempts at the same time had used up
    its tries."""
    username, place = username[:MAX_LENGTH], find_source(source)
    pair, known = f"pair#{username}#{place}", _make_known_key(username, place)
    if not counters.settle(pair, MAX_OF_PAIR, SECONDS, known, KNOWN_SECONDS):
        counters.add_failure(pair, SECONDS)
        raise TooMany(retry_after=SECONDS)
