"""aria2 as a download tool, with the real aria2c."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from mangrove.core import runtime
from mangrove.core.problems import Problem, Unreachable
from mangrove.core.runtime import Runtime
from mangrove.net.addresses import AddressPolicy, ForbiddenAddress
from mangrove.tools.aria2 import Aria2
from mangrove.tools.base import DownloadStatus
from tests import servers
from tests.support import origin, torrents
from tests.support.origin import Origin, Request
from tests.unit.net.conftest import Names

pytestmark = [
    pytest.mark.skipif(not shutil.which("aria2c"), reason="there is no aria2c here: apt-get install aria2"),
    pytest.mark.xdist_group("aria2"),  # one aria2c
]
LOOPBACK_POLICY = AddressPolicy.parse("127.0.0.1")
CONTENT = os.urandom(300_000)
WAIT_SECONDS = 120.0


@pytest.fixture(scope="module")
def running() -> Iterator[servers.Aria2]:
    with servers.aria2() as server:
        yield server


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


@pytest.fixture
def tool(running: servers.Aria2) -> Aria2:
    return Aria2(running.uri, running.secret, LOOPBACK_POLICY)


@pytest.fixture(scope="module")
def web() -> Iterator[Origin]:
    with origin.origin() as web:
        yield web


async def wait_until_ended(tool: Aria2, token: str) -> DownloadStatus:
    """The status in which a download stays."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        status = await tool.get_status(token)
        token = status.token
        if status.done or status.error:
            return status
        assert time.monotonic() < end, status
        await asyncio.sleep(0.05)


async def download(tool: Aria2, url: str, folder: Path) -> DownloadStatus:
    status = await wait_until_ended(tool, await tool.add(url, str(folder), uuid4().hex))
    await tool.remove_completed(status.token)
    return status


def list_gids(running: servers.Aria2) -> set[str]:
    """The ids of all downloads that aria2 knows."""
    gids: set[str] = set()
    for method, more in (("tellActive", []), ("tellWaiting", [0, 99]), ("tellStopped", [0, 99])):
        call = {"jsonrpc": "2.0", "id": "1", "method": f"aria2.{method}", "params": [f"token:{running.secret}", *more]}
        gids |= {row["gid"] for row in httpx.post(running.uri, json=call, timeout=60).json()["result"]}
    return gids


def test_the_version_is_told(tool: Aria2) -> None:
    assert asyncio.run(tool.get_version()).startswith("1.")


def test_a_wrong_secret_is_told_without_it(running: servers.Aria2) -> None:
    with pytest.raises(Problem, match=r"^failed get aria2 version: Unauthorized$"):
        asyncio.run(Aria2(running.uri, "wrong secret", LOOPBACK_POLICY).get_version())


def test_the_address_of_its_websocket_will_do(running: servers.Aria2) -> None:
    assert asyncio.run(Aria2(running.uri.replace("http:", "ws:"), running.secret, LOOPBACK_POLICY).get_version())


def test_an_aria2_that_is_gone_is_worth_asking_again() -> None:
    with servers.closed_port() as port:
        gone = Aria2(f"http://127.0.0.1:{port}/jsonrpc", "", LOOPBACK_POLICY)
        with pytest.raises(Unreachable, match=r"^failed get aria2 version: no connection$"):
            asyncio.run(gone.get_version())
        with pytest.raises(Unreachable):
            asyncio.run(gone.get_status("0123456789abcdef"))


def test_a_file_is_saved_whole_into_the_folder_and_forgotten(
    tool: Aria2, running: servers.Aria2, web: Origin, tmp_path: Path
) -> None:
    url = web.at("/file.bin", origin.file(CONTENT))
    status = asyncio.run(download(tool, url, tmp_path / "new folder"))
    assert (status.downloaded, status.total, status.text) == (len(CONTENT), len(CONTENT), "[aria2]: aria2: complete")
    assert (status.error, status.seeding, status.seeds_forever) == ("", False, False)
    assert [path.name for path in (tmp_path / "new folder").iterdir()] == ["file.bin"]
    assert (tmp_path / "new folder" / "file.bin").read_bytes() == CONTENT
    assert status.token not in list_gids(running)


