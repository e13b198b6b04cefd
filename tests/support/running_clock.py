"""A clock for how long work took this process, whatever else the computer does."""

from __future__ import annotations

import threading
import time
from typing import Self

TICK_SECONDS = 0.01


class RunningClock:
    """Count the seconds in which this process could run: it stands still with the process, or with the computer."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._is_over.is_set():
            time.sleep(TICK_SECONDS)
            self.seconds += TICK_SECONDS

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
