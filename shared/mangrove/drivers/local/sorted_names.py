"""Names of a folder, sorted while they are read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

RUN_NAMES = 4096  # sorted and joined together
SAMPLES_PER_RUN = 8
_SEPARATOR = "/"  # no name has it


class SortedNames:
    """Sorted runs of names, each joined to one text.

    A million separate texts are spread over so much memory that each pass over them in another order waits for it.
    Joined runs are read from their beginning to their end.
    """

    def __init__(self) -> None:
        self._runs: list[str] = []
        self._samples: list[str] = []

    def add(self, names: list[str]) -> None:
        """Add names. The list is sorted in place."""
        if names:
            names.sort()
            self._samples += names[:: max(1, RUN_NAMES // SAMPLES_PER_RUN)]
            self._runs.append(_SEPARATOR.join(names))

    def take(self) -> Iterator[list[str]]:
        """Yield all names in sorted order, in consecutive lists of a few milliseconds of work. Some are empty."""
        if len(self._runs) < 2:
            while self._runs:
                yield self._runs.pop().split(_SEPARATOR)
            return
        self._samples.sort()
        cuts = self._samples[SAMPLES_PER_RUN::SAMPLES_PER_RUN]
        parts: list[list[str]] = [[] for _ in range(len(cuts) + 1)]
        while self._runs:
            _divide(self._runs.pop().split(_SEPARATOR), cuts, parts)
            yield []
        parts.reverse()
        while parts:
            if part := parts.pop():
                yield sorted(_SEPARATOR.join(part).split(_SEPARATOR))


def _divide(names: list[str], cuts: list[str], parts: list[list[str]]) -> None:
    """Add the pieces of a sorted list that lie between two cuts to the parts, each joined."""
    start = 0
    for number, cut in enumerate(cuts):
        stop = bisect_left(names, cut, start)
        if stop > start:
            parts[number].append(_SEPARATOR.join(names[start:stop]))
            start = stop
    if start < len(names):
        parts[-1].append(_SEPARATOR.join(names[start:]))
