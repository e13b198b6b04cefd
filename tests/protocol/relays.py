"""A relay before a server: its port stays while it forwards, says nothing, or refuses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

BLOCK = 1 << 16
MAX_WAITING_CONNECTIONS = 200


class Relay:
    """`port`: where it listens. While it `is_silent`, its connections transfer nothing."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.is_silent = True
        self._target = target
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=MAX_WAITING_CONNECTIONS)
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def forward(self) -> None:
        """From now on serve those who connect; who waits in vain is dropped."""
        self.is_silent = False
        self._drop()

    def close(self) -> None:
        """Refuse every connection."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._drop()

    def _drop(self) -> None:
        while self._open:
            connection = self._open.pop()
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                self._open.append(client)
                if not self.is_silent:
                    server = socket.create_connection(("127.0.0.1", self._target))
                    self._open.append(server)
                    for pair in ((client, server), (server, client)):
                        threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # one of them is gone
            while block := source.recv(BLOCK):
                target.sendall(block)
            target.shutdown(socket.SHUT_WR)


@contextmanager
def relay(target: int) -> Iterator[Relay]:
    """A silent relay before the port `target`, which ends with the context."""
    made = Relay(target)
    try:
        yield made
    finally:
        made.close()
