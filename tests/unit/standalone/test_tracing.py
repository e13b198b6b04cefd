"""Traces of requests, in memory and at a receiver."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import httpx
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from mangrove.core.telemetry import open_span
from mangrove.standalone.tracing import RequestTracer
from mangrove.web.application import Application
from tests.support.service import run_service
from tests.support.waiting import wait_until

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


async def answer(request: Request) -> Response:
    if request.url.path == "/fails":
        raise ValueError("a secret")
    with open_span("inner"):
        await asyncio.to_thread(work)
    return PlainTextResponse("text")


def work() -> None:
    with open_span("thread"):
        pass


def trace(path: str, headers: dict[str, str]) -> tuple[list[ReadableSpan], httpx.Response]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer, app = RequestTracer(provider), Application("files")
    app.default = answer

    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(lambda scope, receive, send: tracer.run(app, scope, receive, send))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.get(path, headers=headers)

    response = asyncio.run(call())
    return list(exporter.get_finished_spans()), response


def test_request_is_a_span_with_inner_spans() -> None:
    spans, response = trace("/a?sign=secret", {"traceparent": f"00-{TRACE}-{PARENT}-01"})
    thread, inner, request = spans
    assert [span.name for span in spans] == ["thread", "inner", "GET"]
    assert request.context is not None and inner.parent is not None and request.parent is not None
    assert thread.parent == inner.context
    assert inner.parent.span_id == request.context.span_id
    assert f"{request.context.trace_id:032x}" == TRACE
    assert f"{request.parent.span_id:016x}" == PARENT
    assert dict(request.attributes or {}) == {
        "http.request.method": "GET",
        "url.path": "/a",
        "url.scheme": "http",
        "http.response.status_code": 200,
        "mangrove.request_id": response.headers["x-request-id"],
    }
    assert "secret" not in request.to_json()


def test_failed_request_is_an_error_without_its_reason() -> None:
    spans, response = trace("/fails", {})
    assert response.status_code == 500
    assert not spans[0].status.is_ok
    assert "a secret" not in spans[0].to_json()


def test_span_without_a_trace_does_nothing() -> None:
    with open_span("alone") as span:
        assert span is None


class Receiver(BaseHTTPRequestHandler):
    bodies: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        self.bodies.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def receive_traces() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    bodies: list[tuple[str, bytes]] = []
    kind = type("Receiver", (Receiver,), {"bodies": bodies})
    with HTTPServer(("127.0.0.1", 0), kind) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", bodies
        server.shutdown()


def test_service_sends_traces_to_the_endpoint(tmp_path: Path) -> None:
    with (
        receive_traces() as (endpoint, bodies),
        run_service(
            tmp_path / "data", MANGROVE_PAGE="none", MANGROVE_TRACING="on", OTEL_EXPORTER_OTLP_ENDPOINT=endpoint,
            OTEL_BSP_SCHEDULE_DELAY="100", OTEL_EXPORTER_OTLP_COMPRESSION="none",
        ) as service,
    ):  # fmt: skip
        service.client().ok("/api/fs/list", path="/files")
        wait_until(lambda: any(path == "/v1/traces" and b"/api/fs/list" in body for path, body in bodies))
        assert any(b"list Local" in body for _, body in bodies)
        assert any(b"records" in body for _, body in bodies)
