"""`GET /metrics`: the metrics of all processes in the text format of Prometheus.

It answers an administrator's program: one with the token of the setting `metrics_token`, or without such a token one
of this computer that no proxy forwards.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from starlette.requests import Request
from starlette.responses import Response

from mangrove import __version__, configuration
from mangrove.core.metrics import PROCESS_IDS, SERIES, Series
from mangrove.core.platform import MachineFigures, platform
from mangrove.core.problems import AccessDenied, Problem, ResourceNotFound
from mangrove.core.shared_memory import metrics
from mangrove.identity import tokens
from mangrove.tasks.overview import Overview, read_overview
from mangrove.web.address import is_direct_loopback
from mangrove.web.application import Application

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OVERVIEW_SECONDS = 10.0  # between two reads of the records for scrapes
MAX_STORAGES = 500  # with a series of their own
Samples = Iterable[tuple[Mapping[str, str], float]]


class MetricsPage:
    """The page of metrics, with the last overview of the records."""

    def __init__(self) -> None:
        self._overview: Overview | None = None
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    def make_app(self) -> Application:
        """Return the application that answers PATH."""
        app = Application("site")
        app.default = self.answer
        return app

    async def answer(self, request: Request) -> Response:
        """Answer a scrape. Raise ResourceNotFound if it is off, AccessDenied for strangers."""
        await _authorize(request)
        overview = await self._get_overview()
        text = await asyncio.to_thread(lambda: render(platform().read_figures(), overview))
        return Response(text, media_type=CONTENT_TYPE, headers={"cache-control": "no-store"})

    async def _get_overview(self) -> Overview | None:
        """Return the overview; None while the records do not answer."""
        async with self._reading:
            if time.monotonic() - self._read_at > OVERVIEW_SECONDS or self._overview is None:
                try:
                    self._overview = await read_overview()
                except Problem:
                    self._overview = None
                self._read_at = time.monotonic()
        return self._overview


async def _authorize(request: Request) -> None:
    settings = (await configuration.get()).settings
    if not settings.metrics_enabled:
        raise ResourceNotFound("metrics are switched off")
    token = settings.metrics_token
    if token and hmac.compare_digest(tokens.read_header(request.headers).encode(), token.encode()):
        return
    if token or not await is_direct_loopback(request):
        raise AccessDenied("metrics need the token of the setting metrics_token")


def render(figures: MachineFigures | None, overview: Overview | None) -> str:
    """Return the text format of all metrics. Without an overview, those of the records are absent."""
    lines = [*_render_shared(), *_render_overview(overview), ""]
    return "\n".join(lines if figures is None else [*_render_figures(figures), *lines])


def _render_shared() -> Iterator[str]:
    for series in SERIES:
        if series is PROCESS_IDS:
            continue
        names = [label.name for label in series.labels]
        if series.buckets:
            yield from _render_histogram(series, names)
            continue
        yield from _head(series.name, "counter", series.help)
        for labels, value in metrics().iterate(series):
            if value:
                yield _format(series.name, dict(zip(names, labels, strict=True)), value)


def _render_histogram(series: Series, names: list[str]) -> Iterator[str]:
    yield from _head(series.name, "histogram", series.help)
    for values, histogram in metrics().iterate_histograms(series):
        labels, count = dict(zip(names, values, strict=True)), 0
        if not any(histogram.counts):
            continue
        for bound, amount in zip((*series.buckets, float("inf")), histogram.counts, strict=True):
            count += amount
            yield _format(f"{series.name}_bucket", labels | {"le": _format_bound(bound)}, count)
        yield _format(f"{series.name}_sum", labels, histogram.total)
        yield _format(f"{series.name}_count", labels, count)


def _render_figures(figures: MachineFigures) -> Iterator[str]:
    yield from _gauge("mangrove_info", "The version.", [({"version": __version__}, 1)])
    yield from _gauge("mangrove_processes", "Processes that answer.", [({}, platform().process_count)])
    yield from _gauge("mangrove_connections", "Connections of HTTP clients.", [({}, figures.connections)])
    yield from _gauge("mangrove_event_streams", "Streams of events.", [({}, figures.event_streams)])
    yield from _gauge("mangrove_sessions", "Sessions used in the last ten minutes.", [({}, figures.sessions)])
    disk = [({"kind": "total"}, figures.total_bytes), ({"kind": "free"}, figures.free_bytes)]
    yield from _gauge("mangrove_data_disk_bytes", "Space of the disk with the data directory.", disk)
    memory = Counter[str]()
    for process in figures.processes:
        memory[process.name] += process.bytes
    sizes = [({"process": name}, size) for name, size in memory.items()]
    yield from _gauge("mangrove_memory_bytes", "Memory of the processes, without what they share twice.", sizes)


def _render_overview(overview: Overview | None) -> Iterator[str]:
    yield from _gauge("mangrove_records_up", "1 if the records answer.", [({}, int(overview is not None))])
    if overview is None:
        return
    tasks: list[tuple[Mapping[str, str], float]] = []
    for kind in overview.tasks:
        tasks += [({"kind": kind.kind, "state": "waiting"}, kind.waiting)]
        tasks += [({"kind": kind.kind, "state": "running"}, kind.running)]
    yield from _gauge("mangrove_tasks", "Unfinished tasks.", tasks)
    ages = [({"kind": kind.kind}, kind.oldest_seconds) for kind in overview.tasks]
    yield from _gauge("mangrove_oldest_task_seconds", "Age of the oldest unfinished task.", ages)
    yield from _gauge(
        "mangrove_index_waiting_changes",
        "Changes that the index has not merged.",
        [({}, overview.index.waiting_changes)],
    )
    yield from _gauge("mangrove_index_lag_seconds", "Age of the oldest one.", [({}, overview.index.lag_seconds)])
    up = [
        ({"mount_path": storage.mount_path, "driver": storage.driver}, int(storage.is_up))
        for storage in overview.storages[:MAX_STORAGES]
        if storage.is_enabled
    ]
    yield from _gauge("mangrove_storage_up", "1 if the storage worked at its last use.", up)


def _gauge(name: str, help: str, samples: Samples) -> Iterator[str]:
    yield from _head(name, "gauge", help)
    for labels, value in samples:
        yield _format(name, labels, value)


def _head(name: str, kind: str, help: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _format(name: str, labels: Mapping[str, str], value: float) -> str:
    text = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
    return f"{name}{{{text}}} {value:.10g}" if text else f"{name} {value:.10g}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _format_bound(bound: float) -> str:
    return "+Inf" if bound == float("inf") else f"{bound:g}"
