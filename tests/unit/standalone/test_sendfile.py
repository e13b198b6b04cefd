"""Files sent by the kernel, through a real uvicorn: whole, in order, to slow clients and to those that leave."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

from mangrove.configuration import throttle
from mangrove.core.paths import TreePath
from mangrove.core.problems import EntryChanged
from mangrove.drivers.base import DriverContext, Entry
from mangrove.drivers.local import blocks
from mangrove.drivers.local.blocks import FileHandle
from mangrove.drivers.local.driver import Local
from mangrove.drivers.local.options import LocalOptions
from mangrove.web.serving import MIN_SENDFILE_BYTES, serve_file
from tests.support.waiting import wait_until
from tests.unit.standalone.test_connections import WAIT_SECONDS, Server, read_all, serve
from tests.unit.web.configs import configure

CONTENT = os.urandom(1 << 20) * 12  # more than the kernel keeps for a connection at both ends
GET = b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_REQUEST = b"GET /f HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Files:
    """Serves a folder as `/d` does; `sent`: bytes that the kernel sent, `outcomes`: the result of each answer."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.driver = Local(LocalOptions(root_folder_path=str(folder)), DriverContext())
        self.sent: list[int] = []
        self.outcomes: list[str] = []
        self.before_send: Callable[[], None] = lambda: None
        send_to = FileHandle.send_to

        async def note(handle: FileHandle, socket: int, offset: int, count: int) -> int:
            self.before_send()
            done = await send_to(handle, socket, offset, count)
            self.sent.append(done)
            return done

        monkeypatch.setattr(FileHandle, "send_to", note)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = TreePath(scope["path"])

        async def stat(_: bool) -> Entry:
            return await self.driver.stat(path)

        answer = await serve_file(Request(scope), self.driver, path, path.name, stat)
        try:
            await answer(scope, receive, send)
        except (ClientDisconnect, EntryChanged) as reason:
            self.outcomes.append(type(reason).__name__)
            raise
        self.outcomes.append("sent")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    configure()
    (tmp_path / "f").write_bytes(CONTENT)
    (tmp_path / "small").write_bytes(b"small")
    return Files(tmp_path, monkeypatch)


def fetch(server: Server, *requests: bytes) -> list[tuple[bytes, bytes]]:
    """Return head and body of each answer to requests that are sent together; the last one closes the connection."""
    with server.connect() as connection:
        connection.sendall(b"".join(requests))
        left, answers = read_all(connection), []
    while left:
        head, _, left = left.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        length = 0 if len(answers) < len(requests) and requests[len(answers)].startswith(b"HEAD") else length
        answers.append((head, left[:length]))
        left = left[length:]
    return answers


def test_a_file_is_sent_whole_by_the_kernel(files: Files) -> None:
    with serve(files) as server:
        ((head, body),) = fetch(server, LAST_REQUEST)
    assert (head.split(b"\r\n")[0], body == CONTENT) == (b"HTTP/1.1 200 OK", True)
    assert sum(files.sent) == len(CONTENT)


def test_answers_of_one_connection_stay_in_order(files: Files) -> None:
    part = b"GET /f HTTP/1.1\r\nHost: x\r\nRange: bytes=1000001-4000000\r\n\r\n"
    small, head = GET.replace(b"/f", b"/small"), GET.replace(b"GET", b"HEAD")
    with serve(files) as server:
        answers = fetch(server, GET, part, small, head, part, LAST_REQUEST)
    bodies = [CONTENT, CONTENT[1_000_001:4_000_001], b"small", b"", CONTENT[1_000_001:4_000_001], CONTENT]
    assert [body == expected for (_, body), expected in zip(answers, bodies, strict=True)] == [True] * 6
    assert [head.split()[1] for head, _ in answers] == [b"200", b"206", b"200", b"200", b"206", b"200"]
    assert sum(files.sent) == 2 * len(CONTENT) + 2 * 3_000_000


def test_few_bytes_and_limited_ones_pass_through_the_process(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    few = f"GET /f HTTP/1.1\r\nHost: x\r\nRange: bytes=0-{MIN_SENDFILE_BYTES - 2}\r\n\r\n".encode()
    with serve(files) as server:
        assert [len(body) for _, body in fetch(server, few, LAST_REQUEST.replace(b"/f", b"/small"))] == [
            MIN_SENDFILE_BYTES - 1,
            5,
        ]
        monkeypatch.setattr(throttle, "limits_client_downloads", lambda: True)
        ((_, body),) = fetch(server, LAST_REQUEST)
    assert (body == CONTENT, files.sent) == (True, [])


def test_a_client_that_reads_slowly_gets_all_and_stops_nobody(files: Files) -> None:
    with serve(files) as server, server.connect() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        slow.sendall(LAST_REQUEST)
        wait_until(lambda: bool(files.sent))
        ((_, body),) = fetch(server, LAST_REQUEST)
        assert body == CONTENT
        wait_until(lambda: bool(files.outcomes))
        assert files.outcomes == ["sent"]  # the other one's
        assert read_all(slow).endswith(CONTENT)


def test_a_client_that_reads_nothing_is_cut(files: Files) -> None:
    with serve(files, window=0.3) as server, server.connect() as connection:
        connection.sendall(LAST_REQUEST)
        wait_until(lambda: bool(files.outcomes))
        assert files.outcomes == ["ClientDisconnect"]
        assert sum(files.sent) < len(CONTENT)


def test_clients_that_leave_leave_no_descriptor(files: Files) -> None:
    with serve(files) as server:
        fetch(server, LAST_REQUEST.replace(b"/f", b"/small"))
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(8):
            with server.connect() as connection:
                connection.sendall(GET)
                assert connection.recv(1 << 16)
        wait_until(lambda: len(files.outcomes) == 9)
        assert files.outcomes == ["sent", *["ClientDisconnect"] * 8]
        wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


def test_a_file_that_becomes_shorter_breaks_the_answer_off(files: Files, tmp_path: Path) -> None:
    size = 16 * len(CONTENT)  # one call of the kernel never sends so much
    os.truncate(tmp_path / "f", size)
    once = threading.Event()

    def cut() -> None:
        if files.sent and not once.is_set():
            once.set()
            os.truncate(tmp_path / "f", len(CONTENT) // 2)

    files.before_send = cut
    with serve(files) as server, server.connect() as connection:
        connection.sendall(LAST_REQUEST)
        answer = read_all(connection)
    assert len(answer.partition(b"\r\n\r\n")[2]) < size
    assert files.outcomes == ["EntryChanged"]


def test_an_error_of_the_disk_breaks_the_answer_off(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: int) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(blocks.os, "sendfile", fail)
    with serve(files) as server, server.connect() as connection:
        connection.settimeout(WAIT_SECONDS)
        connection.sendall(LAST_REQUEST)
        assert read_all(connection).endswith(b"\r\n\r\n")  # a head, and no byte
