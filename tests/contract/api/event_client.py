"""A client of `/api/events`."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import httpx

from tests.support.service import Client

WAIT_SECONDS = 120.0
SILENCE_SECONDS = 0.5
CLOSED = "closed"


class EventReader:
    """The events of a stream, read by a thread; after the last one comes CLOSED."""

    def __init__(self, answer: httpx.Response) -> None:
        self._events: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._answer = answer
        self.comments = 0
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        name = ""
        try:
            for line in self._answer.iter_lines():
                key, _, text = line.partition(": ")
                if line.startswith(":"):
                    self.comments += 1
                elif key == "event":
                    name = text
                elif key == "data":
                    self._events.put((name, json.loads(text)))
        except (httpx.HTTPError, httpx.StreamError):
            pass  # the test has closed it
        self._events.put((CLOSED, None))

    def wait_for(self, name: str) -> Any:
        """The data of the next event of this name; others before it are skipped."""
        while True:
            present, data = self._events.get(timeout=WAIT_SECONDS)
            if present == name:
                return data
            assert present != CLOSED, name

    def is_silent(self) -> bool:
        """True if no event comes for a while."""
        try:
            self._events.get(timeout=SILENCE_SECONDS)
        except Empty:
            return True
        return False


@contextmanager
def follow(client: Client, path: str, **headers: str) -> Iterator[EventReader]:
    """The stream of a folder, after its first event."""
    with client.http.stream("GET", "/api/events", params={"path": path}, headers=headers, timeout=120) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.read()
        reader = EventReader(answer)
        assert reader.wait_for("ready") == {"path": path}
        try:
            yield reader
        finally:
            with suppress(OSError):  # the thread reads it: without this, it stays open until the next event
                answer.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
