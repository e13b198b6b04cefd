"""The HTTP API on one machine: the template's routes in front of the functions' own applications."""

from __future__ import annotations

import asyncio
import gc
import re
import signal
import sys
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from mangrove.local import docs, scheduler
from mangrove.local.machines import Runner
from mangrove.local.template import DEFAULT, GREEDY, ROOT, RouteSpec, routes
from mangrove.site import snapshot
from mangrove.telemetry import log_exception
from mangrove.tree import mounts

THREADS = 32  # for blocking work of drivers and records


def module_of(code: str) -> Any:
    """The module `app` in a function's folder."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return import_module(f"{code.replace('/', '.')}.app")


class Gateway:
    """Routes a request as API Gateway does: the exact path first, then one with parameters, the longest greedy
    one, the default."""

    def __init__(self) -> None:
        specs = routes()
        self._apps: dict[str, ASGIApp] = {code: module_of(code).app for code in {spec.code for spec in specs}}
        self._exact = {(spec.method, spec.path): self._apps[spec.code] for spec in specs if GREEDY not in spec.path}
        self._patterns = [
            (re.compile(re.sub(r"{\w+}", "[^/]+", spec.path)), spec.method, self._apps[spec.code])
            for spec in specs
            if "{" in spec.path and GREEDY not in spec.path
        ]
        greedy = sorted((spec for spec in specs if GREEDY in spec.path), key=_length, reverse=True)
        self._greedy = [(spec.path.removesuffix(GREEDY), spec.method, self._apps[spec.code]) for spec in greedy]
        self._default = self._exact["ANY", DEFAULT]
        self._work: list[asyncio.Task[None]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._app(scope["method"], scope["path"])(scope, receive, send)

    def _app(self, method: str, path: str) -> ASGIApp:
        found = self._exact.get((method, path)) or self._exact.get(("ANY", path)) or docs.page(path)
        if found is not None:
            return found
        for pattern, wanted, app in self._patterns:
            if wanted in (method, "ANY") and pattern.fullmatch(path):
                return app
        for prefix, wanted, app in self._greedy:
            if path.startswith(prefix) and wanted in (method, "ANY") and len(path) > len(prefix):
                return app
        return self._default

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(THREADS, "work"))
        loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, snapshot.refresh))
        self._work = [asyncio.create_task(_kept(work)) for work in (_load(), Runner().live(), scheduler.run())]
        gc.freeze()  # what is there now stays: no collection needs to look through it again
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for task in self._work:
            task.cancel()
        await mounts.close()
        await send({"type": "lifespan.shutdown.complete"})


def _length(spec: RouteSpec) -> int:
    return len(spec.path)


async def _kept(work: Coroutine[Any, Any, None]) -> None:
    """Work beside the answers to requests; when it breaks, the log says so."""
    try:
        await work
    except Exception:
        log_exception("work in the background ended")


async def _load() -> None:
    """Start the storages in the background: a dead one must not delay the service."""
    await asyncio.to_thread(snapshot.refresh)  # what changed before SIGHUP was listened to
    await mounts.load()
