"""Processes of the service as tests end them, look into them and are refused by them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from tests.support.proc import list_children, read_if_there
from tests.support.service import ADMIN_PASSWORD, Client, Service, command

REFUSAL_SECONDS = 120.0  # until a refused start must have ended
END_SECONDS = 20.0


def find_engine(service: Service) -> int:
    """The pid of the records engine; ValueError when there is none at this moment."""
    (engine,) = find_engines(service)
    return engine


def find_engines(service: Service) -> list[int]:
    """The children of all threads of the service that run the engine."""
    return find_children(service, b"dynoxide")


def find_helpers(service: Service) -> list[int]:
    """Those that give sockets of the engine's namespace; none where the kernel has no namespace."""
    return find_children(service, b"namespace_helper")


def find_children(service: Service, program: bytes) -> list[int]:
    children = list_children(service.process.pid)
    return [pid for pid in children if program in read_if_there(Path(f"/proc/{pid}/cmdline"))]


def end_with(service: Service, how: signal.Signals) -> tuple[int, float]:
    """Send the signal; the exit status and the seconds it took."""
    began = time.monotonic()
    service.process.send_signal(how)
    return service.process.wait(120), time.monotonic() - began


def refuse_to_run(*arguments: str, **environment: str) -> str:
    """The one line with which a command refuses to run."""
    known = os.environ | {"MANGROVE_ADMIN_PASSWORD": ADMIN_PASSWORD} | environment
    done = subprocess.run(command(*arguments), env=known, capture_output=True, text=True, timeout=REFUSAL_SECONDS)
    assert (done.returncode, done.stdout) == (1, ""), (done.returncode, done.stdout, done.stderr)
    line = drop_warning(done.stderr)
    assert re.fullmatch(r"mangrove: [^\n]+\n", line), done.stderr
    return line.removeprefix("mangrove: ").strip()


def drop_warning(output: str) -> str:
    """The lines of a command without the one that it writes where the kernel has no network namespaces."""
    return "".join(line for line in output.splitlines(True) if "records engine runs without a namespace" not in line)


def change_password(data: Path, user: str, typed: str) -> str:
    """Return the output of `mangrove password`."""
    done = subprocess.run(
        command("password", user, "--data", str(data)),
        input=f"{typed}\n",
        capture_output=True,
        text=True,
        timeout=REFUSAL_SECONDS,
    )
    assert (done.returncode, drop_warning(done.stderr)) == (0, ""), done
    return done.stdout.strip()


def mount(client: Client, driver: str, **options: Any) -> tuple[str, dict[str, Any]]:
    """Mount a new storage; its path and the answer."""
    path = f"/{uuid4().hex}"
    addition = json.dumps(options)
    return path, client.post("/api/admin/storage/create", mount_path=path, driver=driver, addition=addition)


@contextmanager
def send_unanswered(client: Client, request: str, body: str, **headers: object) -> Iterator[socket.socket]:
    """A request whose answer does not come."""
    url = httpx.URL(client.address)
    lines = {"host": "x", "authorization": client.token} | {key.replace("_", "-"): headers[key] for key in headers}
    head = "".join(f"{key}: {value}\r\n" for key, value in lines.items())
    with socket.create_connection((url.host, url.port or 80)) as connection:
        connection.sendall(f"{request} HTTP/1.1\r\n{head}\r\n{body}".encode())
        yield connection
