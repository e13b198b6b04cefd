"""The answers of the service to very many requests, byte for byte.

`python -m tests.contract.recorded_answers` records them again. They show everything in front of the endpoints: gates,
the binding of bodies and queries, CORS, the two flavours, failures. Values that differ between runs (a date, a
signature) are replaced by their names.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message

from deployment.generate import api
from mangrove.core import runtime
from mangrove.core.config import Config
from mangrove.core.runtime import Runtime
from tests.contract import example_app
from tests.support.service import Service, run_service
from tests.unit.web.configs import LOCAL

ANSWERS = Path(__file__).with_name("answers.txt")
ENDS_SESSION = "/api/auth/logout"
EFFECTIVE = {  # GETs that do something, or differ each time
    "/api/admin/message/send",
    "/api/admin/overview",
    "/api/admin/session/list",
    "/api/me/sessions",
}
LARGE = 9 << 20
LONG = 1500  # bytes of a body that is not recorded, because the endpoint determines it
VARYING = (
    ("date", re.compile(r"(?<=^date: ).+", re.MULTILINE)),
    ("sign", re.compile(r'(?<="sign":")[^"]+|(?<=\?sign=)[^"]+')),
    ("token", re.compile(r'(?<="token":")[^"]+')),
    ("time", re.compile(r'(?<="created":")[^"]+|(?<="modified":")[^"]+|(?<="last_done_time":")[^"]+')),
    ("id", re.compile(r"(?<=request id )[0-9a-f]+")),
    ("port", re.compile(r"(?<=127\.0\.0\.1:)\d+")),
)
UNRECORDED = {"x-request-id"}  # in every answer, and never twice the same: test_request_ids has it
LENGTH = re.compile(r"(?<=^content-length: )\d+", re.MULTILINE)
PREFLIGHT = {
    "origin": ("https://there",),
    "access-control-request-method": ("GET", "PUT", "QUERY", "PROPFIND", "get"),
    "access-control-request-headers": (None, "authorization, x-any", ""),
    "access-control-request-private-network": (None, "true"),
}


@dataclass(frozen=True)
class Case:
    """A request to the service; `token` stands for the administrator's."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    note: str = ""

    @property
    def name(self) -> str:
        """The name of the case in the record."""
        told = [f"{name}: {text}" for name, text in self.headers.items()]
        if self.body is not None:
            told.append(f"{len(self.body)} bytes" if len(self.body) > 200 else repr(self.body.decode()))
        return " | ".join((f"{self.method} {self.path}", *told))


def list_cases() -> Iterator[Case]:
    """All of them, in the order in which they are sent."""
    yield from list_route_cases()
    yield from list_front_cases()
    yield from list_good_cases()


def list_route_cases() -> Iterator[Case]:
    """Yield the requests of each route without the right, and with values that do not fit."""
    document = json.loads(api.generate_document()["openapi.json"])
    documents, schemas = document["paths"], document["components"]["schemas"]
    admin, wrong = {"authorization": "token"}, "id=x&uid=x&tid=x&page=x&per_page=x&refresh=x&force_root=x"
    for _, method, route in api.iter_routes():
        path = route.path_format.replace("{kind}", "copy").replace("{path}", "a%0Ab")
        yield Case(method, path)
        yield Case(method, path, {"authorization": "nonsense"})
        yield Case(method, f"/openlist{path}", {"authorization": "nonsense", "origin": "https://there"})
        operation = documents.get(route.path_format, {}).get(method.lower(), {})
        if "application/json" in operation.get("requestBody", {}).get("content", {}):
            misfits = json.dumps(build_misfits(operation, schemas)).encode()
            for body in (b"", b"{", b"[]", b'"x"', misfits, b"[" * 100_000, b" " * LARGE):
                yield Case(method, path, admin, body)
            yield Case(method, path, {"authorization": "nonsense"}, b" " * (70 << 10))
        names = {parameter["name"] for parameter in operation.get("parameters", ())}
        if "id" in names or "uid" in names or (method == "GET" and path not in (ENDS_SESSION, *EFFECTIVE)):
            yield Case(method, f"{path}?{wrong}", admin)


