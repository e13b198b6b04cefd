"""The HTTP API of the standalone service: the template's routes in front of the functions' own applications."""

from __future__ import annotations

import asyncio
import gc
import re
import signal
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from mangrove import configuration
from mangrove.core import runtime
from mangrove.core.config import config
from mangrove.core.platform import platform
from mangrove.core.problems import Problem
from mangrove.core.shared_memory import Activity
from mangrove.core.telemetry import log_exception, log_warning
from mangrove.net.client import get_tls_context
from mangrove.search.corrections import Corrections
from mangrove.standalone import disk_watch, docs, health, metrics, protocol_servers, scheduler
from mangrove.standalone.figures import note_process
from mangrove.standalone.leader import TaskLeader
from mangrove.standalone.processes import limit_arenas, trim_regularly
from mangrove.standalone.runner import Runner
from mangrove.standalone.template import DEFAULT, GREEDY, import_code, read_routes
from mangrove.standalone.tracing import RequestTracer
from mangrove.tasks.index import indexing
from mangrove.tree import mounts
from mangrove.web.page import FrontEnd, FrontEndFolder

THREADS = 32  # for blocking calls of drivers and records
FIRST_REPEAT_SECONDS, MAX_REPEAT_SECONDS = 0.5, 30.0  # between two attempts of work in the background
Work = Callable[[], Coroutine[Any, Any, None]]


def import_app(code: str) -> Any:
    """Import the module `app` in a function's folder."""
    return import_code(code, "app")


class Gateway:
    """The router.

    It prefers like API Gateway: the exact path, then one with parameters, the longest greedy one, the default.
    """

    def __init__(self, page: FrontEndFolder | None = None, leader: TaskLeader | None = None) -> None:
        runtime.get(FrontEnd).page = page
        specs = read_routes()
        apps = {code: import_app(code).app for code in {spec.code for spec in specs}}
        for app in apps.values():
            app.prepare()
        self._apps: dict[str, ASGIApp] = apps
        self._exact = {(spec.method, spec.path): self._apps[spec.code] for spec in specs if GREEDY not in spec.path}
        self._patterns = [
            (re.compile(re.sub(r"{\w+}", "[^/]+", spec.path)), spec.method, self._apps[spec.code])
            for spec in specs
            if "{" in spec.path and GREEDY not in spec.path
        ]
        greedy = sorted((spec for spec in specs if GREEDY in spec.path), key=lambda spec: len(spec.path), reverse=True)
        self._greedy = [(spec.path.removesuffix(GREEDY), spec.method, self._apps[spec.code]) for spec in greedy]
        self._default = self._exact["ANY", DEFAULT]
        self._docs = docs.make_app()
        self._metrics = metrics.MetricsPage().make_app()
        self._leader = leader or TaskLeader()
        self._background: list[asyncio.Task[None]] = []
        self._tracer: RequestTracer | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            app = self.find_app(scope["method"], scope["path"])
            if self._tracer is None:
                await app(scope, receive, send)
            else:
                await self._tracer.run(app, scope, receive, send)

    def find_app(self, method: str, path: str) -> ASGIApp:
        """Return the application that answers a request to a path."""
        exact = self._exact.get((method, path)) or self._exact.get(("ANY", path))
        if exact is not None:
            return exact
        if docs.find_page(path) is not None:
            return self._docs
        if path == metrics.PATH:
            return self._metrics
        for pattern, route_method, app in self._patterns:
            if route_method in (method, "ANY") and pattern.fullmatch(path):
                return app
        for prefix, route_method, app in self._greedy:
            if path.startswith(prefix) and route_method in (method, "ANY") and len(path) > len(prefix):
                return app
        return self._default

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        limit_arenas()
        note_process()
        if config().tracing:
            self._tracer = await asyncio.to_thread(RequestTracer)  # in each process: its thread would not be forked
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(THREADS, "work"))
        loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, configuration.reload))
        platform().dispatcher = self._leader
        data = config().data
        if data is not None:
            health.add_disk_check()
            health.add_work_checks()
            health.add_descriptor_check()
            self._run(health.watch_descriptors)
        loading = self._run(_load_storages)
        self._run(trim_regularly)
        self._run(Corrections().run)
        if data is not None:
            self._run(partial(self._lead, data, loading))
        gc.freeze()  # exclude all present objects from garbage collection
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in self._background:
            task.cancel()
        await mounts.close()
        if self._tracer is not None:
            await asyncio.to_thread(self._tracer.close)
        await send({"type": "lifespan.shutdown.complete"})

    def _run(self, work: Work) -> asyncio.Task[None]:
        task = asyncio.create_task(repeat_until_done(work))
        self._background.append(task)
        return task

    async def _lead(self, data: Path, loading: asyncio.Task[None]) -> None:
        """Do the work that one process does for all, once this process leads. `loading` loads the storages."""
        await self._leader.wait()
        runner = Runner()
        self._leader.lead(runner)
        work = {Activity.TASKS: self._run(runner.run), Activity.SCHEDULE: self._run(scheduler.run)}
        self._run(partial(health.note_work, work))
        self._run(partial(_tend_index, loading))
        self._run(disk_watch.run)
        self._run(partial(protocol_servers.run, data))


async def repeat_until_done(work: Work) -> None:
    """Run work in the background until it succeeds.

    It is repeated because the records may not answer when the service starts.
    """
    delay = FIRST_REPEAT_SECONDS
    while True:
        try:
            await work()
            return
        except Problem as problem:
            log_warning("background work failed; retrying", reason=problem.message, seconds=delay)
        except Exception:
            log_exception("background work raised an error; retrying", seconds=delay)
        await asyncio.sleep(delay)
        delay = min(2 * delay, MAX_REPEAT_SECONDS)


async def _load_storages() -> None:
    """Start the storages in the background, since one that does not answer must not delay the service."""
    await asyncio.to_thread(get_tls_context)  # which takes longer than a turn of the event loop may
    await asyncio.to_thread(configuration.reload)  # a change may have been made before SIGHUP was handled
    await mounts.load()


async def _tend_index(loading: asyncio.Task[None]) -> None:
    """Build the indexes that are missing or due, after the storages were loaded."""
    await asyncio.shield(loading)
    await indexing.repair()
    await indexing.refresh()
