"""The records engine as a child process, and the environment and tables that come with it."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mangrove.local.data_directory import DataDirectory, StartupError
from mangrove.local.template import ROOT, read_tables

BINARY = ROOT / "node_modules" / "@dynoxide" / "linux-x64" / "dynoxide"
TABLES = "mangrove"
START_SECONDS = 10.0
STOP_SECONDS = 5.0
ATTEMPTS = 5  # another program may take the port that was free a moment ago
PR_SET_PDEATHSIG = 1


@contextmanager
def run_engine(data: Path) -> Iterator[str]:
    """The address of a records engine on `data`; the child ends with the context, and with this process."""
    endpoint = os.environ.get("MANGROVE_DYNAMODB_ENDPOINT")
    if endpoint:
        yield endpoint
        return
    child, address = _start(data)
    try:
        yield address
    finally:
        child.terminate()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()


def _start(data: Path, attempts: int = ATTEMPTS) -> tuple[subprocess.Popen[bytes], str]:
    """A records engine that answers, and its address."""
    host = ".".join(["127", *(str(random.randint(1, 254)) for _ in range(3))])
    with socket.create_server((host, 0)) as probe:
        port = probe.getsockname()[1]
    child = _spawn(data, host, port)
    try:
        _wait_until_ready(child, host, port, data)
    except StartupError:
        if child.poll() is not None and attempts > 1:
            return _start(data, attempts - 1)
        child.kill()
        raise
    return child, f"http://{host}:{port}"


def _find_binary() -> Path:
    configured = os.environ.get("DYNOXIDE_BIN")
    binary = Path(configured) if configured else BINARY
    if not binary.is_file():
        raise StartupError(
            f"the records engine is missing ({binary}): run `npm ci`, or name another one with DYNOXIDE_BIN "
            "or MANGROVE_DYNAMODB_ENDPOINT"
        )
    return binary


def _spawn(data: Path, host: str, port: int) -> subprocess.Popen[bytes]:
    parent = os.getpid()
    log = os.open(data / "engine.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        options = ["--host", host, "--port", str(port), "--db-path", str(data / "records.db")]
        return subprocess.Popen(  # noqa: S603 - our own binary, no input of others
            [str(_find_binary()), "serve", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: _exit_with_parent(parent),
            umask=0o077,
            env={name: value for name, value in os.environ.items() if name != "MANGROVE_ADMIN_PASSWORD"},
        )
    except OSError as error:
        raise StartupError(f"the records engine does not start: {error.strerror}") from None
    finally:
        os.close(log)


def _exit_with_parent(parent: int) -> None:
    """In the child: end with the parent, also when that is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _wait_until_ready(child: subprocess.Popen[bytes], host: str, port: int, data: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if child.poll() is not None:
            raise StartupError(f"the records engine ended at once, see {data / 'engine.log'}")
        try:
            socket.create_connection((host, port), 1).close()
            return
        except OSError:
            time.sleep(0.005)
    raise StartupError(f"the records engine did not answer within {START_SECONDS:.0f} s, see {data / 'engine.log'}")


def set_environment(directory: DataDirectory, endpoint: str) -> None:
    """Give this process the environment that a function has in the cloud."""
    os.environ.update(
        {
            "AWS_ENDPOINT_URL_DYNAMODB": endpoint,
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


def create_tables(endpoint: str) -> None:
    """Make the tables of the template that are not there yet."""
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client = boto3.client("dynamodb", endpoint_url=endpoint)
        existing = {name for page in client.get_paginator("list_tables").paginate() for name in page["TableNames"]}
        for table in read_tables(TABLES):
            if table["TableName"] not in existing:
                client.create_table(**table)
    except (BotoCoreError, ClientError, ValueError) as error:
        raise StartupError(f"the records engine at {endpoint} is not usable: {error}".replace("\n", " ")) from None
