"""One client overwrites a file again and again, others download it: each body is one whole version, or a cut of one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.service import Client, run_forked

pytestmark = pytest.mark.long


WORD = 8  # bytes: a version is its number, again and again
DOWNLOADS = 150  # of each reader
PATH = "/files/overwritten.bin"


def make_content(version: int) -> bytes:
    """Return a file whose bytes and length identify its version."""
    return f"{version:0{WORD}}".encode() * get_words(version)


def get_words(version: int) -> int:
    return 20_000 + version * 7919 % 40_000  # up to half a MiB, with a jump from each version to the next


def overwrite_until(ended: threading.Event, client: Client) -> int:
    """Put one version after the other; how many."""
    version = 0
    while not ended.is_set():
        version += 1
        assert client.put(PATH, make_content(version), overwrite="true")["code"] == 200
    return version


def read_whole(client: Client, url: str) -> None:
    """The whole file."""
    answer = client.http.get(url)
    assert answer.status_code == 200
    version = int(answer.content[:WORD])
    assert answer.content == make_content(version), (version, len(answer.content))


def read_range(client: Client, url: str) -> None:
    """Read a range whose answer contains the length of its version."""
    answer = client.http.get(url, headers={"range": f"bytes={WORD * 100}-{WORD * 19_999 - 1}"})
    assert answer.status_code == 206
    version = int(answer.content[:WORD])
    content = make_content(version)
    assert answer.content == content[WORD * 100 : WORD * 19_999]
    assert answer.headers["content-range"].endswith(f"/{len(content)}")


def read_in_two(client: Client, url: str) -> None:
    """The beginning, then the rest of the same version if that is still there, else all of a newer one."""
    first = client.http.get(url, headers={"range": f"bytes=0-{WORD * 10 - 1}"})
    headers = {"range": f"bytes={WORD * 10}-", "if-range": first.headers["etag"]}
    rest = client.http.get(url, headers=headers)
    whole = first.content + rest.content if rest.status_code == 206 else rest.content
    assert whole == make_content(int(whole[:WORD])), rest.status_code


def test_a_download_beside_an_overwrite_is_one_whole_version(tmp_path: Path) -> None:
    with run_forked(tmp_path / "data") as service, ThreadPoolExecutor(4) as threads:
        assert service.client().put(PATH, make_content(0))["code"] == 200
        url = service.client().ok("/api/fs/get", path=PATH)["raw_url"]
        ended = threading.Event()
        writer = threads.submit(overwrite_until, ended, service.client())

        def read_often(read: Callable[[Client, str], None]) -> None:
            client = service.client()
            for _ in range(DOWNLOADS):
                read(client, url)

        readers = [threads.submit(read_often, read) for read in (read_whole, read_range, read_in_two)]
        try:
            for reader in readers:
                reader.result()
        finally:
            ended.set()
        assert writer.result() > 10
        assert httpx.get(url, timeout=60).content == make_content(writer.result())
        assert "Traceback" not in (tmp_path / "data.log").read_text()
