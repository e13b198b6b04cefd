"""The state and modules that the processes of a service share. They are loaded before the fork."""

from __future__ import annotations

from importlib import import_module

from mangrove.core import runtime
from mangrove.core.aws import AwsSession
from mangrove.core.runtime import Kept, Runtime
from mangrove.drivers import registry
from mangrove.net.client import TLS_CONTEXTS, get_tls_context
from mangrove.records.store.base import Connections
from mangrove.standalone.gateway import Gateway
from mangrove.standalone.machines import load_machines
from mangrove.web.page import FrontEndFolder

MODULES = ("uvicorn.lifespan.on", "uvicorn.loops.uvloop")
SHARED = (AwsSession, Connections, TLS_CONTEXTS)  # none has a thread or, without connections, an open file


def preload(page: FrontEndFolder | None) -> tuple[Kept, ...]:
    """Load modules, trusted certificates and the client of the records. Return what to share."""
    for module in MODULES:
        import_module(module)
    registry.load("Local")
    load_machines()
    with runtime.use(Runtime()):
        Gateway(page)
    get_tls_context()
    runtime.get(Connections)
    runtime.get(AwsSession).close_connections()  # a connection must not be used by two processes
    return SHARED
