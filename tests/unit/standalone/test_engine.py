"""The records engine as a child process."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest

from mangrove.records.store.endpoints import EngineEndpoint
from mangrove.standalone import engine, namespace
from mangrove.standalone.data_directory import DataDirectory, StartupError
from mangrove.standalone.engine import Engine, HangDetector
from mangrove.standalone.template import read_tables
from tests.support.proc import list_children, read_if_there
from tests.support.waiting import wait_until

KEYS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": "us-east-1"}


def set_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in KEYS.items():
        monkeypatch.setenv(name, text)


def test_engine_whose_port_was_taken_starts_on_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = tmp_path / "refused"
    script = tmp_path / "engine"
    script.write_text(
        f'#!/bin/sh\n[ -e "{refused}" ] && exec "{engine.BINARY}" "$@"\necho "$*" > "{refused}"\nexit 1\n'
    )
    script.chmod(0o700)
    monkeypatch.setenv("DYNOXIDE_BIN", str(script))
    monkeypatch.setattr(namespace, "HELPER", Path("/nonexistent"))
    monkeypatch.delenv("MANGROVE_DYNAMODB_ENDPOINT", raising=False)
    with engine.run_engine(tmp_path) as endpoint:
        host = urlsplit(endpoint.url).hostname
        assert host is not None and host not in refused.read_text()
        endpoint.connect(5).close()


def test_an_engine_that_never_starts_is_refused_by_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNOXIDE_BIN", "/bin/false")
    monkeypatch.delenv("MANGROVE_DYNAMODB_ENDPOINT", raising=False)
    with pytest.raises(StartupError, match="ended right after its start"), engine.run_engine(tmp_path):
        pass


def test_an_engine_elsewhere_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANGROVE_DYNAMODB_ENDPOINT", "http://records.example:8000")
    with engine.run_engine(tmp_path) as endpoint:
        assert endpoint == EngineEndpoint("http://records.example:8000")
    assert list(tmp_path.iterdir()) == []


def test_an_engine_ends_with_its_context_and_keeps_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MANGROVE_DYNAMODB_ENDPOINT", raising=False)
    set_keys(monkeypatch)
    names = {table["TableName"] for table in read_tables(engine.TABLES)}
    for _ in range(2):
        with engine.run_engine(tmp_path) as endpoint:
            engine.create_tables(endpoint)
            assert engine.list_tables(endpoint) == names
    with pytest.raises(OSError, match=r"refused|No such file"):
        endpoint.connect(1)


def test_a_process_gets_the_environment_of_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"AWS_ACCESS_KEY_ID": "own", "PATH": "/bin"}
    monkeypatch.setattr(os, "environ", environment)
    engine.set_environment(DataDirectory(tmp_path), EngineEndpoint("http://127.1.1.1:1", "/data/engine.sock"))
    assert environment["AWS_ENDPOINT_URL_DYNAMODB"] == "http://127.1.1.1:1"
    assert environment["MANGROVE_RECORDS_SOCKET"] == "/data/engine.sock"
    assert (environment["MANGROVE_DATA"], environment["MANGROVE_KEY_FILE"]) == (str(tmp_path), str(tmp_path / "key"))
    assert (environment["AWS_ACCESS_KEY_ID"], environment["AWS_DEFAULT_REGION"]) == ("own", "us-east-1")
    assert "AWS_SECRET_ACCESS_KEY" not in environment


def test_records_are_not_sent_to_a_proxy_that_is_meant_for_the_network(tmp_path: Path) -> None:
    proxy = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", "NO_PROXY": "here.example"}
    with patch.dict(os.environ, KEYS | proxy | {"MANGROVE_DYNAMODB_ENDPOINT": ""}):
        with engine.run_engine(tmp_path) as endpoint:
            engine.set_environment(DataDirectory(tmp_path), endpoint)
            assert engine.list_tables(endpoint) == set()
            assert os.environ["no_proxy"].startswith("here.example,127.")


def find_child(data: Path) -> int | None:
    """The pid of the records engine on a data directory; others run in this process, too."""
    for pid in list_children(os.getpid()):
        if bytes(data / "records.db") in read_if_there(Path(f"/proc/{pid}/cmdline")):
            return pid
    return None


def is_replaced(pid: int, data: Path) -> bool:
    return find_child(data) not in (None, pid)


def is_answering(running: Engine) -> bool:
    try:
        running.endpoint.connect(1).close()
    except OSError:
        return False
    return True


@pytest.fixture(params=["of its own", "of the machine"])
def running(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine in a network namespace of its own and in that of the machine, watched closely."""
    set_keys(monkeypatch)
    monkeypatch.setattr(engine, "POLL_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(engine, "FIRST_DELAY", 0.01)
    if request.param == "of the machine":
        monkeypatch.setattr(namespace, "HELPER", Path("/nonexistent"))
    started = Engine(tmp_path)
    started.start()
    try:
        yield started
    finally:
        started.close()


def test_dead_engine_restarts_with_same_data_and_address(running: Engine, tmp_path: Path) -> None:
    engine.create_tables(running.endpoint)
    endpoint, tables = running.endpoint, engine.list_tables(running.endpoint)
    for _ in range(3):
        before = find_child(tmp_path)
        assert before is not None
        os.kill(before, signal.SIGKILL)
        wait_until(partial(is_replaced, before, tmp_path))
        wait_until(partial(is_answering, running))
        assert (running.endpoint, engine.list_tables(endpoint)) == (endpoint, tables)


def test_an_engine_that_hangs_is_ended_and_started_again(
    running: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PROBE_SECONDS", 0.1)
    monkeypatch.setattr(engine, "HANG_SECONDS", 0.2)
    before = find_child(tmp_path)
    assert before is not None
    os.kill(before, signal.SIGSTOP)
    wait_until(partial(is_replaced, before, tmp_path))
    monkeypatch.setattr(engine, "HANG_SECONDS", 120.0)  # the next one may start slowly
    wait_until(partial(is_answering, running))


def test_an_engine_that_works_hard_and_does_not_answer_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "PROBE_SECONDS", 0.05)
    monkeypatch.setattr(engine, "HANG_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        busy = HangDetector(EngineEndpoint(f"http://127.0.0.1:{silent.getsockname()[1]}"))
        begin, used = time.monotonic(), time.process_time()
        while time.monotonic() - begin < 0.8 or time.process_time() - used < 0.2:
            work_for_ticks(3)  # this process stands for the engine
            assert not busy.is_hung(os.getpid())


def work_for_ticks(count: int) -> None:
    """Use so many ticks of the processor, by which the kernel measures its use."""
    end = time.process_time() + count / os.sysconf("SC_CLK_TCK")
    while time.process_time() < end:
        sum(range(10_000))


def test_failing_engine_is_retried_less_often_and_logged(
    running: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DYNOXIDE_BIN", "/bin/false")
    with caplog.at_level(logging.WARNING, logger="mangrove"):
        child = find_child(tmp_path)
        assert child is not None
        os.kill(child, signal.SIGKILL)
        wait_until(lambda: len(caplog.records) >= 5)
    facts = [record.__dict__["facts"] for record in caplog.records]
    delays = [fact["seconds"] for fact in facts]
    assert delays == sorted(delays)
    assert delays[-1] >= 4 * engine.FIRST_DELAY
    assert facts[-1] == {"status": 1, "seconds": delays[-1], "reason": f"see {tmp_path / 'engine.log'}"}
    monkeypatch.delenv("DYNOXIDE_BIN")
    wait_until(lambda: is_answering(running))


def test_an_engine_that_is_started_again_just_now_ends_with_the_others(running: Engine, tmp_path: Path) -> None:
    child = find_child(tmp_path)
    assert child is not None
    os.kill(child, signal.SIGKILL)
    running.close()
    assert find_child(tmp_path) is None


def test_the_log_of_the_engine_does_not_grow_without_end(
    running: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "engine.log"
    with log.open("ab") as file:
        file.truncate(engine.LOG_BYTES + 1)
    child = find_child(tmp_path)
    assert child is not None
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: is_replaced(child, tmp_path) and is_answering(running))
    assert log.stat().st_size < 1000
