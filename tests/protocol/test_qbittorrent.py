"""qBittorrent as a download tool, with the real qbittorrent-nox; torrents get their content from a web seed."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest

from mangrove.core.problems import Problem, Unreachable
from mangrove.net.addresses import AddressPolicy, ForbiddenAddress
from mangrove.tools import urls
from mangrove.tools.base import DownloadStatus
from mangrove.tools.qbittorrent import SESSIONS, QBittorrent
from tests import servers
from tests.support import origin, torrents
from tests.support.origin import Origin

pytestmark = [
    pytest.mark.skipif(
        not shutil.which("qbittorrent-nox"), reason="there is no qbittorrent-nox here: apt-get install qbittorrent-nox"
    ),
    pytest.mark.xdist_group("qbittorrent"),  # one qbittorrent-nox
]
LOOPBACK_POLICY = AddressPolicy.parse("127.0.0.1")
WAIT_SECONDS = 120.0


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with servers.qbittorrent(tmp_path_factory.mktemp("qbittorrent")) as url:
        yield url


@pytest.fixture(scope="module")
def web() -> Iterator[Origin]:
    with origin.origin() as web:
        yield web


@pytest.fixture
def torrent(web: Origin) -> tuple[str, str, bytes]:
    """The address of a new torrent file, the name of its one file, and its content."""
    name, content = f"{uuid4().hex}.bin", os.urandom(200_000)
    described, _ = torrents.torrent(name, content, seed=web.at(f"/{name}", origin.file(content)))
    return web.at(f"/{name}.torrent", origin.file(described)), name, content


def list_torrents(running: str) -> list[dict[str, Any]]:
    """All that qBittorrent has, asked behind the tool's back."""
    return call_api(running, "torrents/info").json()


def call_api(running: str, path: str, **form: str) -> httpx.Response:
    parts = urlsplit(running)
    base = f"http://{parts.hostname}:{parts.port}"
    with httpx.Client(base_url=f"{base}/api/v2/", headers={"referer": base}, timeout=60) as client:
        client.post("auth/login", data={"username": "me", "password": "hush hush"}).raise_for_status()
        return client.post(path, data=form)


async def wait_until_ended(tool: QBittorrent, token: str) -> DownloadStatus:
    """The status in which a download stays."""
    end = time.monotonic() + WAIT_SECONDS
    while True:
        status = await tool.get_status(token)
        if status.done or status.error:
            return status
        assert time.monotonic() < end, status
        await asyncio.sleep(0.1)


async def download_torrent(tool: QBittorrent, url: str, folder: Path) -> DownloadStatus:
    return await wait_until_ended(tool, await tool.add(url, str(folder), uuid4().hex))


def test_the_version_is_told(running: str) -> None:
    assert asyncio.run(QBittorrent(running, 0, LOOPBACK_POLICY).get_version()).startswith("v")


@pytest.mark.parametrize("wrong", ["me:wrong", "you:hush%20hush", ""])
def test_a_wrong_password_is_told_without_it(running: str, wrong: str) -> None:
    base = f"http://{running.rpartition('@')[2]}"
    url = base.replace("http://", f"http://{wrong}@") if wrong else base
    with pytest.raises(Problem) as refused:
        asyncio.run(QBittorrent(url, 0, LOOPBACK_POLICY).get_version())
    assert refused.value.message == f"failed to login into qBittorrent webui with url: {base.rstrip('/')}"


def test_a_qbittorrent_that_is_gone_is_worth_asking_again() -> None:
    with servers.closed_port() as port:
        gone = QBittorrent(f"http://me:hush@127.0.0.1:{port}/", 0, LOOPBACK_POLICY)
        with pytest.raises(Unreachable, match=r"^qBittorrent does not answer: no connection$"):
            asyncio.run(gone.get_version())
        with pytest.raises(Unreachable):
            asyncio.run(gone.get_status("mangrove-x"))


