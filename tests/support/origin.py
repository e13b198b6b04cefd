"""A web server with answers set by the test, good or bad ones."""

from __future__ import annotations

import errno
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answering = Callable[["Request"], None]


class Request(BaseHTTPRequestHandler):
    """One request; an Answering says what is sent."""

    protocol_version = "HTTP/1.1"
    origin: Origin

    def do_GET(self) -> None:
        self.origin.requests.append(self)
        path = self.path.partition("?")[0]
        self.close_connection = True
        try:
            self.origin.pages.get(path, status(404))(self)
        except OSError:
            pass  # the client has seen enough

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None: ...

    def head(self, status: int, headers: Mapping[str, str | int]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.send_header("connection", "close")
        self.end_headers()


class Origin:
    """`pages`: what is answered by path. `asked`: the requests so far."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.pages: dict[str, Answering] = {}
        self.requests: list[Request] = []

    def at(self, path: str, page: Answering) -> str:
        """Set the answer at `path`; returns its URL."""
        self.pages[path] = page
        return self.address + path


@contextmanager
def origin(host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Origin]:
    """A server that ends with the context."""
    kind = type("Bound", (Request,), {})
    with ThreadingHTTPServer((host, port), kind) as server:
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        port = server.server_address[1]
        kind.origin = server_origin = Origin(f"{'https' if tls else 'http'}://{host}:{port}")
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield server_origin
        finally:
            server.shutdown()


@contextmanager
def neighbors(first: str, second: str) -> Iterator[tuple[Origin, Origin]]:
    """Servers at two addresses with one port: where it is taken at the second one, another is looked for."""
    with ExitStack() as refused:
        while True:
            first_origin = refused.enter_context(origin(first))
            try:
                other = refused.enter_context(origin(second, int(first_origin.address.rpartition(":")[2])))
            except OSError as problem:
                if problem.errno != errno.EADDRINUSE:
                    raise
            else:
                break
        yield first_origin, other


def file(content: bytes, *, ranges: bool = True, cut: int | None = None, **headers: str) -> Answering:
    """A file, as a good server sends it: with ranges and a strong ETag. `cut`: break off after so many bytes.

    Keywords are further headers, `_` for `-`; one that is "" is left out.
    """

    def answer(request: Request) -> None:
        fields: dict[str, str | int] = {"accept-ranges": "bytes", "etag": f'"{hash(content):x}"'} if ranges else {}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        fields = {name: value for name, value in fields.items() if value != ""}
        match = re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", "")) if ranges else None
        condition = request.headers.get("if-range")
        start = int(match[1]) if match and condition in (None, fields.get("etag"), fields.get("last-modified")) else 0
        if start >= len(content) > 0:
            return request.head(416, {"content-range": f"bytes */{len(content)}", "content-length": 0})
        if start:
            fields["content-range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        request.head(206 if start else 200, {"content-length": len(content) - start} | fields)
        request.wfile.write(content[start : None if cut is None else start + cut])

    return answer


def status(code: int, **headers: str) -> Answering:
    """Nothing but a status."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: request.head(code, {"content-length": 0} | fields)


def redirect(target: str, code: int = 302) -> Answering:
    return status(code, location=target)


def raw(text: bytes) -> Answering:
    """Exactly these bytes, head included."""

    def answer(request: Request) -> None:
        request.wfile.write(text)

    return answer


def endless(block: bytes = b"x" * 65536, pause: float = 0.0, **headers: str) -> Answering:
    """A body without an end, in chunks."""

    def answer(request: Request) -> None:
        request.head(200, {"transfer-encoding": "chunked"} | {k.replace("_", "-"): v for k, v in headers.items()})
        while True:
            request.wfile.write(b"%x\r\n%s\r\n" % (len(block), block))
            time.sleep(pause)

    return answer


def date(seconds: float) -> str:
    """A time as HTTP writes it."""
    return formatdate(seconds, usegmt=True)
