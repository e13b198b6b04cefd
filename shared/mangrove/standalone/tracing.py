"""Traces of requests by OpenTelemetry, with the extra `otel`. They are off unless MANGROVE_TRACING is on.

The variables `OTEL_EXPORTER_OTLP_ENDPOINT` and so on of OpenTelemetry determine where they are sent.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mangrove import __version__
from mangrove.core.telemetry import REQUEST_ID_HEADER, use_spans

MISSING = "MANGROVE_TRACING is on, and OpenTelemetry is not installed: install mangrove-files[otel]"


def is_installed() -> bool:
    """True if the extra `otel` is installed."""
    return find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None


class RequestTracer:
    """A tracer of requests. Each has a span of the kind SERVER, in the trace that the header `traceparent` names."""

    def __init__(self, provider: Any = None) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider or _make_provider()
        self._tracer = self._provider.get_tracer("mangrove", __version__)
        self._propagator = TraceContextTextMapPropagator()

    async def run(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request by an application, in a span."""
        from opentelemetry.trace import SpanKind, StatusCode

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        attributes = {"http.request.method": scope["method"], "url.path": scope["path"], "url.scheme": scope["scheme"]}
        with self._tracer.start_as_current_span(
            scope["method"], self._propagator.extract(headers), SpanKind.SERVER, attributes
        ) as span:

            async def record(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    ids = [value.decode() for name, value in message["headers"] if name == REQUEST_ID_HEADER]
                    span.set_attribute("mangrove.request_id", "".join(ids))
                    if message["status"] >= 500:
                        span.set_status(StatusCode.ERROR)
                await send(message)

            with use_spans(self._tracer.start_as_current_span):
                await app(scope, receive, record)

    def close(self) -> None:
        """Send the spans that wait."""
        self._provider.shutdown()


def _make_provider() -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME", "mangrove")
    provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
