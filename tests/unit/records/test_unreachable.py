"""An engine that cannot be reached, hangs or breaks off: always the problem on which the machines try again."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from mangrove.core import runtime
from mangrove.core.problems import RecordsUnavailable
from mangrove.core.runtime import Runtime
from mangrove.records import metas, sessions, settings, storages, users
from mangrove.records.metas import PathRuleRecord
from mangrove.records.store import counters, versions
from mangrove.records.store.base import TableMeta
from tests.support import engine as engines

CALLS: dict[str, Callable[[], object]] = {
    "scan": users.all,
    "create": lambda: users.create(username="a", password_hash="x"),
    "transaction": lambda: settings.save({"a": "b"}),
    "delete": lambda: storages.delete(1),
    "update": lambda: counters.next_id("x"),
    "condition": lambda: counters.add_failure("x", 5),
    "once": lambda: counters.claim_once("x", 5),
    "version": versions.get_version,
    "get": lambda: metas.get(1),
    "together": lambda: sessions.read_with_version("x"),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@contextmanager
def use_endpoint(address: str) -> Iterator[None]:
    """All records of this process are at an address, and nothing is waited for long."""
    short = patch.multiple(TableMeta, connect_timeout_seconds=0.2, read_timeout_seconds=0.2, max_retry_attempts=0)
    with short, runtime.use(Runtime()), patch.dict(os.environ, AWS_ENDPOINT_URL_DYNAMODB=address):
        yield


@contextmanager
def answer_with(answer: bytes) -> Iterator[str]:
    """A server that reads a request, sends these bytes and closes the connection; its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@each_call
def test_an_engine_that_hangs_is_a_problem_worth_a_retry(
    engine: str, tmp_path: Path, call: Callable[[], object]
) -> None:
    with stopped_engine() as address, use_endpoint(address), pytest.raises(RecordsUnavailable):
        call()


@contextmanager
def stopped_engine() -> Iterator[str]:
    """A real engine that was stopped: the kernel accepts connections for it, and nothing answers."""
    with engines.run_engine("127.4.3.2") as (address, child):
        child.send_signal(signal.SIGSTOP)
        yield address


@each_call
def test_an_engine_that_is_not_there_is_a_problem_worth_a_retry(engine: str, call: Callable[[], object]) -> None:
    with use_endpoint("http://127.0.0.1:9"), pytest.raises(RecordsUnavailable):
        call()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
        b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
    ],
)
@each_call
def test_an_answer_that_breaks_off_or_is_none_is_a_problem_worth_a_retry(
    engine: str, call: Callable[[], object], answer: bytes
) -> None:
    with answer_with(answer) as address, use_endpoint(address), pytest.raises(RecordsUnavailable):
        call()


def test_a_table_that_is_not_there_is_a_problem_worth_a_retry(records: None) -> None:
    broken = patch.object(PathRuleRecord.Meta, "table_name", "none")
    with broken, runtime.use(Runtime()), pytest.raises(RecordsUnavailable):
        metas.all()
