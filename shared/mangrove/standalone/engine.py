"""The records engine as a supervised child process, with its environment and tables."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mangrove.core.http_connections import HttpConnections
from mangrove.core.telemetry import log_warning
from mangrove.records.store.endpoints import EngineEndpoint, use_socket
from mangrove.standalone.data_directory import DataDirectory, DiskReserve, StartupError, check_space, prepare_records
from mangrove.standalone.namespace import Namespace, NamespaceRefused, make_start
from mangrove.standalone.template import BUNDLE, ROOT, read_tables

BINARY = ROOT / "node_modules" / "@dynoxide" / "linux-x64" / "dynoxide"
TABLES = "mangrove"
START_SECONDS = 10.0
STOP_SECONDS = 5.0
ATTEMPTS = 5  # another program may take the port that was free before
PORT = 8000  # in an own namespace, where no other program takes it
LOG_BYTES = 1 << 20  # limit of the engine's log at a restart
POLL_INTERVAL_SECONDS = 0.1  # between two checks whether it has ended
PROBE_SECONDS = 1.0  # between two probes of a running engine, and the limit of an answer
MAX_PROBE_BYTES = 64 << 10
HANG_SECONDS = 10.0  # without an answer and without work
STABLE_SECONDS = 10.0  # an engine that ran for so long is restarted immediately
FIRST_DELAY, LAST_DELAY = 0.1, 30.0  # delay before one that ran for a shorter time is restarted, in seconds


def is_elsewhere() -> bool:
    """True if the records are kept by an external engine."""
    return bool(os.environ.get("MANGROVE_DYNAMODB_ENDPOINT"))


@contextmanager
def run_engine(data: Path) -> Iterator[EngineEndpoint]:
    """Run a records engine on `data` for the duration of the context."""
    if is_elsewhere():
        yield EngineEndpoint(os.environ["MANGROVE_DYNAMODB_ENDPOINT"])
        return
    engine = Engine(data)
    try:
        engine.start()
        yield engine.endpoint
    finally:
        engine.close()


class Engine:
    """The records engine on a data directory: a child process that is restarted when it ends or hangs.

    It ends with this process, even if this process is killed. It runs in a network namespace of its own if the kernel
    allows it.

    Its address never changes, so its clients need not know of a restart: without a namespace, this process keeps the
    port bound without listening, so no other program gets it meanwhile.
    """

    def __init__(self, data: Path) -> None:
        self._data = data
        self._reserve = DiskReserve(data)
        self._refusal = ""  # the reason if there is no namespace
        self._namespace = self._make_namespace()
        self._port = _reserve_port() if self._namespace is None else None
        self._child: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()  # once it is set, no engine is started
        self._ending = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="engine", daemon=True)

    @property
    def endpoint(self) -> EngineEndpoint:
        """The endpoint of the engine."""
        host, port = self._address
        return EngineEndpoint(f"http://{host}:{port}", "" if self._namespace is None else str(self._namespace.path))

    @property
    def _address(self) -> tuple[str, int]:
        return ("127.0.0.1", PORT) if self._port is None else self._port.getsockname()

    def start(self, attempts: int = ATTEMPTS) -> None:
        """Start it, wait until it answers, and supervise it from then on. Raise StartupError."""
        (self._data / "engine.log").unlink(missing_ok=True)
        prepare_records(self._data / "records.db")
        for left in reversed(range(attempts)):
            child = self._spawn()
            try:
                self._wait_until_ready(child)
                break
            except StartupError:
                if child.poll() is None or not left:
                    check_space(self._data)  # the better reason, if the disk is full
                    raise
                if self._port is not None:
                    self._port.close()
                    self._port = _reserve_port()
        if self._namespace is None:
            log_warning(
                "records engine runs without a namespace: any account of this machine can reach it",
                reason=self._refusal,
            )
        self._watcher.start()

    def close(self) -> None:
        """End the engine and its supervision."""
        with self._starting:
            self._ending.set()
            child = self._child
        if child is not None:
            child.terminate()
            try:
                child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if self._watcher.is_alive():
            self._watcher.join()
        if self._namespace is not None:
            self._namespace.close()
        if self._port is not None:
            self._port.close()

    def _make_namespace(self) -> Namespace | None:
        """Return a namespace for the engine, None if there can be none."""
        try:
            return Namespace(self._data)
        except NamespaceRefused as reason:
            self._refusal = str(reason)
            return None

    def _spawn(self) -> subprocess.Popen[bytes]:
        log = self._data / "engine.log"
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.unlink()
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        host, port = self._address
        options = ["--host", host, "--port", str(port), "--db-path", str(self._data / "records.db")]
        try:
            self._child = subprocess.Popen(  # noqa: S603 - own binary, no input from outside
                [str(find_binary()), "serve", *options],
                stdin=subprocess.DEVNULL,
                stdout=handle,
                stderr=handle,
                start_new_session=True,
                preexec_fn=make_start([] if self._namespace is None else self._namespace.handles),
                umask=0o077,
                env={name: value for name, value in os.environ.items() if name != "MANGROVE_ADMIN_PASSWORD"},
            )
        except OSError as error:
            raise StartupError(f"the records engine does not start: {error.strerror}") from None
        finally:
            os.close(handle)
        return self._child

    def _wait_until_ready(self, child: subprocess.Popen[bytes]) -> None:
        end, log = time.monotonic() + START_SECONDS, self._data / "engine.log"
        while time.monotonic() < end:
            if child.poll() is not None:
                raise StartupError(f"the records engine ended right after its start, see {log}")
            try:
                self.endpoint.connect(1).close()
                return
            except OSError:
                time.sleep(0.005)
        raise StartupError(f"the records engine did not answer within {START_SECONDS:.0f} s, see {log}")

    def _watch(self) -> None:
        """Restart the engine whenever it ends. It runs in the thread whose end ends the child."""
        began, delay, hang = time.monotonic(), 0.0, HangDetector(self.endpoint)
        while not self._ending.wait(POLL_INTERVAL_SECONDS):
            self._reserve.update()
            self._revive_namespace()
            child = self._child
            if child is not None and child.poll() is None:
                if hang.is_hung(child.pid):
                    log_warning("records engine hangs; killed", seconds=HANG_SECONDS)
                    child.kill()  # the next check finds it ended, as soon as the kernel has ended it
                    if self._namespace is not None:
                        self._namespace.end_helper()
                    hang = HangDetector(self.endpoint)
                continue
            delay = 0.0 if time.monotonic() - began > STABLE_SECONDS else min(max(FIRST_DELAY, 2 * delay), LAST_DELAY)
            self._warn_of_end(child, delay)
            if self._ending.wait(delay):
                break
            began = time.monotonic()
            hang = HangDetector(self.endpoint)
            self._start_again()
        if self._child is not None:
            self._child.wait()  # it would be killed at the end of the thread that started it

    def _start_again(self) -> None:
        with self._starting:
            if self._ending.is_set():
                return
            try:
                self._spawn()
            except (StartupError, OSError) as reason:  # no disk space for the log, or no memory for a process
                self._child = None
                log_warning("records engine could not be restarted", reason=str(reason))

    def _revive_namespace(self) -> None:
        with self._starting:
            if self._namespace is not None and not self._ending.is_set():
                self._namespace.revive()

    def _warn_of_end(self, child: subprocess.Popen[bytes] | None, delay: float) -> None:
        reason = f"see {self._data / 'engine.log'}"
        try:
            check_space(self._data)
        except StartupError as error:
            reason = str(error)
        status = None if child is None else child.returncode
        log_warning("records engine ended; restarting", status=status, seconds=delay, reason=reason)


class HangDetector:
    """A check that tells an engine that hangs from one that is slow.

    It handles one call after the other, so a long scan delays every answer; killing it would start the scan again. An
    engine that hangs neither answers nor uses the processor.
    """

    def __init__(self, endpoint: EngineEndpoint) -> None:
        self._endpoint = endpoint
        self._checked = self._alive = time.monotonic()
        self._used = ""

    def is_hung(self, pid: int) -> bool:
        """True if there was no sign of life for HANG_SECONDS. It probes at most once in PROBE_SECONDS."""
        if time.monotonic() - self._checked < PROBE_SECONDS:
            return False
        answered, used = self._is_answering(), _read_processor_time(pid)
        self._checked = time.monotonic()
        if answered or used != self._used:
            self._alive, self._used = self._checked, used
        return self._checked - self._alive > HANG_SECONDS

    def _is_answering(self) -> bool:
        connections = HttpConnections(partial(self._endpoint.connect, PROBE_SECONDS), PROBE_SECONDS)
        try:
            with closing(connections.send("GET", "/", {"host": "localhost"})) as answer:
                answer.read_all(MAX_PROBE_BYTES)
        except OSError:
            return False
        return True


def _read_processor_time(pid: int) -> str:
    """Return the user and system time of a process in ticks, as the kernel formats them; "" if they are unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return " ".join(fields[11:13])


