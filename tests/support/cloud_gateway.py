"""An HTTP server in front of a deployment, as API Gateway is: each request becomes an event of a function."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import unquote

from mangrove.standalone.template import DEFAULT, GREEDY, RouteSpec, read_routes
from tests.support.lambdas import Cloud
from tests.support.runtime_api import Function


class CloudRoutes:
    """The routes of the template: the exact path, then one with parameters, the longest greedy one, the default."""

    def __init__(self, cloud: Cloud) -> None:
        specs = read_routes()
        self._cloud = cloud
        self._exact = {(spec.method, spec.path): spec for spec in specs}
        self._patterns = [
            (re.compile(re.sub(r"{\w+}", "[^/]+", spec.path.replace(GREEDY, ".+"))), spec)
            for spec in sorted(specs, key=lambda spec: (GREEDY in spec.path, -len(spec.path)))
            if "{" in spec.path
        ]

    def find(self, method: str, path: str) -> Function:
        """Return the function that answers a request."""
        return self._cloud.get_function_in(self._find(method, path).code)

    def _find(self, method: str, path: str) -> RouteSpec:
        for name in (method, "ANY"):
            if (name, path) in self._exact:
                return self._exact[name, path]
        for pattern, spec in self._patterns:
            if spec.method in (method, "ANY") and pattern.fullmatch(path):
                return spec
        return self._exact["ANY", DEFAULT]


def make_event(handler: BaseHTTPRequestHandler, body: bytes) -> dict[str, Any]:
    """Return the event of an HTTP API, in payload format 2.0, of a request."""
    path, _, query = handler.path.partition("?")
    host = handler.headers["host"]
    details = {
        "method": handler.command,
        "path": unquote(path),
        "protocol": "HTTP/1.1",
        "sourceIp": handler.client_address[0],
        "userAgent": handler.headers.get("user-agent", ""),
    }
    return {
        "version": "2.0",
        "routeKey": DEFAULT,
        "rawPath": unquote(path),
        "rawQueryString": query,
        "headers": {name.lower(): value for name, value in handler.headers.items()} | {"x-forwarded-proto": "https"},
        "requestContext": {"domainName": host, "http": details, "requestId": "r", "stage": "$default"},
        "body": base64.b64encode(body).decode(),
        "isBase64Encoded": True,
    }


@contextmanager
def serve_cloud(cloud: Cloud, certificate: Path) -> Iterator[str]:
    """Return the address at which the functions of a deployment answer, one request of each at a time.

    `certificate`: the file with the certificate of the server and its key.
    """
    routes = CloudRoutes(cloud)
    locks: dict[Function, Lock] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            event = make_event(self, body)
            function = routes.find(self.command, event["rawPath"])
            with locks.setdefault(function, Lock()):
                answer = function(event)
            content = answer.get("body") or ""
            payload = base64.b64decode(content) if answer.get("isBase64Encoded") else content.encode()
            self.send_response(answer["statusCode"])
            for name, value in answer["headers"].items():
                if name.lower() != "content-length":
                    self.send_header(name, value)
            self.send_header("content-length", str(len(payload)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(payload)

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = answer

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Do nothing: browsers end connections whose certificate they do not know."""

    with Server(("127.0.0.1", 0), Handler) as server:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
