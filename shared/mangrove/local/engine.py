"""The records engine as a child process, and the data directory it belongs to."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mangrove.local.template import ROOT, tables

BINARY = ROOT / "node_modules" / "@dynoxide" / "linux-x64" / "dynoxide"
TABLES = "mangrove"
START_SECONDS = 10.0
TRIES = 5  # another program may take the port that was free a moment ago
PR_SET_PDEATHSIG = 1


class StartupError(Exception):
    """Why the service cannot start, in one line."""


class DataDirectory:
    """The data directory, held by one process at a time."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.key = data / "key"
        self._lock = data / "mangrove.lock"
        self._handle = -1

    def hold(self) -> None:
        """Make and lock the directory; Refused names the process that has it, or what is wrong."""
        try:
            self.data.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._make_key()
        except OSError as error:
            raise StartupError(f"cannot write to the data directory {self.data}: {error.strerror}") from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            facts = self.holder()
            where = f" ({facts['address']})" if facts.get("address") else ""
            raise StartupError(
                f"the data directory {self.data} is in use by process {facts.get('pid', '?')}{where}"
            ) from None
        self.say({"pid": os.getpid()})

    def holder(self) -> dict[str, Any]:
        """What the process that has the directory says of itself; empty when nobody said anything."""
        try:
            return dict(json.loads(self._lock.read_text() or "{}"))
        except (OSError, ValueError):
            return {}

    def say(self, facts: dict[str, Any]) -> None:
        """Tell others about this process."""
        text = json.dumps(facts).encode()
        os.pwrite(self._handle, text, 0)
        os.ftruncate(self._handle, len(text))

    def _make_key(self) -> None:
        """The master key, made once, whole or not at all."""
        if self.key.exists():
            return
        part = self.data / f".key-{secrets.token_hex(8)}"
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, secrets.token_bytes(32))
            os.fsync(handle)
            os.link(part, self.key)
        except FileExistsError:
            pass  # another process was first
        finally:
            os.close(handle)
            part.unlink()


def _binary() -> Path:
    given = os.environ.get("DYNOXIDE_BIN")
    binary = Path(given) if given else BINARY
    if not binary.is_file():
        raise StartupError(
            f"the records engine is missing ({binary}): run `npm ci`, or name another one with DYNOXIDE_BIN "
            "or MANGROVE_DYNAMODB_ENDPOINT"
        )
    return binary


def _die_with(parent: int) -> None:
    """In the child: end with the parent, also when that is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


@contextmanager
def running(data: Path) -> Iterator[str]:
    """The address of a records engine on `data`; the child ends with the context, and with this process."""
    given = os.environ.get("MANGROVE_DYNAMODB_ENDPOINT")
    if given:
        yield given
        return
    child, address = _listening(data)
    try:
        yield address
    finally:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()


def _listening(data: Path, tries: int = TRIES) -> tuple[subprocess.Popen[bytes], str]:
    """A records engine that answers, and its address."""
    host = ".".join(["127", *(str(random.randint(1, 254)) for _ in range(3))])
    with socket.create_server((host, 0)) as probe:
        port = probe.getsockname()[1]
    child = _begun(data, host, port)
    try:
        _wait(child, host, port, data)
    except StartupError:
        if child.poll() is not None and tries > 1:
            return _listening(data, tries - 1)
        child.kill()
        raise
    return child, f"http://{host}:{port}"


def _begun(data: Path, host: str, port: int) -> subprocess.Popen[bytes]:
    parent = os.getpid()
    log = os.open(data / "engine.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    command = [str(_binary()), "serve", "--host", host, "--port", str(port), "--db-path", str(data / "records.db")]
    try:
        return subprocess.Popen(  # noqa: S603 - our own binary, no input of others
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: _die_with(parent),
            umask=0o077,
            env={name: value for name, value in os.environ.items() if name != "MANGROVE_ADMIN_PASSWORD"},
        )
    except OSError as error:
        raise StartupError(f"the records engine does not start: {error.strerror}") from None
    finally:
        os.close(log)


def _wait(child: subprocess.Popen[bytes], host: str, port: int, data: Path) -> None:
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


def enter(home: DataDirectory, endpoint: str) -> None:
    """Put this process into the environment that a function has in the cloud."""
    os.environ.update(
        {
            "AWS_ENDPOINT_URL_DYNAMODB": endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            "MANGROVE_DATA": str(home.data),
            "MANGROVE_KEY_FILE": str(home.key),
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
        there = {name for page in client.get_paginator("list_tables").paginate() for name in page["TableNames"]}
        for table in tables(TABLES):
            if table["TableName"] not in there:
                client.create_table(**table)
    except (BotoCoreError, ClientError, ValueError) as error:
        raise StartupError(f"the records engine at {endpoint} is not usable: {error}".replace("\n", " ")) from None
