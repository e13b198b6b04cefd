"""The slots of a process."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import pytest

from mangrove.core import runtime
from mangrove.core.runtime import BoundedCache, CacheKind, Runtime


class Slow:
    def __init__(self) -> None:
        time.sleep(0.01)
        self.other = runtime.get(Other)  # a slot may need another one


class Other:
    pass


class Broken:
    def __init__(self) -> None:
        raise OSError("not now")


def test_a_slot_is_made_once_whatever_thread_asks_first() -> None:
    with ThreadPoolExecutor(8) as pool:
        instances = list(pool.map(lambda _: runtime.get(Slow), range(16)))
    assert len({id(instance) for instance in instances}) == 1
    assert instances[0].other is runtime.get(Other)


def test_a_slot_can_be_filled_with_what_was_made_elsewhere() -> None:
    own = Other()
    runtime.put(Other, own)
    assert runtime.get(Other) is own


def test_a_slot_that_cannot_be_made_is_tried_again() -> None:
    for _ in range(2):
        with pytest.raises(OSError, match="not now"):
            runtime.get(Broken)


def test_a_runtime_is_replaced_as_a_whole_and_for_all_threads() -> None:
    outer, before = runtime.current(), runtime.get(Other)
    seen: list[Other] = []
    with runtime.use(Runtime()) as inner:
        assert runtime.current() is inner
        thread = Thread(target=lambda: seen.append(runtime.get(Other)))
        thread.start()
        thread.join()
        assert seen == [runtime.get(Other)] != [before]
    assert runtime.current() is outer
    assert runtime.get(Other) is before


def test_the_former_runtime_is_back_after_a_failure() -> None:
    outer = runtime.current()
    with pytest.raises(OSError, match="not now"), runtime.use(Runtime()):
        runtime.get(Broken)
    assert runtime.current() is outer


def test_a_new_runtime_may_keep_what_is_costly() -> None:
    slow, other = runtime.get(Slow), runtime.get(Other)
    with runtime.use(runtime.current().keep(Slow)):
        assert runtime.get(Slow) is slow
        assert runtime.get(Other) is not other


class Closable:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_end_of_runtime_closes_only_what_it_made() -> None:
    taken = runtime.get(Closable)
    with runtime.use(runtime.current().keep(Closable)):
        assert runtime.get(Closable) is taken
    with runtime.use(Runtime()):
        made = runtime.get(Closable)
    assert (taken.closed, made.closed) == (0, 1)


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


def test_cache_remove_all_removes_what_matches() -> None:
    cache: BoundedCache[str, bytes] = BoundedCache(6, len)
    for key, value in (("a", b"xx"), ("b", b"yy"), ("c", b"xx")):
        cache.put(key, value)
    cache.remove_all(lambda _, value: value == b"xx")
    assert [cache.get(key) for key in "abc"] == [None, b"yy", None]
    cache.put("d", b"zzzz")  # the weight of the removed ones is free again
    assert len(cache) == 2


def test_cache_used_by_several_threads_keeps_its_bound() -> None:
    cache: BoundedCache[int, int] = BoundedCache(8)

    def use(start: int) -> None:
        for number in range(5_000):
            key = (start + number) % 16
            cache.put(key, number)
            cache.get((key + 7) % 16)
            cache.remove((key + 3) % 16)

    with ThreadPoolExecutor(4) as threads:
        for result in [threads.submit(use, start) for start in range(4)]:
            result.result()
    for key in range(16):
        cache.put(key, key)
    assert len(cache) == 8


def test_cache_of_a_kind_belongs_to_the_runtime() -> None:
    with runtime.use(Runtime()):
        WORDS.open().put("a", "b")
        assert WORDS.open().get("a") == "b"
        with runtime.use(runtime.current().keep(WORDS)):
            assert WORDS.open().get("a") == "b"
    with runtime.use(Runtime()):
        assert WORDS.open().get("a") is None