def _reserve_port() -> socket.socket:
    """Return a socket bound to a random loopback address. The engine can listen on the same address."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind((".".join(["127", *(str(random.randint(1, 254)) for _ in range(3))]), 0))
    return reserved


def find_binary() -> Path:
    configured = os.environ.get("DYNOXIDE_BIN")
    binary = Path(configured) if configured else BINARY
    if not binary.is_file():
        remedy = "run `npm ci`, or name" if ROOT != BUNDLE else "this package has none for this platform: name"
        raise StartupError(
            f"the records engine is missing ({binary}): {remedy} another one with DYNOXIDE_BIN "
            "or MANGROVE_DYNAMODB_ENDPOINT"
        )
    return binary


def set_environment(directory: DataDirectory, endpoint: EngineEndpoint) -> None:
    """Set the environment variables that a function has in the cloud."""
    if not is_elsewhere():
        _avoid_proxies(endpoint)
    os.environ.update(
        {
            "AWS_ENDPOINT_URL_DYNAMODB": endpoint.url,
            "MANGROVE_RECORDS_SOCKET": endpoint.socket_path,
            "AWS_EC2_METADATA_DISABLED": "true",
            "MANGROVE_DATA": str(directory.data),
            "MANGROVE_KEY_FILE": str(directory.key),
            "MANGROVE_TABLES": TABLES,
            "MANGROVE_SNAPSHOT_SECONDS": "never",
        }
    )
    if not os.environ.get("AWS_ACCESS_KEY_ID"):
        os.environ["AWS_ACCESS_KEY_ID"] = os.environ["AWS_SECRET_ACCESS_KEY"] = "mangrovelocal"
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")


def _avoid_proxies(endpoint: EngineEndpoint) -> None:
    """Exempt the address of the records from a proxy for the network."""
    others = os.environ.get("no_proxy") or os.environ.get("NO_PROXY", "")  # in the order in which they are looked up
    os.environ["no_proxy"] = ",".join(filter(None, [others, urlsplit(endpoint.url).hostname]))


def list_tables(endpoint: EngineEndpoint) -> set[str]:
    """Return the names of the tables. Raise StartupError if the engine is not usable."""
    with _open_client(endpoint) as client:
        return {name for page in client.get_paginator("list_tables").paginate() for name in page["TableNames"]}


def create_tables(endpoint: EngineEndpoint) -> None:
    """Create the missing tables and indexes of the template. Raise StartupError if the engine is not usable."""
    existing = list_tables(endpoint)
    with _open_client(endpoint) as client:
        for table in read_tables(TABLES):
            if table["TableName"] not in existing:
                client.create_table(**table)
            else:
                _create_indexes(client, table)


def _create_indexes(client: Any, table: dict[str, Any]) -> None:
    """Create the indexes that an older table lacks, one at a time, as DynamoDB requires."""
    name = table["TableName"]
    existing = {index["IndexName"] for index in _describe_indexes(client, name)}
    for index in table.get("GlobalSecondaryIndexes", ()):
        if index["IndexName"] not in existing:
            attributes = table["AttributeDefinitions"]
            client.update_table(
                TableName=name, AttributeDefinitions=attributes, GlobalSecondaryIndexUpdates=[{"Create": index}]
            )
            while any(status["IndexStatus"] != "ACTIVE" for status in _describe_indexes(client, name)):
                time.sleep(POLL_INTERVAL_SECONDS)


def delete_old_indexes(endpoint: EngineEndpoint) -> None:
    """Delete the indexes that the template does not have any more."""
    with _open_client(endpoint) as client:
        for table in read_tables(TABLES):
            name, indexes = table["TableName"], table.get("GlobalSecondaryIndexes", ())
            present = {index["IndexName"] for index in indexes}
            for index in _describe_indexes(client, name):
                if index["IndexName"] not in present:
                    deletion = {"Delete": {"IndexName": index["IndexName"]}}
                    client.update_table(TableName=name, GlobalSecondaryIndexUpdates=[deletion])


def _describe_indexes(client: Any, table: str) -> list[dict[str, Any]]:
    indexes: list[dict[str, Any]] = client.describe_table(TableName=table)["Table"].get("GlobalSecondaryIndexes", [])
    return indexes


@contextmanager
def _open_client(endpoint: EngineEndpoint) -> Iterator[Any]:
    from botocore.exceptions import BotoCoreError, ClientError

    from mangrove.core.aws import create_client

    try:
        with closing(create_client("dynamodb", endpoint_url=endpoint.url)) as client:
            use_socket(client, endpoint.socket_path)
            yield client
    except (BotoCoreError, ClientError, ValueError) as error:
        raise StartupError(f"the records engine at {endpoint.url} is not usable: {error}".replace("\n", " ")) from None
