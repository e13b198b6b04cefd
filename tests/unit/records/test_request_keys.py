"""Claims of requests with a key, and the answers that are kept."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from mangrove.records import request_keys
from mangrove.records.request_keys import RequestClaim, StoredRequest

pytestmark = pytest.mark.usefixtures("records")


def claim(key: str = "key", fingerprint: str = "content") -> RequestClaim:
    result = request_keys.claim(key, fingerprint)
    assert isinstance(result, RequestClaim)
    return result


def test_request_is_claimed_once_and_answered_for_all() -> None:
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: request_keys.claim("key", "content"), range(16)))
    (claimed,) = (result for result in results if isinstance(result, RequestClaim))
    assert results.count(StoredRequest("content", None, False)) == 15
    request_keys.store_answer(claimed, b"answer")
    assert request_keys.claim("key", "other") == StoredRequest("content", b"answer", True)


def test_released_and_expired_claims_are_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    request_keys.release(claim())
    monkeypatch.setattr(request_keys, "CLAIM_SECONDS", -1)
    lost = claim()
    present = claim()
    request_keys.release(lost)  # it belongs to the other process now
    request_keys.store_answer(lost, b"lost")
    monkeypatch.undo()
    request_keys.store_answer(present, b"present")
    assert request_keys.claim("key", "content") == StoredRequest("content", b"present", True)


@pytest.mark.parametrize(("size", "is_stored"), [(150_000, True), (1_000_000, False)])
def test_largest_answer_fits_and_a_larger_one_is_noted(size: int, is_stored: bool) -> None:
    answer = os.urandom(size)  # it cannot be compressed
    request_keys.store_answer(claim(), answer)
    assert request_keys.claim("key", "content") == StoredRequest("content", answer if is_stored else None, True)
