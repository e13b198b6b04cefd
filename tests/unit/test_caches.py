"""Caches of a process, bounded in entries or in weight."""

from __future__ import annotations

from mangrove.core import runtime
from mangrove.core.caches import BoundedCache, CacheKind
from mangrove.core.runtime import Runtime

WORDS: CacheKind[str, str] = CacheKind("words", 2)


def test_cache_that_is_full_forgets_the_least_recently_used() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)
    for key, value in (("a", 1), ("b", 2)):
        cache.put(key, value)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    assert len(cache) == 2


def test_cache_by_weight_holds_no_more_than_its_weight() -> None:
    cache: BoundedCache[int, bytes] = BoundedCache(10, len)
    for number in range(5):
        cache.put(number, bytes(4))
    assert [number for number in range(5) if cache.get(number)] == [3, 4]
    cache.put(4, bytes(8))
    assert [number for number in range(5) if cache.get(number)] == [4]
    cache.put(5, bytes(11))
    assert len(cache) == 0
    cache.put(6, bytes(10))
    cache.remove(6)
    cache.remove(6)
    cache.put(7, bytes(10))
    assert cache.get(7) == bytes(10)


def test_cache_of_a_kind_belongs_to_the_runtime() -> None:
    with runtime.use(Runtime()):
        WORDS.open().put("a", "b")
        assert WORDS.open().get("a") == "b"
    with runtime.use(Runtime()):
        assert WORDS.open().get("a") is None
