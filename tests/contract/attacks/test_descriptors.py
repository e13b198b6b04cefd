"""A service with few descriptors: work waits for them and is done."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.e2e.processes import mount
from tests.support.few_descriptors import FILES
from tests.support.service import Client, Service, run_service

ENTRIES = 6_000
CONNECTIONS = 400
DONE, FAILED = 2, 7


@pytest.fixture(scope="module", params=["1", "2"])
def starved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    data = tmp_path_factory.mktemp("starved") / "data"
    with run_service(data, "tests.support.few_descriptors", MANGROVE_PROCESSES=request.param) as service:
        yield service


def wait_for_task(client: Client, id: str) -> dict[str, Any]:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        with suppress(httpx.TransportError):  # an idle connection is closed when descriptors run short
            task: dict[str, Any] = client.post("/openlist/api/task/copy/info", params={"tid": id})["data"]
            if task["state"] in (DONE, FAILED):
                return task
        time.sleep(0.2)
    raise TimeoutError(id)


def test_d4_copy_of_many_files_beside_many_connections_fails_none(starved: Service, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "tree").mkdir(parents=True)
    target.mkdir()
    for number in range(ENTRIES):
        (source / "tree" / f"{number}.txt").write_bytes(b"x" * 100)
    admin = starved.client()
    from_path, _ = mount(admin, "Local", root_folder_path=str(source))
    to_path, _ = mount(admin, "Local", root_folder_path=str(target))
    address = urlsplit(starved.address)
    with ExitStack() as stack:
        for number in range(CONNECTIONS):
            place = (f"127.0.{1 + number // 50}.1", 0)
            stack.enter_context(socket.create_connection((address.hostname, address.port), 60, place))
        caller = Client(starved.address, admin.token)  # whose connection is younger: idle ones are closed for others
        (answer,) = caller.ok("/openlist/api/fs/copy", src_dir=from_path, dst_dir=to_path, names=["tree"])["tasks"]
        task = wait_for_task(admin, answer["id"])
    assert (task["state"], task["error"]) == (DONE, "")
    assert len(list((target / "tree").iterdir())) == ENTRIES


def test_d4_start_with_few_descriptors_is_logged(starved: Service) -> None:
    log = starved.data.parent / f"{starved.data.name}.log"
    assert f'"files":{FILES}' in log.read_text().replace(" ", "")
