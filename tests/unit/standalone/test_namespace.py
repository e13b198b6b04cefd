"""The network namespace of the records engine: only the service reaches it, also after parts of it were restarted."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from mangrove.records.store.endpoints import EngineEndpoint
from mangrove.standalone import engine, namespace
from mangrove.standalone.engine import Engine
from mangrove.standalone.namespace import Namespace, NamespaceRefused
from tests.support.namespaces import needs_namespaces, needs_refusal, without_namespaces
from tests.support.proc import is_gone

OPEN = "records engine runs without a namespace: any account of this machine can reach it"
RUN = """
import json, os, sys
from pathlib import Path
from mangrove.standalone.engine import Engine
engine = Engine(Path(sys.argv[1]))
engine.start()
engine.endpoint.connect(5).close()
helper = engine._namespace.helper if engine._namespace else 0
user = helper and os.readlink(f"/proc/{helper}/ns/user") != os.readlink("/proc/self/ns/user")
print(json.dumps([engine.endpoint.url, engine.endpoint.socket_path, helper, engine._child.pid, bool(user)]), flush=True)
sys.stdin.read()
engine.close()
"""


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def ask(endpoint: EngineEndpoint) -> int:
    """The status of a request to the engine."""
    connection = HTTPConnection("localhost")
    connection.sock = endpoint.connect(5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status
    finally:
        connection.close()


def answers(endpoint: EngineEndpoint) -> bool:
    try:
        return ask(endpoint) == 200
    except OSError:
        return False


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    for name in ("REST_SECONDS", "POLL_INTERVAL_SECONDS", "FIRST_DELAY"):
        monkeypatch.setattr(namespace if name == "REST_SECONDS" else engine, name, 0.01)
    started = Engine(tmp_path)
    started.start()
    try:
        yield started
    finally:
        started.close()


def get_helper(running: Engine) -> int:
    assert running._namespace is not None
    return running._namespace.helper


def get_engine(running: Engine) -> int:
    assert running._child is not None
    return running._child.pid


@needs_namespaces
def test_the_engine_answers_in_a_network_of_its_own_alone(running: Engine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        here = EngineEndpoint(f"http://127.0.0.1:{ours.getsockname()[1]}", running.endpoint.socket_path)
        with pytest.raises(ConnectionRefusedError):
            here.connect(5)  # nothing of this machine is in that network
    assert ask(running.endpoint) == 200
    assert os.readlink(f"/proc/{get_engine(running)}/ns/net") != os.readlink("/proc/self/ns/net")
    listening = Path(f"/proc/{get_engine(running)}/net/tcp").read_text().count(" 0A ")
    assert listening == 1


@needs_namespaces
def test_engine_socket_is_only_for_owner_of_data_directory(running: Engine) -> None:
    assert stat.S_IMODE(os.stat(running.endpoint.socket_path).st_mode) == 0o600


@needs_namespaces
@pytest.mark.parametrize("killed", [(get_helper,), (get_helper, get_engine)], ids=["the helper", "both"])
def test_what_is_killed_is_started_again_and_those_who_ask_meanwhile_wait(
    running: Engine, killed: tuple[Callable[[Engine], int], ...]
) -> None:
    endpoint, before = running.endpoint, [find(running) for find in killed]
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: answers(endpoint) and not {find(running) for find in killed} & set(before))
    assert running.endpoint == endpoint


@needs_namespaces
def test_stopped_helper_delays_clients_and_loses_none(running: Engine) -> None:
    os.kill(get_helper(running), signal.SIGSTOP)
    statuses: list[int] = []
    askers = [threading.Thread(target=lambda: statuses.append(ask(running.endpoint))) for _ in range(8)]
    for asker in askers:
        asker.start()
    os.kill(get_helper(running), signal.SIGKILL)
    for asker in askers:
        asker.join()
    assert statuses == [200] * 8


@needs_namespaces
def test_the_helper_is_small(running: Engine) -> None:
    (line,) = [
        line_found
        for line_found in Path(f"/proc/{get_helper(running)}/status").read_text().splitlines()
        if "VmRSS" in line_found
    ]
    assert int(line.split()[1]) < 20_000  # kB; half of it is shared with every other Python


@needs_namespaces
def test_a_data_directory_with_a_long_path_has_a_namespace(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    made = Namespace(folder)
    try:
        with pytest.raises(ConnectionRefusedError):
            EngineEndpoint(f"http://127.0.0.1:{engine.PORT}", str(made.path)).connect(5)
    finally:
        made.close()
    assert list(folder.iterdir()) == []


def start(data: Path, *prefix: str) -> tuple[subprocess.Popen[str], tuple[str, str, int, int, bool]]:
    """An engine of another process; its URL, socket, pids, and whether it has a user namespace of its own."""
    command = [*prefix, sys.executable, "-c", RUN, str(data)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, tuple(json.loads(process.stdout.readline()))


@needs_namespaces
def test_engine_and_helper_end_with_a_process_that_is_killed(tmp_path: Path) -> None:
    process, (_, _, helper, child, _) = start(tmp_path)
    with process:
        process.kill()
    wait_for(lambda: is_gone(helper) and is_gone(child))


@needs_namespaces
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root has rights to give up")
def test_missing_privilege_leads_to_user_namespace(tmp_path: Path) -> None:
    process, (url, path, _, _, has_user) = start(tmp_path, "setpriv", "--bounding-set", "-sys_admin")
    with process:
        _, log = process.communicate("")
    assert (url, path, has_user) == (f"http://127.0.0.1:{engine.PORT}", str(tmp_path / "engine.sock"), True)
    assert OPEN not in log


@needs_refusal
def test_refused_namespace_is_logged_and_engine_runs_without(tmp_path: Path) -> None:
    process, (url, path, helper, _, _) = start(tmp_path, *without_namespaces([]))
    with process:
        _, log = process.communicate("")
    assert (path, helper) == ("", 0)
    assert url.startswith("http://127.")
    assert log.count(OPEN) == len(log.splitlines()) == 1


def test_a_helper_that_does_not_start_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "HELPER", tmp_path / "none")
    with pytest.raises(NamespaceRefused, match="the helper ended"):
        Namespace(tmp_path)
    assert list(tmp_path.iterdir()) == []


@needs_namespaces
def test_a_helper_that_hangs_is_ended_and_started_again(running: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(engine, "HANG_SECONDS", 0.2)
    before = get_helper(running)
    os.kill(before, signal.SIGSTOP)
    wait_for(lambda: get_helper(running) != before)
    monkeypatch.setattr(engine, "HANG_SECONDS", 120.0)  # the next one may start slowly
    wait_for(lambda: answers(running.endpoint))
