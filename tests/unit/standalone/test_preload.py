"""The state and modules that the processes of a service share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mangrove.core import runtime
from mangrove.core.aws import AwsSession
from mangrove.core.runtime import Runtime
from mangrove.net.client import TLS_CONTEXTS, get_tls_context
from mangrove.records import settings
from mangrove.records.store.base import Connections
from mangrove.standalone.preload import preload
from mangrove.web.page import FrontEnd
from tests.support.proc import get_family_pss, read_links
from tests.support.service import run_service

MAX_IDLE_BYTES = 160e6  # of two processes that answer, their supervisor and the engine
LEFT_OUT = ("boto3", "duckdb", "mangrove.client", "asyncssh", "opendal", "yaml")  # not needed by an idle process
LIST_IMPORTED = "import sys, mangrove.standalone.preload; print(*sys.modules)"


def list_sockets() -> set[str]:
    return {link for link in read_links(os.getpid()) if link.startswith("socket:")}


def test_preload_returns_slots_without_connections(records: None) -> None:
    with runtime.use(Runtime()):
        before = list_sockets()
        assert settings.all() == {}
        assert list_sockets() - before
        assert set(preload(None).shared) == {AwsSession, Connections, FrontEnd, TLS_CONTEXTS}
        assert not list_sockets() - before  # sockets that other tests left may be collected meanwhile


def test_forked_process_reads_records_with_the_shared_client(records: None) -> None:
    settings.save({"site_title": "Shared"})
    shared = preload(None).shared
    client = runtime.get(Connections).get(settings.SettingRecord).connection.client
    context = TLS_CONTEXTS.open().get("trusted")
    assert context is not None
    pid = os.fork()
    if not pid:
        with runtime.use(runtime.current().keep(*shared)):
            is_same = runtime.get(Connections).get(settings.SettingRecord).connection.client is client
            is_same = is_same and get_tls_context() is context
            os._exit(0 if is_same and settings.all() == {"site_title": "Shared"} else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert settings.all() == {"site_title": "Shared"}


def test_preload_finds_the_functions_from_any_folder(engine: str, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", "from mangrove.standalone.preload import preload; preload(None)"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)


def test_preload_leaves_out_what_an_idle_process_does_not_need(engine: str) -> None:
    listed = subprocess.run([sys.executable, "-c", LIST_IMPORTED], check=True, capture_output=True, text=True).stdout
    assert "mangrove.standalone.gateway" in listed.split()
    assert not set(LEFT_OUT) & set(listed.split())


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the kernel does not tell shares of pages")
def test_idle_service_with_two_processes_is_small(tmp_path: Path) -> None:
    with run_service(tmp_path / "data", MANGROVE_PROCESSES="2") as service:
        assert len(service.list_servers()) == 2
        assert get_family_pss(service.process.pid) < MAX_IDLE_BYTES
