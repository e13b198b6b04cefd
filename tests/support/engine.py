"""A real records engine for tests: dynoxide in memory on a random loopback address, tables from the template; or
DynamoDB Local."""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import pytest

from mangrove.records.store.endpoints import EngineEndpoint, use_socket
from tests import servers

ROOT = Path(__file__).resolve().parents[2]
PORTS = 5  # that are tried
START_SECONDS = 60.0  # that an engine may take to start
BATCH_ROWS = 25  # of one BatchWriteItem
FETCH = ["mvn", "-q", "-B", "-f", str(ROOT / "tests/dynamodb_local/pom.xml"), "dependency:copy-dependencies"]
OPTIONS = ["-inMemory", "-sharedDb"]  # else every pair of credentials would have tables of its own
MAIN = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"
BINARY = ROOT / "node_modules" / "@dynoxide" / "linux-x64" / "dynoxide"


def environment(folder: Path, endpoint: str) -> dict[str, str]:
    """Return the environment of a process that uses the engine at `endpoint` with a master key in `folder`."""
    key = folder / "key"
    if not key.exists():
        key.write_bytes(secrets.token_bytes(32))
    return {
        "AWS_ENDPOINT_URL_DYNAMODB": endpoint,
        "AWS_ACCESS_KEY_ID": "mangrovelocal",
        "AWS_SECRET_ACCESS_KEY": "mangrovelocal",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "MANGROVE_KEY_FILE": str(key),
        "MANGROVE_SNAPSHOT_SECONDS": "never",
        "MANGROVE_DATA": str(folder),
    }


@contextmanager
def engine() -> Iterator[str]:
    """A running engine; its address. MANGROVE_TEST_ENGINE names another one that runs already."""
    chosen = os.environ.get("MANGROVE_TEST_ENGINE")
    if chosen:
        yield chosen
        return
    with run_engine(f"127.{random.randint(1, 250)}.{random.randint(1, 250)}.{random.randint(2, 250)}") as (address, _):
        yield address