def test_a_session_that_ended_is_renewed(running: str) -> None:
    tool = QBittorrent(running, 0, LOOPBACK_POLICY)
    asyncio.run(tool.get_version())
    SESSIONS.open().put(running, {"SID": "stale"})
    assert asyncio.run(tool.get_status("mangrove-nothing")).error == "qBittorrent does not know this download any more"


def test_torrent_is_stored_once_and_removed_without_files(
    running: str, torrent: tuple[str, str, bytes], tmp_path: Path
) -> None:
    tool, (url, name, content), key = QBittorrent(running, 0, LOOPBACK_POLICY), torrent, uuid4().hex

    async def download() -> DownloadStatus:
        tokens = {await tool.add(url, str(tmp_path), key) for _ in range(2)}
        assert len(tokens) == 1
        status = await wait_until_ended(tool, tokens.pop())
        assert len([row for row in list_torrents(running) if row["name"] == name]) == 1
        await tool.remove_completed(status.token)
        return status

    status = asyncio.run(download())
    assert (status.downloaded, status.total, status.error) == (len(content), len(content), "")
    assert (status.seeding, status.seeds_forever) == (False, False)
    assert status.text.startswith("[qBittorrent]: [qBittorrent] ")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: content}
    assert [row for row in list_torrents(running) if row["name"] == name] == []
    assert status.token not in call_api(running, "torrents/tags").text


def test_for_the_time_that_is_set_it_seeds(running: str, torrent: tuple[str, str, bytes], tmp_path: Path) -> None:
    tool = QBittorrent(running, 1, LOOPBACK_POLICY)
    status = asyncio.run(download_torrent(tool, torrent[0], tmp_path))
    assert (status.done, status.seeding, status.seeds_forever) == (True, True, False)
    assert asyncio.run(QBittorrent(running, 0, LOOPBACK_POLICY).get_status(status.token)).seeding is False
    (row,) = [row for row in list_torrents(running) if row["name"] == torrent[1]]
    assert row["seeding_time_limit"] == row["max_seeding_time"] == 1
    for verb in ("pause", "stop"):  # before version 5 and since
        call_api(running, f"torrents/{verb}", hashes=row["hash"])
    end = time.monotonic() + WAIT_SECONDS
    while (status := asyncio.run(tool.get_status(status.token))).seeding:
        assert time.monotonic() < end
    assert status.done
    asyncio.run(tool.remove_completed(status.token))
    assert row["hash"] not in {row["hash"] for row in list_torrents(running)}
    assert (tmp_path / torrent[1]).read_bytes() == torrent[2]


def test_without_an_end_it_seeds_for_ever_and_is_never_removed(
    running: str, torrent: tuple[str, str, bytes], tmp_path: Path
) -> None:
    tool = QBittorrent(running, -1, LOOPBACK_POLICY)
    status = asyncio.run(download_torrent(tool, torrent[0], tmp_path))
    assert (status.done, status.seeding, status.seeds_forever) == (True, False, True)
    asyncio.run(tool.remove_completed(status.token))
    (row,) = [row for row in list_torrents(running) if row["name"] == torrent[1]]
    assert row["state"] in ("uploading", "stalledUP", "queuedUP")
    asyncio.run(tool.remove(status.token))
    assert (tmp_path / torrent[1]).exists()


def test_a_magnet_link_waits_for_its_description_and_can_be_stopped(running: str, tmp_path: Path) -> None:
    tool, number = QBittorrent(running, 0, LOOPBACK_POLICY), uuid4().hex + "00000000"

    async def download() -> tuple[DownloadStatus, str]:
        token = await tool.add(f"magnet:?xt=urn:btih:{number}&dn=nothing", str(tmp_path), uuid4().hex)
        status = await tool.get_status(token)
        for _ in range(2):
            await tool.remove(token)
        return status, token

    status, token = asyncio.run(download())
    assert (status.done, status.error, status.total) == (False, "", 0)
    assert number not in {row["hash"] for row in list_torrents(running)}
    assert asyncio.run(tool.get_status(token)).error == "qBittorrent does not know this download any more"