def test_begun_twice_with_one_key_it_downloads_once(tool: Aria2, web: Origin, tmp_path: Path) -> None:
    url, key = web.at("/once.bin", origin.file(CONTENT)), uuid4().hex

    async def twice() -> DownloadStatus:
        tokens = {await tool.add(url, str(tmp_path), key) for _ in range(3)}
        assert len(tokens) == 1
        status = await wait_until_ended(tool, tokens.pop())
        assert await tool.add(url, str(tmp_path), key) == status.token, "done is not begun again"
        return status

    assert asyncio.run(twice()).done
    assert [request.path for request in web.requests].count("/once.bin") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["once.bin"]


def test_a_download_that_failed_starts_over_with_the_same_key(tool: Aria2, web: Origin, tmp_path: Path) -> None:
    url, key = f"{web.address}/later.bin", uuid4().hex

    async def twice() -> tuple[DownloadStatus, DownloadStatus]:
        first = await wait_until_ended(tool, await tool.add(url, str(tmp_path), key))
        web.at("/later.bin", origin.file(CONTENT))
        return first, await wait_until_ended(tool, await tool.add(url, str(tmp_path), key))

    first, second = asyncio.run(twice())
    assert (first.error, first.text) == ("the file was not found", "[aria2]: aria2: error")
    assert (second.done, second.error) == (True, "")
    assert (tmp_path / "later.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("code", [403, 410, 500])
def test_a_failure_is_told_in_our_words(tool: Aria2, web: Origin, tmp_path: Path, code: int) -> None:
    status = asyncio.run(download(tool, web.at(f"/{code}", origin.status(code)), tmp_path))
    assert (status.done, status.error) == (False, "the server refused or answered badly")


def test_a_download_is_stopped_and_forgotten_and_stopping_it_again_is_fine(
    tool: Aria2, running: servers.Aria2, web: Origin, tmp_path: Path
) -> None:
    url = web.at("/endless.bin", origin.endless(pause=0.01))

    async def stop() -> str:
        token = await tool.add(url, str(tmp_path), uuid4().hex)
        end = time.monotonic() + WAIT_SECONDS
        while not (status := await tool.get_status(token)).downloaded:
            assert time.monotonic() < end, status
            await asyncio.sleep(0.05)
        assert (status.done, status.text, status.total) == (False, "[aria2]: aria2: active", 0)
        for _ in range(2):
            await tool.remove(token)
        return token

    token = asyncio.run(stop())
    assert token not in list_gids(running)
    assert asyncio.run(tool.get_status(token)).error == "aria2 does not know this download any more"


def test_a_torrent_is_stopped_by_the_token_it_began_with(
    tool: Aria2, running: servers.Aria2, web: Origin, tmp_path: Path
) -> None:
    described, _ = torrents.torrent("stuck.bin", CONTENT, seed=web.at("/seed/stuck.bin", origin.status(503)))
    url = web.at("/stuck.torrent", origin.file(described, content_type="application/x-bittorrent"))

    async def stop() -> str:
        token = await tool.add(url, str(tmp_path), uuid4().hex)
        status = await tool.get_status(token)
        assert (status.token, status.done, status.error, status.total) == (token, False, "", len(CONTENT))
        await tool.remove(token)
        return token

    assert asyncio.run(stop()) not in list_gids(running)


def test_a_torrent_file_larger_than_aria2_takes_in_one_call_is_told(
    tool: Aria2, running: servers.Aria2, web: Origin, tmp_path: Path
) -> None:
    described, _ = torrents.torrent("x" * (2 << 20), b"x")
    with pytest.raises(Problem, match="rpc-max-request-size"):
        asyncio.run(tool.add(web.at("/large.torrent", origin.file(described)), str(tmp_path), "key"))
    with servers.aria2("--rpc-max-request-size=8M") as patient:
        url = web.at("/large.torrent", origin.file(described))
        assert asyncio.run(Aria2(patient.uri, patient.secret, LOOPBACK_POLICY).add(url, str(tmp_path), "key"))


def send_range(request: Request) -> None:
    """The bytes that are asked for, with a last one too."""
    match = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
    if match is None:
        return origin.file(CONTENT)(request)
    start, stop = int(match[1]), int(match[2] or len(CONTENT) - 1) + 1
    told = f"bytes {start}-{stop - 1}/{len(CONTENT)}"
    request.head(206, {"content-range": told, "content-length": stop - start})
    request.wfile.write(CONTENT[start:stop])


def test_a_download_goes_on_through_the_proxy_of_the_next_process(
    tool: Aria2, web: Origin, tmp_path: Path, own_runtime: Runtime
) -> None:
    """The proxy ends with its process; the next process shows aria2 its own."""
    cut = threading.Event()

    def begin_slowly(request: Request) -> None:
        request.head(200, {"content-length": len(CONTENT), "accept-ranges": "bytes"})
        request.wfile.write(CONTENT[:100_000])
        assert cut.wait(WAIT_SECONDS)

    url, key = web.at("/long.bin", begin_slowly), uuid4().hex

    async def begin() -> str:
        token, end = await tool.add(url, str(tmp_path), key), time.monotonic() + WAIT_SECONDS
        while not (status := await tool.get_status(token)).downloaded:
            assert time.monotonic() < end, status
            await asyncio.sleep(0.05)
        return token

    with runtime.use(Runtime()):
        token = asyncio.run(begin())
    web.at("/long.bin", send_range)
    cut.set()

    async def go_on() -> DownloadStatus:
        return await wait_until_ended(tool, await tool.resume(token, url, str(tmp_path), key))

    assert asyncio.run(go_on()).done
    assert (tmp_path / "long.bin").read_bytes() == CONTENT


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/", "ftp://localhost/x", "http://169.254.169.254/", "http://2130706433/"]
)
def test_what_may_not_be_reached_is_not_handed_on(running: servers.Aria2, tmp_path: Path, address: str) -> None:
    before = list_gids(running)
    with pytest.raises(ForbiddenAddress):
        asyncio.run(Aria2(running.uri, running.secret, AddressPolicy()).add(address, str(tmp_path), "key"))
    assert list_gids(running) == before


