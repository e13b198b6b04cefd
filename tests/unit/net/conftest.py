"""Host names of the tests' own."""

from __future__ import annotations

import socket
from typing import Any

import pytest


class Names:
    """In front of the system's resolver: names of the test's own, with an answer for each time they are asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: dict[str, list[list[str]]] = {}
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._ask)

    def _ask(self, host: Any, port: Any, *more: Any, **how: Any) -> Any:
        known = self.answers.get(host)
        if known is None:
            return self._real(host, port, *more, **how)
        addresses = known.pop(0) if len(known) > 1 else known[0]
        return [entry for address in addresses for entry in self._real(address, port, *more, **how)]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)
