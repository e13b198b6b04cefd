"""Limits hold over all processes of a service together."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mangrove.core.limits import CHUNK_BYTES_PER_USER
from tests.contract.api.multipart_client import MultipartClient
from tests.e2e.processes import mount
from tests.support.proc import find_server
from tests.support.service import Client, Service, run_forked
from tests.support.waiting import wait_until

MIB = 1 << 20
CHUNK = 64 * MIB
UPLOADS = 16
MAX_WAIT_SECONDS = 120.0  # until those are refused for which there is no room
OTHER_BYTES = 96 * MIB  # that may come beside the chunks: room of growing buffers, sockets, modules that are loaded


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with run_forked(tmp_path_factory.mktemp("two") / "data", MANGROVE_PROCESSES="2") as service:
        yield service


def measure(service: Service) -> int:
    """The proportional set size of the processes that answer, in bytes."""
    rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in service.list_servers()]
    rows = [line.split() for text in rollups for line in text.splitlines() if line.startswith("Pss:")]
    return sum(int(row[1]) * 1024 for row in rows)


class SlowUpload:
    """A chunk of which the last byte is not sent."""

    def __init__(self, client: Client, id: str) -> None:
        self._client = client
        self._id = id
        self.answer: bytes | None = None

    async def open(self) -> int:
        """Connect; the port."""
        address = urlsplit(self._client.address)
        self._reader, self._writer = await asyncio.open_connection(address.hostname, address.port)
        head = f"PUT /api/fs/multipart/chunk HTTP/1.1\r\nHost: x\r\nAuthorization: {self._client.token}\r\n"
        head += f"X-Upload-Id: {self._id}\r\nX-Chunk-Index: 0\r\nContent-Length: {CHUNK}\r\n\r\n"
        self._writer.write(head.encode())
        port: int = self._writer.get_extra_info("sockname")[1]
        return port

    async def send(self) -> None:
        """Send all but the last byte, as far as the service takes it, and read the answer if there is one."""
        reading = asyncio.create_task(self._read())
        try:
            for _ in range(CHUNK // MIB - 1):
                self._writer.write(bytes(MIB))
                await self._writer.drain()
            self._writer.write(bytes(MIB - 1))
            await reading
        except ConnectionError:
            await reading
        finally:
            reading.cancel()
            self._writer.transport.abort()

    async def _read(self) -> None:
        self.answer = await self._reader.readuntil(b"}")


def test_a5_slow_chunks_of_a_user_at_two_processes_hold_bounded_memory(two_processes: Service, tmp_path: Path) -> None:
    """Half of the connections are at each process: before, 8 chunks of 64 MiB were received by each."""
    admin = two_processes.client()
    admin.envelope(admin.http.post("/api/admin/setting/save", json=[{"key": "multipart_chunk_size", "value": "64"}]))
    path, _ = mount(admin, "Local", root_folder_path=str(tmp_path))
    ids = [MultipartClient(admin).begin(f"{path}/{number}", CHUNK, CHUNK)["upload_id"] for number in range(UPLOADS)]
    before = measure(two_processes)
    peak, servers = 0, Counter[int | None]()

    async def attack() -> None:
        nonlocal peak
        uploads = [SlowUpload(admin, id) for id in ids]
        ports = [await upload.open() for upload in uploads]
        sending = [asyncio.create_task(upload.send()) for upload in uploads]
        address, pids = urlsplit(admin.address), two_processes.list_servers()
        assert address.port is not None
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            while sum(upload.answer is not None for upload in uploads) < UPLOADS - CHUNK_BYTES_PER_USER // CHUNK:
                await asyncio.sleep(0.5)
                peak = max(peak, await asyncio.to_thread(measure, two_processes))
        servers.update(find_server(pids, address.port, port) for port in ports)
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
        refused = [json.loads(upload.answer.partition(b"\r\n\r\n")[2]) for upload in uploads if upload.answer]
        assert {answer["code"] for answer in refused} == {429}, [a["message"] for a in refused]
        assert len(refused) == UPLOADS - CHUNK_BYTES_PER_USER // CHUNK

    asyncio.run(attack())
    print(f"A5: {(peak - before) / MIB:.0f} MiB, connections by process {servers}")
    assert peak - before < CHUNK_BYTES_PER_USER + OTHER_BYTES
    # what was held is free again
    wait_until(lambda: MultipartClient(admin).chunk(ids[0], 0, bytes(CHUNK))["code"] == 200)
