"""Requests that clients name by a key, with their answers: a repeated request gets the first answer.

A request is claimed before its work starts. If its process dies, the claim expires.
"""

from __future__ import annotations

import time
import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass
from secrets import token_hex

from mangrove.records.store.base import RecordConflict, translate_errors
from mangrove.records.store.counters import Counter, make_end

CLAIM_SECONDS = 60  # longer than the time of a request in the cloud
ANSWER_SECONDS = 3600
MAX_STORED_BYTES = 256 << 10  # of an answer, compressed; a record has at most 400 KB
IN_PROGRESS, ANSWERED = 0, 1


@dataclass(frozen=True, slots=True)
class RequestClaim:
    """The right to answer the request with a key."""

    key: str
    token: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request that another process has claimed or answered."""

    fingerprint: str
    """The hash of what was requested."""
    answer: bytes | None
    """None while it is in progress, and if it was too large to store."""
    is_answered: bool


def claim(key: str, fingerprint: str) -> RequestClaim | StoredRequest:
    """Claim the request with a key, or return the request that has it already."""
    now, request = time.time(), RequestClaim(key, token_hex(12), fingerprint)
    counter = _make_record(key)
    free = Counter.key.does_not_exist() | (Counter.until < now)
    actions = [
        Counter.value.set(IN_PROGRESS),
        Counter.holder.set(request.token),
        Counter.changes.set({"fingerprint": fingerprint}),
        *make_end(now, CLAIM_SECONDS),
    ]
    try:
        with translate_errors():
            counter.update(actions=actions, condition=free)
        return request
    except RecordConflict:
        stored = _find(key)
    return claim(key, fingerprint) if stored is None else stored


def _find(key: str) -> StoredRequest | None:
    """Return the request with a key; None if it was released meanwhile."""
    record = Counter.find(f"request#{key}")
    if record is None:
        return None
    changes = record.changes or {}
    answer = changes.get("answer")
    return StoredRequest(
        str(changes.get("fingerprint", "")),
        None if answer is None else zlib.decompress(b64decode(answer)),
        int(record.value) == ANSWERED,
    )


def store_answer(request: RequestClaim, answer: bytes) -> None:
    """Store the answer of a claimed request for ANSWER_SECONDS. A larger one is noted without its text."""
    compressed = b64encode(zlib.compress(answer)).decode()
    content = {"fingerprint": request.fingerprint}
    if len(compressed) <= MAX_STORED_BYTES:
        content["answer"] = compressed
    actions = [Counter.value.set(ANSWERED), Counter.changes.set(content), *make_end(time.time(), ANSWER_SECONDS)]
    try:
        with translate_errors():
            _make_record(request.key).update(actions=actions, condition=Counter.holder == request.token)
    except RecordConflict:
        pass  # the claim has expired, and another process has the request


def release(request: RequestClaim) -> None:
    """Release a claim after a failure: the next request with the key does the work."""
    try:
        with translate_errors():
            _make_record(request.key).delete(condition=Counter.holder == request.token)
    except RecordConflict:
        pass


def _make_record(key: str) -> Counter:
    return Counter(f"request#{key}")
