"""The limits of speed at work: what clients fetch and send, and what tasks copy and download."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from tests.contract.api import fixtures
from tests.contract.api.offline_download_client import download_files
from tests.contract.api.task_client import TaskClient
from tests.contract.api.transfer_client import TransferClient
from tests.support import origin
from tests.support.origin import Origin
from tests.support.service import Client

CONTENT = bytes(range(256)) * 256  # 64 KiB
LIMIT = 128  # KiB a second
MIN_TRANSFER_SECONDS = len(CONTENT) / (LIMIT << 10) - 1 / 8  # an eighth of a second's bytes pass immediately


@contextmanager
def limit(admin: Client, *ways: str) -> Iterator[Callable[[], float]]:
    """A service as fast as LIMIT allows in these ways, then without a limit again; the seconds since the beginning."""
    with fixtures.settings(admin, **{f"max_{way}_speed": str(LIMIT) for way in ways}):
        began = time.monotonic()
        yield lambda: time.monotonic() - began


def test_what_is_downloaded_is_as_fast_as_all_downloads_together_may_be(admin: Client, folder: str) -> None:
    assert admin.put(f"{folder}/a.txt", CONTENT[: len(CONTENT) // 2])["code"] == 200
    url = admin.ok("/api/fs/get", path=f"{folder}/a.txt")["raw_url"]
    contents: list[bytes] = []
    fetching = [threading.Thread(target=lambda: contents.append(admin.http.get(url).content)) for _ in range(2)]
    with limit(admin, "client_download") as seconds:
        for thread in fetching:
            thread.start()
        for thread in fetching:
            thread.join()
        assert seconds() >= MIN_TRANSFER_SECONDS
    assert contents == [CONTENT[: len(CONTENT) // 2]] * 2


@pytest.mark.parametrize("route", ["d", "p"])
def test_both_routes_of_a_file_are_limited(admin: Client, folder: str, route: str) -> None:
    assert admin.put(f"{folder}/a.txt", CONTENT)["code"] == 200
    sign = admin.ok("/api/fs/get", path=f"{folder}/a.txt")["sign"]
    with limit(admin, "client_download") as seconds:
        assert admin.http.get(f"/{route}{folder}/a.txt", params={"sign": sign}).content == CONTENT
        assert seconds() >= MIN_TRANSFER_SECONDS


def test_a_file_of_an_archive_is_limited(admin: Client, folder: str) -> None:
    packed = io.BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED) as archive:
        archive.writestr("inner.txt", CONTENT)
    assert admin.put(f"{folder}/a.zip", packed.getvalue())["code"] == 200
    meta = admin.ok("/api/fs/archive/meta", path=f"{folder}/a.zip")
    with limit(admin, "client_download") as seconds:
        answer = admin.http.get(meta["raw_url"], params={"sign": meta["sign"], "inner": "/inner.txt"})
        assert answer.content == CONTENT
        assert seconds() >= MIN_TRANSFER_SECONDS


@pytest.mark.parametrize("form", [False, True])
def test_an_upload_is_limited(admin: Client, folder: str, form: bool) -> None:
    headers = {"file-path": f"{folder}/a.txt"}
    with limit(admin, "client_upload") as seconds:
        if form:
            answer = admin.http.put("/api/fs/form", files={"file": ("f", CONTENT)}, headers=headers)
        else:
            answer = admin.http.put("/api/fs/put", content=CONTENT, headers=headers)
        assert answer.json()["code"] == 200
        assert seconds() >= MIN_TRANSFER_SECONDS
    assert admin.bytes(f"{folder}/a.txt").content == CONTENT


@pytest.mark.parametrize(
    ("kind", "way"),
    [
        ("copy", "server_download"),
        ("copy", "server_upload"),
        ("move", "server_download"),
        ("upload", "server_upload"),
    ],
)
def test_a_task_that_copies_is_limited_on_both_sides(
    admin: Client, transfers: TransferClient, kind: str, way: str
) -> None:
    with limit(admin, way) as seconds:
        row = transfers.wait_for(kind, transfers.start(kind, "a.txt", CONTENT))
        assert (row["state"], row["error"]) == (2, "")
        assert seconds() >= MIN_TRANSFER_SECONDS
    assert (transfers.root / "a.txt").read_bytes() == CONTENT


@pytest.mark.usefixtures("allow_loopback")
def test_an_offline_download_is_limited(admin: Client, owner: TaskClient, web: Origin) -> None:
    url = web.at("/a.bin", origin.file(CONTENT))
    with limit(admin, "server_download") as seconds:
        assert download_files(owner, url) == {"a.bin": CONTENT}
        assert seconds() >= MIN_TRANSFER_SECONDS


def test_nothing_else_waits_while_a_download_does(admin: Client, folder: str) -> None:
    """A download that waits for its turn holds nothing that another request needs."""
    assert admin.put(f"{folder}/a.txt", CONTENT)["code"] == 200
    url = admin.ok("/api/fs/get", path=f"{folder}/a.txt")["raw_url"]
    with limit(admin, "client_download"), admin.http.stream("GET", url) as answer:
        for number in range(5):
            assert admin.put(f"{folder}/{number}.txt", b"x")["code"] == 200
        assert len(admin.names(folder)) == 6
        assert len(answer.read()) == len(CONTENT)
