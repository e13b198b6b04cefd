"""Whose task is next, and who makes room for whom."""

from __future__ import annotations

from mangrove.standalone.fair_queue import FairQueue, Queued

ANNA, BEN, CARL = 1, 2, 3


def name(owner: int, number: int) -> Queued:
    return Queued("copy", owner, f"{owner}.{number}")


def fill(**counts: int) -> FairQueue:
    """A queue in which so many tasks of each wait."""
    queue = FairQueue()
    for owner, count in zip((ANNA, BEN, CARL), counts.values(), strict=False):
        for number in range(count):
            queue.add(name(owner, number))
    return queue


def take(queue: FairQueue, *, end: bool = True) -> str:
    one = queue.take()
    assert one is not None
    if end:
        queue.end(one)
    return one.id


def test_owners_take_turns_and_of_each_the_oldest_task_is_first() -> None:
    queue = fill(anna=4, ben=1, carl=2)
    assert [one.id for one in queue] == ["1.0", "2.0", "3.0", "1.1", "3.1", "1.2", "1.3"]
    assert [take(queue) for _ in range(7)] == ["1.0", "2.0", "3.0", "1.1", "3.1", "1.2", "1.3"]
    assert queue.take() is None


def test_whoever_has_the_fewest_at_work_is_next() -> None:
    queue = fill(anna=9)
    assert [take(queue, end=False) for _ in range(3)] == ["1.0", "1.1", "1.2"]
    for number in range(9):
        queue.add(name(BEN, number))
    assert [take(queue, end=False) for _ in range(5)] == ["2.0", "2.1", "2.2", "1.3", "2.3"]
    assert queue.at_work == 8


def test_a_task_makes_room_only_where_the_other_owner_is_worse_off_and_not_to_and_fro() -> None:
    queue = fill(anna=9)
    taken = [queue.take() for _ in range(5)]
    assert not queue.is_due(ANNA)
    for number in range(9):
        queue.add(name(BEN, number))
    steps = 0
    while queue.is_due(ANNA):
        one = taken.pop()
        assert one is not None
        queue.end(one)
        queue.add(one, first=True)
        assert take(queue, end=False).startswith("2.")
        steps += 1
    assert (steps, queue.is_due(BEN)) == (2, False)
    next_ones = [take(queue, end=False) for _ in range(2)]
    assert next_ones == ["2.2", "1.3"]  # what made room goes on before what has not begun


def test_a_single_worker_goes_round() -> None:
    queue = fill(anna=1, ben=1, carl=1)
    turns, one = [], queue.take()
    for _ in range(6):
        assert one is not None
        turns.append(one.owner)
        assert queue.is_due(one.owner)
        queue.end(one)
        queue.add(one, first=True)
        one = queue.take()
    assert turns == [ANNA, BEN, CARL] * 2


def test_what_is_dropped_waits_no_more() -> None:
    queue = fill(anna=2)
    assert (queue.discard(name(ANNA, 0)), queue.discard(name(ANNA, 0)), queue.discard(name(BEN, 0))) == (
        True, False, False
    )  # fmt: skip
    assert (name(ANNA, 0) in queue, name(ANNA, 1) in queue) == (False, True)
    assert take(queue) == "1.1"
    assert list(queue) == []


def test_a_waiting_task_costs_little_memory() -> None:
    import tracemalloc

    ids = [f"{number:021}" for number in range(10_000)]
    tracemalloc.start()
    queue = FairQueue()
    for id in ids:
        queue.add(Queued("copy", ANNA, id))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(list(queue)) == len(ids)
    assert used < 300 * len(ids)