def build_misfits(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """Return a body with no valid field."""
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    name = schema.get("$ref", "").rpartition("/")[2]
    if not name:
        return [5]
    properties = schemas[name].get("properties", {})
    return {property_name: 1 if about.get("type") == "object" else {} for property_name, about in properties.items()}


def list_front_cases() -> Iterator[Case]:
    """Yield the requests that are answered before a route is reached, or that no route has."""
    for path in ("/ping", "/api/fs/list", "/api/none", "/openlist/api/me", "/d/a", "/dav/a"):
        combinations: list[dict[str, str]] = [{}]
        for name, values in PREFLIGHT.items():
            combinations = [
                combination if value is None else combination | {name: value}
                for combination in combinations
                for value in values
            ]
        for headers in combinations:
            yield Case("OPTIONS", path, headers)
        yield Case("OPTIONS", path)
        yield Case("OPTIONS", path, {"origin": "https://there"})
        yield Case("OPTIONS", path, {"access-control-request-method": "GET"})
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "QUERY", "TRACE"):
            yield Case(method, path)
            yield Case(method, path, {"origin": "https://there"})
    paths = (
        "/none", "/api", "/api/", "/api/me/", "/ping/", "/ping/more", "//ping", "/openlist", "/openlist/", "/d", "/d/",
        "/p/", "/ae/", "/ae/a?inner=b", "/api/share/list", "/api/public/share/x", "/api/fs/torrent/x",
        "/api/admin/scan/x", "/api/task/none/undone", "/api/task/a/b/undone", "/api/admin/task/copy", "/API/me",
        "/api/m%65", "/d/%FF", "/d/a%2Fb", "/dav", "/dav/", "/davx", "/openapi.json/", "/@assets/none",
        "/openlist/none", "/openlist/d/a", "/openlist/dav/a", "/robots.txt", "/manifest.json", "/favicon.ico",
        "/health", "/" + "a" * 300,
    )  # fmt: skip
    for path in paths:
        for method in ("GET", "HEAD", "POST", "PROPFIND", "OPTIONS"):
            yield Case(method, path, {"origin": "https://there"} if method == "GET" else {})


def list_good_cases() -> Iterator[Case]:
    """Yield valid requests."""
    admin = {"authorization": "token"}
    yield Case("PUT", "/api/fs/put", admin | {"file-path": "/files/a.txt", "last-modified": "1577934245000"}, b"text")
    yield Case("PUT", "/api/fs/put", admin | {"file-path": "/files/%zz"}, b"text")
    yield Case("PUT", "/api/fs/put", admin | {"last-modified": "x"}, b"text")
    yield Case("PUT", "/api/fs/multipart/chunk", admin | {"x-chunk-index": "x"}, b"text")
    yield Case("POST", "/api/fs/multipart/init", admin | {"file-path": "/files/a"}, b"")
    for prefix in ("", "/openlist"):
        for headers in (admin, admin | {"origin": "https://there"}, admin | {"accept-encoding": "gzip"}):
            yield Case("GET", f"{prefix}/api/me", headers)
            for path in ("/", "/files", "/files/a.txt", "/none"):
                body = json.dumps({"path": path}).encode()
                for verb in ("list", "get", "dirs"):
                    yield Case("POST", f"{prefix}/api/fs/{verb}", headers, body)
                    yield Case("GET", f"{prefix}/api/fs/{verb}?path={path}", headers)
        yield Case("POST", f"{prefix}/api/fs/list", admin | {"content-type": "text/plain"}, b"null")
        yield Case("POST", f"{prefix}/api/fs/list?path=/none", admin, b'{"path": null, "none": 1, "page": 2}')
        yield Case("POST", f"{prefix}/api/auth/login", {}, b'{"username": ""}')
        yield Case("POST", f"{prefix}/api/auth/login", {}, b'{"username": "admin", "password": "wrong"}')
        yield Case("POST", f"{prefix}/api/auth/2fa/verify", admin | {"otp-code": "x" * 33}, b"{}")
        yield Case("POST", f"{prefix}/api/auth/2fa/verify?code=1", admin, b'{"code": 5}')
    for header in ({"range": "bytes=1-2"}, {"if-none-match": "*"}, {"origin": "https://there"}):
        yield Case("GET", "/d/files/a.txt", header)
    yield Case("GET", "/api/public/settings", {"origin": "https://there"})
    yield Case("PROPFIND", "/dav/", {"authorization": "token", "depth": "0"})