@contextmanager
def run_engine(host: str, *options: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """An engine without supervision; its address and process."""
    for _ in range(PORTS):
        port = _find_port()
        command = [BINARY, "serve", "--host", host, "--port", str(port), *options]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
            try:
                if _is_open(host, port, child):
                    yield f"http://{host}:{port}", child
                    return
            finally:
                child.kill()
    raise RuntimeError("the records engine did not start")


def _find_port() -> int:
    """Return a port that is free on all addresses; the engine refuses others. Another program may take it first."""
    with closing(socket.create_server(("0.0.0.0", 0))) as probe:
        port: int = probe.getsockname()[1]
        return port


def _is_open(host: str, port: int, child: subprocess.Popen[bytes]) -> bool:
    """Return True if the engine takes connections; False when it has ended."""
    end = time.monotonic() + START_SECONDS
    while child.poll() is None:
        try:
            socket.create_connection((host, port), 1).close()
            return True
        except OSError:
            assert time.monotonic() < end, "the records engine did not open its port"
            time.sleep(0.01)
    return False


@contextmanager
def dynamodb_local() -> Iterator[str]:
    """DynamoDB Local, AWS's own word on what DynamoDB does; its address. Skips where java or mvn is missing."""
    if not (shutil.which("java") and shutil.which("mvn")):
        pytest.skip("DynamoDB Local needs java and mvn")
    with TemporaryDirectory() as folder:
        jars = Path(folder, "jars")
        fetched = subprocess.run([*FETCH, f"-DoutputDirectory={jars}"], capture_output=True, timeout=240)
        if fetched.returncode != 0:
            pytest.skip("DynamoDB Local cannot be fetched here")
        port = servers.free_port()
        command = ["java", f"-Djava.library.path={jars}", "-cp", f"{jars}/*", MAIN, *OPTIONS, "-port", str(port)]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
            try:
                servers.wait_for(port, 60)
                yield f"http://127.0.0.1:{port}"
            finally:
                child.kill()


@contextmanager
def open_client(endpoint: EngineEndpoint) -> Iterator[Any]:
    """A client of boto3 for the records themselves, beside the service."""
    import boto3

    keys = {"aws_access_key_id": "mangrovelocal", "aws_secret_access_key": "mangrovelocal"}
    with closing(boto3.client("dynamodb", endpoint_url=endpoint.url, region_name="us-east-1", **keys)) as client:
        use_socket(client, endpoint.socket_path)
        yield client


def create_tables() -> None:
    """Make every table of the template; the environment must be set before the first import of `mangrove.records`."""
    import boto3

    from mangrove.core.config import config
    from mangrove.standalone.template import read_tables

    with closing(boto3.client("dynamodb")) as client:
        for arguments in read_tables(config().tables):
            client.create_table(**arguments)


class Tables:
    """The tables of an engine, emptied through one connection. A client of boto3 for each of them costs more than the
    work itself, and tests ask for empty tables some 1,800 times a run."""

    def __init__(self, endpoint: str) -> None:
        from mangrove.core.config import config
        from mangrove.standalone.template import read_tables

        address = urlsplit(endpoint)
        assert address.hostname and address.port
        self._socket = socket.create_connection((address.hostname, address.port), START_SECONDS)
        self._reader = self._socket.makefile("rb")
        self._keys = {
            table["TableName"]: [key["AttributeName"] for key in table["KeySchema"]]
            for table in read_tables(config().tables)
        }
        self._scans = b"".join(_format_call("Scan", TableName=name, ConsistentRead=True) for name in self._keys)

    def empty(self) -> None:
        """Delete all records of all tables, also those that no model reads. The tables are read at once: that costs a
        fifteenth of one call after the other.
        """
        self._socket.sendall(self._scans)
        answers = [self._read_answer() for _ in self._keys]
        for (name, keys), answer in zip(self._keys.items(), answers, strict=True):
            self._delete(name, keys, answer)
            while "LastEvaluatedKey" in answer:
                start = answer["LastEvaluatedKey"]
                answer = self._call("Scan", TableName=name, ConsistentRead=True, ExclusiveStartKey=start)
                self._delete(name, keys, answer)

    def _delete(self, table: str, keys: list[str], answer: dict[str, Any]) -> None:
        rows = [{"DeleteRequest": {"Key": {key: item[key] for key in keys}}} for item in answer["Items"]]
        for start in range(0, len(rows), BATCH_ROWS):
            batch: Any = {table: rows[start : start + BATCH_ROWS]}
            while batch:
                batch = self._call("BatchWriteItem", RequestItems=batch).get("UnprocessedItems")

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        self._socket.sendall(_format_call(operation, **arguments))
        return self._read_answer()

    def _read_answer(self) -> dict[str, Any]:
        status = self._reader.readline()
        length = 0
        while (line := self._reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        body = self._reader.read(length)
        assert status.startswith(b"HTTP/1.1 200 "), (status, body)
        answer: dict[str, Any] = json.loads(body)
        return answer

    def close(self) -> None:
        self._reader.close()
        self._socket.close()


def _format_call(operation: str, **arguments: Any) -> bytes:
    """Return a request. Engines for tests use the access key and compare no signature."""
    body = json.dumps(arguments).encode()
    head = (
        "POST / HTTP/1.1",
        "Host: engine",
        "Content-Type: application/x-amz-json-1.0",
        f"Content-Length: {len(body)}",
        f"X-Amz-Target: DynamoDB_20120810.{operation}",
        "X-Amz-Date: 20260101T000000Z",
        "Authorization: AWS4-HMAC-SHA256 Credential=mangrovelocal/20260101/us-east-1/dynamodb/aws4_request, "
        "SignedHeaders=host;x-amz-date;x-amz-target, Signature=0",
    )
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def enter(folder: Path, endpoint: str) -> None:
    """Put this process into the environment of `endpoint`."""
    from mangrove.core import runtime
    from mangrove.core.config import Config

    os.environ.update(environment(folder, endpoint))
    runtime.put(Config, Config())  # a test module's imports may have asked before
