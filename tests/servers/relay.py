"""A relay before a server that is slow to start: a restart of the relay looks like a fast restart of the server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests import servers


class Relay:
    """Pass bytes between `port` and another port of this computer."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._ends: set[socket.socket] = set()
        self.port = servers.free_port()
        self.start()

    def start(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()

    def stop(self) -> None:
        """End all connections and refuse new ones, as a killed server does."""
        for end in (self._listener, *list(self._ends)):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends.clear()

    def restart(self) -> None:
        self.stop()
        self.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._ends |= {client, server}
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                target.sendall(content)
        for end in (source, target):
            self._ends.discard(end)
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def relay(target: int) -> Iterator[Relay]:
    made = Relay(target)
    try:
        yield made
    finally:
        made.stop()
