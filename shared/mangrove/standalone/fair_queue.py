"""Tasks that wait for a worker, shared fairly: nobody waits for all that somebody else has asked for before."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import NamedTuple


class Queued(NamedTuple):
    """A task of `kind` that the user `owner` has opened."""

    kind: str
    owner: int
    id: str


class FairQueue:
    """Whoever has the fewest tasks at work is next, of several the one whose last turn is the longest ago; of one
    owner, the oldest task."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, OrderedDict[Queued, None]] = OrderedDict()  # by owner, the next turn first
        self._at_work: Counter[int] = Counter()  # of each owner

    @property
    def at_work(self) -> int:
        """How many tasks were taken and have not ended."""
        return self._at_work.total()

    def add(self, one: Queued, *, first: bool = False) -> None:
        """Let a task wait, `first` before the others of its owner."""
        mine = self._waiting.setdefault(one.owner, OrderedDict())
        mine[one] = None
        if first:
            mine.move_to_end(one, last=False)

    def discard(self, one: Queued) -> bool:
        """Let a task wait no more; whether it did."""
        mine = self._waiting.get(one.owner, OrderedDict())
        if one not in mine:
            return False
        del mine[one]
        if not mine:
            del self._waiting[one.owner]
        return True

    def take(self) -> Queued | None:
        """The next task, which is at work from now on; None when none waits."""
        if not self._waiting:
            return None
        owner = min(self._waiting, key=self._at_work.__getitem__)
        one = next(iter(self._waiting[owner]))
        self._waiting.move_to_end(owner)
        self.discard(one)
        self._at_work[owner] += 1
        return one

    def end(self, one: Queued) -> None:
        """A task that was taken is at work no more."""
        self._at_work[one.owner] -= 1
        if not self._at_work[one.owner]:
            del self._at_work[one.owner]

    def is_due(self, owner: int) -> bool:
        """Whether a task of `owner` that is at work is to make room for another owner's: one who has none at work, or
        fewer also after that."""
        mine = self._at_work[owner]
        return any(
            not self._at_work[other] or self._at_work[other] + 1 < mine for other in self._waiting if other != owner
        )

    def __contains__(self, one: object) -> bool:
        return isinstance(one, Queued) and one in self._waiting.get(one.owner, ())

    def __iter__(self) -> Iterator[Queued]:
        """What waits, about in the order in which it will be taken."""
        turns = [iter(mine) for mine in self._waiting.values()]
        while turns:
            left = []
            for turn in turns:
                one = next(turn, None)
                if one is not None:
                    yield one
                    left.append(turn)
            turns = left