class Sender:
    """Sends cases to a service."""

    def __init__(self, service: Service) -> None:
        self._host = urlsplit(service.address).netloc
        self._token = service.client().token

    def send(self, case: Case) -> str:
        """The answer as text: the status line, the headers, and the body."""
        connection = http.client.HTTPConnection(self._host, timeout=60)
        try:
            connection.putrequest(case.method, case.path, skip_accept_encoding=True)
            for name, text in case.headers.items():
                connection.putheader(name, self._token if text == "token" else text)
            body = case.body or b""
            if case.body is not None:
                connection.putheader("content-length", str(len(body)))
            connection.endheaders()
            try:
                connection.send(body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it was answered before it was sent
            answer = connection.getresponse()
            status = f"{answer.status} {answer.reason}"
            return format_answer(status, answer.getheaders(), answer.read())
        finally:
            connection.close()


def format_answer(status: str, headers: Sequence[tuple[str, str]], body: bytes) -> str:
    """An answer as the record has it."""
    told = body.decode("utf-8", "backslashreplace") if len(body) < LONG else "<long>"
    names = [(name.lower(), text) for name, text in headers if name.lower() not in UNRECORDED]
    head = "\n".join((status, *(f"{name}: {text}" for name, text in names)))
    masked = told
    for name, pattern in VARYING:
        masked, head = pattern.sub(f"<{name}>", masked), pattern.sub(f"<{name}>", head)
    return f"{LENGTH.sub('<length>', head) if masked != told or told == '<long>' else head}\n\n{masked}"


async def call(app: ASGIApp, method: str, path: str, body: Sequence[bytes | None], **headers: str) -> str:
    """Return the messages of an application for a request; a `None` in the body is a client that leaves."""
    waiting = [
        {"type": "http.disconnect"} if piece is None
        else {"type": "http.request", "body": piece, "more_body": number + 1 < len(body)}
        for number, piece in enumerate(body)
    ]  # fmt: skip
    sent: list[Message] = []

    async def receive() -> Message:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    plain, _, query = path.partition("?")
    scope = {
        "type": "http", "method": method, "path": plain, "raw_path": plain.encode(), "query_string": query.encode(),
        "headers": [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()],
        "http_version": "1.1", "scheme": "http", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        "root_path": "", "asgi": {"version": "3.0"}, "state": {},
    }  # fmt: skip
    try:
        await app(scope, receive, send)
    except Exception as error:  # what reaches the server is a part of the answer
        sent.append({"type": "error", "error": repr(error)})
    head = next(
        (sent_message for sent_message in sent if sent_message["type"] == "http.response.start"),
        {"status": "none", "headers": []},
    )
    told = [(name.decode(), text.decode()) for name, text in head["headers"]]
    pieces = b"".join(sent_message.get("body", b"") for sent_message in sent)
    kinds = " ".join(sent_message.get("error", sent_message["type"]) for sent_message in sent)
    return format_answer(f"{head['status']} {kinds}", told, pieces)


async def call_example() -> list[tuple[str, str]]:
    """The names of the cases of the example, and what was sent for each."""
    app, answers = example_app.make_app(), []
    for method, path, body, headers in example_app.list_requests():
        told = " ".join("(leaves)" if message is None else repr(message)[1:80] for message in body)
        name = " | ".join((f"example: {method} {path}", *(f"{key}: {text}" for key, text in headers.items()), told))
        answers.append((name, await call(app, method, path, body, **headers)))
    return answers


def render(service: Service) -> str:
    """The record: each set of headers once, and each answer once, below all the requests that get it."""
    sender = Sender(service)
    by_answer: dict[str, list[str]] = {}
    for case in list_cases():
        by_answer.setdefault(sender.send(case), []).append(case.name)
    with runtime.use(Runtime()):
        runtime.put(Config, LOCAL)
        for name, answer in asyncio.run(call_example()):
            by_answer.setdefault(answer, []).append(name)
    heads: dict[str, str] = {}
    blocks = [
        make_block([f"< {name}" for name in names], shorten_head(answer.replace("\r", "\\r"), heads))
        for answer, names in by_answer.items()
    ]
    tables = [make_block([f"= {name}"], head.split("\n")) for name, head in sorted(heads.items())]
    return "\n".join(tables + blocks)


def shorten_head(answer: str, heads: dict[str, str]) -> list[str]:
    """Return the lines of an answer. Its headers are put into `heads` and replaced by their name there."""
    head, _, body = answer.partition("\n\n")
    status, _, headers = head.partition("\n")
    length = LENGTH.search(headers)
    headers = LENGTH.sub("<length>", headers)
    name = f"headers {hashlib.sha256(headers.encode()).hexdigest()[:6]}"
    assert heads.setdefault(name, headers) == headers
    return [f"{status}, {name}" + (f", {length[0]} bytes" if length else ""), *(body.split("\n") if body else ())]


def make_block(names: Iterable[str], lines: Iterable[str]) -> str:
    return "\n".join([*names, *(f"  {line}".rstrip() for line in lines), ""])


def record() -> str:
    """Record a new service."""
    api.import_functions()
    with (
        TemporaryDirectory(prefix="mangrove-answers-") as folder,
        run_service(Path(folder) / "data", MANGROVE_PAGE="none") as service,
    ):
        return render(service)


if __name__ == "__main__":
    ANSWERS.write_text(record())