def test_the_same_torrent_for_another_task_is_told(
    running: str, torrent: tuple[str, str, bytes], tmp_path: Path
) -> None:
    tool = QBittorrent(running, -1, LOOPBACK_POLICY)

    async def twice() -> None:
        token = await tool.add(torrent[0], str(tmp_path), uuid4().hex)
        try:
            with pytest.raises(Problem, match="does not take this torrent"):
                await tool.add(torrent[0], str(tmp_path / "other"), uuid4().hex)
        finally:
            await tool.remove(token)

    asyncio.run(twice())


def test_what_is_no_torrent_is_told(running: str, web: Origin, tmp_path: Path) -> None:
    tool = QBittorrent(running, 0, LOOPBACK_POLICY)

    def refusal(url: str) -> str:
        with pytest.raises(Problem) as refused:
            asyncio.run(tool.add(url, str(tmp_path), uuid4().hex))
        return refused.value.message

    none = "qBittorrent takes torrents only: there is none at this address"
    assert refusal(web.at("/page.html", origin.file(b"<html>"))) == none
    assert refusal(web.at("/empty", origin.file(b""))) == none
    assert refusal(web.at("/endless", origin.endless(b"d" * 65536))) == none
    assert refusal(web.at("/broken.torrent", origin.file(b"d4:spam"))) == "the torrent file is broken"
    assert refusal(web.at("/else.torrent", origin.file(b"d4:spam4:eggse"))).startswith(
        "qBittorrent does not take this torrent"
    )
    assert refusal(f"{web.address}/nothing") == "http status code 404"
    assert list_torrents(running) == []


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("http://127.0.0.1:1/a.torrent", ForbiddenAddress), ("http://169.254.169.254/", ForbiddenAddress),
        (f"magnet:?xt=urn:btih:{'a' * 40}&tr=http://10.0.0.1/announce", ForbiddenAddress),
        ("ftp://example.org/a.torrent", urls.InvalidUrl), ("http://u:p@example.org/", urls.InvalidUrl),
    ],
)  # fmt: skip
def test_what_may_not_be_reached_is_not_handed_on(
    running: str, tmp_path: Path, url: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        asyncio.run(QBittorrent(running, 0, AddressPolicy()).add(url, str(tmp_path), uuid4().hex))


def test_redirect_to_private_address_is_refused_before_qbittorrent(running: str, tmp_path: Path) -> None:
    with origin.origin("127.0.0.2") as public:
        url = public.at("/a.torrent", origin.redirect(running.replace("me:hush%20hush@", "") + "api/v2/app/shutdown"))
        with pytest.raises(ForbiddenAddress):
            asyncio.run(QBittorrent(running, 0, AddressPolicy.parse("127.0.0.2")).add(url, str(tmp_path), uuid4().hex))
    assert asyncio.run(QBittorrent(running, 0, LOOPBACK_POLICY).get_version()), "it was not shut down"


@pytest.mark.parametrize("key", ["tracker", "seed"])
def test_a_torrent_file_that_names_a_private_server_is_not_handed_on(running: str, tmp_path: Path, key: str) -> None:
    with origin.origin("127.0.0.2") as public:
        described, _ = torrents.torrent("f", b"x", **{key: "http://127.0.0.1:1/x"})
        url = public.at("/a.torrent", origin.file(described))
        with pytest.raises(ForbiddenAddress):
            asyncio.run(QBittorrent(running, 0, AddressPolicy.parse("127.0.0.2")).add(url, str(tmp_path), uuid4().hex))
    assert list_torrents(running) == []


def test_qbittorrent_following_private_redirects_is_refused(running: str) -> None:
    tool = QBittorrent(running, 0, LOOPBACK_POLICY)
    try:
        call_api(running, "app/setPreferences", json='{"ssrf_mitigation": false}').raise_for_status()
        with pytest.raises(Problem, match="Server-side request forgery mitigation"):
            asyncio.run(tool.get_version())
    finally:
        call_api(running, "app/setPreferences", json='{"ssrf_mitigation": true}').raise_for_status()
    assert asyncio.run(tool.get_version())
