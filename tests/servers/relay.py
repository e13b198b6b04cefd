"""A relay before a server: its port stays while it forwards, says nothing, or refuses.

A restart of the relay looks like a fast restart of a server that is slow to start.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests import servers

BLOCK_BYTES = 1 << 16
MAX_WAITING_CONNECTIONS = 200


class Relay:
    """Pass bytes between `port` and another port of this computer. While it `is_silent`, it passes nothing on."""

    def __init__(self, target: int, *, is_silent: bool = False) -> None:
        self._target = target
        self._ends: set[socket.socket] = set()
        self.is_silent = is_silent
        self.port = servers.free_port()
        self.received_bytes = 0  # from the server
        self.start()

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=MAX_WAITING_CONNECTIONS)
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def stop(self) -> None:
        """End all connections and refuse new ones, as a killed server does."""
        for end in (self._listener, *list(self._ends)):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends.clear()

    def restart(self, *, is_silent: bool = False) -> None:
        self.stop()
        self.is_silent = is_silent
        self.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            self._ends.add(client)
            if not self.is_silent:
                server = socket.create_connection(("127.0.0.1", self._target))
                self._ends.add(server)
                for ends in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_from_server: bool) -> None:
        with suppress(OSError):
            while content := source.recv(BLOCK_BYTES):
                self.received_bytes += len(content) if is_from_server else 0
                target.sendall(content)
        for end in (source, target):
            self._ends.discard(end)
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def relay(target: int, *, is_silent: bool = False) -> Iterator[Relay]:
    made = Relay(target, is_silent=is_silent)
    try:
        yield made
    finally:
        made.stop()
