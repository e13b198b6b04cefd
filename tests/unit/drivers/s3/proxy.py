"""A proxy before an S3 server, through which a test sees, changes, holds and answers requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass
class Exchange:
    """A request and, once the server has answered, its answer; header names in lower case. Either may be changed."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    status: int = 0
    answer_headers: dict[str, str] = field(default_factory=dict)
    answer: bytes = b""

    @property
    def key(self) -> str:
        """The key of a bucket in path style."""
        return urlsplit(self.target).path[1:].partition("/")[2]

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query, keep_blank_values=True)

    @property
    def operation(self) -> str:
        """As boto3 calls it, of those that change or read one object."""
        is_copy = "x-amz-copy-source" in self.headers
        if "uploadId" in self.query:
            put = "upload_part_copy" if is_copy else "upload_part"
            return {"PUT": put, "POST": "complete_multipart_upload", "DELETE": "abort_multipart_upload"}[self.method]
        put = "copy_object" if is_copy else "put_object"
        post = "create_multipart_upload" if "uploads" in self.query else "delete_objects"
        get = "get_object" if self.key else "list_objects"
        return {"PUT": put, "POST": post, "DELETE": "delete_object", "HEAD": "head_object", "GET": get}[self.method]

    def respond(self, status: int, code: str) -> None:
        """Answer with an error of S3, in place of the server."""
        self.status, self.answer_headers = status, {"content-type": "application/xml"}
        self.answer = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()


Look = Callable[[Exchange], None]


class Proxy:
    """`before`: what looks at each request on its way, and may answer it; `verify`: what the server does with what
    arrives; `after`: what looks at each answer."""

    def __init__(self, endpoint: str) -> None:
        self.upstream = urlsplit(endpoint).netloc
        self.endpoint = ""
        self.before: list[Look] = []
        self.after: list[Look] = []
        self.verify: Look = lambda exchange: None
        self.seen: list[Exchange] = []

    def once(self, operation: str, look: Look, condition: str = "") -> None:
        """Look at the first request of an operation only, that has the header `condition` where one is named."""
        waiting = [look]

        def first(exchange: Exchange) -> None:
            if exchange.operation == operation and (not condition or condition in exchange.headers) and waiting:
                waiting.pop()(exchange)

        self.before.append(first)

    def strip(self, *headers: str) -> None:
        """Be a server that ignores these headers of a request."""
        self.before.append(lambda exchange: [exchange.headers.pop(name, None) for name in headers] and None)

    def count(self, operation: str) -> int:
        return sum(exchange.operation == operation for exchange in self.seen)


def flip(content: bytes) -> bytes:
    """The same with one bit turned over in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        exchange = Exchange(self.command, self.path, headers, body)
        self.proxy.seen.append(exchange)
        for look in self.proxy.before:
            look(exchange)
        self.proxy.verify(exchange)
        if not exchange.status:
            self._forward(exchange)
        for look in self.proxy.after:
            look(exchange)
        if exchange.status < 0:  # the answer is lost
            self.close_connection = True
            return
        self.send_response_only(exchange.status)
        length = exchange.answer_headers.pop("content-length", None)
        for name, value in exchange.answer_headers.items():
            self.send_header(name, value)
        if exchange.status != 204:
            self.send_header(
                "content-length", length if self.command == "HEAD" and length else str(len(exchange.answer))
            )
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else exchange.answer)

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

    def _forward(self, exchange: Exchange) -> None:
        connection = HTTPConnection(self.proxy.upstream, timeout=30)
        try:
            headers = {name: value for name, value in exchange.headers.items() if name not in HOP | {"expect"}}
            connection.request(exchange.method, exchange.target, exchange.body, headers)
            response = connection.getresponse()
            exchange.answer = response.read()
            exchange.status = response.status
            dropped = HOP - {"content-length"}
            exchange.answer_headers = {k.lower(): v for k, v in response.getheaders() if k.lower() not in dropped}
        finally:
            connection.close()

    def log_message(self, format: str, *args: object) -> None: ...


@contextmanager
def proxied(endpoint: str) -> Iterator[Proxy]:
    """A proxy before the server at `endpoint` that ends with the context."""
    proxy = Proxy(endpoint)
    kind = type("Bound", (_Handler,), {"proxy": proxy})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        server.daemon_threads = True
        proxy.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield proxy
        finally:
            server.shutdown()
