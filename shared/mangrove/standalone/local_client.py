"""A client of a data directory on this machine, signed in as the administrator.

If the service runs on the directory, the client speaks with it. Otherwise it runs for the duration of the command, on a
random port of the loopback interface.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from mangrove.client import Client, ClientError
from mangrove.records.store.endpoints import EngineEndpoint
from mangrove.standalone import engine
from mangrove.standalone.data_directory import DataDirectory, ProcessInfo, StartupError
from mangrove.standalone.namespace import make_start

START_SECONDS = 60.0
END_SECONDS = 15.0
MAX_LINE_BYTES = 4096


@contextmanager
def open_local_client(options: argparse.Namespace) -> Iterator[Client]:
    """Return a client of the data directory of the options. Raise StartupError."""
    directory = DataDirectory(Path(options.data).resolve())
    if not directory.key.exists():
        raise StartupError(
            f"{directory.data} is not a data directory of Mangrove: name one with --data, or a service with --url"
        )
    with _find_service(directory) as holder:
        engine.set_environment(directory, EngineEndpoint(holder.engine, holder.engine_socket))
        with Client(_make_loopback(holder.address), _issue_token()) as client:
            try:
                yield client
            finally:
                with suppress(ClientError):
                    client.auth_logout()


@contextmanager
def _find_service(directory: DataDirectory) -> Iterator[ProcessInfo]:
    """Return the process that serves the data directory; start one if there is none."""
    if directory.is_locked():
        holder = directory.read_holder()
        if holder is None or not (holder.address and holder.engine):
            raise StartupError(f"the data directory {directory.data} is in use by another command: try again")
        yield holder
        return
    _refuse_other_account(directory)
    with _run_service(directory) as holder:
        yield holder


def _refuse_other_account(directory: DataDirectory) -> None:
    """Raise StartupError for the directory of another account: the files that are made would not belong to it."""
    owner = directory.data.stat().st_uid
    if owner != os.geteuid():
        raise StartupError(
            f"{directory.data} belongs to another account (uid {owner}): run the command as that account"
        )


@contextmanager
def _run_service(directory: DataDirectory) -> Iterator[ProcessInfo]:
    arguments = ["serve", "--host", "127.0.0.1", "--port", "0", "--processes", "1", "--page", "none"]
    arguments += ["--log-level", "ERROR", "--access-log", "none", "--data", str(directory.data)]
    process = subprocess.Popen(  # noqa: S603 - this program
        [sys.executable, "-m", "mangrove.standalone", *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        preexec_fn=make_start(),
    )  # fmt: skip
    try:
        _wait_until_ready(process)
        holder = directory.read_holder()
        if holder is None:
            raise StartupError(f"{directory.data} cannot be read")
        yield holder
    finally:
        process.terminate()
        try:
            process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _wait_until_ready(process: subprocess.Popen[bytes]) -> None:
    """Wait for the line with which a service reports its address. Raise StartupError."""
    assert process.stdout is not None and process.stderr is not None
    end = time.monotonic() + START_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(end - time.monotonic()):
            raise StartupError(f"the service did not start within {START_SECONDS:.0f} s")
    if not process.stdout.readline(MAX_LINE_BYTES):
        lines = process.stderr.read().decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else "it ended without a reason"
        raise StartupError(re.sub(r"^mangrove: ", "", reason))


def _make_loopback(address: str) -> str:
    """Return the address of a service for a client on the same machine."""
    parts = urlsplit(address)
    with suppress(ValueError):
        if ipaddress.ip_address(parts.hostname or "").is_unspecified:
            host = "[::1]" if ":" in str(parts.hostname) else "127.0.0.1"
            return f"http://{host}:{parts.port}"
    return address


def _issue_token() -> str:
    """Return the token of a new session of the administrator."""
    from mangrove.identity import tokens  # imported here, because the names of tables come from the environment
    from mangrove.identity.rights import ADMIN
    from mangrove.records import users

    administrator = users.find_by_role(ADMIN)
    if administrator is None:
        raise StartupError("there is no administrator")
    return tokens.issue(administrator)
