"""What a service holds while it answers very many requests: memory and open files of each process, which stay the same.

Every line is of one round of all kinds of requests; the first ones are of a process that still fills its caches.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from bench.environment import fill, launch_service
from bench.load import describe_client, measure_rate
from bench.memory import get_proportional
from bench.table import describe_machine
from tests.proc import list_descendants, read_if_there, read_links
from tests.service import Client, Service

ENTRIES = 1000
SECONDS = 5  # of one kind in one round


def print_endurance(requests: int) -> None:
    """A line for each round, until so many requests were answered."""
    print(f"{describe_machine()}; {describe_client()}")
    with TemporaryDirectory(prefix="mangrove-bench-") as folder:
        service = launch_service(Path(folder) / "data")
        try:
            fill(service.data / "files" / "many", ENTRIES)
            client = service.client()
            _print_rounds(service, client, requests, Path(folder))
        finally:
            service.stop()


def _list_requests(client: Client) -> list[tuple[str, dict[str, Any] | None]]:
    """Paths and bodies: small ones and large ones, one of a file's bytes, and one that is refused."""
    page = {"path": "/files/many", "page": 1, "per_page": 50}
    address = urlsplit(client.ok("/api/fs/get", path="/files/many/file 000500.txt")["raw_url"])
    return [
        ("/ping", None),
        ("/api/me", None),
        ("/api/fs/list", page),
        ("/api/fs/list", page | {"refresh": True}),
        ("/api/fs/get", {"path": "/files/many/file 000500.txt"}),
        ("/api/fs/get", {"path": "/files/none"}),
        (f"{address.path}?{address.query}", None),
    ]


def _print_rounds(service: Service, client: Client, requests: int, scratch: Path) -> None:
    answered, began, chosen = 0.0, time.perf_counter(), _list_requests(client)
    _print_line(service, answered, began)
    while answered < requests:
        for path, body in chosen:
            rate = measure_rate(service.address, path, client.token, body, SECONDS, scratch)
            answered += rate.per_second * SECONDS
        _print_line(service, answered, began)


def _print_line(service: Service, answered: float, began: float) -> None:
    cells = [f"{answered:>10,.0f} requests", f"{time.perf_counter() - began:>5.0f} s"]
    for pid in (service.process.pid, *list_descendants(service.process.pid)):
        name = read_if_there(Path(f"/proc/{pid}/comm")).decode().strip()
        cells.append(f"{name} {pid}: {get_proportional(pid) / 1e6:.1f} MB, {sum(1 for _ in read_links(pid))} files")
    print(" | ".join(cells), flush=True)
