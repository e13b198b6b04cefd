"""The state and modules that the processes of a service share. They are loaded before the fork."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from mangrove.core import runtime
from mangrove.core.aws import AwsSession
from mangrove.core.runtime import Kept
from mangrove.drivers import registry
from mangrove.net.client import TLS_CONTEXTS, get_tls_context
from mangrove.records.store.base import Connections
from mangrove.standalone.gateway import Gateway
from mangrove.standalone.leader import TaskLeader
from mangrove.standalone.machines import load_machines
from mangrove.web.page import FrontEnd, FrontEndFolder

MODULES = ("mangrove.web.form_parts", "uvicorn.lifespan.on", "uvicorn.loops.uvloop")  # imported later otherwise
SHARED = (AwsSession, Connections, FrontEnd, TLS_CONTEXTS)  # none has a thread or, without connections, an open file


class Preloaded(NamedTuple):
    """The routes, and the slots and caches to share with the processes."""

    gateway: Gateway
    shared: tuple[Kept, ...]


def preload(page: FrontEndFolder | None, leader: TaskLeader | None = None) -> Preloaded:
    """Load modules, trusted certificates, the routes and the client of the records."""
    for module in MODULES:
        import_module(module)
    registry.load("Local")
    load_machines()
    gateway = Gateway(page, leader)
    get_tls_context()
    runtime.get(Connections)
    runtime.get(AwsSession).close_connections()  # a connection must not be used by two processes
    return Preloaded(gateway, SHARED)
