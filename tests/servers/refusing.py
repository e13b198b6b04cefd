"""A server that refuses every call as a service of AWS does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class RefusingServer(ThreadingHTTPServer):
    """A server that counts its refusals."""

    daemon_threads = True

    def __init__(self, code: str, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = json.dumps({"__type": f"com.amazonaws.any#{code}", "message": "no"}).encode()
        self.status = status
        self.refusals = 0

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # as the services and the records engine
    server: RefusingServer

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.refusals += 1
        self.send_response(self.server.status)
        self.send_header("content-type", "application/x-amz-json-1.0")
        self.send_header("content-length", str(len(self.server.answer)))
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def refusing_server(code: str, status: int = 400) -> Iterator[RefusingServer]:
    """Run a server that answers every call with an error."""
    server = RefusingServer(code, status)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
