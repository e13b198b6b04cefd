"""The progress of a task in bytes while it runs."""

from __future__ import annotations

from typing import Any

from tests.contract.api import fixtures
from tests.contract.api.task_client import wait_until
from tests.contract.api.transfer_client import TransferClient

SIZE = 40 << 20
SPEED_KIB = 1024  # per second, until the progress was seen: it takes 40 seconds


def test_copy_shows_its_bytes_while_it_runs(transfers: TransferClient) -> None:
    (transfers.disk / "large").write_bytes(bytes(SIZE))
    seen = [0]

    def read_row() -> dict[str, Any]:
        (row,) = transfers.client.ok("/api/task/copy/info", params={"tid": id})
        seen.append(row["done_bytes"])
        return dict(row)

    with fixtures.settings(transfers.admin, max_server_download_speed=str(SPEED_KIB)):
        id = transfers.carry("copy", "large")
        wait_until(lambda: len({done_bytes for done_bytes in seen if 0 < done_bytes < SIZE}) > 1 or not read_row())
    wait_until(lambda: read_row()["state"] == "succeeded")
    row = read_row()
    assert sorted(seen) == seen  # it only grows
    assert (row["done_bytes"], row["total_bytes"], row["done_items"], row["total_items"]) == (SIZE, SIZE, 1, 1)
    assert row["current_item"] == "large"
