"""The progress of a task in bytes while it runs."""

from __future__ import annotations

import time
from itertools import pairwise

from tests.contract.api import fixtures
from tests.contract.api.transfer_client import TransferClient

SIZE = 40 << 20
SPEED_KIB = 8192  # per second


def test_copy_shows_its_bytes_while_it_runs(transfers: TransferClient) -> None:
    (transfers.disk / "large").write_bytes(bytes(SIZE))
    with fixtures.settings(transfers.admin, max_server_download_speed=str(SPEED_KIB)):
        id = transfers.carry("copy", "large")
        began, seen = time.monotonic(), {0: time.monotonic()}
        while time.monotonic() < began + 30:
            (row,) = transfers.client.ok("/api/task/copy/info", params={"tid": id})
            if row["state"] == "succeeded":
                break
            seen.setdefault(row["done_bytes"], time.monotonic())
            assert row["done_bytes"] <= SIZE
            time.sleep(0.1)
    times = [*seen.values(), time.monotonic()]
    print(f"longest time between two values: {max(later - earlier for earlier, later in pairwise(times)):.1f} s")
    assert sorted(seen) == list(seen)  # it only grows
    assert any(0 < done_bytes < SIZE for done_bytes in seen)
    assert (row["done_bytes"], row["total_bytes"], row["done_items"], row["total_items"]) == (SIZE, SIZE, 1, 1)
    assert row["current_item"] == "large"