def test_a_torrent_at_an_address_brings_its_content(tool: Aria2, web: Origin, tmp_path: Path) -> None:
    described, _ = torrents.torrent("content.bin", CONTENT, seed=web.at("/seed/content.bin", origin.file(CONTENT)))
    url = web.at("/a.torrent", origin.file(described, content_type="application/x-bittorrent"))
    status = asyncio.run(download(tool, url, tmp_path))
    assert (status.done, status.error, status.total) == (True, "", len(CONTENT))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"content.bin": CONTENT}


def test_a_magnet_link_brings_its_content_and_stops_then(
    tool: Aria2, running: servers.Aria2, web: Origin, tmp_path: Path
) -> None:
    announce = f"{web.address}/announce"
    described, number = torrents.torrent("shared.bin", CONTENT, tracker=announce)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    (theirs / "shared.bin").write_bytes(CONTENT)
    (tmp_path / "shared.torrent").write_bytes(described)
    seeding = (f"--dir={theirs}", "--check-integrity=true", "--seed-ratio=0.0", str(tmp_path / "shared.torrent"))
    with servers.aria2(*seeding) as peer:
        web.at("/announce", torrents.tracker(peer.peers))
        magnet = f"magnet:?xt=urn:btih:{number}&dn=shared.bin&tr={announce}"
        status = asyncio.run(download(tool, magnet, ours))
    assert (status.done, status.error, status.downloaded) == (True, "", len(CONTENT))
    assert {path.name: path.read_bytes() for path in ours.iterdir()} == {"shared.bin": CONTENT}
    assert status.token not in list_gids(running)


@pytest.mark.parametrize("scheme", ["http", "https", "ftp", "sftp"])
def test_every_protocol_goes_through_the_guard(
    running: servers.Aria2, names: Names, tmp_path: Path, scheme: str
) -> None:
    """Only this process knows the name: what arrives came through its proxy."""
    names.answers["only-here.example"] = [["127.0.0.2"]]
    names.answers["rebound.example"] = [["127.0.0.2"], ["127.0.0.1"]]
    tool = Aria2(running.uri, running.secret, AddressPolicy.parse("127.0.0.2"))
    port = servers.free_port()
    with socket.create_server(("127.0.0.2", port)) as public, socket.create_server(("127.0.0.1", port)) as private:

        async def go() -> DownloadStatus:
            token = await tool.add(f"{scheme}://only-here.example:{port}/f", str(tmp_path), uuid4().hex)
            public.settimeout(WAIT_SECONDS)
            (await asyncio.to_thread(public.accept))[0].close()
            await tool.remove(token)
            return await wait_until_ended(
                tool, await tool.add(f"{scheme}://rebound.example:{port}/f", str(tmp_path), uuid4().hex)
            )

        assert asyncio.run(go()).error
        private.settimeout(0)
        with pytest.raises(BlockingIOError):
            private.accept()
        assert names.answers["rebound.example"] == [["127.0.0.1"]], "the proxy resolved it again"
