"""A way through a running service over HTTP, from signing in to searching, and the bill of its requests.

The prices of requests are those of the table in docs/guides/costs.md.
"""

from __future__ import annotations

import io
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import httpx

from bench.prices import PRICES
from mangrove.client import Client
from mangrove.client.transfers import upload

COSTS = Path(__file__).resolve().parents[1] / "docs" / "guides" / "costs.md"
ROW = re.compile(r"^\| ([^|]+?) \|.* ([\d.]+) \|$", re.MULTILINE)
ROUTES = (  # the start of a path, and the row of the table; the first that fits
    ("/api/auth/login", "sign in"),
    ("/api/fs/list", "list a folder, page of 100"),
    ("/api/fs/get", "get one file"),
    ("/api/fs/put", "put 1 MB"),
    ("/api/task/", "tasks under way"),
    ("/d/", "download, redirected"),
    ("/p/", "download, redirected"),
)
OTHER_REQUEST, BUCKET_REQUEST = "another request, priced like the dearest", "a request to the bucket itself"
COPIED = "copy within S3, per object"
SMALL, LARGE = b"a small file", bytes(range(256)) * (9 << 12)  # 9 MiB, which goes in chunks
WAIT_SECONDS, POLL_SECONDS = 300.0, 1.0
Value = TypeVar("Value")


class JourneyFailed(Exception):
    """The service did not do what it should."""


class Meter(httpx.BaseTransport):
    """A transport that counts requests by the row of the table of costs."""

    def __init__(self, address: str) -> None:
        self._transport = httpx.HTTPTransport()
        self._host = httpx.URL(address).netloc
        self.counts: Counter[str] = Counter()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        is_own = request.url.netloc == self._host
        self.counts[find_row(request.url.path) if is_own else BUCKET_REQUEST] += 1
        return self._transport.handle_request(request)

    def close(self) -> None:
        self._transport.close()


def find_row(path: str) -> str:
    """Return the row of the table for a request of the service."""
    return next((row for start, row in ROUTES if path.startswith(start)), OTHER_REQUEST)


def travel(address: str, password: str, folder: str) -> Counter[str]:
    """Go the whole way in a new folder, which is removed. Return the number of requests by row.

    Raise JourneyFailed, or what the client raises.
    """
    meter = Meter(address)
    with Client(address, transport=meter) as client:
        client.login("admin", password)
        client.fs_mkdir(path=folder)
        for name, content in (("small.txt", SMALL), ("large.bin", LARGE)):
            upload(client, io.BytesIO(content), f"{folder}/{name}")
        _expect("the listing", {entry["name"] for entry in client.iter_folder(folder)}, {"small.txt", "large.bin"})
        _expect("the small file", client.read(f"{folder}/small.txt"), SMALL)
        _expect("the large file", client.read(f"{folder}/large.bin"), LARGE)
        meter.counts[COPIED] += _copy(client, folder)
        client.fs_rename(path=f"{folder}/small.txt", name="renamed.txt")
        _search(client, folder)
        client.fs_remove(dir=folder.rpartition("/")[0], names=[folder.rpartition("/")[2]])
        _wait("the folder to be removed", lambda: not client.exists(folder))
    return meter.counts


def _copy(client: Client, folder: str) -> int:
    """Copy both files. Return the number of objects."""
    client.fs_mkdir(path=f"{folder}/copies")
    for task in client.copy(folder, ["small.txt", "large.bin"], f"{folder}/copies"):
        client.wait("copy", task, timeout=WAIT_SECONDS)
    _expect("the copy", client.read(f"{folder}/copies/large.bin"), LARGE)
    return 2


def _search(client: Client, folder: str) -> None:
    """Switch the index on, and find the copied and the renamed file."""
    engine = [row for row in client.admin_setting_list() if row["key"] == "search_index"]
    if engine and engine[0]["value"] == "none":
        rows = {"search_index": "database", "auto_update_index": "true"}
        client.admin_setting_save([{"key": key, "value": value} for key, value in rows.items()])

    def find() -> set[str]:
        page = client.fs_search(parent=folder, keywords=".", scope=2, page=1, per_page=100, password="")
        return {row["name"] for row in page["content"]}

    _wait("the search to find the files", lambda: find() == {"small.txt", "large.bin", "renamed.txt"})


def _expect(subject: str, value: Value, expected: Value) -> None:
    if value != expected:
        shown = repr(value)
        raise JourneyFailed(f"{subject} is not as it should be: {shown[:200]}")


def _wait(purpose: str, is_done: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not is_done():
        if time.monotonic() > end:
            raise JourneyFailed(f"waited {WAIT_SECONDS:.0f} s for {purpose}")
        time.sleep(POLL_SECONDS)


def read_prices(text: str) -> dict[str, float]:
    """Return the dollars per million of each row of the table in docs/guides/costs.md.

    Raise ValueError if a row is missing.
    """
    prices = {name.partition(" of 1001")[0]: float(dollars) for name, dollars in ROW.findall(text)}
    rows = {row for _, row in ROUTES} | {COPIED}
    if missing := rows - prices.keys():
        raise ValueError(f"the table of costs has no row {', '.join(sorted(missing))}")
    known = {row: prices[row] for row in rows}
    return known | {OTHER_REQUEST: max(known.values()), BUCKET_REQUEST: PRICES["S3 PUT, LIST"]}


def format_bill(counts: Mapping[str, int], prices: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of the bill."""
    yield "| request | number | $ per million | $ |"
    yield "|---|---:|---:|---:|"
    for row, number in sorted(counts.items()):
        yield f"| {row} | {number} | {prices[row]:.2f} | {number * prices[row] / 1e6:.6f} |"
    total = sum(number * prices[row] / 1e6 for row, number in counts.items())
    yield f"| total, without traffic and storage | {sum(counts.values())} | | {total:.6f} |"
